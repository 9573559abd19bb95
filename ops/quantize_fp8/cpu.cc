// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "ops/common/elementwise/elementwise.h"
#include "ops/common/quantize/int8.h"

namespace anyop::ops {
namespace {

constexpr double kQuantizeFp8Ns = 0.15;  // of an element

void RunQuantizeFp8(const Context& ctx, const Tensor& x, const Tensor& scale, const Tensor& q) {
  const F32 inverse = Set(1 / *scale.base<const float>());
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    const auto quantize = [&](std::int64_t n, std::int64_t ix, std::int64_t iq) {
      const T* from = x.base<const T>() + ix;
      F8E4M3* to = q.base<F8E4M3>() + iq;
      ForLanes(n, [&](std::int64_t i, auto count) {
        StoreBytes(to + i, LoadN(from + i, count) * inverse, count);
      });
    };
    ForRuns(ctx, kQuantizeFp8Ns, quantize, x, q);
  });
}

// The least power of 2 that is at least s >= 0, from its bits; infinity stays.
float CeilToPowerOf2(float s) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(s);
  if (bits < 0x800000) return std::bit_cast<float>(bits == 0 ? 0 : std::bit_ceil(bits));
  return std::bit_cast<float>((bits + 0x7fffff) & 0x7f800000);
}

// Quantizes a group and returns its scale.
template <class T>
float QuantizeGroup(const T* x, std::int64_t n, bool pow2_scale, float min_amax, F8E4M3* q) {
  float low, high;
  FindExtremes(x, n, &low, &high);
  float s = std::max({0.0f - low, high, min_amax}) / 448.0f;  // 0 - 0 is 0, where -0 is not
  if (pow2_scale) s = CeilToPowerOf2(s);
  const F32 scale = Set(s);
  ForLanes(n, [&](std::int64_t i, auto count) {
    StoreBytes(q + i, LoadN(x + i, count) / scale, count);
  });
  return s;
}

void RunQuantizeFp8Dynamic(const Context& ctx, const Tensor& x, std::int64_t group, bool pow2_scale,
                           float min_amax, const Tensor& q, const Tensor& scale) {
  const std::int64_t groups = scale.row_size();
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    ctx.ForRows(
        x,
        [&](std::int64_t r) {
          const T* from = x.base<const T>() + x.row_offset(r);
          F8E4M3* to = q.base<F8E4M3>() + q.row_offset(r);
          float* scales = scale.base<float>() + scale.row_offset(r);
          for (std::int64_t g = 0; g < groups; ++g) {
            scales[g] =
                QuantizeGroup(from + g * group, group, pow2_scale, min_amax, to + g * group);
          }
        },
        kQuantizeFp8Ns);
  });
}

}  // namespace

ANYOP_KERNEL(quantize_fp8){.run = Bind<&RunQuantizeFp8>()};
ANYOP_KERNEL(quantize_fp8_dynamic){.run = Bind<&RunQuantizeFp8Dynamic>()};

}  // namespace anyop::ops
