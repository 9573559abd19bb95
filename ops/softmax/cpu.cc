// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/common/elementwise/elementwise.h"

namespace anyop::ops {
namespace {

constexpr std::int64_t kHeld = 2048;   // exponentials that are kept; others are recomputed
constexpr int kGroup = 4;              // rows at a time, where they are short
constexpr std::int64_t kChunk = 1024;  // elements whose sum is made before it is added to others
// Exponentials of f32 are kept times 2^64: only the result is rounded as a subnormal.
constexpr int kShift = 64;

// The sum of a row's exponentials. A sum of equal ones is rounded in the same direction again and
// again: 1e-5 of 49,152 in one chain of additions, at most 1e-7 in chunks.
class Total {
 public:
  // i: the first element's place.
  template <int N, class Count>
  void Add(const F32 (&e)[N], std::int64_t i, Count count) {
    if (i % kChunk == 0) Close();
    for (int k = 0; k < N; ++k) chunk_[k] += KeepFirst(e[k], count, Zero());
  }
  float Sum() {
    Close();
    return ReduceAdd((all_[0] + all_[1]) + (all_[2] + all_[3]));
  }

 private:
  void Close() {
    for (int k = 0; k < 4; ++k) {
      all_[k] += chunk_[k];
      chunk_[k] = Zero();
    }
  }
  F32 chunk_[4] = {Zero(), Zero(), Zero(), Zero()}, all_[4] = {Zero(), Zero(), Zero(), Zero()};
};

template <class T>
class Row {
 public:
  // x: [d]. Exponentials are relative to the largest product, or next to it. NaN need not be found:
  // it reaches the sum.
  void Start(const T* x, std::int64_t d, float scale) {
    x_ = x;
    scale_ = Set(scale);
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const auto min = [](F32 a, F32 b) { return Min(a, b); };
    const auto max = [](F32 a, F32 b) { return Max(a, b); };
    const float extreme = scale < 0 ? ReduceMin(Extreme(d, Set(kInfinity), min))
                                    : ReduceMax(Extreme(d, Set(-kInfinity), max));
    float m = scale * extreme;
    is_large_ = !(m > -0x1p24f && m < 0x1p24f);  // NaN, too
    if (is_large_) m = 0;
    extreme_ = Set(extreme);
    is_small_ = !is_large_ && m > -255 && m < 255;
    if (is_small_) m = std::ceil(m * 0x1p15f) * 0x1p-15f;
    maximum_ = Set(m);
  }
  template <int N, class Count>
  void Exponentials(F32 (&e)[N], std::int64_t i, Count count) const {
    LoadBlock(e, x_ + i, count);
    // The largest product may be infinite, and its rounding alone more than 110. Where e^t is not
    // 0, the two elements are so near to each other that their difference is exact.
    if (is_large_) {
      for (int k = 0; k < N; ++k) e[k] = e[k] - extreme_;
    }
    if constexpr (!std::is_same_v<T, float>) {
      for (int k = 0; k < N; ++k) e[k] = FmaExact(e[k], scale_, Zero() - maximum_);
      ExpAll<T>(e);
    } else if (is_small_) {
      ExpBelowAll<kShift>(e, scale_, maximum_);
    } else {
      Compensated(e);
    }
  }

 private:
  // Multiplies e^t, t = fl(scale * x - m), by 1 + what the rounding of t lost; |m| > |t| where e^t
  // is not 0, or m is 0.
  template <int N>
  void Compensated(F32 (&e)[N]) const {
    for (int k = 0; k < N; ++k) {
      const F32 x = e[k], t = FmaExact(x, scale_, Zero() - maximum_), z = t + maximum_;
      const F32 lost = FmaExact(x, scale_, Zero() - z) + ((z - maximum_) - t);
      F32 exp[1] = {t};
      ExpAll<float, kShift>(exp);
      e[k] = Select(t < Set(-110.0f), Zero(), Fma(exp[0], lost, exp[0]));
    }
  }
  template <class F>
  F32 Extreme(std::int64_t d, F32 start, F more) const {
    F32 m[4] = {start, start, start, start};
    ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
      F32 v[block];
      LoadBlock(v, x_ + i, count);
      for (int k = 0; k < block; ++k) m[k] = more(m[k], KeepFirst(v[k], count, start));
    });
    return more(more(m[0], m[1]), more(m[2], m[3]));
  }

  const T* x_;
  F32 scale_, maximum_, extreme_;
  bool is_small_ = true, is_large_ = false;
};

