// SPDX-License-Identifier: Apache-2.0
// good: y = x * weight * factor, right; and the same with one defect each.
//
//   y[i, j] = x[i, j] * weight[j] * factor
//
//   weight  one gain per channel; 1 if absent
//   factor  a gain for all
//
// Numerics  f32, one rounding on the store to y.
// Source    tests of the tests
#include "testing/scale/scale.h"

#include <algorithm>
#include <cmath>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

enum class Defect {
  kNone,
  kTruncates,
  kWritesAfterRow,
  kWritesFarBeyond,
  kSkipsLast,
  kWritesInput,
  kWrongTail,
  kSeesNextRow,
  kSeesThreads,
  kSwallowsNan,
  kSeesWorkspace,
  kOverflowsWorkspace,
  kReadsAfterWriting,
  kReadsBeyondRow,
  kAssumesDense,
  kForgetsStride0,
  kFails
};

template <class T>
T Truncate(float f) {
  if constexpr (std::is_same_v<T, float>) return f;
  if constexpr (!std::is_same_v<T, float>) {
    T t{};
    t.bits = std::uint16_t(std::bit_cast<std::uint32_t>(f) >> 16);
    return t;
  }
}

template <Defect kDefect, class T>
void ScaleRow(const Context& ctx, const Tensor& x, const Tensor* weight, float factor,
              const Tensor& y, std::int64_t r) {
  // Repeated rows take less memory than dense ones: a defect must stay inside its array.
  const auto is_repeated = [&] {
    return x.strides && std::any_of(x.strides, x.strides + x.ndim, [](auto s) { return s == 0; });
  };
  const bool is_dense = kDefect == Defect::kAssumesDense && !is_repeated();
  const std::int64_t d = x.row_size();
  const T* xr = x.base<const T>() + (is_dense ? r * d : x.row_offset(r));
  T* yr = y.base<T>() + (is_dense ? r * d : y.row_offset(r));
  const T* w = weight ? weight->base<const T>() : nullptr;
  const std::int64_t n = kDefect == Defect::kSkipsLast && d % 8 == 1 ? d - 1 : d;
  float previous = 0;  // what x[j - 1] was before it was written
  for (std::int64_t j = 0; j < n; ++j) {
    float value = float(xr[j]) * (w ? float(w[j]) : 1) * factor;
    if (kDefect == Defect::kWrongTail && j >= d / 16 * 16 && d > 16) value *= 1.01f;
    if (kDefect == Defect::kSeesNextRow && r + 1 < x.rows() && j == 0) value += 1e-6f;
    if (kDefect == Defect::kForgetsStride0 && r > 0 && x.stride(-2) == 0) value += 1;
    if (kDefect == Defect::kSwallowsNan && std::isnan(value)) value = 0;
    if (kDefect == Defect::kSeesWorkspace && ctx.Workspace<const unsigned char>()[0] != 255) {
      value += 1;
    }
    if (kDefect == Defect::kReadsAfterWriting && j > 0) value += float(xr[j - 1]) - previous;
    previous = float(xr[j]);
    if (kDefect == Defect::kReadsBeyondRow && !x.strides && j + 1 == d && std::isnan(float(xr[d])))
      value = 0;
    yr[j] = kDefect == Defect::kTruncates ? Truncate<T>(value) : T(value);
  }
  if (kDefect == Defect::kWritesAfterRow && y.rank() > 1 && y.stride(-2) > d) yr[d] = T(0.0f);
  if (kDefect == Defect::kWritesFarBeyond && !y.strides && r + 1 == x.rows()) yr[d + 40] = T(0.0f);
  if (kDefect == Defect::kWritesInput && r == 0) const_cast<T&>(xr[0]) = T(float(xr[0]) + 1);
}

