// SPDX-License-Identifier: Apache-2.0
// The kernel, for every instruction set: F32 is as wide as the file is compiled for.
#include <cmath>
#include <limits>

#include "anyop/op.h"
#include "anyop/simd.h"

namespace anyop::ops {
namespace {

constexpr char kWorkspace[] = "4 * h * t * d";  // bytes: the sums of each row of y, in f32

// to = to * factor + p * v
template <class T>
void Accumulate(float* to, float factor, float p, const T* v, std::int64_t d) {
  ForLanes(d, [&](std::int64_t i, auto count) {
    StoreN(to + i, LoadN(to + i, count) * Set(factor) + Set(p) * LoadN(v + i, count), count);
  });
}

template <class T>
float Dot(const T* a, const T* b, std::int64_t d) {
  F32 sums = Zero();
  ForLanes(d, [&](std::int64_t i, auto count) {
    sums = Fma(LoadN(a + i, count), LoadN(b + i, count), sums);
  });
  return ReduceAdd(sums);
}

template <class T>
void RunAs(const Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
           const Tensor& y) {
  const std::int64_t t = q.dim(1), s = k.dim(1), d = q.dim(2);
  const float scale = 1 / std::sqrt(float(d));
  ctx.ForRows(
      q,
      [&](std::int64_t row) {  // [h, t] as one dimension
        const std::int64_t h = row / t, i = row % t;
        float* sums = ctx.Workspace<float>() + row * d;  // [d]
        for (std::int64_t c = 0; c < d; ++c) sums[c] = 0;
        float largest = -std::numeric_limits<float>::infinity(), total = 0;
        const std::int64_t last = causal ? i + s - t : s - 1;
        for (std::int64_t j = 0; j <= last; ++j) {
          const float score = scale * Dot(q.row<const T>(row).data(), k.at<const T>(h, j), d);
          const float above = std::fmax(largest, score);
          const float factor = total > 0 ? std::exp(largest - above) : 0;
          const float p = std::exp(score - above);
          Accumulate(sums, factor, p, v.at<const T>(h, j), d);
          total = total * factor + p;
          largest = above;
        }
        const auto to = y.row<T>(row);
        for (std::int64_t c = 0; c < d; ++c) {
          to[std::size_t(c)] = T(total > 0 ? sums[c] / total : 0);
        }
      },
      0.5 * double(s));
}

// The parameters of the signature, then the results.
void Run(const Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
         const Tensor& y) {
  switch (q.type()) {
    case DType::kF32:
      return RunAs<float>(ctx, q, k, v, causal, y);
    case DType::kF16:
      return RunAs<F16>(ctx, q, k, v, causal, y);
    default:
      return RunAs<BF16>(ctx, q, k, v, causal, y);
  }
}

}  // namespace

ANYOP_KERNEL(my_operator){.workspace = kWorkspace, .run = Bind<&Run>()};

}  // namespace anyop::ops
