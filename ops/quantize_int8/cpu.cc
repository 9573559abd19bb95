// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <string_view>

#include "ops/common/elementwise/elementwise.h"
#include "ops/common/quantize/int8.h"

namespace anyop::ops {
namespace {

constexpr double kQuantizeNs = 0.07;  // of an element

void RunQuantizeInt8(const Context& ctx, const Tensor& x, const Tensor& scale,
                     const Tensor* zero_point, const Tensor& q) {
  const float s = *scale.base<const float>();
  const RowQuantization all{s, 1 / s, kFarLimit, zero_point ? *zero_point->base<const int>() : 0};
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    const auto quantize = [&](std::int64_t n, std::int64_t ix, std::int64_t iq) {
      QuantizeWith(x.base<const T>() + ix, n, all, q.base<std::int8_t>() + iq);
    };
    ForRuns(ctx, kQuantizeNs, quantize, x, q);
  });
}

void RunQuantizeInt8Dynamic(const Context& ctx, const Tensor& x, bool asymmetric,
                            std::string_view range, const Tensor& q, const Tensor& scale,
                            const Tensor& zero_point) {
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    ctx.ForRows(
        x,
        [&](std::int64_t r) {
          const T* row = x.base<const T>() + x.row_offset(r);
          std::int8_t* out = q.base<std::int8_t>() + q.row_offset(r);
          const std::int64_t d = x.row_size();
          const RowQuantization used = asymmetric ? QuantizeAsymmetric(row, d, range == "data", out)
                                                  : QuantizeSymmetric(row, d, out);
          scale.base<float>()[scale.row_offset(r)] = used.scale;
          if (asymmetric) {
            zero_point.base<std::int32_t>()[zero_point.row_offset(r)] = used.zero_point;
          }
        },
        kQuantizeNs);
  });
}

// x = f32(q - zero_point) * scale.
template <class To>
[[gnu::noinline]] void DequantizeBytes(const std::int8_t* q, std::int64_t n, float scale,
                                       std::int32_t zero_point, To* x) {
  if (std::fabs(float(zero_point)) > kFarLimit) {
    for (std::int64_t i = 0; i < n; ++i) {
      x[i] = To(float(std::int64_t(q[i]) - zero_point) * scale);
    }
    return;
  }
  const F32 factor = Set(scale), zero = Set(float(zero_point));  // their difference is exact
  ForBlocks<4>(n, [&](std::int64_t i, auto count, auto block) {
    F32 v[block];
    for (int k = 0; k < block; ++k) {
      v[k] = (LoadAny(q + i + k * kLanes, count) - zero) * factor;
    }
    StoreAll(x + i, v, count);
  });
}

void RunDequantizeInt8(const Context& ctx, const Tensor& q, const Tensor& scale,
                       const Tensor* zero_point, DType to, const Tensor& x) {
  const auto number = [](const Tensor& t, auto zero, std::int64_t r) {
    return t.base<const decltype(zero)>()[t.rank() > 1 ? t.row_offset(r) : 0];
  };
  VisitFloat(to, [&](auto zero) {
    using To = decltype(zero);
    const auto run = [&](std::int64_t n, std::int64_t iq, std::int64_t ix, std::int64_t r) {
      DequantizeBytes(q.base<const std::int8_t>() + iq, n, number(scale, float{}, r),
                      zero_point ? number(*zero_point, std::int32_t{}, r) : 0, x.base<To>() + ix);
    };
    if (scale.rank() == 1) {
      return ForRuns(
          ctx, kQuantizeNs,
          [&](std::int64_t n, std::int64_t iq, std::int64_t ix) { run(n, iq, ix, 0); }, q, x);
    }
    ctx.ForRows(
        q, [&](std::int64_t r) { run(q.row_size(), q.row_offset(r), x.row_offset(r), r); },
        kQuantizeNs);
  });
}

}  // namespace

ANYOP_KERNEL(quantize_int8){.run = Bind<&RunQuantizeInt8>()};
ANYOP_KERNEL(quantize_int8_dynamic){.run = Bind<&RunQuantizeInt8Dynamic>()};
ANYOP_KERNEL(dequantize_int8){.run = Bind<&RunDequantizeInt8>()};

}  // namespace anyop::ops
