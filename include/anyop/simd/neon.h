// SPDX-License-Identifier: Apache-2.0
// The lanes of simd.h on 64-bit Arm: Advanced SIMD as every such machine has it, little-endian.
// Included by simd.h only.
#pragma once
#include <arm_neon.h>

namespace anyop {
inline namespace ANYOP_ISA {

inline constexpr int kLanes = 4;
struct F32 {
  float32x4_t v;
};
struct Mask {
  uint32x4_t m;
};

namespace lanes {
// As portable.h names them, for code that is written with the compiler's own vectors.
using V = float32x4_t;
using U = uint32x4_t;
using I = int32x4_t;

ANYOP_LANE_FN uint32x4_t Bits(float32x4_t v) { return vreinterpretq_u32_f32(v); }
ANYOP_LANE_FN float32x4_t Value(uint32x4_t u) { return vreinterpretq_f32_u32(u); }

ANYOP_LANE_FN F32 FromBits(uint16x4_t h, BF16) { return {Value(vshll_n_u16(h, 16))}; }
ANYOP_LANE_FN F32 FromBits(uint16x4_t h, F16) { return {vcvt_f32_f16(vreinterpret_f16_u16(h))}; }
// The upper half of each lane becomes v rounded half to even; the lower half is left as it comes.
ANYOP_LANE_FN uint32x4_t RoundBF16(float32x4_t v) {
  const uint32x4_t u = Bits(v);
  const uint32x4_t lsb = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
  const uint32x4_t r = vaddq_u32(vaddq_u32(u, vdupq_n_u32(0x7fff)), lsb);
  return vbslq_u32(vceqq_f32(v, v), r, vorrq_u32(u, vdupq_n_u32(0x400000)));  // NaN: quiet
}
ANYOP_LANE_FN uint16x4_t ToBits(F32 a, BF16) { return vshrn_n_u32(RoundBF16(a.v), 16); }
ANYOP_LANE_FN uint16x4_t ToBits(F32 a, F16) { return vreinterpret_u16_f16(vcvt_f16_f32(a.v)); }

// The first n < 4 elements, by the binary digits of n.
ANYOP_LANE_FN float32x4_t LoadFirst(const float* p, int n) {
  const float32x4_t zero = vdupq_n_f32(0);
  if (!(n & 2)) return n & 1 ? vld1q_lane_f32(p, zero, 0) : zero;
  const float32x4_t two = vcombine_f32(vld1_f32(p), vdup_n_f32(0));
  return n & 1 ? vld1q_lane_f32(p + 2, two, 2) : two;
}
ANYOP_LANE_FN void StoreFirst(float* p, float32x4_t v, int n) {
  if (n & 2)
    vst1_f32(p, vget_low_f32(v)), p += 2, v = vcombine_f32(vget_high_f32(v), vdup_n_f32(0));
  if (n & 1) vst1q_lane_f32(p, v, 0);
}
template <class T>
ANYOP_LANE_FN uint16x4_t LoadFirst16(const T* p, int n) {
  std::uint64_t bits = 0;
  std::uint32_t two;
  if (n & 1) bits = p[n & 2].bits;
  if (n & 2) std::memcpy(&two, p, sizeof two), bits = bits << 32 | two;
  return vcreate_u16(bits);
}
template <class T>
ANYOP_LANE_FN void StoreFirst16(T* p, uint16x4_t h, int n) {
  std::uint64_t bits = vget_lane_u64(vreinterpret_u64_u16(h), 0);
  const std::uint32_t two = std::uint32_t(bits);
  if (n & 2) std::memcpy(p, &two, sizeof two), p += 2, bits >>= 32;
  if (n & 1) p->bits = std::uint16_t(bits);
}
}  // namespace lanes

ANYOP_LANE_FN F32 Set(float s) { return {vdupq_n_f32(s)}; }
ANYOP_LANE_FN F32 Zero() { return {vdupq_n_f32(0)}; }

ANYOP_LANE_FN F32 Load(const float* p) { return {vld1q_f32(p)}; }
ANYOP_LANE_FN void Store(float* p, F32 a) { vst1q_f32(p, a.v); }
template <class T>
ANYOP_LANE_FN F32 Load(const T* p) {
  return lanes::FromBits(vld1_u16(&p->bits), T{});
}
template <class T>
ANYOP_LANE_FN void Store(T* p, F32 a) {
  vst1_u16(&p->bits, lanes::ToBits(a, T{}));
}
template <class T>
ANYOP_LANE_FN F32 LoadN(const T* p, int n) {
  if (n >= kLanes) return Load(p);
  if constexpr (std::is_same_v<T, float>) {
    return {lanes::LoadFirst(p, n)};
  } else {
    return lanes::FromBits(lanes::LoadFirst16(p, n), T{});
  }
}
template <class T>
ANYOP_LANE_FN void StoreN(T* p, F32 a, int n) {
  if (n >= kLanes) return Store(p, a);
  if constexpr (std::is_same_v<T, float>) {
    lanes::StoreFirst(p, a.v, n);
  } else {
    lanes::StoreFirst16(p, lanes::ToBits(a, T{}), n);
  }
}

ANYOP_LANE_FN void LoadEvenOdd(const BF16* p, F32& even, F32& odd) {
  const uint32x4_t u = vreinterpretq_u32_u16(vld1q_u16(&p->bits));
  even.v = lanes::Value(vshlq_n_u32(u, 16));
  odd.v = lanes::Value(vandq_u32(u, vdupq_n_u32(0xffff0000)));
}
ANYOP_LANE_FN void StoreEvenOdd(BF16* p, F32 even, F32 odd) {
  // The upper half of even goes below that of odd.
  const uint32x4_t u = vsriq_n_u32(lanes::RoundBF16(odd.v), lanes::RoundBF16(even.v), 16);
  vst1q_u16(&p->bits, vreinterpretq_u16_u32(u));
}

ANYOP_LANE_FN F32 operator+(F32 a, F32 b) { return {vaddq_f32(a.v, b.v)}; }
ANYOP_LANE_FN F32 operator-(F32 a, F32 b) { return {vsubq_f32(a.v, b.v)}; }
ANYOP_LANE_FN F32 operator*(F32 a, F32 b) { return {vmulq_f32(a.v, b.v)}; }
ANYOP_LANE_FN F32 operator/(F32 a, F32 b) { return {vdivq_f32(a.v, b.v)}; }
ANYOP_LANE_FN Mask operator<(F32 a, F32 b) { return {vcltq_f32(a.v, b.v)}; }
ANYOP_LANE_FN Mask operator<=(F32 a, F32 b) { return {vcleq_f32(a.v, b.v)}; }
ANYOP_LANE_FN Mask operator>(F32 a, F32 b) { return b < a; }
ANYOP_LANE_FN Mask operator>=(F32 a, F32 b) { return b <= a; }
ANYOP_LANE_FN Mask operator==(F32 a, F32 b) { return {vceqq_f32(a.v, b.v)}; }
ANYOP_LANE_FN Mask operator!=(F32 a, F32 b) { return {vmvnq_u32(vceqq_f32(a.v, b.v))}; }
ANYOP_LANE_FN Mask operator&(Mask a, Mask b) { return {vandq_u32(a.m, b.m)}; }
ANYOP_LANE_FN Mask operator|(Mask a, Mask b) { return {vorrq_u32(a.m, b.m)}; }
ANYOP_LANE_FN std::uint32_t Bits(Mask m) {
  return vaddvq_u32(vandq_u32(m.m, uint32x4_t{1, 2, 4, 8}));
}
ANYOP_LANE_FN Mask FirstLanes(int n) { return {vcltq_s32(int32x4_t{0, 1, 2, 3}, vdupq_n_s32(n))}; }
ANYOP_LANE_FN Mask IsNan(F32 a) { return a != a; }
ANYOP_LANE_FN F32 Select(Mask m, F32 a, F32 b) { return {vbslq_f32(m.m, a.v, b.v)}; }

ANYOP_LANE_FN F32 Fma(F32 a, F32 b, F32 c) { return {vfmaq_f32(c.v, a.v, b.v)}; }
ANYOP_LANE_FN F32 FmaExact(F32 a, F32 b, F32 c) { return Fma(a, b, c); }
// fmax would give NaN where either is.
ANYOP_LANE_FN F32 Max(F32 a, F32 b) { return Select(a > b, a, b); }
ANYOP_LANE_FN F32 Min(F32 a, F32 b) { return Select(a < b, a, b); }
ANYOP_LANE_FN F32 Abs(F32 a) { return {vabsq_f32(a.v)}; }
ANYOP_LANE_FN F32 Sqrt(F32 a) { return {vsqrtq_f32(a.v)}; }
ANYOP_LANE_FN F32 Round(F32 a) { return {vrndnq_f32(a.v)}; }
ANYOP_LANE_FN F32 Reciprocal(F32 a) { return Set(1.0f) / a; }
inline constexpr bool kScaleSaturates = false;
// In two steps: 2^n itself may lie outside the normal range. The first is exact.
ANYOP_LANE_FN F32 ScaleByPowerOf2(F32 a, F32 n) {
  const int32x4_t i = vcvtq_s32_f32(n.v), half = vshrq_n_s32(i, 1);
  const auto power = [](int32x4_t e) __attribute__((always_inline)) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(e, vdupq_n_s32(127)), 23));
  };
  return {vmulq_f32(vmulq_f32(a.v, power(half)), power(vsubq_s32(i, half)))};
}

ANYOP_LANE_FN float ReduceAdd(F32 a) { return vaddvq_f32(a.v); }
ANYOP_LANE_FN float ReduceMax(F32 a) { return vmaxnmvq_f32(a.v); }
ANYOP_LANE_FN float ReduceMin(F32 a) { return vminnmvq_f32(a.v); }

}  // namespace ANYOP_ISA
}  // namespace anyop
