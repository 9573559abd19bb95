// SPDX-License-Identifier: Apache-2.0
// How a tile multiplies: the element types, and one multiply-add of a vector of weights.
//
// A packed weight is [n/32][k/2][32][2]: 32 columns, and for each two neighbours along k. A math
// type is used by packed tiles (a vector of weights by a pair of x in every lane) and by row tiles
// (a vector of weights by a vector of x, both along k) alike:
//
//   Weight, Left     element types of the weight and of packed x; one may be a pair of bytes
//   Operand          a loaded vector of one side
//   Sum, Sums        a sum, and a vector of them (FloatSums; of bytes int8.h's)
//   Load, Store      of a vector of sums
//   kElements        weights per vector
//   kPairwise        a lane holds one of the two sums of a column, not their total
//   kRows            rows of x in the largest packed tile
//   kRowsOfX         rows of x in the largest row tile, beside 4 of the weight
//   kAccumulators    registers for sums in a packed tile
#pragma once
#include <concepts>
#include <cstdint>

#include "anyop/simd.h"
#include "ops/common/dot_bf16.h"
#include "ops/common/gemm/lanes.h"
#include "ops/common/registers.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

inline constexpr int kPanel = 32;  // columns of a packed panel

// A tile keeps vectors of weights and one of x beside its sums.
inline constexpr int kSums = kVectorRegisters == 32 ? 24 : kLanes == 8 ? 12 : 8;

// 24, 16 or 8 sums beside the operands.
constexpr int RowsOfX(std::size_t operand_bytes) {
  return kVectorRegisters < 32 ? 2 : operand_bytes == 64 ? 6 : 4;
}

template <class M>
concept TileMath = requires(typename M::Sums& sums, const typename M::Sums (&four)[4],
                            typename M::Sum* out, const typename M::Operand& operand,
                            const typename M::Weight* weight, const typename M::Left* left) {
  requires M::kElements >
  0 && M::kRows > 0 && M::kRowsOfX > 0 && M::kAccumulators > 0;
  { M::kPairwise } -> std::convertible_to<bool>;
  { M::LoadWeight(weight) } -> std::same_as<typename M::Operand>;
  { M::LoadLeft(left) } -> std::same_as<typename M::Operand>;
  M::Mac(sums, operand, operand);
  { M::Zero() } -> std::same_as<typename M::Sums>;
  { M::Load(out) } -> std::same_as<typename M::Sums>;
  M::Store(out, sums);
  { M::SumPairs(sums, sums) } -> std::same_as<typename M::Sums>;
  M::SumLanes(four, out);
};

struct FloatSums {
  using Sum = float;
  using Sums = F32;
  [[gnu::always_inline]] static F32 Zero() { return anyop::Zero(); }
  [[gnu::always_inline]] static F32 Load(const float* sums) { return anyop::Load(sums); }
  [[gnu::always_inline]] static void Store(float* out, F32 sums) { anyop::Store(out, sums); }
  [[gnu::always_inline]] static F32 SumPairs(F32 a, F32 b) { return ops::SumPairs(a, b); }
  [[gnu::always_inline]] static void SumLanes(const F32 (&a)[4], float* out) {
    ops::SumLanes(a, out);
  }
};

// f32 and f16 (bf16 too, but Split halves the work): every element becomes f32.
template <class T>
struct PairMath : FloatSums {
  using Weight = T;
  using Left = float;
  using Operand = F32;
  static constexpr int kElements = kLanes;
  static constexpr bool kPairwise = true;
  static constexpr int kRows = kVectorRegisters == 32 || kLanes == 8 ? 6 : 4;
  static constexpr int kRowsOfX = RowsOfX(sizeof(Operand));
  static constexpr int kAccumulators = kSums;
  [[gnu::always_inline]] static Operand LoadWeight(const T* p) { return anyop::Load(p); }
  [[gnu::always_inline]] static Operand LoadLeft(const float* p) { return LoadPair(p); }
  [[gnu::always_inline]] static void Mac(F32& sum, Operand a, Operand b) { sum = Fma(a, b, sum); }
};

