// SPDX-License-Identifier: Apache-2.0
// Products of packed rows of x and packed panels with tiles of AMX, where tile.h has registers.
//
//   left    [k/32][rows][32]    rows <= 32, zeros after k: a tile is 16 rows by 32 terms
//   weight  [panel][k2][32][2]  a tile is 16 steps of half a panel
//   sums    [panel][rows][32]
//
// The instruction adds 16 steps to a sum in ascending order, even and odd terms apart: a row has
// the same bits alone and in a batch.
#pragma once
#include <cstdint>

#include "ops/common/gemm/tile.h"

#if defined(__AMX_BF16__)
namespace anyop::ops {
inline namespace ANYOP_ISA {

// A thread's tiles are configured for a number of rows when it first multiplies, and given back at
// the end: the state is 8 KB that each switch of threads would save.
template <>
struct Tiles<AmxMath> {
  using Left = BF16;
  using Weight = BF16;
  using Sum = float;

  static constexpr int kMostSums = AmxMath::kRows * kPanel;

  Tiles() = default;
  ~Tiles();
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  void Stream(std::int64_t rows, bool is_wide, const BF16* left, const BF16* weight,
              std::int64_t k2, float* sums);
  void Multiply(std::int64_t rows, const BF16* left, const BF16* weight, std::int64_t k2,
                const char* ahead, std::int64_t step, const PartialSums<AmxMath>& partial,
                float* sums);

 private:
  void Configure(std::int64_t rows);

  std::int64_t rows_ = 0;  // configured for
};

// Products of rows of x and a weight as it lies, [n, k]: tiles are 16 of its rows by 32 terms, and
// those of x 32 terms by 16 rows, [k/32][2][16][16][2] for a block of 32 rows. Sums are added as
// above.
inline constexpr std::int64_t kAmxBlockStep = 2 * kAmxSteps * kAmxRows * 2;  // elements

// x[r]: k elements of row r, at most 32 rows.
void PackAmxColumns(std::int64_t rows, std::int64_t k, const BF16* const* x, BF16* out);

class WeightTiles {
 public:
  WeightTiles();
  ~WeightTiles();
  WeightTiles(const WeightTiles&) = delete;
  WeightTiles& operator=(const WeightTiles&) = delete;

  // sums [rows][32] of 32 rows of the weight and a block, rounded up to 16 or 32 rows. prefetches:
  // the next 32 rows come into cache meanwhile.
  void Multiply(std::int64_t rows, const BF16* weight, std::int64_t stride, std::int64_t k,
                const BF16* x, bool prefetches, float* sums) const;
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
#endif
