// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

using Index = std::int64_t;

struct Place {
  const Tensor& cache;
  const Tensor* scale;
  const Tensor* offset;

  void Store(Index outer, Index inner, Index e, double x) const {
    const Index at = outer * cache.stride(0) + inner * cache.stride(1) + e;
    if (cache.type() != DType::kI8) {
      cache.base<double>()[at] = x;
      return;
    }
    const double q = std::nearbyint((x - (offset ? Read(*offset, e) : 0)) * Read(*scale, e));
    cache.base<std::int8_t>()[at] =
        std::isnan(q) ? std::int8_t(0) : std::int8_t(std::clamp(q, -128.0, 127.0));
  }
};

void Run(const Context&, const Tensor& kv, const Tensor& weight, const Tensor& cos,
         const Tensor& sin, const Tensor& index, const Tensor& k_cache, const Tensor& ckv_cache,
         const Tensor* k_scale, const Tensor* ckv_scale, const Tensor* k_offset,
         const Tensor* ckv_offset, double eps, bool output_kv, std::string_view cache_mode,
         const Tensor& k, const Tensor& ckv) {
  const Index c = weight.dim(0), r = cos.row_size(), q = r / 2, s = index.row_size();
  const Place keys{k_cache, k_scale, k_offset}, latents{ckv_cache, ckv_scale, ckv_offset};
  for (Index i = 0; i < kv.rows(); ++i) {
    const Index slot = ReadIndex(index, index.row_offset(i / s) + i % s), bs = k_cache.dim(1);
    const bool paged = cache_mode == "paged";
    const Index outer = paged ? slot / std::max<Index>(bs, 1) : i / s;
    const Index inner = paged ? slot % std::max<Index>(bs, 1) : slot;
    const auto x = [&](Index e) { return Read(kv, kv.row_offset(i) + e); };
    double squares = 0;
    for (Index e = 0; e < c; ++e) squares += x(e) * x(e);
    for (Index e = 0; e < c; ++e) {
      const double value = x(e) / std::sqrt(squares / double(c) + eps) * Read(weight, e);
      if (output_kv) ckv.base<double>()[ckv.row_offset(i) + e] = value;
      if (slot >= 0) latents.Store(outer, inner, e, value);
    }
    for (Index e = 0; e < r; ++e) {
      const double a = x(c + 2 * (e % q)), b = x(c + 2 * (e % q) + 1);
      const double turn = Read(cos, cos.row_offset(i) + e), lift = Read(sin, sin.row_offset(i) + e);
      const double value = e < q ? a * turn - b * lift : b * turn + a * lift;
      if (output_kv) k.base<double>()[k.row_offset(i) + e] = value;
      if (slot >= 0) keys.Store(outer, inner, e, value);
    }
  }
}

}  // namespace

extern constinit const Reference kv_rmsnorm_rope_cache_reference{.op = "kv_rmsnorm_rope_cache",
                                                                 .run = Bind<&Run>()};

}  // namespace anyop::ops
