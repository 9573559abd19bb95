// SPDX-License-Identifier: Apache-2.0
// Functions of lanes that no instruction computes. Included by simd.h only.
//
// They take N vectors through every step together: one chain of 20 dependent operations of 4 cycles
// each keeps a core with two FMA units at an eighth of its rate.
#pragma once

namespace anyop {
inline namespace ANYOP_ISA {
namespace lanes {

// e^r = 1 + r + r^2 q(r) for |r| <= ln(2) / 2: q with the least relative error, highest power
// first.
template <class T>
inline constexpr float kExpQ[] = {0x1.6a23dp-10f, 0x1.123a2p-7f, 0x1.5558f2p-5f,  // 2^-28
                                  0x1.555492p-3f, 0x1.fffffcp-2f};
template <>
inline constexpr float kExpQ<F16>[] = {0x1.10625p-7f, 0x1.572a64p-5f,  // 2^-23
                                       0x1.5557bp-3f, 0x1.fffdfcp-2f};
template <>
inline constexpr float kExpQ<BF16>[] = {0x1.5224eap-5f, 0x1.571d1ep-3f, 0x1.0006b8p-1f};  // 2^-17

template <int N, class F>
ANYOP_LANE_FN void Each(F&& f) {
#pragma GCC unroll 8
  for (int k = 0; k < N; ++k) f(k);
}

}  // namespace lanes

// x[k] = e^x[k] = 2^n e^r, r = x - n ln 2. ln 2 comes in two parts, the first of 15 bits, so that
// n * ln 2 is exact without FMA too. T says what the result is for: of bf16 or f16, where one
// rounding hides errors of 2^-16 and 2^-19, or f32: 1 ulp.
template <class T = float, int N>
ANYOP_LANE_FN void ExpAll(F32 (&x)[N]) {
  F32 n[N], p[N];
  if constexpr (!kScaleSaturates) {
    // NaN is the second operand, and stays.
    lanes::Each<N>([&](int k) { x[k] = Max(Set(-104.0f), Min(Set(89.0f), x[k])); });
  }
  lanes::Each<N>([&](int k) { n[k] = Round(x[k] * Set(0x1.715476p0f)); });
  if constexpr (std::is_same_v<T, float>) {
    lanes::Each<N>([&](int k) { x[k] = Fma(n[k], Set(-0x1.62e4p-1f), x[k]); });
    lanes::Each<N>([&](int k) { x[k] = Fma(n[k], Set(-0x1.7f7d1cp-20f), x[k]); });
  } else {
    lanes::Each<N>([&](int k) { x[k] = Fma(n[k], Set(-0x1.62e43p-1f), x[k]); });
  }
  if constexpr (kScaleSaturates) {
    // Huge and infinite x leave a useless r, but n alone gives 0, infinity or NaN.
    lanes::Each<N>([&](int k) { x[k] = LimitAbs(x[k], Set(0.35f)); });
  }
  constexpr auto& q = lanes::kExpQ<T>;
  lanes::Each<N>([&](int k) { p[k] = Fma(Set(q[0]), x[k], Set(q[1])); });
  for (std::size_t i = 2; i < std::size(q); ++i) {
    lanes::Each<N>([&](int k) { p[k] = Fma(p[k], x[k], Set(q[i])); });
  }
  lanes::Each<N>([&](int k) { p[k] = Fma(x[k] * x[k], p[k], x[k]) + Set(1.0f); });
  lanes::Each<N>([&](int k) { x[k] = ScaleByPowerOf2(p[k], n[k]); });
}

// x[k] = 1 / (1 + e^-x[k]); f32: 3 ulp, below 2^-126 that much absolutely. Exactly 0 at -inf.
template <class T = float, int N>
ANYOP_LANE_FN void SigmoidAll(F32 (&x)[N]) {
  lanes::Each<N>([&](int k) { x[k] = Zero() - x[k]; });
  ExpAll<T>(x);
  lanes::Each<N>([&](int k) { x[k] = Reciprocal(x[k] + Set(1.0f)); });
}

ANYOP_LANE_FN F32 Exp(F32 x) {
  F32 v[1] = {x};
  ExpAll(v);
  return v[0];
}
ANYOP_LANE_FN F32 Sigmoid(F32 x) {
  F32 v[1] = {x};
  SigmoidAll(v);
  return v[0];
}

}  // namespace ANYOP_ISA
}  // namespace anyop
