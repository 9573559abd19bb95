// SPDX-License-Identifier: Apache-2.0
// Where the largest of many stop: a radix selection over keys, by count or by weight.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include "anyop/simd.h"
#include "ops/common/selection/largest.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// An unsigned number that is larger for a larger x; equal for -0 and +0; 0 for NaN.
[[gnu::always_inline]] inline std::uint32_t OrderedKey(float x) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x + 0.0f);
  const std::uint32_t sign = std::uint32_t(std::int32_t(u) >> 31);
  return x != x ? 0 : u ^ (sign | 0x80000000u);
}
[[gnu::always_inline]] inline float FromOrderedKey(std::uint32_t key) {
  return std::bit_cast<float>(key & 0x80000000u ? key ^ 0x80000000u : ~key);
}

// What the k-th largest is when every element counts 1 (Sum std::int64_t), or, with weights (Sum
// double), the first element, falling, at which the running sum reaches a target.
template <class Sum>
struct Boundary {
  std::uint32_t key;  // of that element
  Sum above;          // the sum over all larger keys, below the target
};

template <class Sum>
class Selection {
 public:
  // n >= 1 keys and, for Sum double, their weights; both are overwritten.
  Selection(std::uint32_t* keys, float* weights, std::int64_t n)
      : keys_(keys), weights_(weights), n_(n) {
    for (std::int64_t i = 0; i < n; ++i) {
      low_ = std::min(low_, keys[i]);
      high_ = std::max(high_, keys[i]);
    }
  }

  // A target that the whole sum does not reach ends at the lowest key. Each round sorts the keys
  // left into up to 1024 bins of equal width, and goes on with the bin that reaches the target.
  Boundary<Sum> Find(Sum target) {
    Sum above = 0;
    while (low_ < high_) {
      const int bits = std::clamp(int(std::bit_width(std::uint64_t(n_))), 4, kMostBits);
      const int shift = std::max(0, int(std::bit_width(high_ - low_)) - bits);
      Fill(shift);
      std::uint32_t bin = (high_ - low_) >> shift;
      while (bin > 0 && above + bins_[bin] < target) above += bins_[bin--];
      Narrow(bin, shift);
    }
    return {low_, above};
  }

 private:
  static constexpr int kMostBits = 10;

  Sum Weight(std::int64_t i) const {
    if constexpr (std::is_same_v<Sum, double>) {
      return double(weights_[i]);
    } else {
      return 1;
    }
  }
  void Fill(int shift) {
    std::fill_n(bins_, ((high_ - low_) >> shift) + 1, Sum{0});
    for (std::int64_t i = 0; i < n_; ++i) bins_[(keys_[i] - low_) >> shift] += Weight(i);
  }
  void Narrow(std::uint32_t bin, int shift) {
    const std::uint32_t first = low_ + (bin << shift);
    std::uint32_t low = ~0u, high = 0;
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < n_; ++i) {
      const std::uint32_t key = keys_[i];
      if ((key - first) >> shift != 0) continue;
      low = std::min(low, key);
      high = std::max(high, key);
      if constexpr (std::is_same_v<Sum, double>) weights_[kept] = weights_[i];
      keys_[kept++] = key;
    }
    n_ = kept;
    low_ = low;
    high_ = high;
  }

  std::uint32_t* keys_;
  float* weights_;
  std::int64_t n_;
  std::uint32_t low_ = ~0u, high_ = 0;
  Sum bins_[1 << kMostBits];
};

// A value that at least k of n elements reach, and few more; -inf if none is found cheaply. Every
// lane of a group of vectors is a set of elements. Of the sets' largest elements, k reach the k-th
// largest one. With this bound top_k takes 74 us for 2,048 of 32,768 elements, not 112.
inline float LowerBoundOfLargest(const float* x, std::int64_t n, std::int64_t k,
                                 std::uint32_t* keys) {
  const std::int64_t group = std::min<std::int64_t>(16, n / (4 * k));
  if (group < 2) return kMinusInfinity;
  const std::int64_t sets = n / (group * kLanes) * kLanes;
  if (sets < k) return kMinusInfinity;
  alignas(64) float largest[kLanes];
  for (std::int64_t i = 0; i < sets; i += kLanes) {
    F32 best = Set(kMinusInfinity);
    const float* const first = x + group * i;
    for (std::int64_t j = 0; j < group; ++j) best = Max(Load(first + j * kLanes), best);
    Store(largest, best);
    for (int lane = 0; lane < kLanes; ++lane) keys[i + lane] = OrderedKey(largest[lane]);
  }
  return FromOrderedKey(Selection<std::int64_t>(keys, nullptr, sets).Find(k).key);
}

// The k-th largest of n elements, 1 <= k <= n, as a key, and how many are larger. keys: n of them,
// overwritten.
inline Boundary<std::int64_t> KthLargest(const float* x, std::int64_t n, std::int64_t k,
                                         std::uint32_t* keys) {
  const float bound = LowerBoundOfLargest(x, n, k, keys);
  std::int64_t kept = 0;
  if (bound == kMinusInfinity) {
    for (; kept < n; ++kept) keys[kept] = OrderedKey(x[kept]);
  } else {
    ForLanes(n, [&](std::int64_t i, auto count) {
      std::uint32_t lanes = Bits(LoadN(x + i, count) >= Set(bound));
      if (count < kLanes) lanes &= (1u << count) - 1;
      for (; lanes; lanes &= lanes - 1) keys[kept++] = OrderedKey(x[i + std::countr_zero(lanes)]);
    });
  }
  return Selection<std::int64_t>(keys, nullptr, kept).Find(k);
}

// Where the k largest of n elements are, 1 <= k <= n, by rising index; of equals at the border the
// first. keys: n of them, overwritten. indices: k of them.
template <class Index>
void TakeLargest(const float* x, std::int64_t n, std::int64_t k, std::uint32_t* keys,
                 Index* indices) {
  const Boundary<std::int64_t> least = KthLargest(x, n, k, keys);
  std::int64_t equals = k - least.above;
  for (std::int64_t i = 0, taken = 0; taken < k; i += kLanes) {
    const int count = int(std::min<std::int64_t>(kLanes, n - i));
    // Key 0 stands for NaN, which no comparison finds: all elements are looked at then, and the
    // first NaN are taken.
    std::uint32_t lanes = (1u << count) - 1;
    if (least.key != 0) lanes &= Bits(LoadN(x + i, count) >= Set(FromOrderedKey(least.key)));
    for (; lanes && taken < k; lanes &= lanes - 1) {
      const std::int64_t j = i + std::countr_zero(lanes);
      if (OrderedKey(x[j]) > least.key || equals-- > 0) indices[taken++] = Index(j);
    }
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
