// SPDX-License-Identifier: Apache-2.0
// The product of a block of packed rows of x and packed panels of a weight, in registers.
//
//   left    [k2][rows][2]       rows <= kRows
//   weight  [panel][k2][32][2]
//   sums    [panel][rows][32]
//
// k2 counts the steps along k: two neighbours, or four bytes where an element is a pair of them.
//
// Every sum is one chain of additions in ascending k (two, even and odd, if kPairwise), whatever
// the shape of the tile: a row has the same bits alone and in a batch.
#pragma once
#include <cstdint>
#include <type_traits>

#include "ops/common/gemm/math.h"
#include "ops/common/visit_rows.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Bytes ahead in each stream of weights that software prefetch asks for.
inline constexpr std::int64_t kAheadBytes = 4096;

inline constexpr std::int64_t kStepWeights = 2 * kPanel;  // of a panel for one step of k
template <class M>
inline constexpr std::int64_t kStepBytesOf = kStepWeights* std::int64_t(sizeof(typename M::Weight));

// The widest strip of a panel, in vectors, whose sums fit the registers with this many rows.
template <class M>
constexpr int StripVectors(int rows) {
  int strip = kPanelVectors<M>;
  while (strip > 2 && rows * strip > M::kAccumulators) strip /= 2;
  return strip;
}

// Panels side by side, so that few rows still have 8 sums in flight: a multiply-add takes 4 cycles,
// and two begin in each.
template <class M>
constexpr int PanelsAtOnce(int rows) {
  if (kIsAmx<M>) return 1;
  const int panels = 8 / (rows * kPanelVectors<M>);
  return panels < 1 ? 1 : panels;
}

template <TileMath M, int kR, int kS, int kP>
struct RegisterTile {
  using Left = typename M::Left;
  using Weight = typename M::Weight;
  static constexpr int kV = kS * kP;
  static constexpr int kLines = int(kS * M::kElements * sizeof(Weight) + 63) / 64;  // a step, panel

  typename M::Sums sum[kR][kV];

  [[gnu::always_inline]] RegisterTile() {
#pragma GCC unroll 8
    for (int i = 0; i < kR; ++i) {
#pragma GCC unroll 16
      for (int v = 0; v < kV; ++v) sum[i][v] = M::Zero();
    }
  }

  // Adds steps [begin, end); touch(z) prefetches.
  template <class Touch>
  [[gnu::always_inline]] void Add(const Left* left, const Weight* weight, std::int64_t stride,
                                  std::int64_t begin, std::int64_t end, Touch&& touch) {
    for (std::int64_t z = begin; z < end; ++z) {
      touch(z);
      typename M::Operand w[kV];
#pragma GCC unroll 16
      for (int v = 0; v < kV; ++v) {
        w[v] = M::LoadWeight(weight + v / kS * stride + z * kStepWeights + v % kS * M::kElements);
      }
#pragma GCC unroll 8
      for (int i = 0; i < kR; ++i) {
        const auto x = M::LoadLeft(left + (z * kR + i) * 2);
#pragma GCC unroll 16
        for (int v = 0; v < kV; ++v) M::Mac(sum[i][v], w[v], x);
      }
    }
  }

  // The sums as they are, before those of pairs are added.
  static constexpr int kSumsOfVector = int(sizeof(typename M::Sums) / sizeof(typename M::Sum));
  [[gnu::always_inline]] void LoadPartial(const typename M::Sum* from) {
#pragma GCC unroll 8
    for (int i = 0; i < kR; ++i) {
#pragma GCC unroll 16
      for (int v = 0; v < kV; ++v) sum[i][v] = M::Load(from + (i * kV + v) * kSumsOfVector);
    }
  }
  [[gnu::always_inline]] void StorePartial(typename M::Sum* to) const {
#pragma GCC unroll 8
    for (int i = 0; i < kR; ++i) {
#pragma GCC unroll 16
      for (int v = 0; v < kV; ++v) M::Store(to + (i * kV + v) * kSumsOfVector, sum[i][v]);
    }
  }

  [[gnu::always_inline]] void Store(typename M::Sum* sums) const {
#pragma GCC unroll 8
    for (int i = 0; i < kR; ++i) {
#pragma GCC unroll 4
      for (int p = 0; p < kP; ++p) {
        typename M::Sum* row = sums + (p * kR + i) * kPanel;
        const typename M::Sums* s = sum[i] + p * kS;
        if constexpr (M::kPairwise) {
#pragma GCC unroll 8
          for (int v = 0; v < kS; v += 2) {
            M::Store(row + v / 2 * kLanes, M::SumPairs(s[v], s[v + 1]));
          }
        } else {
#pragma GCC unroll 8
          for (int v = 0; v < kS; ++v) M::Store(row + v * kLanes, s[v]);
        }
      }
    }
  }
};

