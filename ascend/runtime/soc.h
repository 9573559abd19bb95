// SPDX-License-Identifier: Apache-2.0
// What differs between systems on a chip.
#pragma once
#include <cstdint>
#include <iterator>

#include "anyop_ascend/core.h"
#include "anyop_ascend/socs.h"

namespace anyop_ascend {

struct Soc {
  const char* name;
  std::uint32_t bytes[kMemories];
  std::uint32_t reserved;  // last bytes of the unified buffer that the framework uses itself
  int event_ids;
  std::uint32_t lacks;  // bits of Lacks
};
constexpr std::size_t kNumSocs = std::size(kSocNames);
extern const Soc kSocs[kNumSocs];      // in this order
inline const NamedSoc& NameOf(const Soc& soc) { return kSocNames[&soc - kSocs]; }
const Soc* FindSoc(const char* name);  // null if there is none
const Soc& SocOfEnvironment();         // ANYOP_ASCEND_SOC; the default where it names none
const char* SocsAsJson();

}  // namespace anyop_ascend
