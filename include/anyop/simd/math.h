// SPDX-License-Identifier: Apache-2.0
// Functions of lanes that no instruction computes. Included by simd.h only.
//
// They take N vectors through every step together: one chain of 20 dependent operations of 4 cycles
// each keeps a core with two FMA units at an eighth of its rate (a gated activation of 28,672
// f32: 4.9 us with one vector at a time, 4.0 with several).
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

// ln 2 in two parts, the first a multiple of 2^-15: its products with whole n are exact.
inline constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f, kLog2E = 0x1.715476p0f;

namespace lanes {

// r[k] = 2^n[k] e^r[k] for |r| <= ln(2) / 2 and whole n.
template <class T, int N>
ANYOP_LANE_FN void ExpOfParts(F32 (&r)[N], const F32 (&n)[N]) {
  F32 p[N];
  if constexpr (kScaleSaturates) {
    // Huge and infinite x leave a useless r, but n alone gives 0, infinity or NaN.
    Each<N>([&](int k) { r[k] = LimitAbs(r[k], Set(0.35f)); });
  }
  constexpr auto& q = kExpQ<T>;
  Each<N>([&](int k) { p[k] = Fma(Set(q[0]), r[k], Set(q[1])); });
  for (std::size_t i = 2; i < std::size(q); ++i) {
    Each<N>([&](int k) { p[k] = Fma(p[k], r[k], Set(q[i])); });
  }
  Each<N>([&](int k) { p[k] = Fma(r[k] * r[k], p[k], r[k]) + Set(1.0f); });
  Each<N>([&](int k) { r[k] = ScaleByPowerOf2(p[k], n[k]); });
}

}  // namespace lanes

// x[k] = e^x[k] = 2^n e^r, r = x - n ln 2. T: the dtype that the result is rounded to. For bf16 and
// f16 that rounding hides errors of 2^-16 and 2^-19, so that fewer terms do; f32: 1 ulp. The result
// is times 2^kShift: without it, softmax would round a subnormal here and again when it divides.
template <class T = float, int kShift = 0, int N>
ANYOP_LANE_FN void ExpAll(F32 (&x)[N]) {
  F32 n[N];
  if constexpr (!kScaleSaturates) {
    // Beyond these limits e^x is 0 or infinity. NaN is the second operand, and stays.
    lanes::Each<N>([&](int k) { x[k] = Max(Set(-104.0f), Min(Set(89.0f), x[k])); });
  }
  lanes::Each<N>([&](int k) { n[k] = Round(x[k] * Set(kLog2E)); });
  if constexpr (std::is_same_v<T, float>) {
    lanes::Each<N>([&](int k) { x[k] = Fma(n[k], Set(-kLn2High), x[k]); });
    lanes::Each<N>([&](int k) { x[k] = Fma(n[k], Set(-kLn2Low), x[k]); });
  } else {
    lanes::Each<N>([&](int k) { x[k] = Fma(n[k], Set(-0x1.62e43p-1f), x[k]); });
  }
  if constexpr (kShift != 0) lanes::Each<N>([&](int k) { n[k] = n[k] + Set(float(kShift)); });
  lanes::ExpOfParts<T>(x, n);
}

// x[k] = e^(scale * x[k] - m), times 2^kShift, within 1 ulp of f32 for scale * x <= m, with m a
// multiple of 2^-15, |m| <= 256. Rounding the difference d would cost |d| / 2 ulp; m + n ln 2 is
// exact instead.
template <int kShift = 0, int N>
ANYOP_LANE_FN void ExpBelowAll(F32 (&x)[N], F32 scale, F32 m) {
  F32 n[N], r[N];
  const F32 scale2 = scale * Set(kLog2E), minus_m2 = Zero() - m * Set(kLog2E);
  lanes::Each<N>([&](int k) { n[k] = Round(Fma(x[k], scale2, minus_m2)); });
  if constexpr (!kScaleSaturates) {
    // 2^-151 e^r rounds to 0 in f32 for every r that ExpOfParts takes.
    lanes::Each<N>([&](int k) { n[k] = Max(Set(-151.0f), n[k]); });
  }
  lanes::Each<N>([&](int k) { r[k] = Fma(n[k], Set(kLn2High), m); });
  lanes::Each<N>([&](int k) { x[k] = FmaExact(x[k], scale, Zero() - r[k]); });
  lanes::Each<N>([&](int k) { x[k] = Fma(n[k], Set(-kLn2Low), x[k]); });
  if constexpr (!kScaleSaturates) {
    // Where n was raised, r is far below its range: any r within does, as 2^n e^r rounds to 0.
    lanes::Each<N>([&](int k) { x[k] = Max(Set(-0.35f), x[k]); });
  }
  if constexpr (kShift != 0) lanes::Each<N>([&](int k) { n[k] = n[k] + Set(float(kShift)); });
  lanes::ExpOfParts<float>(x, n);
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
