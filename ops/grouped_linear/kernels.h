// SPDX-License-Identifier: Apache-2.0
// The kernels of grouped_linear, with weights as they lie and packed, of floats and of bytes.
#pragma once
#include <algorithm>
#include <cstdint>

#include "ops/common/grouped/call.h"
#include "ops/common/quantize/int8.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// threads: 0 where weights are packed.
template <class M, class N>
struct GroupedLinearWorkspace : Workspace<N> {
  Part<std::int64_t, N> offsets;  // [groups + 1]
  Part<const void*, N> x;         // [rows]
  Part<char, N> products;         // a GroupedWorkspace
  constexpr GroupedLinearWorkspace(N threads, N rows, N groups, N steps)
      : offsets(this->template Add<std::int64_t>(groups + N(1))),
        x(this->template Add<const void*>(rows)),
        products(this->template Add<char>(
            GroupedWorkspace<M, N>(threads, rows, groups, steps).bytes())) {}
};
// And x in bytes.
template <class N>
struct GroupedInt8Workspace : GroupedLinearWorkspace<WidestBytesMath, N> {
  Part<float, N> scale;           // [rows]
  Part<std::int32_t, N> sum;      // [rows]
  Part<std::int8_t, N> bytes_of;  // [rows][pitch]
  constexpr GroupedInt8Workspace(N threads, N rows, N groups, N steps)
      : GroupedLinearWorkspace<WidestBytesMath, N>(threads, rows, groups, steps),
        scale(this->template Add<float>(rows)),
        sum(this->template Add<std::int32_t>(rows)),
        bytes_of(this->template Add<std::int8_t>(rows * PitchOfBytes(N(4) * steps))) {}
};
constexpr SizeText GroupedLinearBytes() {
  const SizeText steps = CeilDiv(SizeText("k"), SizeText(2));
  return GroupedLinearWorkspace<WidestMath, SizeText>("threads", "m", "e", steps).bytes();
}
constexpr SizeText GroupedLinearPackedBytes() {
  return GroupedLinearWorkspace<WidestMath, SizeText>(std::int64_t{0}, "m", "e", "k2").bytes();
}
constexpr SizeText GroupedInt8Bytes() {
  const SizeText steps = CeilDiv(SizeText("k"), SizeText(4));
  return GroupedInt8Workspace<SizeText>("threads", "m", "e", steps).bytes();
}
constexpr SizeText GroupedInt8PackedBytes() {
  return GroupedInt8Workspace<SizeText>(std::int64_t{0}, "m", "e", "k4").bytes();
}

// What all of them do beside the products: y is [m, n], its rows beyond the last group are 0.
inline GroupedCall GroupsOf(const Tensor& weight, bool is_packed, std::int64_t k, std::int64_t n,
                            const Tensor& offsets, const Tensor* bias, const Tensor& y,
                            std::int64_t* numbers, const void** x) {
  const std::int64_t groups = weight.dim(0);
  for (std::int64_t g = 0; g <= groups; ++g) numbers[g] = ReadIndex(offsets, g);
  const std::int64_t bytes = y.stride(0) * Bytes(y.type());
  for (std::int64_t r = numbers[groups]; r < y.dim(0); ++r) {
    std::memset(y.base<char>() + r * bytes, 0, std::size_t(n * Bytes(y.type())));
  }
  return {.type = weight.type(),
          .groups = groups,
          .k = k,
          .n = n,
          .offsets = numbers,
          .x = x,
          .weight = weight.base<const void>(),
          .weight_stride = weight.stride(0),
          .row_stride = is_packed ? 0 : weight.stride(1),
          .is_packed = is_packed,
          .bias = bias,
          .y = y.base<void>(),
          .y_stride = y.stride(0),
          .y_type = y.type(),
          .x_scale = nullptr,
          .x_sum = nullptr,
          .weight_scale = nullptr};
}

inline void MultiplyFloats(const Context& ctx, const Tensor& x, const Tensor& weight,
                           bool is_packed, std::int64_t n, const Tensor& offsets,
                           const Tensor* bias, const Tensor& y) {
  const std::int64_t k = x.dim(1), pitch = x.stride(0) * Bytes(x.type());
  const GroupedLinearWorkspace<WidestMath, std::int64_t> layout(
      is_packed ? 0 : ThreadsOf(ctx), x.dim(0), weight.dim(0), (k + 1) / 2);
  const Placed placed(ctx, layout);
  const void** rows = placed[layout.x];
  for (std::int64_t r = 0; r < x.dim(0); ++r) rows[r] = x.base<const char>() + r * pitch;
  MultiplyGroups(ctx,
                 GroupsOf(weight, is_packed, k, n, offsets, bias, y, placed[layout.offsets], rows),
                 placed[layout.products]);
}

inline void MultiplyInt8(const Context& ctx, const Tensor& x, const Tensor& weight, bool is_packed,
                         std::int64_t n, const Tensor& weight_scale, const Tensor& offsets,
                         const Tensor* bias, const Tensor& y) {
  const std::int64_t k = x.dim(1), pitch = PitchOfBytes(CeilDiv(k, 4) * 4);
  const GroupedInt8Workspace<std::int64_t> layout(is_packed ? 0 : ThreadsOf(ctx), x.dim(0),
                                                  weight.dim(0), CeilDiv(k, 4));
  const Placed placed(ctx, layout);
  const void** rows = placed[layout.x];
  GroupedCall call =
      GroupsOf(weight, is_packed, k, n, offsets, bias, y, placed[layout.offsets], rows);
  call.weight_scale = &weight_scale;
  call.x_scale = placed[layout.scale];
  call.x_sum = placed[layout.sum];
  ctx.ParallelFor(call.rows(), 8000 / (k + 100) + 1, [&](std::int64_t begin, std::int64_t end) {
    VisitFloat(x.type(), [&](auto zero) {
      for (std::int64_t r = begin; r < end; ++r) {
        std::int8_t* q = placed[layout.bytes_of] + r * pitch;
        rows[r] = q;
        placed[layout.scale][r] = QuantizeSymmetric(x.at<const decltype(zero)>(r), k, q).scale;
        placed[layout.sum][r] = FinishBytes(q, k, true);
      }
    });
  });
  MultiplyGroups(ctx, call, placed[layout.products]);
}

inline void RunGroupedLinear(const Context& ctx, const Tensor& x, const Tensor& weight,
                             const Tensor& offsets, const Tensor* bias, const Tensor& y) {
  MultiplyFloats(ctx, x, weight, false, weight.dim(1), offsets, bias, y);
}
inline void RunGroupedLinearPacked(const Context& ctx, const Tensor& x, const Tensor& packed,
                                   std::int64_t features, const Tensor& offsets, const Tensor* bias,
                                   const Tensor& y) {
  MultiplyFloats(ctx, x, packed, true, features, offsets, bias, y);
}
inline void RunGroupedLinearInt8(const Context& ctx, const Tensor& x, const Tensor& weight,
                                 const Tensor& weight_scale, const Tensor& offsets,
                                 const Tensor* bias, const Tensor& y) {
  MultiplyInt8(ctx, x, weight, false, weight.dim(1), weight_scale, offsets, bias, y);
}
inline void RunGroupedLinearInt8Packed(const Context& ctx, const Tensor& x, const Tensor& packed,
                                       std::int64_t features, const Tensor& weight_scale,
                                       const Tensor& offsets, const Tensor* bias, const Tensor& y) {
  MultiplyInt8(ctx, x, packed, true, features, weight_scale, offsets, bias, y);
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
