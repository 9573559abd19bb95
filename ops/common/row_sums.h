// SPDX-License-Identifier: Apache-2.0
// Sums over the rows of a tensor in f32, in an order that the number of rows alone decides, so that
// bits do not depend on threads: chunks of kSumRows rows, each in rising order, then the chunks in
// rising order.
#pragma once
#include <algorithm>
#include <cstring>

#include "anyop/op.h"
#include "anyop/simd.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

inline constexpr std::int64_t kSumRows = 32;

template <class N>
struct RowSumsWorkspace : Workspace<N> {
  Part<float, N> sums;  // [chunks, width]
  constexpr RowSumsWorkspace(N rows, N width)
      : sums(this->template Add<float>(CeilDiv(rows, N(kSumRows)) * width)) {}
};
inline float* RowSums(const Context& ctx, std::int64_t rows, std::int64_t width) {
  const RowSumsWorkspace<std::int64_t> parts(rows, width);
  return Placed(ctx, parts)[parts.sums];
}

// Calls add(r, sum) for every row, chunks of rows in parallel. sum: the chunk's float[d], 0 at
// first, whose elements may stand in any order that is the same for every row.
template <class F>
[[gnu::always_inline]] inline void ForRowsIntoSums(const Context& ctx, std::int64_t rows,
                                                   std::int64_t d, double element_ns, F&& add) {
  float* sums = RowSums(ctx, rows, d);
  const double chunk_ns = kSumRows * (double(d) * element_ns + 10);
  ctx.ParallelFor((rows + kSumRows - 1) / kSumRows, std::int64_t(2000 / chunk_ns) + 1,
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t c = begin; c < end; ++c) {
                      float* sum = sums + c * d;
                      std::memset(sum, 0, std::size_t(d) * sizeof(float));
                      const std::int64_t last = std::min(rows, (c + 1) * kSumRows);
                      for (std::int64_t r = c * kSumRows; r < last; ++r) add(r, sum);
                    }
                  });
}

// y[d] = the sum of all chunks, whose elements stand as LoadBlock of a T has them in ForBlocks<4>.
// Where several such sums lie beside each other: width is that of all, first_element
// where y's begins.
template <class T>
void StoreSums(const Context& ctx, std::int64_t rows, std::int64_t d, T* y, std::int64_t width = 0,
               std::int64_t first_element = 0) {
  constexpr std::int64_t kPiece = 256;  // whole blocks
  if (!width) width = d;
  const float* sums = RowSums(ctx, rows, width) + first_element;
  const std::int64_t chunks = (rows + kSumRows - 1) / kSumRows;
  const std::int64_t grain = 10000 / (kPiece * (chunks + 1)) + 1;  // sums of other cores
  ctx.ParallelFor((d + kPiece - 1) / kPiece, grain, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t begin = first * kPiece, end = std::min(d, last * kPiece);
    ForBlocks<4>(end - begin, [&](std::int64_t i, auto count, auto block) {
      F32 sum[block], more[block];
      for (int k = 0; k < block; ++k) sum[k] = Zero();
      for (std::int64_t c = 0; c < chunks; ++c) {
        LoadAll(more, sums + c * width + begin + i, count);
        for (int k = 0; k < block; ++k) sum[k] += more[k];
      }
      StoreBlock(y + begin + i, sum, count);
    });
  });
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
