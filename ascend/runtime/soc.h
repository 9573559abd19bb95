// SPDX-License-Identifier: Apache-2.0
// What differs between systems on a chip.
#pragma once
#include <cstdint>

#include "anyop_ascend/core.h"

namespace anyop_ascend {

struct Soc {
  const char* name;
  std::uint32_t bytes[kMemories];
  std::uint32_t reserved;  // last bytes of the unified buffer that the framework uses itself
  int event_ids;
  std::uint32_t lacks;  // bits of Lacks
  std::uint32_t vector_cores;
  std::uint32_t cube_cores;
};
extern const Soc kSocs[3];             // the first is the default
const Soc* FindSoc(const char* name);  // null if there is none
const char* SocsAsJson();

}  // namespace anyop_ascend
