// SPDX-License-Identifier: Apache-2.0
// Products of floats and elements of 4 bits: of few rows of x with words as they come, and words as
// the right side of a product in panels.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "anyop/simd.h"
#include "ops/common/gemm/chunks.h"
#include "ops/linear_u4/numbers.h"
#include "ops/linear_u4/words.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

inline constexpr int kWordVectors = kWordRows / kLanes;
// Sums of a row of x and one vector: chains that together hide the latency of an addition.
inline constexpr int kChains = 4 / kWordVectors;
// Rows of x beside each other: their sums and a word fit the registers.
inline constexpr int kFewRowsOfWords = kVectorRegisters == 32 ? 4 : 2;

#if defined(__AVX512F__)
// A word in all lanes, whose even halves are shifted by their place as the odd ones are: lane 2i
// holds row i, lane 2i + 1 row 8 + i. The table needs the low 4 bits of a lane alone.
class WordDecoder {
 public:
  [[gnu::always_inline]] void Decode(const std::uint8_t* word, F32 (&q)[1]) const {
    long long bits;
    std::memcpy(&bits, word, sizeof(bits));
    const __m512i places = _mm512_srlv_epi32(_mm512_set1_epi64(bits), shifts_);
    q[0] = {_mm512_permutexvar_ps(places, table_)};
  }
  // 16 numbers in the order of lanes.
  [[gnu::always_inline]] static void LoadNumbers(const float* from, F32 (&to)[1]) {
    const __m512i rows = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    to[0] = {_mm512_permutexvar_ps(rows, _mm512_loadu_ps(from))};
  }
  [[gnu::always_inline]] static void StoreSums(const F32 (&sums)[1], float* to) {
    const __m512i lanes = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    _mm512_storeu_ps(to, _mm512_permutexvar_ps(lanes, sums[0].v));
  }

 private:
  const __m512i shifts_ =
      _mm512_setr_epi32(0, 0, 4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 28, 28);
  const __m512 table_ = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
};
#else
class WordDecoder {
  typedef std::uint32_t Words [[gnu::vector_size(4 * kLanes)]];
  typedef std::int32_t Ints [[gnu::vector_size(4 * kLanes)]];
  typedef float Floats [[gnu::vector_size(4 * kLanes)]];

 public:
  [[gnu::always_inline]] void Decode(const std::uint8_t* word, F32 (&q)[kWordVectors]) const {
    std::uint32_t halves[2];
    std::memcpy(halves, word, sizeof(halves));
#pragma GCC unroll 4
    for (int v = 0; v < kWordVectors; ++v) {
      const std::uint32_t half = halves[v * kLanes / 8] >> v * kLanes % 8 * 4;
      const Words places = ((Words{} + half) >> Shifts()) & 15;
      q[v] = std::bit_cast<F32>(__builtin_convertvector(std::bit_cast<Ints>(places), Floats));
    }
  }
  [[gnu::always_inline]] static void LoadNumbers(const float* from, F32 (&to)[kWordVectors]) {
#pragma GCC unroll 4
    for (int v = 0; v < kWordVectors; ++v) to[v] = Load(from + v * kLanes);
  }
  [[gnu::always_inline]] static void StoreSums(const F32 (&sums)[kWordVectors], float* to) {
#pragma GCC unroll 4
    for (int v = 0; v < kWordVectors; ++v) Store(to + v * kLanes, sums[v]);
  }

 private:
  [[gnu::always_inline]] static Words Shifts() {
    constexpr std::uint32_t kShifts[] = {0, 4, 8, 12, 16, 20, 24, 28};
    Words shifts;
    std::memcpy(&shifts, kShifts, sizeof(shifts));
    return shifts;
  }
};
#endif

