// SPDX-License-Identifier: Apache-2.0
// Matrix tiles of bytes: sums of products in i32, exact in any order. What math.h is for floats.
//
// A weight is a pair of bytes in packed panels ([k4][32][4]: a pair of pairs for each column), one
// byte in rows as they lie. No step saturates: dot instructions multiply w + 128 and add in 32
// bits, elsewhere bytes are widened to 16 bits and pairs of products added in 32.
#pragma once
#include <cstdint>
#include <cstring>

#include "ops/common/gemm/rows.h"

#if !defined(__AVX2__) && defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace anyop::ops {
inline namespace ANYOP_ISA {

struct I8x2 {
  std::int8_t v[2];
};
struct I16x2 {
  std::int16_t v[2];
  I16x2() = default;
  explicit I16x2(I8x2 bytes) : v{bytes.v[0], bytes.v[1]} {}
};

namespace int8_lanes {

#define ANYOP_LANE_FN [[gnu::always_inline]] inline

#if defined(__AVX512F__)
using I = __m512i;
ANYOP_LANE_FN I Add(I a, I b) { return _mm512_add_epi32(a, b); }
ANYOP_LANE_FN I AddProducts(I a, I b) { return _mm512_madd_epi16(a, b); }
ANYOP_LANE_FN I Widen(const void* p) {
  return _mm512_cvtepi8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
ANYOP_LANE_FN I Repeat(std::int64_t n) { return _mm512_set1_epi64(n); }
ANYOP_LANE_FN I SumPairs(I a, I b) {
  const I even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const I odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  return Add(_mm512_permutex2var_epi32(a, even, b), _mm512_permutex2var_epi32(a, odd, b));
}
ANYOP_LANE_FN __m128i Fold(I a) {
  const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(a), _mm512_extracti32x8_epi32(a, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

#elif defined(__AVX2__)
using I = __m256i;
ANYOP_LANE_FN I Add(I a, I b) { return _mm256_add_epi32(a, b); }
ANYOP_LANE_FN I AddProducts(I a, I b) { return _mm256_madd_epi16(a, b); }
ANYOP_LANE_FN I Widen(const void* p) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
ANYOP_LANE_FN I Repeat(std::int64_t n) { return _mm256_set1_epi64x(n); }
ANYOP_LANE_FN I SumPairs(I a, I b) {
  return _mm256_permute4x64_epi64(_mm256_hadd_epi32(a, b), 0xd8);
}
ANYOP_LANE_FN __m128i Fold(I a) {
  return _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
}

#else
using I = lanes::I;
typedef std::int16_t Words [[gnu::vector_size(16)]];
typedef std::int8_t Bytes8 [[gnu::vector_size(8)]];
ANYOP_LANE_FN I Add(I a, I b) { return a + b; }
ANYOP_LANE_FN I AddProducts(I a, I b) {
#if defined(__SSE2__)
  return I(_mm_madd_epi16(__m128i(a), __m128i(b)));
#elif defined(__aarch64__)
  const int16x8_t x = vreinterpretq_s16_s32(a), y = vreinterpretq_s16_s32(b);
  return vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
#else
  const auto low = [](I v) __attribute__((always_inline)) { return I(lanes::U(v) << 16) >> 16; };
  return low(a) * low(b) + (a >> 16) * (b >> 16);
#endif
}
ANYOP_LANE_FN I Widen(const void* p) {
  Bytes8 bytes;
  std::memcpy(&bytes, p, sizeof(bytes));
  return I(__builtin_convertvector(bytes, Words));
}
ANYOP_LANE_FN I Repeat(std::int64_t n) {
  typedef std::int64_t Halves [[gnu::vector_size(16)]];
  return I(Halves{n, n});
}
ANYOP_LANE_FN I SumPairs(I a, I b) {
  return __builtin_shuffle(a, b, I{0, 2, 4, 6}) + __builtin_shuffle(a, b, I{1, 3, 5, 7});
}
#endif

struct Sums {
  I v;
};

// out[i] = the sum of the lanes of a[i].
ANYOP_LANE_FN void SumLanes(const Sums (&a)[4], std::int32_t* out) {
#if defined(__AVX2__)
  const __m128i low = _mm_hadd_epi32(Fold(a[0].v), Fold(a[1].v));
  const __m128i all = _mm_hadd_epi32(low, _mm_hadd_epi32(Fold(a[2].v), Fold(a[3].v)));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), all);
#else
  for (int i = 0; i < 4; ++i) out[i] = (a[i].v[0] + a[i].v[1]) + (a[i].v[2] + a[i].v[3]);
#endif
}

#undef ANYOP_LANE_FN

}  // namespace int8_lanes

struct IntSums {
  using Sum = std::int32_t;
  using Sums = int8_lanes::Sums;
  [[gnu::always_inline]] static Sums Zero() { return {int8_lanes::I{}}; }
  [[gnu::always_inline]] static Sums Load(const std::int32_t* from) {
    Sums sums;
    std::memcpy(&sums, from, sizeof(sums));
    return sums;
  }
  [[gnu::always_inline]] static void Store(std::int32_t* out, Sums sums) {
    std::memcpy(out, &sums, sizeof(sums));
  }
  [[gnu::always_inline]] static Sums SumPairs(Sums a, Sums b) {
    return {int8_lanes::SumPairs(a.v, b.v)};
  }
  [[gnu::always_inline]] static void SumLanes(const Sums (&a)[4], std::int32_t* out) {
    int8_lanes::SumLanes(a, out);
  }
};

// W: I8x2 for packed panels, std::int8_t for rows. Bytes widened to 16 bits.
template <class W>
struct WideBytesMath : IntSums {
  using Weight = W;
  using Left = I16x2;
  struct Operand {
    int8_lanes::I v;
  };
  static constexpr int kElements = kLanes * 2 / int(sizeof(W));
  static constexpr bool kPairwise = true;
  static constexpr int kRows = kLanes == 16 ? 8 : 4;
  static constexpr int kRowsOfX = RowsOfX(sizeof(Operand));
  static constexpr int kAccumulators = kLanes == 16 ? 16 : 8;
  static constexpr int kOffset = 0;
  [[gnu::always_inline]] static Operand LoadWeight(const W* p) { return {int8_lanes::Widen(p)}; }
  [[gnu::always_inline]] static Operand LoadLeft(const I16x2* p) {
    std::int64_t words;
    std::memcpy(&words, p, sizeof(words));
    return {int8_lanes::Repeat(words)};
  }
  [[gnu::always_inline]] static void Mac(Sums& sums, Operand a, Operand b) {
    sums.v = int8_lanes::Add(sums.v, int8_lanes::AddProducts(a.v, b.v));
  }
};

#if defined(__AVX512VNNI__)
// Four products a lane. The instruction wants one side unsigned: sums are kOffset * (the sum of
// the left side's bytes) too large, modulo 2^32.
template <class W>
struct DotBytesMath : IntSums {
  using Weight = W;
  using Left = I8x2;
  struct Operand {
    __m512i v;
  };
  static constexpr int kElements = kLanes * 4 / int(sizeof(W));
  static constexpr bool kPairwise = false;
  static constexpr int kRows = 8;
  static constexpr int kRowsOfX = 4;  // 6 would spill: both sides and 128 want registers too
  static constexpr int kAccumulators = 16;
  static constexpr int kOffset = 128;
  [[gnu::always_inline]] static Operand LoadWeight(const W* p) { return {_mm512_loadu_si512(p)}; }
  [[gnu::always_inline]] static Operand LoadLeft(const I8x2* p) {
    std::int32_t bytes;
    std::memcpy(&bytes, p, sizeof(bytes));
    return {_mm512_set1_epi32(bytes)};
  }
  [[gnu::always_inline]] static void Mac(Sums& sums, Operand a, Operand b) {
    const __m512i shifted = _mm512_xor_si512(a.v, _mm512_set1_epi8(-128));
    sums.v = _mm512_dpbusd_epi32(sums.v, shifted, b.v);
  }
};
#endif

extern template struct Tiles<WideBytesMath<I8x2>>;
extern template struct RowTiles<WideBytesMath<std::int8_t>>;
#if defined(__AVX512VNNI__)
extern template struct Tiles<DotBytesMath<I8x2>>;
extern template struct RowTiles<DotBytesMath<std::int8_t>>;
#endif

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
