// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string_view>

#include "anyop/simd/bytes.h"
#include "ops/common/elementwise/elementwise.h"
#include "ops/common/interleave.h"
#include "ops/common/norm/rms_norm.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
namespace {

// A token's row in f32 for each part of the tokens.
template <class N>
constexpr RowsWorkspace<float, N> LayoutOf(N threads, N tokens, N c, N r) {
  return {Min(tokens, threads), c + r};
}
constexpr SizeText WorkspaceBytes() {
  return LayoutOf<SizeText>("threads", "size(index)", "c", "r").bytes();
}

using Index = std::int64_t;

// Entry i of the index tensor, counted over all tokens.
Index IndexOf(const Tensor& index, Index i) {
  return ReadIndex(index, index.row_offset(i / index.row_size()) + i % index.row_size());
}

// z[c] = the latent part of a row, normalized.
template <class T>
void NormalizeLatent(const T* x, const T* weight, Index c, float eps, float* z) {
  const auto load = [&](auto& v, Index i, auto count) { LoadAll(v, x + i, count); };
  const RowScale of = ScaleOf(SumOfSquares(c, load), c, eps, load);
  ForLanes(c, [&](Index i, auto n) {
    StoreN(z + i, of.Normalize(LoadN(x + i, n)) * LoadN(weight + i, n), n);
  });
}

// z[r] = the rotated part: pairs of neighbours come out as halves.
template <class T>
void RotatePairs(const T* x, const T* cos, const T* sin, Index r, float* z) {
  const Index q = r / 2;
  ForLanes(q, [&](Index j, auto n) {
    F32 a, b;
    LoadInTurns(x + 2 * j, n, a, b);
    const F32 minus_s = Zero() - LoadN(sin + j, n);
    StoreN(z + j, Fma(b, minus_s, a * LoadN(cos + j, n)), n);
    StoreN(z + q + j, Fma(a, LoadN(sin + q + j, n), b * LoadN(cos + q + j, n)), n);
  });
}

// A row of f32 on its way into one cache, [nb, bs, width] or [b, p, width].
struct CacheRow {
  const Tensor& cache;
  const Tensor* scale;   // [width], for i8
  const Tensor* offset;  // [width] or null

  void Store(Index outer, Index inner, const float* z) const {
    const Index at = outer * cache.stride(0) + inner * cache.stride(1), width = cache.dim(2);
    if (cache.type() == DType::kI8) return StoreBytesOf(z, width, cache.base<std::int8_t>() + at);
    VisitFloat(cache.type(), [&](auto zero) {
      auto* to = cache.base<decltype(zero)>() + at;
      ForLanes(width, [&](Index i, auto n) { StoreN(to + i, LoadN(z + i, n), n); });
    });
  }

 private:
  void StoreBytesOf(const float* z, Index width, std::int8_t* to) const {
    const float* factor = scale->base<const float>();
    const float* shift = offset ? offset->base<const float>() : nullptr;
    ForLanes(width, [&](Index i, auto n) {
      F32 v = LoadN(z + i, n);
      if (shift) v = v - LoadN(shift + i, n);
      v = v * LoadN(factor + i, n);
      v = Select(IsNan(v), Zero(), v);
      StoreBytes(to + i, Round(Max(Min(v, Set(127.0f)), Set(-128.0f))), n);
    });
  }
};

void Run(const Context& ctx, const Tensor& kv, const Tensor& weight, const Tensor& cos,
         const Tensor& sin, const Tensor& index, const Tensor& k_cache, const Tensor& ckv_cache,
         const Tensor* k_scale, const Tensor* ckv_scale, const Tensor* k_offset,
         const Tensor* ckv_offset, float eps, bool output_kv, std::string_view cache_mode,
         const Tensor& k, const Tensor& ckv) {
  const Index tokens = kv.rows(), c = weight.dim(0), r = cos.row_size();
  const Index inner = cache_mode == "paged" ? k_cache.dim(1) : index.row_size();
  const CacheRow keys{k_cache, k_scale, k_offset}, latents{ckv_cache, ckv_scale, ckv_offset};
  const Index parts = std::min<Index>(ctx.threads, tokens);
  const Index per_part = tokens / std::max<Index>(parts, 1) + 1;
  VisitFloat(kv.type(), [&](auto zero) {
    using T = decltype(zero);
    const auto store = [&](Index i, float* z) {
      const T* row = kv.base<const T>() + kv.row_offset(i);
      NormalizeLatent(row, weight.base<const T>(), c, eps, z);
      RotatePairs(row + c, cos.base<const T>() + cos.row_offset(i),
                  sin.base<const T>() + sin.row_offset(i), r, z + c);
      if (output_kv) {
        T* to_ckv = ckv.base<T>() + ckv.row_offset(i);
        T* to_k = k.base<T>() + k.row_offset(i);
        ForLanes(c, [&](Index j, auto n) { StoreN(to_ckv + j, LoadN(z + j, n), n); });
        ForLanes(r, [&](Index j, auto n) { StoreN(to_k + j, LoadN(z + c + j, n), n); });
      }
      const Index at = IndexOf(index, i);
      if (at < 0) return;
      // paged: the block and the offset of a slot; norm: the batch's row and the place in it.
      const bool paged = cache_mode == "paged";
      keys.Store(paged ? at / inner : i / inner, paged ? at % inner : at, z + c);
      latents.Store(paged ? at / inner : i / inner, paged ? at % inner : at, z);
    };
    const auto layout = LayoutOf<std::int64_t>(ThreadsOf(ctx), tokens, c, r);
    float* rows = Placed(ctx, layout)[layout.rows];
    ctx.ParallelFor(parts, 20000 / ((c + r + 100) * per_part) + 1, [&](Index begin, Index end) {
      for (Index part = begin; part < end; ++part) {
        float* z = rows + part * layout.row;
        for (Index i = part; i < tokens; i += parts) store(i, z);
      }
    });
  });
}

}  // namespace

ANYOP_KERNEL(kv_rmsnorm_rope_cache){.workspace = kWorkspace<&WorkspaceBytes>, .run = Bind<&Run>()};

}  // namespace anyop::ops
