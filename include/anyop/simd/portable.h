// SPDX-License-Identifier: Apache-2.0
// The lanes of simd.h in the compiler's own vectors: SSE2, NEON, or whatever the target has.
// Included by simd.h only.
#pragma once
#include <cmath>

namespace anyop {
inline namespace ANYOP_ISA {

inline constexpr int kLanes = 4;

namespace lanes {
typedef float V [[gnu::vector_size(16)]];
typedef std::int32_t I [[gnu::vector_size(16)]];
typedef std::uint32_t U [[gnu::vector_size(16)]];
typedef std::uint16_t H [[gnu::vector_size(8)]];
ANYOP_LANE_FN U Bits(V v) { return std::bit_cast<U>(v); }
ANYOP_LANE_FN V Value(U u) { return std::bit_cast<V>(u); }
ANYOP_LANE_FN U Blend(I m, U a, U b) { return (U(m) & a) | (~U(m) & b); }
}  // namespace lanes

struct F32 {
  lanes::V v;
};
struct Mask {
  lanes::I m;
};

namespace lanes {
// Each format is the vector form of its scalar conversion in dtype.h.
ANYOP_LANE_FN U FromBits(U h, BF16) { return h << 16; }
ANYOP_LANE_FN U ToBits(U u, BF16) {
  const U rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
  return Blend((u & 0x7fffffff) > 0x7f800000, u >> 16 | 0x40, rounded);
}
ANYOP_LANE_FN U FromBits(U h, F16) {
  const U m = h & 0x7fff, sign = (h & 0x8000) << 16;
  const U finite = Bits(Value(m << 13) * 0x1p112f);  // biases 127 - 15; subnormals included
  const U other = 0x7f800000 | m << 13 | (U(m > 0x7c00) & 0x400000);
  return sign | Blend(m >= 0x7c00, other, finite);
}
ANYOP_LANE_FN U ToBits(U u, F16) {
  const U a = u & 0x7fffffff, sign = u >> 16 & 0x8000;
  const U normal = (a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13;
  const U small = Bits(Value(a) + 0.5f) - 0x3f000000;
  U r = Blend(a < 0x38800000, small, normal);
  r = Blend(a >= 0x477ff000, U{} + 0x7c00, r);
  return sign | Blend(a > 0x7f800000, 0x7e00 | (a >> 13 & 0x3ff), r);
}
}  // namespace lanes

ANYOP_LANE_FN F32 Set(float s) { return {lanes::V{s, s, s, s}}; }
ANYOP_LANE_FN F32 Zero() { return {lanes::V{}}; }

template <class T>
ANYOP_LANE_FN F32 LoadN(const T* p, int n) {
  if constexpr (std::is_same_v<T, float>) {
    lanes::V v{};
    std::memcpy(&v, p, std::size_t(n) * sizeof(T));
    return {v};
  } else {
    lanes::H h{};
    std::memcpy(&h, p, std::size_t(n) * sizeof(T));
    return {lanes::Value(lanes::FromBits(__builtin_convertvector(h, lanes::U), T{}))};
  }
}
template <class T>
ANYOP_LANE_FN void StoreN(T* p, F32 a, int n) {
  if constexpr (std::is_same_v<T, float>) {
    std::memcpy(p, &a.v, std::size_t(n) * sizeof(T));
  } else {
    const lanes::U bits = lanes::ToBits(lanes::Bits(a.v), T{});
    const lanes::H h = __builtin_convertvector(bits, lanes::H);
    std::memcpy(p, &h, std::size_t(n) * sizeof(T));
  }
}
template <class T>
ANYOP_LANE_FN F32 Load(const T* p) {
  return LoadN(p, kLanes);
}
template <class T>
ANYOP_LANE_FN void Store(T* p, F32 a) {
  StoreN(p, a, kLanes);
}

ANYOP_LANE_FN void LoadEvenOdd(const BF16* p, F32& even, F32& odd) {
  lanes::U u;
  std::memcpy(&u, p, sizeof u);
  constexpr int kEven = std::endian::native == std::endian::little ? 16 : 0;
  even.v = lanes::Value(u << kEven & 0xffff0000);
  odd.v = lanes::Value(u << (16 - kEven) & 0xffff0000);
}
ANYOP_LANE_FN void StoreEvenOdd(BF16* p, F32 even, F32 odd) {
  constexpr int kEven = std::endian::native == std::endian::little ? 0 : 16;
  const lanes::U u = lanes::ToBits(lanes::Bits(even.v), BF16{}) << kEven |
                     lanes::ToBits(lanes::Bits(odd.v), BF16{}) << (16 - kEven);
  std::memcpy(p, &u, sizeof u);
}

ANYOP_LANE_FN F32 operator+(F32 a, F32 b) { return {a.v + b.v}; }
ANYOP_LANE_FN F32 operator-(F32 a, F32 b) { return {a.v - b.v}; }
ANYOP_LANE_FN F32 operator*(F32 a, F32 b) { return {a.v * b.v}; }
ANYOP_LANE_FN F32 operator/(F32 a, F32 b) { return {a.v / b.v}; }
ANYOP_LANE_FN Mask operator<(F32 a, F32 b) { return {a.v < b.v}; }
ANYOP_LANE_FN Mask operator<=(F32 a, F32 b) { return {a.v <= b.v}; }
ANYOP_LANE_FN Mask operator>(F32 a, F32 b) { return b < a; }
ANYOP_LANE_FN Mask operator>=(F32 a, F32 b) { return b <= a; }
ANYOP_LANE_FN Mask operator==(F32 a, F32 b) { return {a.v == b.v}; }
ANYOP_LANE_FN Mask operator!=(F32 a, F32 b) { return {a.v != b.v}; }
ANYOP_LANE_FN Mask operator&(Mask a, Mask b) { return {a.m & b.m}; }
ANYOP_LANE_FN Mask operator|(Mask a, Mask b) { return {a.m | b.m}; }
ANYOP_LANE_FN std::uint32_t Bits(Mask m) {
  return std::uint32_t((m.m[0] & 1) | (m.m[1] & 2) | (m.m[2] & 4) | (m.m[3] & 8));
}
ANYOP_LANE_FN Mask FirstLanes(int n) { return {lanes::I{0, 1, 2, 3} < n}; }
ANYOP_LANE_FN Mask IsNan(F32 a) { return {a.v != a.v}; }
ANYOP_LANE_FN F32 Select(Mask m, F32 a, F32 b) {
  return {lanes::Value(lanes::Blend(m.m, lanes::Bits(a.v), lanes::Bits(b.v)))};
}

ANYOP_LANE_FN F32 Fma(F32 a, F32 b, F32 c) {
#ifdef __FP_FAST_FMAF  // otherwise fmaf is a function of the C library, in software
  F32 r;
  for (int i = 0; i < kLanes; ++i) r.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]);
  return r;
#else
  return {a.v * b.v + c.v};
#endif
}
// In double, which holds the product of two floats exactly.
ANYOP_LANE_FN F32 FmaExact(F32 a, F32 b, F32 c) {
  F32 r;
  for (int i = 0; i < kLanes; ++i) r.v[i] = float(double(a.v[i]) * b.v[i] + c.v[i]);
  return r;
}
ANYOP_LANE_FN F32 Max(F32 a, F32 b) { return Select(a > b, a, b); }
ANYOP_LANE_FN F32 Min(F32 a, F32 b) { return Select(a < b, a, b); }
ANYOP_LANE_FN F32 Abs(F32 a) { return {lanes::Value(lanes::Bits(a.v) & 0x7fffffff)}; }
ANYOP_LANE_FN F32 Sqrt(F32 a) {
  F32 r;
  for (int i = 0; i < kLanes; ++i) r.v[i] = __builtin_sqrtf(a.v[i]);
  return r;
}
ANYOP_LANE_FN F32 Round(F32 a) {
  // Adding 1.5 * 2^23 leaves no bit for a fraction.
  const F32 magic = Set(0x1.8p23f);
  return (a + magic) - magic;
}
ANYOP_LANE_FN F32 Reciprocal(F32 a) { return Set(1.0f) / a; }
inline constexpr bool kScaleSaturates = false;
// In two steps: 2^n itself may lie outside the normal range. The first is exact.
ANYOP_LANE_FN F32 ScaleByPowerOf2(F32 a, F32 n) {
  const lanes::U i = lanes::Bits(n.v + 0x1.8p23f);  // n in the low bits
  const lanes::I whole = lanes::I(i << 9) >> 9, half = whole >> 1;
  const lanes::U first = lanes::U(half + 127) << 23, second = lanes::U(whole - half + 127) << 23;
  return {a.v * lanes::Value(first) * lanes::Value(second)};
}

namespace lanes {
template <class F>
ANYOP_LANE_FN float Reduce(F32 a, F f) {
  return f(f(a.v[0], a.v[2]), f(a.v[1], a.v[3]));
}
}  // namespace lanes
ANYOP_LANE_FN float ReduceAdd(F32 a) {
  return lanes::Reduce(
      a, [](float x, float y) __attribute__((always_inline)) { return x + y; });
}
ANYOP_LANE_FN float ReduceMax(F32 a) {
  return lanes::Reduce(
      a, [](float x, float y) __attribute__((always_inline)) { return x > y ? x : y; });
}
ANYOP_LANE_FN float ReduceMin(F32 a) {
  return lanes::Reduce(
      a, [](float x, float y) __attribute__((always_inline)) { return x < y ? x : y; });
}

}  // namespace ANYOP_ISA
}  // namespace anyop
