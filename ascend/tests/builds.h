// SPDX-License-Identifier: Apache-2.0
// The kernels of kernels.inc and examples.inc in both builds.
#pragma once
#include <cstdint>

#include "kernel_operator.h"

namespace ascend_tests {

// Launches of kernels, whose parameters do not depend on the build.
struct KernelTable {
  void (*pipeline)(std::uint32_t blocks, GM_ADDR x, GM_ADDR y, std::uint32_t rows, std::uint32_t n);
  void (*sum_of_blocks)(std::uint32_t blocks, GM_ADDR x, GM_ADDR y, GM_ADDR z);
  void (*exp_sum)(std::uint32_t blocks, GM_ADDR x, GM_ADDR y);
  void (*counts_blocks)(std::uint32_t blocks, GM_ADDR y);
  void (*ends)(std::uint32_t blocks, GM_ADDR y, std::uint32_t which, std::uint32_t function);
};
struct ExampleTable {
  void (*add_custom)(std::uint32_t blocks, GM_ADDR x, GM_ADDR y, GM_ADDR z, std::uint32_t n);
  void (*rms_norm)(std::uint32_t blocks, GM_ADDR x, GM_ADDR weight, GM_ADDR y, std::uint32_t rows,
                   std::uint32_t d, float eps);
  void (*silu_and_mul)(std::uint32_t blocks, GM_ADDR x, GM_ADDR y, std::uint32_t rows,
                       std::uint32_t d);
  void (*nothing)(std::uint32_t blocks);
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
extern const ExampleTable kExamples;
}  // namespace checked
namespace fast {
extern const KernelTable kKernels;
extern const ExampleTable kExamples;
}  // namespace fast

}  // namespace ascend_tests
