// SPDX-License-Identifier: Apache-2.0
// The largest element of a row: NaN ranks below -inf, and among equal values the first wins.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "anyop/simd.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The largest of n elements that is no NaN; -inf if there is none.
template <class T>
float Largest(const T* x, std::int64_t n) {
  if (n < kLanes) {
    float best = kMinusInfinity;
    for (std::int64_t i = 0; i < n; ++i) best = float(x[i]) > best ? float(x[i]) : best;
    return best;
  }
  F32 best[4] = {Set(kMinusInfinity), Set(kMinusInfinity), Set(kMinusInfinity),
                 Set(kMinusInfinity)};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int way = 0; way < 4; ++way) best[way] = Max(Load(x + i + way * kLanes), best[way]);
  }
  for (; i + kLanes <= n; i += kLanes) best[0] = Max(Load(x + i), best[0]);
  best[1] = Max(Load(x + n - kLanes), best[1]);  // the tail, some of it twice
  return ReduceMax(Max(Max(best[0], best[1]), Max(best[2], best[3])));
}

// Where `value` first occurs among n elements; n if nowhere.
template <class T>
std::int64_t FindFirst(const T* x, std::int64_t n, float value) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const std::uint32_t equal = Bits(Load(x + i) == Set(value));
    if (equal) return i + std::countr_zero(equal);
  }
  while (i < n && float(x[i]) != value) ++i;
  return i;
}

// The lowest index of the largest element; 0 if all are NaN. One pass: only the block with the
// largest is looked at again, from the first-level cache.
template <class T>
std::int64_t FirstLargest(const T* x, std::int64_t n) {
  constexpr std::int64_t kBlock = 2048;
  float best = kMinusInfinity;
  std::int64_t begin = 0, size = n;
  for (std::int64_t i = 0; i < n; i += kBlock) {
    const std::int64_t count = std::min(kBlock, n - i);
    const float largest = Largest(x + i, count);
    if (largest > best) best = largest, begin = i, size = count;
  }
  const std::int64_t at = FindFirst(x + begin, size, best);
  return at == size ? 0 : begin + at;
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
