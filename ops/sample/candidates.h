// SPDX-License-Identifier: Apache-2.0
// The tokens of one row that may still be drawn, in rising order of their number.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include "anyop/simd.h"
#include "ops/common/selection/largest.h"
#include "ops/common/selection/selection.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Arrays for the rows of v logits that run at once, each with a vector's room behind a row.
template <class N>
struct CandidatesWorkspace : Workspace<N> {
  N row;                                     // elements
  Part<float, N> logit, weight, key_weight;  // [rows][row]
  Part<std::int32_t, N> token;
  Part<std::uint32_t, N> key;
  constexpr CandidatesWorkspace(N rows, N v)
      : row(v + N(16)),
        logit(this->template Add<float>(rows * row)),
        weight(this->template Add<float>(rows * row)),
        key_weight(this->template Add<float>(rows * row)),
        token(this->template Add<std::int32_t>(rows * row)),
        key(this->template Add<std::uint32_t>(rows * row)) {}
};

class Candidates {
 public:
  // In the memory of row `row` of those that run at once.
  Candidates(const Placed& placed, const CandidatesWorkspace<std::int64_t>& parts, std::int64_t row,
             std::int64_t v)
      : logit_(placed[parts.logit] + row * parts.row),
        weight_(placed[parts.weight] + row * parts.row),
        token_(placed[parts.token] + row * parts.row),
        key_(placed[parts.key] + row * parts.row),
        key_weight_(placed[parts.key_weight] + row * parts.row),
        n_(v) {}

  // Takes logits / temperature, NaN as -inf; false if there is none above -inf.
  template <class T>
  bool Load(const T* logits, float temperature) {
    const F32 divisor = Set(temperature), least = Set(kMinusInfinity);
    ForLanes(n_, [&](std::int64_t i, auto n) {
      const F32 x = LoadN(logits + i, n);
      StoreN(logit_ + i, Max(temperature == 1 ? x : x / divisor, least), n);
    });
    largest_ = Largest(logit_, n_);
    return largest_ > kMinusInfinity;
  }

  float largest() const { return largest_; }

  // Keeps weights of at least min_p (of the largest, which is 1) among the top_k largest logits and
  // their equals; 0 < top_k < v, or 0 for all. Weight 0 goes: it is never drawn.
  void Weigh(std::int64_t top_k, float min_p) {
    const F32 limit = Set(top_k > 0 ? LeastOfTopK(top_k) : kMinusInfinity);
    const F32 least = Set(std::min(min_p, 1.0f));
    const std::int64_t total = n_;
    n_ = 0;
    ForLanes(total, [&](std::int64_t i, auto n) {
      const F32 x = LoadN(logit_ + i, n);
      const std::uint32_t in_row = n >= kLanes ? ~0u : (1u << n) - 1;
      if ((Bits(x >= limit) & in_row) == 0) return;
      const F32 w = Weight(x);
      Append(Bits((x >= limit) & (w > Zero()) & (w >= least)) & in_row, i, x, w);
    });
  }

  // Keeps the largest whose sum of weights, before each, is below top_p of the whole; at least one.
  void KeepTopP(double top_p) {
    const double whole = Sum(0, n_), target = top_p * whole;
    const Boundary<double> boundary = FindBoundary(target, (1 - top_p) * whole / double(n_));
    const float limit = FromOrderedKey(boundary.key);
    double before = boundary.above;
    std::int64_t kept = 0;
    bool takes_equals = true;  // the first of the largest stays whatever the target
    for (std::int64_t i = 0; i < n_; ++i) {
      if (logit_[i] < limit || (logit_[i] == limit && !takes_equals)) continue;
      if (logit_[i] == limit) {
        before += weight_[i];
        takes_equals = before < target;
      }
      token_[kept] = token_[i];
      weight_[kept++] = weight_[i];
    }
    n_ = kept;
  }

