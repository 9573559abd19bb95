// SPDX-License-Identifier: Apache-2.0
// Modes in which hosts leave their threads.
#pragma once
#include <cfenv>
#include <vector>

#include "platform/float_mode.h"

namespace anyop {

// This thread in a mode, while it lives.
class InMode {
 public:
  explicit InMode(std::uint64_t mode) : before_(ReadFloatMode()) { WriteFloatMode(mode); }
  ~InMode() { WriteFloatMode(before_); }
  InMode(const InMode&) = delete;
  InMode& operator=(const InMode&) = delete;

 private:
  const std::uint64_t before_;
};

struct OtherMode {
  const char* name;
  std::uint64_t mode;
};

inline std::vector<OtherMode> OtherModes() {
  std::vector<OtherMode> modes;
#if defined(__x86_64__)
  modes.push_back({"results are flushed to zero", kDefaultFloatMode | 0x8000});
  modes.push_back({"subnormals count as zero", kDefaultFloatMode | 0x40});
  modes.push_back({"both", kDefaultFloatMode | 0x8040});
#elif defined(__aarch64__)
  modes.push_back({"subnormals are flushed to zero", kDefaultFloatMode | 1 << 24});
#endif
#if defined(__x86_64__) || defined(__aarch64__)
  for (const int rounding : {FE_UPWARD, FE_TOWARDZERO}) {
    const int before = std::fegetround();
    std::fesetround(rounding);
    modes.push_back({"other rounding", ReadFloatMode()});
    std::fesetround(before);
  }
#endif
  return modes;
}

}  // namespace anyop
