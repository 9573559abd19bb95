// SPDX-License-Identifier: Apache-2.0
// A thin vector layer: f32 lanes as wide as the file is compiled for, with 16-bit storage.
//
// One source, included by <name>.cc (NEON on 64-bit Arm), cpu_avx2.cc and cpu_avx512.cc, becomes a
// kernel each. All is inlined, in the file's namespace: the linker never picks a wider file's copy.
//
//   kLanes                           f32 lanes of a vector: 16, 8 or 4
//   F32, Mask                        the vector, and what a comparison gives
//   Load(p) Store(p, v)              kLanes elements of float, BF16 or F16 at any alignment
//   LoadN(p, n) StoreN(p, v, n)      the first n <= kLanes; other lanes read 0, nothing beyond n
//                                    is touched. n == kFull is Load and Store
//   Set(s) Zero()                    the same value in every lane
//   + - * / and < <= > >= == !=      lane by lane; a comparison with NaN is false, != is true
//   Fma(a, b, c)                     a * b + c, rounded once where the machine can
//   FmaExact(a, b, c)                the same with an exact product on every machine, slower there
//   Max(a, b) Min(a, b)              b where either is NaN
//   Abs Sqrt Round IsNan             Round: to the nearest whole, half to even, |x| < 2^22
//   Select(m, a, b) Bits(m)          a where m, else b; bit i is lane i of the mask
//   FirstLanes(n)                    true in the first n lanes
//   KeepFirst(v, n, rest)            the first n lanes of v, the others of rest
//   ScaleByPowerOf2(a, n)            a * 2^n, n whole and -252 <= n <= 254
//   ReduceAdd ReduceMax ReduceMin    over the lanes, in a fixed order
//   Reciprocal                       1 / a within 1.5 ulp for 2^-125 <= |a| <= 2^125; error below
//                                    2^-126 beyond; 0 of infinity
//   Exp Sigmoid                      1 ulp and 3 ulp, subnormal results and overflow included
//   ForLanes ForBlocks               loops with full vectors and one tail
//   LoadAll StoreAll                 several vectors, one after the other in memory
//   LoadBlock StoreBlock             the same, faster: which lane holds an element is unspecified
//   ExpAll<T> SigmoidAll<T>          of several vectors at once; T: what the result is rounded to
//   ExpBelowAll                      e^(scale * x - m)
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>
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
#elif defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__)
#include "anyop/simd/neon.h"
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

ANYOP_LANE_FN F32 KeepFirst(F32 v, Full, F32) { return v; }
ANYOP_LANE_FN F32 KeepFirst(F32 v, int n, F32 rest) { return Select(FirstLanes(n), v, rest); }

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

// Calls f(i, count, kBlock) with kBlock = N vectors at a time, then with kBlock = 1 as ForLanes
// does; kBlock is a constant, and count that of each vector. Several vectors in flight hide the
// latency of an operation (an FMA: 4 cycles x 2 a cycle = 8), each with a sum of its own.
template <int N, class F>
ANYOP_LANE_FN void ForBlocks(std::int64_t n, F&& f) {
  std::int64_t i = 0;
  for (; i + N * kLanes <= n; i += N * kLanes) f(i, kFull, std::integral_constant<int, N>{});
  for (; i + kLanes <= n; i += kLanes) f(i, kFull, std::integral_constant<int, 1>{});
  if (i < n) f(i, int(n - i), std::integral_constant<int, 1>{});
}

// The N vectors of a block, one after the other in memory.
template <int N, class T, class Count>
ANYOP_LANE_FN void LoadAll(F32 (&v)[N], const T* p, Count count) {
#pragma GCC unroll 8
  for (int k = 0; k < N; ++k) v[k] = LoadN(p + k * kLanes, count);
}
template <int N, class T, class Count>
ANYOP_LANE_FN void StoreAll(T* p, const F32 (&v)[N], Count count) {
#pragma GCC unroll 8
  for (int k = 0; k < N; ++k) StoreN(p + k * kLanes, v[k], count);
}

// The same elements in another order of lanes, which T and N alone decide: for functions of
// elements at the same place. Even and odd elements of bf16 become two vectors, without shuffles:
// rms_norm [1, 4096] in bf16 on AVX2 takes 0.70 us, with LoadAll 0.94.
template <int N, class T, class Count>
ANYOP_LANE_FN void LoadBlock(F32 (&v)[N], const T* p, Count count) {
  if constexpr (N % 2 == 0 && std::is_same_v<T, BF16>) {
#pragma GCC unroll 8
    for (int k = 0; k < N; k += 2) LoadEvenOdd(p + k * kLanes, v[k], v[k + 1]);
  } else {
    LoadAll(v, p, count);
  }
}
template <int N, class T, class Count>
ANYOP_LANE_FN void StoreBlock(T* p, const F32 (&v)[N], Count count) {
  if constexpr (N % 2 == 0 && std::is_same_v<T, BF16>) {
#pragma GCC unroll 8
    for (int k = 0; k < N; k += 2) StoreEvenOdd(p + k * kLanes, v[k], v[k + 1]);
  } else {
    StoreAll(p, v, count);
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop

#include "anyop/simd/math.h"

#undef ANYOP_LANE_FN
