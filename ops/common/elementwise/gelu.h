// SPDX-License-Identifier: Apache-2.0
// The Gaussian error linear unit and its derivative, in f32 lanes.
#pragma once
#include <string_view>

#include "ops/common/elementwise/activation.h"
#include "ops/common/elementwise/sigmoid_and_rest.h"

namespace anyop::ops {
enum class Gelu { kErf, kTanh, kQuick };

inline namespace ANYOP_ISA {

[[gnu::always_inline]] inline Gelu ParseGelu(std::string_view word) {
  if (word == "tanh") return Gelu::kTanh;
  return word == "quick" ? Gelu::kQuick : Gelu::kErf;
}

// Beyond 100 the derivatives are 1.
[[gnu::always_inline]] inline F32 AtMost100(F32 x) { return Min(Set(100.0f), AtLeastMinus100(x)); }

// v[k] = gelu(v[k]). T: what the result is rounded to.
template <Gelu kKind, class T, int N>
[[gnu::always_inline]] inline void GeluAll(F32 (&v)[N]) {
  if constexpr (kKind == Gelu::kErf) {
    for (int k = 0; k < N; ++k) v[k] = Activate<Activation::kGelu>(v[k]);
    return;
  }
  // 0.5 (1 + tanh(z)) = sigmoid(2 z), and 1.5957691 is 2 sqrt(2 / pi).
  F32 x[N];
  for (int k = 0; k < N; ++k) x[k] = AtLeastMinus100(v[k]);
  for (int k = 0; k < N; ++k) {
    const F32 z = Set(1.5957691f) * Fma(Set(0.044715f) * x[k] * x[k], x[k], x[k]);
    v[k] = kKind == Gelu::kTanh ? z : Set(1.702f) * x[k];
  }
  SigmoidAll<T>(v);
  for (int k = 0; k < N; ++k) v[k] = v[k] * x[k];
}

// v[k] = gelu'(v[k]).
template <Gelu kKind, class T, int N>
[[gnu::always_inline]] inline void GeluDerivativeAll(F32 (&v)[N]) {
  F32 x[N], s[N], rest[N];
  for (int k = 0; k < N; ++k) x[k] = AtMost100(v[k]);
  if constexpr (kKind == Gelu::kErf) {
    for (int k = 0; k < N; ++k) {
      const F32 density = Set(0.39894228f) * Exp(Set(-0.5f) * x[k] * x[k]);
      v[k] = Fma(x[k], density, Set(0.5f) * OnePlusErf(x[k]));
    }
    return;
  }
  F32 z[N];
  if constexpr (kKind == Gelu::kTanh) {
    for (int k = 0; k < N; ++k) {
      z[k] = Set(1.5957691f) * Fma(Set(0.044715f) * x[k] * x[k], x[k], x[k]);
    }
    SigmoidAndRest<T>(z, s, rest);
    for (int k = 0; k < N; ++k) {
      // The derivative of z; 0.134145 is 3 * 0.044715.
      const F32 slope = Set(1.5957691f) * Fma(Set(0.134145f) * x[k], x[k], Set(1.0f));
      v[k] = Fma(x[k] * s[k] * rest[k], slope, s[k]);
    }
    return;
  }
  // Far below 0, what rounding z loses would cost sigma(z) |z| / 2 ulp: it is added again.
  constexpr float kFactor = 1.702f, kFactorRest = float(1.702 - double(kFactor));
  for (int k = 0; k < N; ++k) z[k] = Set(kFactor) * x[k];
  SigmoidAndRest<T>(z, s, rest);
  for (int k = 0; k < N; ++k) {
    const F32 lost = Fma(Set(kFactorRest), x[k], FmaExact(Set(kFactor), x[k], Zero() - z[k]));
    const F32 more = s[k] * rest[k] * lost;
    v[k] = Fma(z[k] * (rest[k] - more), s[k] + more, s[k] + more);
  }
}

// Calls f with the kind as a constant.
template <class F>
[[gnu::always_inline]] inline void VisitGelu(Gelu kind, F&& f) {
  switch (kind) {
    case Gelu::kErf:
      return f(std::integral_constant<Gelu, Gelu::kErf>{});
    case Gelu::kTanh:
      return f(std::integral_constant<Gelu, Gelu::kTanh>{});
    case Gelu::kQuick:
      return f(std::integral_constant<Gelu, Gelu::kQuick>{});
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
