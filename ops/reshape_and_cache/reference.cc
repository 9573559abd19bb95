// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "anyop/reference.h"

namespace anyop::ops {
namespace {

// The rule of a stored element: a copy, or x * (1 / scale) in f32, rounded to the cache's dtype.
void StoreElement(const Tensor& cache, DType stored, std::int64_t offset, const Tensor& from,
                  std::int64_t at, const Tensor* scale, std::int64_t head) {
  const double x = Read(from, at);
  const float factor = scale ? 1.0f / scale->base<const float>()[head] : 1.0f;
  const bool is_copy = from.type() == stored;
  if (stored == DType::kI8) {
    const double q = std::nearbyint(std::clamp<double>(float(x) * factor, -128, 127));
    cache.base<std::int8_t>()[offset] = std::int8_t(is_copy ? x : q);
  } else {
    cache.base<double>()[offset] = is_copy ? x : float(F8E4M3(float(x) * factor));
  }
}

void StoreRow(const Tensor& rows, const Tensor& cache, DType stored, std::int64_t i,
              std::int64_t slot, const Tensor* scale, bool nz) {
  const std::int64_t heads = rows.dim(1), width = rows.dim(2), bs = cache.dim(nz ? 2 : 1);
  const std::int64_t block = slot / bs * cache.stride(0), at = slot % bs;
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t e = 0; e < width; ++e) {
      const std::int64_t x = h * width + e, part = cache.dim(3);
      const std::int64_t offset =
          nz ? block + x / part * cache.stride(1) + at * cache.stride(2) + x % part
             : block + at * cache.stride(1) + h * cache.stride(2) + e;
      StoreElement(cache, stored, offset, rows, i * rows.stride(0) + h * rows.stride(1) + e, scale,
                   h);
    }
  }
}

void Run(const Context& ctx, const Tensor& key, const Tensor* value, const Tensor& key_cache,
         const Tensor* value_cache, const Tensor& slot_mapping, const Tensor* k_scale,
         const Tensor* v_scale, std::string_view layout) {
  const bool nz = layout == "NZ";
  for (std::int64_t i = 0; i < slot_mapping.dim(0); ++i) {
    const std::int64_t slot = ReadIndex(slot_mapping, i);
    if (slot < 0) continue;
    StoreRow(key, key_cache, CallDType(ctx, 2), i, slot, k_scale, nz);
    if (value) StoreRow(*value, *value_cache, CallDType(ctx, 3), i, slot, v_scale, nz);
  }
}

}  // namespace

extern constinit const Reference reshape_and_cache_reference{.op = "reshape_and_cache",
                                                             .run = Bind<&Run>()};

}  // namespace anyop::ops
