// SPDX-License-Identifier: Apache-2.0
// The systems on a chip that there are: the runtime knows their memories, the virtual device
// (devices/ascend) has their names.
#pragma once
#include <cstdint>

namespace anyop_ascend {

struct NamedSoc {
  const char* name;   // as options have it
  const char* title;  // as people have it
  std::uint32_t vector_cores, cube_cores;
};
constexpr NamedSoc kSocNames[] = {{"ascend910b", "Ascend 910B", 40, 20},
                                 {"ascend910_93", "Ascend 910_93", 48, 24},
                                 {"ascend310p", "Ascend 310P", 8, 8}};  // the first is the default

}  // namespace anyop_ascend
