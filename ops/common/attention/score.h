// SPDX-License-Identifier: Apache-2.0
// From q . k to scores, the online softmax of one row, and the result and lse of a finished row.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "ops/common/attention/lanes.h"
#include "ops/common/attention/options.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// The rule that turns a dot product into a score: scale, softcap, slope; for one key head.
struct ScoreRule {
  float scale, softcap;
  bool has_slopes;

  ScoreRule(const AttentionCall& call, std::int64_t head)
      : scale(call.options.scale * (call.store.k_scale ? call.store.k_scale[head] : 1.0f)),
        softcap(call.options.softcap),
        has_slopes(call.options.slopes) {}

  // distance: key position minus query position. derivative: of the score by the dot product.
  [[gnu::always_inline]] F32 operator()(F32 dot, F32 slope, F32 distance,
                                        F32* derivative = nullptr) const {
    F32 s = dot * Set(scale);
    if (derivative) *derivative = Set(scale);
    if (softcap > 0) {
      const F32 capped = Tanh(s / Set(softcap));
      s = Set(softcap) * capped;
      if (derivative) *derivative = Set(scale) * (Set(1.0f) - capped * capped);
    }
    if (has_slopes) s = s + slope * distance;
    return s;
  }
};

// The running state of one row: the largest score so far, and the sum of exp(score - largest).
// No visible key yet: largest is -inf and sum 0.
struct RowSum {
  float largest = kNoScore, sum = 0;
  bool is_empty() const { return largest == kNoScore && sum == 0; }
};
// The score that exponents are taken relative to. Relative to -inf itself, -inf - -inf would be
// NaN.
inline float Base(float largest) { return largest == kNoScore ? 0.0f : largest; }

// Adds part to total; both hold weighted sums of values, width floats long.
inline void Merge(const RowSum& part, const float* values, RowSum* total, float* sums,
                  std::int64_t width) {
  if (part.is_empty()) return;
  const bool first = total->is_empty();
  const float largest = std::max(total->largest, part.largest), base = Base(largest);
  const float f = first ? 0.0f : std::exp(total->largest - base);
  const float g = first ? 1.0f : std::exp(part.largest - base);
  for (std::int64_t e = 0; e < width; ++e) {
    sums[e] = first ? values[e] : sums[e] * f + values[e] * g;
  }
  *total = {largest, total->sum * f + part.sum * g};
}

// Writes the result row of one query head: sums / Z, and lse = ln Z.
inline void FinishRow(const AttentionCall& call, std::int64_t token, std::int64_t head, RowSum row,
                      const float* sums) {
  const bool has_keys = !row.is_empty();
  float factor = 1.0f;
  if (call.options.sinks) {
    const float sink = call.options.sinks[head];
    const float largest = std::max(row.largest, sink), base = Base(largest);
    factor = std::exp(row.largest - base);
    row = {largest, row.sum * factor + std::exp(sink - base)};
  }
  if (call.lse) {
    *call.lse->at<float>(head, token) =
        row.is_empty() ? kNoScore : Base(row.largest) + std::log(row.sum);
  }
  const std::int64_t key_head = head / call.group();
  const float scale = call.store.v_scale ? call.store.v_scale[key_head] : 1.0f;
  // Where nothing weighs anything y is 0, not 0 / 0 or 0 times an infinite value; a NaN stays.
  const bool is_zero = !has_keys || row.sum == 0 || (factor == 0 && row.sum == row.sum);
  const F32 weight = Set(is_zero ? 0.0f : factor / row.sum * scale);
  Visit(call.y.type(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, BF16> || std::is_same_v<T, F16>) {
      T* y = call.y.at<T>(token, head);
      ForLanes(call.y.dim(2), [&](std::int64_t e, auto n) [[gnu::always_inline]] {
        StoreN(y + e, is_zero ? Zero() : Load(sums + e) * weight, n);
      });
    }
  });
}

// A row of one token and head as f32; lanes up to the next whole vector become 0.
template <class T>
[[gnu::always_inline]] inline void LoadRow(const Tensor& x, std::int64_t token, std::int64_t head,
                                           float* row) {
  const T* from = x.at<const T>(token, head);
  ForLanes(x.dim(2), [&](std::int64_t e, auto n)
                         [[gnu::always_inline]] { Store(row + e, LoadN(from + e, n)); });
}
inline void LoadQuery(const AttentionCall& call, std::int64_t token, std::int64_t head, float* q) {
  Visit(call.query.type(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, BF16> || std::is_same_v<T, F16>) {
      LoadRow<T>(call.query, token, head, q);
    }
  });
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
