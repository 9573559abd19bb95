// SPDX-License-Identifier: Apache-2.0
// The kernel of sample, compiled once per instruction set.
#pragma once
#include <algorithm>
#include <cmath>

#include "anyop/op.h"
#include "ops/sample/candidates.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// The settings of all rows; null: not given.
struct SampleSettings {
  const float* temperature;
  const std::int32_t* top_k;
  const float* top_p;
  const float* min_p;
};

// The first of the largest logits; 0 where none is above -inf.
template <class T>
std::int64_t Greedy(const T* logits, std::int64_t v) {
  const std::int64_t id = FirstLargest(logits, v);
  return float(logits[id]) > kMinusInfinity ? id : 0;
}

// noise: one number, or one for each of the v logits.
template <class T>
std::int64_t SampleRow(const T* logits, std::int64_t v, const float* noise, bool is_uniform,
                       const SampleSettings& s, std::int64_t row, Candidates candidates) {
  const float temperature = s.temperature ? s.temperature[row] : 1.0f;
  if (temperature == 0) return Greedy(logits, v);
  const bool has_any = candidates.Load(logits, temperature);
  if (std::isinf(candidates.largest()) && std::isfinite(Largest(logits, v))) {
    return Greedy(logits, v);  // the quotient overflows: as temperature 0
  }
  if (!has_any) return 0;
  const std::int64_t top_k = s.top_k && s.top_k[row] > 0 && s.top_k[row] < v ? s.top_k[row] : 0;
  candidates.Weigh(top_k, s.min_p && s.min_p[row] > 0 ? s.min_p[row] : 0.0f);
  if (s.top_p && s.top_p[row] < 1) candidates.KeepTopP(std::max(s.top_p[row], 0.0f));
  if (!is_uniform) return candidates.DrawExponential(noise);
  constexpr double kLargestBelow1 = 1 - 0x1p-24;
  return candidates.DrawUniform(*noise > 0 ? std::min(double(*noise), kLargestBelow1) : 0.0);
}

constexpr SizeText SampleBytes() {
  return CandidatesWorkspace<SizeText>(Min(SizeText("b"), "threads"), "v").bytes();
}

template <class T>
void SampleRows(const Context& ctx, const Tensor& logits, const Tensor& random,
                const SampleSettings& settings, const Tensor& ids) {
  const std::int64_t rows = logits.dim(0), v = logits.dim(1);
  // One part per thread, each with its own memory.
  const std::int64_t parts = std::min(ThreadsOf(ctx), rows);
  const CandidatesWorkspace<std::int64_t> layout(parts, v);
  const Placed placed(ctx, layout);
  ctx.ParallelFor(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      for (std::int64_t r = part; r < rows; r += parts) {
        ids.base<std::int64_t>()[r] =
            SampleRow(logits.base<const T>() + r * logits.stride(0), v,
                      random.base<const float>() + r * random.stride(0), random.rank() == 1,
                      settings, r, Candidates(placed, layout, part, v));
      }
    }
  });
}

inline void RunSample(const Context& ctx, const Tensor& logits, const Tensor& random,
                      const Tensor* temperature, const Tensor* top_k, const Tensor* top_p,
                      const Tensor* min_p, const Tensor& ids) {
  const SampleSettings settings{temperature ? temperature->base<const float>() : nullptr,
                                top_k ? top_k->base<const std::int32_t>() : nullptr,
                                top_p ? top_p->base<const float>() : nullptr,
                                min_p ? min_p->base<const float>() : nullptr};
  switch (logits.type()) {
    case DType::kF32:
      return SampleRows<float>(ctx, logits, random, settings, ids);
    case DType::kF16:
      return SampleRows<F16>(ctx, logits, random, settings, ids);
    default:
      return SampleRows<BF16>(ctx, logits, random, settings, ids);
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