// sums[kR][16] of kR rows of x, `pitch` floats apart, and the words of a block.
template <int kR>
[[gnu::noinline]] void MultiplyWords(const std::uint8_t* words, const U4Groups& groups,
                                     const GroupNumbers* numbers, const float* x,
                                     std::int64_t pitch, float* sums) {
  constexpr int kV = kWordVectors;
  constexpr std::int64_t kAhead = 2048;  // bytes
  const WordDecoder decoder;
  F32 total[kR][kV];
#pragma GCC unroll 4
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) total[r][v] = Zero();
  }
  for (std::int64_t i = 0; i < groups.groups; ++i) {
    F32 zero[kV], scale[kV], sum[kChains][kR][kV];
    decoder.LoadNumbers(numbers[i].zero, zero);
    decoder.LoadNumbers(numbers[i].scale, scale);
#pragma GCC unroll 16
    for (int c = 0; c < kChains * kR * kV; ++c) sum[c / kV / kR][c / kV % kR][c % kV] = Zero();
    const auto add = [&](std::int64_t l, F32(&to)[kR][kV]) [[gnu::always_inline]] {
      F32 q[kV];
      decoder.Decode(words + l * kWordBytes, q);
#pragma GCC unroll 4
      for (int v = 0; v < kV; ++v) q[v] = q[v] - zero[v];
#pragma GCC unroll 4
      for (int r = 0; r < kR; ++r) {
        const F32 a = Set(x[r * pitch + l]);
#pragma GCC unroll 4
        for (int v = 0; v < kV; ++v) to[r][v] = Fma(q[v], a, to[r][v]);
      }
    };
    std::int64_t l = groups.begin(i);
    const std::int64_t end = groups.end(i);
    for (; l + 8 <= end; l += 8) {
      Prefetch(words + l * kWordBytes + kAhead);
#pragma GCC unroll 8
      for (int c = 0; c < 8; ++c) add(l + c, sum[c % kChains]);
    }
    for (; l < end; ++l) add(l, sum[0]);
#pragma GCC unroll 4
    for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kV; ++v) {
        F32 all = sum[0][r][v];
#pragma GCC unroll 4
        for (int c = 1; c < kChains; ++c) all += sum[c][r][v];
        total[r][v] = Fma(all, scale[v], total[r][v]);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kR; ++r) decoder.StoreSums(total[r], sums + r * kWordRows);
}

// A left side whose rows have the elements of the rows of a tensor in the order of groups, zeros in
// place of those that are left out.
template <class T>
struct LeftInOrder {
  Rows<T> x;
  const U4Groups& groups;

  template <class M, class P>
  void Pack(const Context& ctx, const PackedProduct<M, P>& part, std::int64_t inner) const {
    part.Pack(ctx, [&](std::int64_t begin, std::int64_t end) {
      part.ForBlocksOf(begin, end, [&](std::int64_t i, auto count) {
        T copies[count.value][kInner];
        const T* rows[count.value];
        for (int r = 0; r < count.value; ++r) {
          const T* from = x[part.first + i + r];
          const std::int64_t taken = groups.TakenOf(inner, part.p.k);
          for (std::int64_t l = 0; l < taken; ++l) copies[r][l] = from[groups.order[inner + l]];
          std::fill_n(copies[r] + taken, part.p.k - taken, T{});
          rows[r] = copies[r];
        }
        PackRows(rows, part.p.k, part.Row(i));
      });
    });
  }
};

// Words as the right side of a product in f32: column j is row j of the weight, decoded.
template <class Words>
struct RightWords {
  const Words& words;
  const U4Numbers& numbers;
  const U4Groups& groups;

  void Pack(std::int64_t first, std::int64_t count, std::int64_t column, std::int64_t columns,
            float* out) const {
    const std::int64_t taken = groups.TakenOf(first, count);
    if (columns < kPanel || taken < count || count % 2) {
      std::fill_n(out, (count + 1) / 2 * 2 * kPanel, 0.0f);
    }
    std::uint8_t buffer[kInner * kWordBytes];
    for (std::int64_t j = 0; j < columns; j += kWordRows) {
      const std::int64_t a = (column + j) / kWordRows;
      const std::uint8_t* from = buffer;
      if (groups.order) {
        words.Gather(a, groups.order + first, taken, buffer);
      } else {
        from = words.Of(a, first, count, buffer);
      }
      Decode(from, a, first, taken, out + 2 * j);
    }
  }

 private:
  // 16 columns: element l goes to [l / 2][column][l % 2].
  [[gnu::noinline]] void Decode(const std::uint8_t* from, std::int64_t a, std::int64_t first,
                                std::int64_t count, float* out) const {
    constexpr int kV = kWordVectors;
    const WordDecoder decoder;
    alignas(64) float pair[2][kWordRows];
    std::int64_t group = 0;
    for (std::int64_t l = 0; l < count;) {
      group = groups.GroupOf(first + l, group);
      const std::int64_t end = std::min(count, groups.end(group) - first);
      GroupNumbers own;
      numbers.Read(a, group, group + 1, &own);
      F32 zero[kV], scale[kV];
      decoder.LoadNumbers(own.zero, zero);
      decoder.LoadNumbers(own.scale, scale);
      for (; l < end; ++l) {
        F32 w[kV];
        decoder.Decode(from + l * kWordBytes, w);
#pragma GCC unroll 4
        for (int v = 0; v < kV; ++v) w[v] = (w[v] - zero[v]) * scale[v];
        decoder.StoreSums(w, pair[l % 2]);
        if (l % 2) Interleave<kWordRows>(pair[0], pair[1], out + l / 2 * 2 * kPanel);
      }
    }
    if (count % 2 == 0) return;
    std::fill_n(pair[1], kWordRows, 0.0f);
    Interleave<kWordRows>(pair[0], pair[1], out + count / 2 * 2 * kPanel);
  }
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