  // The first token at which the running sum of weights exceeds u of the whole; 0 <= u < 1.
  std::int64_t DrawUniform(double u) const {
    double whole = 0;
    for (std::int64_t i = 0; i < n_; i += kBlock) whole += Sum(i, std::min(n_, i + kBlock));
    const double target = u * whole;
    double before = 0;
    for (std::int64_t i = 0; i < n_; i += kBlock) {
      const std::int64_t end = std::min(n_, i + kBlock);
      const double after = before + Sum(i, end);
      for (std::int64_t j = i; j < end && after > target; ++j) {
        before += weight_[j];
        if (before > target) return token_[j];
      }
      before = after;
    }
    return token_[n_ - 1];
  }

  // The token with the largest weight / noise, the lower of equals; noise has one entry per token.
  std::int64_t DrawExponential(const float* noise) const {
    double best = -1;
    std::int64_t token = 0;
    for (std::int64_t i = 0; i < n_; ++i) {
      const double q = noise[token_[i]];
      const double score = weight_[i] / (q > 0 ? q : kLeastNoise);
      if (score > best) best = score, token = token_[i];
    }
    return token;
  }

 private:
  static constexpr std::int64_t kBlock = 256;
  static constexpr double kLeastNoise = 0x1p-149;  // the smallest positive f32
  static constexpr float kInfinity = -kMinusInfinity;

  float LeastOfTopK(std::int64_t k) { return FromOrderedKey(KthLargest(logit_, n_, k, key_).key); }

  // exp(x - largest): the rounding error of the difference, which may be many ulp of the result,
  // comes back as a factor. NaN for x = -inf; infinite logits weigh the same, the others nothing.
  F32 Weight(F32 x) const {
    const F32 m = Set(largest_);
    if (largest_ == kInfinity) return Select(x == m, Set(1), Zero());
    const F32 d = x - m, back = d - x;
    const F32 error = (x - (d - back)) - (m + back);
    const F32 w = Exp(d);
    return Fma(w, error, w);
  }

  void Append(std::uint32_t lanes, std::int64_t first, F32 x, F32 w) {
    if (lanes == (1u << kLanes) - 1) {
      Store(logit_ + n_, x);
      Store(weight_ + n_, w);
      for (int lane = 0; lane < kLanes; ++lane) token_[n_ + lane] = std::int32_t(first) + lane;
      n_ += kLanes;
      return;
    }
    alignas(64) float logits[kLanes], weights[kLanes];
    Store(logits, x);
    Store(weights, w);
    for (; lanes; lanes &= lanes - 1, ++n_) {
      const int lane = std::countr_zero(lanes);
      logit_[n_] = logits[lane];
      weight_[n_] = weights[lane];
      token_[n_] = std::int32_t(first) + lane;
    }
  }

  // Candidates of at most `least` need not be looked at: all of them together weigh less than what
  // the target leaves out.
  Boundary<double> FindBoundary(double target, double least) {
    std::int64_t n = 0;
    for (std::int64_t i = 0; i < n_; ++i) {
      key_[n] = OrderedKey(logit_[i]);
      key_weight_[n] = weight_[i];
      n += weight_[i] > least * 0.999 ? 1 : 0;
    }
    return Selection<double>(key_, key_weight_, n).Find(target);
  }

  double Sum(std::int64_t begin, std::int64_t end) const {
    constexpr int kWays = 16;
    double sums[kWays] = {};
    for (; begin + kWays <= end; begin += kWays) {
      for (int way = 0; way < kWays; ++way) sums[way] += weight_[begin + way];
    }
    for (; begin < end; ++begin) sums[0] += weight_[begin];
    for (int way = 1; way < kWays; ++way) sums[0] += sums[way];
    return sums[0];
  }

  float* logit_;
  float* weight_;
  std::int32_t* token_;
  std::uint32_t* key_;
  float* key_weight_;
  float largest_ = kMinusInfinity;
  std::int64_t n_;
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