// bf16 without dot instructions: a shift and a mask make two f32 vectors of one load.
struct SplitMath : FloatSums {
  using Weight = BF16;
  using Left = float;
  struct Operand {
    F32 even, odd;
  };
  static constexpr int kElements = 2 * kLanes;
  static constexpr bool kPairwise = false;
  static constexpr int kRows = kLanes == 16 ? 8 : 4;
  static constexpr int kRowsOfX = RowsOfX(sizeof(Operand));
  static constexpr int kAccumulators = kVectorRegisters / 2;
  [[gnu::always_inline]] static Operand LoadWeight(const BF16* p) {
    Operand r;
    LoadSplit(p, r.even, r.odd);
    return r;
  }
  [[gnu::always_inline]] static Operand LoadLeft(const float* p) { return {Set(p[0]), Set(p[1])}; }
  [[gnu::always_inline]] static void Mac(F32& sum, Operand a, Operand b) {
    sum = Fma(a.odd, b.odd, Fma(a.even, b.even, sum));
  }
};

#if defined(__AVX512BF16__)
// bf16 with vdpbf16ps: pairs are multiplied and added to an f32 lane, subnormals count as zero.
struct DotMath : FloatSums {
  using Weight = BF16;
  using Left = BF16;
  struct Operand {
    __m512i v;
  };
  static constexpr int kElements = 2 * kLanes;
  static constexpr bool kPairwise = false;
  static constexpr int kRows = 8;
  static constexpr int kRowsOfX = RowsOfX(sizeof(Operand));
  static constexpr int kAccumulators = 24;
  [[gnu::always_inline]] static Operand LoadWeight(const BF16* p) {
    return {_mm512_loadu_si512(p)};
  }
  [[gnu::always_inline]] static Operand LoadLeft(const BF16* p) {
    int pair;
    std::memcpy(&pair, p, sizeof(pair));
    return {_mm512_set1_epi32(pair)};
  }
  [[gnu::always_inline]] static void Mac(F32& sum, Operand a, Operand b) {
    sum = AddDots(sum, a.v, b.v);
  }
};
#endif

#if defined(__AMX_BF16__)
// bf16 with tiles (gemm/amx.h). Weights are packed as for the others; x is packed in rows.
struct AmxMath : DotMath {
  static constexpr int kRows = 32;
};
template <class M>
inline constexpr bool kIsAmx = std::same_as<M, AmxMath>;
#else
template <class M>
inline constexpr bool kIsAmx = false;
#endif

// The math of a file of dot instructions.
#if defined(__AMX_BF16__)
using BF16DotMath = AmxMath;
#elif defined(__AVX512BF16__)
using BF16DotMath = DotMath;
#endif

// The math that takes most memory of those in an instruction set's file: it decides how large a
// workspace is that serves any of them.
#if defined(__AVX512BF16__)
using WidestMath = BF16DotMath;
#else
using WidestMath = PairMath<float>;
#endif

// What a tile of AMX takes at once: rows of x, and steps along k.
inline constexpr std::int64_t kAmxRows = 16, kAmxSteps = 16;

// Vectors of weights across a panel, for one pair of k.
template <class M>
inline constexpr int kPanelVectors = 2 * kPanel / M::kElements;

// A long product is cut into chunks of k, so that a panel's weights stay in the first level of
// cache while blocks of rows pass. Between two chunks the sums of a block wait in memory as the
// registers had them, which changes no bit.
template <class M>
struct PartialSums {
  typename M::Sum* sums;   // [rows][kPartialSums<M>]
  bool is_first, is_last;  // of the chunks; if both, there are none
};
// The partial sums of a row: a pairwise math has two for each column.
template <class M>
inline constexpr int kPartialSums = kPanel*(M::kPairwise ? 2 : 1);

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
