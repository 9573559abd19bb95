// SPDX-License-Identifier: Apache-2.0
// within: y = 2 x, right; and the same where a kernel uses memory that is not its own.
//
//   y[i, j] = 2 x[i, j]
//
// Numerics  f32; the product by 2 is exact.
// Source    tests of the tests
#include "anyop/op.h"

namespace anyop::ops {
namespace {

enum class Defect {
  kNone,
  kWritesNext,
  kWritesBefore,
  kWritesPagesBeyond,
  kReadsNext,
  kReadsBefore,
  kWritesPagesBeyondWorkspace,
  kDoubles
};

template <Defect kDefect>
void Run(const Context& ctx, const Tensor& x, const Tensor& y) {
  const std::int64_t last = x.rows() - 1, d = x.row_size();
  ctx.ForRows(x, [&](std::int64_t r) {
    const auto xr = x.row<const float>(r);
    for (std::int64_t j = 0; j < d; ++j) {
      y.row<float>(r)[std::size_t(j)] = (kDefect == Defect::kDoubles ? 4 : 2) * xr[std::size_t(j)];
    }
  });
  volatile float* const to = y.base<float>();
  const volatile float* const from = x.base<const float>();
  if (kDefect == Defect::kWritesNext) to[y.row_offset(last) + d] = 1;
  if (kDefect == Defect::kWritesBefore) to[-2] = 1;
  if (kDefect == Defect::kWritesPagesBeyond) to[y.row_offset(last) + d + 99999] = 1;
  if (kDefect == Defect::kReadsNext) static_cast<void>(from[x.row_offset(last) + d] > 0);
  if (kDefect == Defect::kReadsBefore) static_cast<void>(from[-1] > 0);
  if (kDefect == Defect::kWritesPagesBeyondWorkspace) {
    ctx.Workspace<volatile char>()[ctx.workspace_bytes + 9999] = 1;
  }
}

template <Defect kDefect>
struct Kernels {
  static constexpr Kernel kSmall{
      .name = "cpu_small", .when = "d < 8", .workspace = "16", .run = Bind<&Run<kDefect>>()};
  static constexpr Kernel kAny{.name = "cpu_any", .workspace = "16", .run = Bind<&Run<kDefect>>()};
  static constexpr const Kernel* kAll[] = {&kSmall, &kAny};
};

}  // namespace

#define DOUBLE(name) name "(x: f32[..., d]) -> (y: f32[..., d]) where d >= 1, rows(x) >= 1"

extern constinit const Op within{.signature = DOUBLE("within"),
                                 .kernels = Kernels<Defect::kNone>::kAll};
extern constinit const Op writes_next{.signature = DOUBLE("writes_next"),
                                      .kernels = Kernels<Defect::kWritesNext>::kAll};
extern constinit const Op writes_before{.signature = DOUBLE("writes_before"),
                                        .kernels = Kernels<Defect::kWritesBefore>::kAll};
extern constinit const Op writes_pages_beyond{.signature = DOUBLE("writes_pages_beyond"),
                                              .kernels = Kernels<Defect::kWritesPagesBeyond>::kAll};
extern constinit const Op reads_next{.signature = DOUBLE("reads_next"),
                                     .kernels = Kernels<Defect::kReadsNext>::kAll};
extern constinit const Op reads_before{.signature = DOUBLE("reads_before"),
                                       .kernels = Kernels<Defect::kReadsBefore>::kAll};
extern constinit const Op writes_pages_beyond_workspace{
    .signature = DOUBLE("writes_pages_beyond_workspace"),
    .kernels = Kernels<Defect::kWritesPagesBeyondWorkspace>::kAll};
extern constinit const Op doubles{.signature = DOUBLE("doubles"),
                                  .kernels = Kernels<Defect::kDoubles>::kAll};

}  // namespace anyop::ops
