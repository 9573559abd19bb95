// SPDX-License-Identifier: Apache-2.0
// rotary_cache_2d: cosines and sines for tokens of an image, by row and column.
//
//   cache[i, l] = cos(A_l), cache[i, 2*n + l] = sin(A_l)     l < 2*n, n = dim/4
//   A_j = y * g_j, A_(n + j) = x * k_j                       j < n, (y, x) = positions[i]
//
//   positions    of each token; its first column drives the first half of the pairs. A negative
//                one gives the angle 0, no rotation: class tokens
//   dim          the width of a head
//   frequencies  'shared': g_j = k_j = base^(-4j/dim); 'alternate': g_j = base^(-4j/dim),
//                k_j = base^(-(4j+2)/dim)
//
// A row is a table row of rotary_embedding and rope for token i, with positions absent.
//
// A base that would put a NaN into the table is refused.
//
// Numerics  Frequencies in f64, rounded to f32; their products with positions rounded to f32;
//           cosines and sines of these within 1 ulp.
// Source    transformers 5.23 (qwen2_vl, pixtral); vLLM 0.27.1, llama4_vision_rope.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "anyop/op.h"
#include "ops/common/rotation/finite_angles.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
namespace {

template <class N>
constexpr ArrayWorkspace<float, N> LayoutOf(N dim) {
  return ArrayWorkspace<float, N>(CeilDiv(dim, N(std::int64_t{2})));
}
constexpr SizeText WorkspaceBytes() { return LayoutOf<SizeText>("dim").bytes(); }

// Of pair l < 2*n: base^(-4j/dim) of rows, then what `frequencies` says of columns.
float Frequency(std::int64_t l, std::int64_t dim, double base, std::string_view frequencies) {
  const std::int64_t n = dim / 4, j = l % n;
  const int later = l >= n && frequencies == "alternate" ? 2 : 0;
  return float(std::pow(base, -(4.0 * double(j) + later) / double(dim)));
}

void Check(const Context&, const Tensor& positions, std::int64_t dim, double base,
           std::string_view frequencies) {
  if (base >= 1) return;  // frequencies are at most 1 then
  char with[40];
  std::snprintf(with, sizeof with, " with base %g", base);
  for (std::int64_t l = 0; l < dim / 2; ++l) {
    std::int64_t last = -1;
    for (std::int64_t i = 0; i < positions.dim(0); ++i) {
      const std::int64_t at = i * positions.stride(0) + l / (dim / 4);
      last = std::max(last, ReadIndex(positions, at));
    }
    CheckAngles(l, Frequency(l, dim, base, frequencies), last, with);
  }
}

void Run(const Context& ctx, const Tensor& positions, std::int64_t dim, double base,
         std::string_view frequencies, const Tensor& cache) {
  const std::int64_t n = dim / 4;
  const auto layout = LayoutOf<std::int64_t>(dim);
  float* factors = Placed(ctx, layout)[layout.elements];  // [2 * n]
  for (std::int64_t l = 0; l < 2 * n; ++l) factors[l] = Frequency(l, dim, base, frequencies);
  ctx.ForRows(
      cache,
      [&](std::int64_t i) {
        float* row = cache.row<float>(i).data();
        for (std::int64_t l = 0; l < 2 * n; ++l) {
          const std::int64_t at = ReadIndex(positions, i * positions.stride(0) + l / n);
          const double angle = at < 0 ? 0 : double(float(at) * factors[l]);
          row[l] = float(std::cos(angle));
          row[2 * n + l] = float(std::sin(angle));
        }
      },
      20);
}

}  // namespace

ANYOP_KERNEL(rotary_cache_2d){.workspace = kWorkspace<&WorkspaceBytes>, .run = Bind<&Run>()};

extern constinit const Op rotary_cache_2d{
    .signature =
        "rotary_cache_2d(positions: I[t, 2], dim: int, base: float = 10000.0, "
        "frequencies: 'shared' | 'alternate' = 'shared') -> (cache: f32[t, dim]) "
        "where I in i32 | i64, dim >= 4, dim % 4 == 0, base > 0",
    .flops = "t * dim * 40",
    .check = Bind<&Check>(),
};

}  // namespace anyop::ops
