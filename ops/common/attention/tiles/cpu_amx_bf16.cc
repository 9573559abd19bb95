// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "ops/common/amx.h"
#include "ops/common/attention/layout.h"
#include "ops/common/attention/tiles/tiles.h"
#include "ops/common/transpose.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {
namespace {

using Word = std::uint32_t;
constexpr std::int64_t kSide = 16;  // of a tile: rows, and words of a row
constexpr std::int64_t kLaneBytes = kManyRows * sizeof(Word);  // of a row of 64 lanes

void Begin() { ConfigureTiles({16, 16, 16, 16, 16, 16, 16, 16}); }

// 16 or 32 of the columns.
template <bool kHasOthers>
void ScoresOf(const Word* keys, const Word* queries, std::int64_t row, float* scores) {
  for (std::int64_t key = 0; key < kTile; key += 2 * kSide) {
    _tile_zero(0);
    _tile_zero(2);
    if constexpr (kHasOthers) _tile_zero(1);
    if constexpr (kHasOthers) _tile_zero(3);
    for (std::int64_t e = 0; e < row; e += kSide) {
      const Word* a = keys + key * row + e;
      const Word* b = queries + e * kManyRows;
      const std::int64_t key_bytes = row * std::int64_t(sizeof(Word));
      _tile_loadd(4, a, key_bytes);
      _tile_loadd(6, b, kLaneBytes);
      _tile_loadd(5, a + kSide * row, key_bytes);
      if constexpr (kHasOthers) _tile_loadd(7, b + kSide, kLaneBytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kHasOthers) _tile_dpbf16ps(1, 4, 7);
      if constexpr (kHasOthers) _tile_dpbf16ps(3, 5, 7);
    }
    float* to = scores + key * kManyRows;
    _tile_stored(0, to, kLaneBytes);
    _tile_stored(2, to + kSide * kManyRows, kLaneBytes);
    if constexpr (kHasOthers) _tile_stored(1, to + kSide, kLaneBytes);
    if constexpr (kHasOthers) _tile_stored(3, to + kSide * kManyRows + kSide, kLaneBytes);
  }
}

void Scores(const Word* keys, const Word* queries, std::int64_t row, int lanes, float* scores) {
  FinishStores();
  int lane = 0;
  for (; lane + 2 * kSide <= lanes; lane += 2 * kSide) {
    ScoresOf<true>(keys, queries + lane, row, scores + lane);
  }
  if (lane < lanes) ScoresOf<false>(keys, queries + lane, row, scores + lane);
  FinishStores();
}

void AddValues(const Word* weights, const Word* values, std::int64_t row, std::uint64_t rows,
               float* sums) {
  constexpr std::int64_t kBlocks = kManyRows / kSide, kSteps = kTile / 2 / kSide, kParts = 2;
  constexpr std::uint64_t kAllRows = (1 << kSide) - 1;
  // The weights, a row of keys for each row.
  alignas(64) Word a[kBlocks][kParts][kSteps][kSide][kSide];
  for (std::int64_t block = 0; block < kBlocks; ++block) {
    if (!(rows >> block * kSide & kAllRows)) continue;
    for (std::int64_t part = 0; part < kParts; ++part) {
      for (std::int64_t step = 0; step < kSteps; ++step) {
        const Word* from = weights + (step * kSide * kParts + part) * kManyRows + block * kSide;
        Square<Word, 64>::Transpose(reinterpret_cast<const char*>(from), kParts * kLaneBytes,
                                    reinterpret_cast<char*>(a[block][part][step]), kTileBytes);
      }
    }
  }
  FinishStores();
  const std::int64_t row_bytes = row * std::int64_t(sizeof(float));
  for (std::int64_t e = 0; e < row; e += 2 * kSide) {
    const Word* b = values + e;
    _tile_loadd(4, b, row_bytes);
    _tile_loadd(5, b + kSide, row_bytes);
    _tile_loadd(6, b + kSide * row, row_bytes);
    _tile_loadd(7, b + kSide * row + kSide, row_bytes);
    for (std::int64_t block = 0; block < kBlocks; ++block) {
      const std::uint64_t mask = rows >> block * kSide & kAllRows;
      if (!mask) continue;
      float* c = sums + block * kSide * row + e;
      alignas(64) float some[kSide][2 * kSide];
      const bool is_whole = mask == kAllRows;
      float* to = is_whole ? c : some[0];
      const std::int64_t to_bytes = is_whole ? row_bytes : std::int64_t(sizeof(some[0]));
      _tile_loadd(0, c, row_bytes);
      _tile_loadd(1, c + kSide, row_bytes);
      for (const auto& part : a[block]) {
        _tile_loadd(2, part[0], kTileBytes);
        _tile_loadd(3, part[1], kTileBytes);
        _tile_dpbf16ps(0, 2, 4);
        _tile_dpbf16ps(1, 2, 5);
        _tile_dpbf16ps(0, 3, 6);
        _tile_dpbf16ps(1, 3, 7);
      }
      _tile_stored(0, to, to_bytes);
      _tile_stored(1, to + kSide, to_bytes);
      FinishStores();
      for (std::int64_t r = 0; r < kSide && !is_whole; ++r) {
        if (mask >> r & 1) std::memcpy(c + r * row, some[r], sizeof(some[r]));
      }
    }
  }
}

}  // namespace
}  // namespace ANYOP_ISA

extern constinit const AttentionTiles amx_attention_tiles{Begin, ReleaseTiles, Scores, AddValues};

}  // namespace anyop::ops
