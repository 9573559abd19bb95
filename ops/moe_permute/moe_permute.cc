// SPDX-License-Identifier: Apache-2.0
// moe_permute: the rows of tokens in the order of the experts that they go to.
//
//   x_sorted[r] = x[source[r] / k]     source[destination[i, a]] = i*k + a
//
//   ids          the k experts of each token; -1: none here, dropped
//   offsets      the rows of expert g are offsets[g] ... offsets[g + 1] - 1; the last offset counts
//                all rows
//   source       the pair i*k + a of token i and choice a that row r holds; -1 beyond the last row
//   destination  the row of each pair, -1 for none
//
// Pairs of one expert stay in their order. Rows of x_sorted beyond the last one are 0.
//
// Numerics  Rows are copied bit for bit.
// Source    vLLM 0.27.1, moe_permute.
#include <algorithm>
#include <cstring>

#include "anyop/op.h"
#include "ops/common/stream.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
namespace {

using Index = std::int64_t;

template <class N>
constexpr ArrayWorkspace<std::int32_t, N> LayoutOf(N num_experts) {
  return ArrayWorkspace<std::int32_t, N>(num_experts);
}
constexpr SizeText WorkspaceBytes() { return LayoutOf<SizeText>("num_experts").bytes(); }

// next: [num_experts], scratch.
void SortPairs(const Tensor& ids, Index experts, std::int32_t* next, std::int32_t* offsets,
               std::int32_t* source, const Tensor& destination) {
  const Index k = ids.dim(1), t = k ? ids.dim(0) : 0;
  std::fill_n(offsets, experts + 1, 0);
  VisitIndex(ids.type(), [&](auto zero) {
    using I = decltype(zero);
    for (Index i = 0; i < t; ++i) {
      const I* row = ids.at<const I>(i);
      for (Index a = 0; a < k; ++a) {
        if (row[a] >= 0) ++offsets[row[a] + 1];
      }
    }
    for (Index g = 0; g < experts; ++g) {
      next[g] = offsets[g];
      offsets[g + 1] += offsets[g];
    }
    for (Index i = 0; i < t; ++i) {
      const I* row = ids.at<const I>(i);
      std::int32_t* to = destination.at<std::int32_t>(i);
      for (Index a = 0; a < k; ++a) {
        to[a] = row[a] < 0 ? -1 : next[row[a]]++;
        if (to[a] >= 0) source[to[a]] = std::int32_t(i * k + a);
      }
    }
  });
  std::fill(source + offsets[experts], source + t * k, -1);
}

void Run(const Context& ctx, const Tensor& x, const Tensor& ids, Index num_experts,
         const Tensor& x_sorted, const Tensor& offsets, const Tensor& source,
         const Tensor& destination) {
  const std::int32_t* from = source.base<const std::int32_t>();
  const auto layout = LayoutOf<std::int64_t>(num_experts);
  SortPairs(ids, num_experts, Placed(ctx, layout)[layout.elements], offsets.base<std::int32_t>(),
            source.base<std::int32_t>(), destination);
  const Index element = Bytes(x.type()), row_bytes = x.dim(1) * element, k = ids.dim(1);
  const bool streams = Streams(ctx, 2 * source.dim(0) * row_bytes);
  ctx.ParallelFor(source.dim(0), 40000 / (2 * row_bytes + 100) + 1, [&](Index begin, Index end) {
    for (Index r = begin; r < end; ++r) {
      char* to = x_sorted.base<char>() + r * x_sorted.stride(0) * element;
      if (from[r] < 0) {
        std::memset(to, 0, std::size_t(row_bytes));
        continue;
      }
      const char* row = x.base<const char>() + from[r] / k * x.stride(0) * element;
      if (streams) {
        StreamCopy(to, row, row_bytes);
      } else {
        std::memcpy(to, row, std::size_t(row_bytes));
      }
    }
    if (streams) EndStream();
  });
}

}  // namespace

ANYOP_KERNEL(moe_permute){.workspace = kWorkspace<&WorkspaceBytes>, .run = Bind<&Run>()};

extern constinit const Op moe_permute{
    .signature =
        "moe_permute(x: T[t, d], ids: I[t, k] below num_experts, num_experts: int) -> "
        "(x_sorted: T[t*k, d], offsets: i32[num_experts + 1], source: i32[t*k], "
        "destination: i32[t, k]) where T in f32 | f16 | bf16 | i8 | f8e4m3, I in i32 | i64, "
        "num_experts >= 1, t * k < 2147483648",
    .gradient = "moe_permute_backward",
    .bytes = "2 * t * k * d * bytes(T) + bytes(ids) + 8 * t * k",
};

}  // namespace anyop::ops
