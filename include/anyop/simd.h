// SPDX-License-Identifier: Apache-2.0
// A thin vector layer: f32 lanes as wide as the file is compiled for, with 16-bit storage.
//
// One templated source, included by <name>.cc, cpu_avx2.cc and cpu_avx512.cc, becomes one kernel
// each. Everything lives in the namespace of the file's instruction set and is always inlined, so
// that the linker never picks a copy compiled for a wider one.
//
//   kLanes                           f32 lanes of a vector: 16, 8 or 4
//   F32, Mask                        the vector, and what a comparison gives
//   Load(p) Store(p, v)              kLanes elements of float, BF16 or F16 at any alignment
//   LoadN(p, n) StoreN(p, v, n)      the first n <= kLanes; other lanes read 0, nothing beyond n
//                                    is touched. n == kFull is Load and Store
//   Set(s) Zero()                    the same value in every lane
//   + - * / and < <= > >= == !=      lane by lane; a comparison with NaN is false, != is true
//   Fma(a, b, c)                     a * b + c, rounded once where the machine can
//   Max(a, b) Min(a, b)              b where either is NaN
//   Abs Sqrt Round IsNan             Round: to the nearest whole, half to even, |x| < 2^22
//   Select(m, a, b)                  a where m, else b
//   Bits(m)                          bit i is lane i of the mask
//   ScaleByPowerOf2(a, n)            a * 2^n, n whole and -252 <= n <= 254
//   ReduceAdd ReduceMax ReduceMin    over the lanes, in a fixed order
//   Exp                              1 ulp; exact at 0, results below 2^-126 and overflow included
//   Sigmoid                          1 / (1 + exp(-x)), 3 ulp
//   ForLanes ForLanesBy              loops with full vectors and one tail
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "anyop/dtype.h"

#ifndef ANYOP_ISA
#define ANYOP_ISA portable
#endif
#define ANYOP_LANE_FN [[gnu::always_inline]] inline

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "anyop/simd/avx512.h"
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "anyop/simd/avx2.h"
#else
#include "anyop/simd/portable.h"
#endif

namespace anyop {
inline namespace ANYOP_ISA {

// A count known to be a whole vector, so that LoadN and StoreN cost nothing beyond Load and Store.
using Full = std::integral_constant<int, kLanes>;
inline constexpr Full kFull{};

template <class T>
ANYOP_LANE_FN F32 LoadN(const T* p, Full) {
  return Load(p);
}
template <class T>
ANYOP_LANE_FN void StoreN(T* p, F32 v, Full) {
  Store(p, v);
}

ANYOP_LANE_FN F32& operator+=(F32& a, F32 b) { return a = a + b; }
ANYOP_LANE_FN F32& operator*=(F32& a, F32 b) { return a = a * b; }

// Asks for the cache line at p; any address is allowed.
ANYOP_LANE_FN void Prefetch(const void* p) { __builtin_prefetch(p, 0, 3); }

// Calls f(i, count) for i = 0, kLanes, ...: count is kFull, and an int for one last tail.
template <class F>
ANYOP_LANE_FN void ForLanes(std::int64_t n, F&& f) {
  std::int64_t i = 0;
#pragma GCC unroll 2
  for (; i + kLanes <= n; i += kLanes) f(i, kFull);
  if (i < n) f(i, int(n - i));
}

// The same with a third argument, way 0 ... kWays - 1 in turn (a constant): independent sums, to
// hide the latency of an add or FMA (4 cycles x 2 a cycle = 8 in flight).
template <int kWays, class F>
ANYOP_LANE_FN void ForLanesBy(std::int64_t n, F&& f) {
  std::int64_t i = 0;
  for (; i + kWays * kLanes <= n; i += kWays * kLanes) {
    [&]<int... kWay>(std::integer_sequence<int, kWay...>) __attribute__((always_inline)) {
      (f(i + kWay * kLanes, kFull, std::integral_constant<int, kWay>{}), ...);
    }
    (std::make_integer_sequence<int, kWays>{});
  }
  for (; i + kLanes <= n; i += kLanes) f(i, kFull, std::integral_constant<int, 0>{});
  if (i < n) f(i, int(n - i), std::integral_constant<int, 0>{});
}

// e^x = 2^n e^r with r = x - n ln 2 in [-0.35, 0.35]; ln 2 in two parts, the first of 15 bits, so
// that n * ln 2 is exact without FMA too. Polynomial: Cephes expf.
ANYOP_LANE_FN F32 Exp(F32 x) {
  x = Max(Set(-104.0f), Min(Set(89.0f), x));  // NaN is the second operand, and stays
  const F32 n = Round(x * Set(0x1.715476p0f));
  const F32 r = Fma(n, Set(-0x1.7f7d1cp-20f), Fma(n, Set(-0x1.62e4p-1f), x));
  F32 p = Fma(Set(1.9875691500e-4f), r, Set(1.3981999507e-3f));
  p = Fma(p, r, Set(8.3334519073e-3f));
  p = Fma(p, r, Set(4.1665795894e-2f));
  p = Fma(p, r, Set(1.6666665459e-1f));
  p = Fma(p, r, Set(5.0000001201e-1f));
  return ScaleByPowerOf2(Fma(r * r, p, r) + Set(1.0f), n);
}

ANYOP_LANE_FN F32 Sigmoid(F32 x) { return Set(1.0f) / (Set(1.0f) + Exp(Zero() - x)); }

}  // namespace ANYOP_ISA
}  // namespace anyop

#undef ANYOP_LANE_FN
