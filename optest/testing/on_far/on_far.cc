// SPDX-License-Identifier: Apache-2.0
// far_right: y = 2 x by a kernel of the device for tests, right; and the same where it is wrong.
//
//   y[i, j] = 2 x[i, j]
//
// Numerics  f32; the product by 2 is exact.
// Source    tests of the tests
#include "anyop/op.h"

namespace anyop::ops {
namespace {

enum class Defect { kNone, kWritesBehind, kWritesBefore, kLeavesTheLast, kIgnoresStrides };

template <Defect kDefect>
void Run(const Context&, const Tensor& x, const Tensor& y) {
  const std::int64_t rows = x.rows(), d = x.row_size();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < d; ++j) {
      if (kDefect == Defect::kLeavesTheLast && r + 1 == rows && j + 1 == d) continue;
      const std::int64_t at = kDefect == Defect::kIgnoresStrides ? r * d : x.row_offset(r);
      y.row<float>(r)[std::size_t(j)] = 2 * x.base<const float>()[at + j];
    }
  }
  if (kDefect == Defect::kWritesBehind) y.base<float>()[y.row_offset(rows - 1) + d] = 1;
  if (kDefect == Defect::kWritesBefore) y.base<float>()[-1] = 1;
}

template <Defect kDefect>
struct Kernels {
  static constexpr Kernel kDouble{.name = "far_double", .needs = "", .run = Bind<&Run<kDefect>>()};
  static constexpr const Kernel* kAll[] = {&kDouble};
};

}  // namespace

#define DOUBLE(name) name "(x: f32[rows, d]) -> (y: f32[rows, d]) where rows >= 1, d >= 1"

extern constinit const Op far_right{.signature = DOUBLE("far_right"),
                                    .kernels = Kernels<Defect::kNone>::kAll};
extern constinit const Op far_writes_behind{.signature = DOUBLE("far_writes_behind"),
                                            .kernels = Kernels<Defect::kWritesBehind>::kAll};
extern constinit const Op far_writes_before{.signature = DOUBLE("far_writes_before"),
                                            .kernels = Kernels<Defect::kWritesBefore>::kAll};
extern constinit const Op far_leaves_the_last{.signature = DOUBLE("far_leaves_the_last"),
                                              .kernels = Kernels<Defect::kLeavesTheLast>::kAll};
extern constinit const Op far_ignores_strides{.signature = DOUBLE("far_ignores_strides"),
                                              .kernels = Kernels<Defect::kIgnoresStrides>::kAll};

}  // namespace anyop::ops