// x, y: rows of [d]; several only where kRows * d <= kHeld. What one row waits for (a reduction, a
// division) is done for all before any goes on. Exponentials are kept in the order of lanes of a
// block. y may be x: it is written only after the last read of the same element.
template <int kRows, class T>
void SoftmaxRows(const T* const (&x)[kRows], T* const (&y)[kRows], std::int64_t d, float scale) {
  constexpr bool kHoldInResult = std::is_same_v<T, float>;
  alignas(64) float buffer[kHoldInResult ? 1 : kHeld];
  const std::int64_t held = kHoldInResult ? d : std::min(d, kHeld / kRows);
  Row<T> rows[kRows];
  float* kept[kRows];
  float total[kRows];
  for (int r = 0; r < kRows; ++r) {
    rows[r].Start(x[r], d, scale);
    kept[r] = buffer + r * held;
    if constexpr (kHoldInResult) kept[r] = y[r];
  }
  for (int r = 0; r < kRows; ++r) {
    const Row<T>& row = rows[r];
    Total sum;
    ForBlocks<4>(held, [&](std::int64_t i, auto count, auto block) {
      F32 e[block];
      row.Exponentials(e, i, count);
      StoreAll(kept[r] + i, e, count);
      sum.Add(e, i, count);
    });
    ForBlocks<4>(d - held, [&](std::int64_t i, auto count, auto block) {
      F32 e[block];
      row.Exponentials(e, held + i, count);
      sum.Add(e, i, count);
    });
    total[r] = sum.Sum();
  }
  for (int r = 0; r < kRows; ++r) {
    const F32 inverse = Set(1 / total[r]);
    ForBlocks<4>(held, [&](std::int64_t i, auto count, auto block) {
      F32 e[block];
      LoadAll(e, kept[r] + i, count);
      for (int k = 0; k < block; ++k) e[k] *= inverse;
      StoreBlock(y[r] + i, e, count);
    });
    ForBlocks<4>(d - held, [&](std::int64_t i, auto count, auto block) {
      F32 e[block];
      rows[r].Exponentials(e, held + i, count);
      for (int k = 0; k < block; ++k) e[k] *= inverse;
      StoreBlock(y[r] + held + i, e, count);
    });
  }
}

void Run(const Context& ctx, const Tensor& x, float scale, const Tensor& y) {
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t d = x.row_size();
    ForRowGroups<kGroup>(ctx, x, kGroup * d <= kHeld, 0.25, [&](std::int64_t first, auto count) {
      const T* from[count];
      T* to[count];
      for (int r = 0; r < count; ++r) {
        from[r] = x.row<const T>(first + r).data();
        to[r] = y.row<T>(first + r).data();
      }
      SoftmaxRows<count, T>(from, to, d, scale);
    });
  });
}

// dy, y, dx: [d]; dx may be dy.
template <class T>
void SoftmaxBackwardRow(const T* dy, const T* y, T* dx, std::int64_t d, F32 scale) {
  F32 sum[4] = {Zero(), Zero(), Zero(), Zero()};
  ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
    F32 g[block], p[block];
    LoadBlock(g, dy + i, count);
    LoadBlock(p, y + i, count);
    for (int k = 0; k < block; ++k) sum[k] = Fma(g[k], p[k], sum[k]);
  });
  const F32 mean = Set(ReduceAdd((sum[0] + sum[1]) + (sum[2] + sum[3])));
  ForBlocks<4>(d, [&](std::int64_t i, auto count, auto block) {
    F32 g[block], p[block];
    LoadBlock(g, dy + i, count);
    LoadBlock(p, y + i, count);
    for (int k = 0; k < block; ++k) g[k] = scale * p[k] * (g[k] - mean);
    StoreBlock(dx + i, g, count);
  });
}

void RunBackward(const Context& ctx, const Tensor& dy, const Tensor& y, float scale,
                 const Tensor* dx) {
  if (!dx) return;
  VisitFloat(y.type(), [&](auto zero) {
    using T = decltype(zero);
    ctx.ForRows(
        y,
        [&](std::int64_t r) {
          SoftmaxBackwardRow(dy.row<const T>(r).data(), y.row<const T>(r).data(),
                             dx->row<T>(r).data(), y.row_size(), Set(scale));
        },
        0.1);
  });
}

}  // namespace

ANYOP_KERNEL(softmax){.run = Bind<&Run>()};
ANYOP_KERNEL(softmax_backward){.run = Bind<&RunBackward>()};

}  // namespace anyop::ops
