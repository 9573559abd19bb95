// SPDX-License-Identifier: Apache-2.0
// The kernels of kernels.inc in both builds.
#pragma once
#include <cstdint>

#include "kernel_operator.h"

namespace ascend_tests {

// Launches of kernels, whose parameters do not depend on the build.
struct KernelTable {
  void (*pipeline)(std::uint32_t blocks, GM_ADDR x, GM_ADDR y, std::uint32_t rows, std::uint32_t n);
  void (*sum_of_blocks)(std::uint32_t blocks, GM_ADDR x, GM_ADDR y, GM_ADDR z);
  void (*exp_sum)(std::uint32_t blocks, GM_ADDR x, GM_ADDR y);
};
template <auto kernel>
struct LaunchedKernel;
template <class... P, void (*kernel)(P...)>
struct LaunchedKernel<kernel> {
  static void Call(std::uint32_t blocks, P... arguments) {
    anyop_ascend_start("kernel", kernel, blocks)(arguments...);
  }
};
template <auto kernel>
constexpr auto Launched = &LaunchedKernel<kernel>::Call;

namespace checked {
extern const KernelTable kKernels;
}
namespace fast {
extern const KernelTable kKernels;
}

}  // namespace ascend_tests
