// SPDX-License-Identifier: Apache-2.0
// Launched by name: ACLRT_LAUNCH_KERNEL(scale_custom), or aclrtlaunch_scale_custom.
#include "rows.hpp"

extern "C" __global__ __aicore__ void scale_custom(GM_ADDR x, GM_ADDR y, uint32_t size,
                                                   float factor) {
  Map(x, y, size, [factor](auto &to, auto &from, uint32_t count) {
    AscendC::Muls(to, from, factor, count);
  });
}