// One row block by kP panels that nobody else is about to read: prefetches its own streams, and at
// their end the beginning of the panels that follow.
template <class M, int kR, int kP>
[[gnu::noinline]] void StreamPanels(const typename M::Left* left, const typename M::Weight* weight,
                                    std::int64_t k2, typename M::Sum* sums) {
  constexpr int kStrip = StripVectors<M>(kR);
  constexpr std::int64_t kAhead = kAheadBytes / kStepBytesOf<M>;
  const std::int64_t stride = k2 * kStepWeights;
  const std::int64_t near = k2 > kAhead ? k2 - kAhead : 0;
#pragma GCC unroll 1
  for (int strip = 0; strip < kPanelVectors<M>; strip += kStrip) {
    using T = RegisterTile<M, kR, kStrip, kP>;
    const auto* w = weight + strip * M::kElements;
    const auto touch = [&](std::int64_t z, std::int64_t ahead) [[gnu::always_inline]] {
#pragma GCC unroll 8
      for (int line = 0; line < kP * T::kLines; ++line) {
        const auto* at = w + line / T::kLines * stride + z * kStepWeights + ahead;
        Prefetch(reinterpret_cast<const char*>(at) + line % T::kLines * 64);
      }
    };
    T tile;
    const std::int64_t here = kAhead * kStepWeights;
    const std::int64_t next = kP * stride - near * kStepWeights;
    tile.Add(left, w, stride, 0, near, [&](std::int64_t z) { touch(z, here); });
    tile.Add(left, w, stride, near, k2, [&](std::int64_t z) { touch(z, next); });
    tile.Store(sums + strip * M::kElements / 2);
  }
}

// One of several row blocks by a chunk of one panel, which comes from cache. Meanwhile every step
// of k brings `step` bytes, at most kStepBytesOf, from `ahead` on into the second level. sums: of
// the last chunk.
template <class M, int kR>
[[gnu::noinline]] void MultiplyPanel(const typename M::Left* left, const typename M::Weight* weight,
                                     std::int64_t k2, const char* ahead, std::int64_t step,
                                     PartialSums<M> partial, typename M::Sum* sums) {
  constexpr int kStrip = StripVectors<M>(kR);
  constexpr int kLines = kStepBytesOf<M> * kStrip / kPanelVectors<M> / 64;
  step = step * kStrip / kPanelVectors<M>;
#pragma GCC unroll 1
  for (int strip = 0; strip < kPanelVectors<M>; strip += kStrip, ahead += k2 * step) {
    RegisterTile<M, kR, kStrip, 1> tile;
    if (!partial.is_first) tile.LoadPartial(partial.sums);
    tile.Add(left, weight + strip * M::kElements, 0, 0, k2, [&](std::int64_t z) {
#pragma GCC unroll 4
      for (int line = 0; line < kLines; ++line) {
        __builtin_prefetch(ahead + z * step + line * step / kLines, 0, 2);
      }
    });
    if (partial.is_last) {
      tile.Store(sums + strip * M::kElements / 2);
    } else {
      tile.StorePartial(partial.sums);
    }
    partial.sums += kR * kStrip * tile.kSumsOfVector;
  }
}

// The products above for a number of rows that is known at run time. They are compiled once for
// each instruction set, in files of this folder, because they are most of the compiler's work for
// an operator that multiplies. Their definitions stand outside of the class: a function that is
// defined inside is inline, and GCC compiles inline functions wherever they are called, `extern
// template` or not. An object of the class is for one thread and some products in a row; only that
// of AmxMath (amx.h) has a state.
template <TileMath M>
struct Tiles {
  using Left = typename M::Left;
  using Weight = typename M::Weight;
  using Sum = typename M::Sum;

  // The most sums of Stream: PanelsAtOnce<M>(rows) panels of `rows` rows.
  static constexpr int kMostSums = (M::kRows > 8 ? M::kRows : 8) * kPanel;

  // is_wide: PanelsAtOnce<M>(rows) panels, else one.
  static void Stream(std::int64_t rows, bool is_wide, const Left* left, const Weight* weight,
                     std::int64_t k2, Sum* sums);
  static void Multiply(std::int64_t rows, const Left* left, const Weight* weight, std::int64_t k2,
                       const char* ahead, std::int64_t step, const PartialSums<M>& partial,
                       Sum* sums);
};
template <TileMath M>
void Tiles<M>::Stream(std::int64_t rows, bool is_wide, const Left* left, const Weight* weight,
                      std::int64_t k2, Sum* sums) {
  VisitRows<M::kRows>(rows, [&](auto r) {
    if (is_wide) {
      return StreamPanels<M, r.value, PanelsAtOnce<M>(r.value)>(left, weight, k2, sums);
    }
    StreamPanels<M, r.value, 1>(left, weight, k2, sums);
  });
}
template <TileMath M>
void Tiles<M>::Multiply(std::int64_t rows, const Left* left, const Weight* weight, std::int64_t k2,
                        const char* ahead, std::int64_t step, const PartialSums<M>& partial,
                        Sum* sums) {
  VisitRows<M::kRows>(rows, [&](auto r) {
    MultiplyPanel<M, r.value>(left, weight, k2, ahead, step, partial, sums);
  });
}
extern template struct Tiles<PairMath<float>>;
extern template struct Tiles<PairMath<F16>>;
extern template struct Tiles<SplitMath>;
#if defined(__AVX512BF16__)
extern template struct Tiles<DotMath>;
#endif

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