template <Defect kDefect, class T>
int Run(const Context& ctx, const Tensor& x, const Tensor* weight, float factor, const Tensor& y) {
  if (kDefect == Defect::kFails) return ctx.host->set_error(&ctx, ANYOP_INTERNAL, "on purpose");
  if (kDefect == Defect::kOverflowsWorkspace) ctx.Workspace<char>()[ctx.workspace_bytes] = 1;
  if (kDefect == Defect::kSeesThreads) factor += ctx.threads > 1 ? 1e-3f : 0;
  ctx.ForRows(x, [&](std::int64_t r) { ScaleRow<kDefect, T>(ctx, x, weight, factor, y, r); });
  return ANYOP_OK;
}

template <Defect kDefect>
struct Kernels {
  static constexpr Kernel kF32{.name = "cpu_f32",
                               .when = "T == f32",
                               .workspace = "8 * d",
                               .run = Bind<&Run<kDefect, float>>()};
  static constexpr Kernel kBF16{.name = "cpu_bf16",
                                .when = "T == bf16",
                                .workspace = "8 * d",
                                .run = Bind<&Run<kDefect, BF16>>()};
  static constexpr const Kernel* kAll[] = {&kF32, &kBF16};
};

}  // namespace

extern constinit const Op good{.signature = SCALE_SIGNATURE("good"),
                               .kernels = Kernels<Defect::kNone>::kAll};
extern constinit const Op truncates{.signature = SCALE_SIGNATURE("truncates"),
                                    .kernels = Kernels<Defect::kTruncates>::kAll};
extern constinit const Op writes_after_row{.signature = SCALE_SIGNATURE("writes_after_row"),
                                           .kernels = Kernels<Defect::kWritesAfterRow>::kAll};
extern constinit const Op writes_far_beyond{.signature = SCALE_SIGNATURE("writes_far_beyond"),
                                            .kernels = Kernels<Defect::kWritesFarBeyond>::kAll};
extern constinit const Op skips_last{.signature = SCALE_SIGNATURE("skips_last"),
                                     .kernels = Kernels<Defect::kSkipsLast>::kAll};
extern constinit const Op writes_input{.signature = SCALE_SIGNATURE("writes_input"),
                                       .kernels = Kernels<Defect::kWritesInput>::kAll};
extern constinit const Op wrong_tail{.signature = SCALE_SIGNATURE("wrong_tail"),
                                     .kernels = Kernels<Defect::kWrongTail>::kAll};
extern constinit const Op sees_next_row{.signature = SCALE_SIGNATURE("sees_next_row"),
                                        .kernels = Kernels<Defect::kSeesNextRow>::kAll};
extern constinit const Op sees_threads{.signature = SCALE_SIGNATURE("sees_threads"),
                                       .kernels = Kernels<Defect::kSeesThreads>::kAll};
extern constinit const Op swallows_nan{.signature = SCALE_SIGNATURE("swallows_nan"),
                                       .kernels = Kernels<Defect::kSwallowsNan>::kAll};
extern constinit const Op sees_workspace{.signature = SCALE_SIGNATURE("sees_workspace"),
                                         .kernels = Kernels<Defect::kSeesWorkspace>::kAll};
extern constinit const Op overflows_workspace{
    .signature = SCALE_SIGNATURE("overflows_workspace"),
    .kernels = Kernels<Defect::kOverflowsWorkspace>::kAll};
extern constinit const Op reads_after_writing{.signature = SCALE_SIGNATURE("reads_after_writing"),
                                              .kernels = Kernels<Defect::kReadsAfterWriting>::kAll};
extern constinit const Op reads_beyond_row{.signature = SCALE_SIGNATURE("reads_beyond_row"),
                                           .kernels = Kernels<Defect::kReadsBeyondRow>::kAll};
extern constinit const Op assumes_dense{.signature = SCALE_SIGNATURE("assumes_dense"),
                                        .kernels = Kernels<Defect::kAssumesDense>::kAll};
extern constinit const Op forgets_stride_0{.signature = SCALE_SIGNATURE("forgets_stride_0"),
                                           .kernels = Kernels<Defect::kForgetsStride0>::kAll};
extern constinit const Op fails{.signature = SCALE_SIGNATURE("fails"),
                                .kernels = Kernels<Defect::kFails>::kAll};

}  // namespace anyop::ops
