// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "ops/common/amx.h"
#include "ops/common/gemm/amx.h"
#include "ops/common/gemm/backward.h"
#include "ops/common/gemm/rows.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {
namespace {

constexpr std::int64_t kTerms = 2 * kAmxSteps;
constexpr std::int64_t kPanelBytes = kStepWeights * std::int64_t(sizeof(BF16));

// Tiles: 0, 1 sums of the first 16 rows by both halves of a panel, 2, 3 of the others; 4, 5 the
// halves of the weights; 6, 7 the rows.
void ConfigureRows(std::int64_t first, std::int64_t others) {
  const auto f = std::uint8_t(first), o = std::uint8_t(others), w = std::uint8_t(kAmxSteps);
  ConfigureTiles({f, f, o, o, w, w, f, o});
}

// One chunk of a panel. Meanwhile every step of k brings `step` bytes from `ahead` on into cache
// level 4 - kLocality. Of several blocks of rows the rows pass by: the first level of cache keeps
// the weights.
template <bool kHasOthers, int kLocality>
[[gnu::noinline]] void MultiplyPanel(std::int64_t rows, const BF16* left, const BF16* weight,
                                     std::int64_t k2, const char* ahead, std::int64_t step,
                                     const PartialSums<AmxMath>& partial, float* sums) {
  constexpr std::int64_t kSumsBytes = kPanel * std::int64_t(sizeof(float));
  FinishStores();
  if (partial.is_first) {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (kHasOthers) {
      _tile_zero(2);
      _tile_zero(3);
    }
  } else {
    _tile_loadd(0, partial.sums, kSumsBytes);
    _tile_loadd(1, partial.sums + 16, kSumsBytes);
    if constexpr (kHasOthers) {
      _tile_loadd(2, partial.sums + kAmxRows * kPanel, kSumsBytes);
      _tile_loadd(3, partial.sums + kAmxRows * kPanel + 16, kSumsBytes);
    }
  }
  const auto add = [&](const BF16* w) [[gnu::always_inline]] {
    _tile_loadd(4, w, kPanelBytes);
    if constexpr (kLocality == 2) {
      _tile_stream_loadd(6, left, kTileBytes);
      if constexpr (kHasOthers) _tile_stream_loadd(7, left + kAmxRows * kTerms, kTileBytes);
    } else {
      _tile_loadd(6, left, kTileBytes);
      if constexpr (kHasOthers) _tile_loadd(7, left + kAmxRows * kTerms, kTileBytes);
    }
    _tile_loadd(5, w + 32, kPanelBytes);
    _tile_dpbf16ps(0, 6, 4);
    if constexpr (kHasOthers) _tile_dpbf16ps(2, 7, 4);
    _tile_dpbf16ps(1, 6, 5);
    if constexpr (kHasOthers) _tile_dpbf16ps(3, 7, 5);
    left += rows * kTerms;
  };
  std::int64_t z = 0;
  for (; z + kAmxSteps <= k2; z += kAmxSteps, ahead += kAmxSteps * step) {
    for (std::int64_t i = 0; i < kAmxSteps * step; i += 64) {
      __builtin_prefetch(ahead + i, 0, kLocality);
    }
    add(weight + z * kStepWeights);
  }
  if (z < k2) {  // what follows belongs to the next panel, and may be no number
    alignas(64) BF16 tail[kAmxSteps * kStepWeights];
    std::memset(tail, 0, sizeof(tail));
    std::memcpy(tail, weight + z * kStepWeights, std::size_t((k2 - z) * kPanelBytes));
    FinishStores();
    add(tail);
  }
  if (!partial.is_last) sums = partial.sums;
  _tile_stored(0, sums, kSumsBytes);
  _tile_stored(1, sums + 16, kSumsBytes);
  if constexpr (kHasOthers) {
    _tile_stored(2, sums + kAmxRows * kPanel, kSumsBytes);
    _tile_stored(3, sums + kAmxRows * kPanel + 16, kSumsBytes);
  }
  FinishStores();
}

}  // namespace

Tiles<AmxMath>::~Tiles() {
  if (rows_) ReleaseTiles();
}

void Tiles<AmxMath>::Configure(std::int64_t rows) {
  if (rows == rows_) return;
  rows_ = rows;
  ConfigureRows(std::min(rows, kAmxRows), rows > kAmxRows ? rows - kAmxRows : kAmxRows);
}

void Tiles<AmxMath>::Stream(std::int64_t rows, bool, const BF16* left, const BF16* weight,
                            std::int64_t k2, float* sums) {
  Configure(rows);
  const char* ahead = reinterpret_cast<const char*>(weight) + kAheadBytes;
  const auto multiply = rows > kAmxRows ? MultiplyPanel<true, 3> : MultiplyPanel<false, 3>;
  multiply(rows, left, weight, k2, ahead, kPanelBytes, {nullptr, true, true}, sums);
}

void Tiles<AmxMath>::Multiply(std::int64_t rows, const BF16* left, const BF16* weight,
                              std::int64_t k2, const char* ahead, std::int64_t step,
                              const PartialSums<AmxMath>& partial, float* sums) {
  // One configuration for all blocks: to change it for the last, narrower one of each panel takes
  // an eighth of the time of fused_moe. What follows the rows of that block is computed, not used.
  Configure(AmxMath::kRows);
  const auto multiply = rows > kAmxRows ? MultiplyPanel<true, 2> : MultiplyPanel<false, 2>;
  multiply(rows, left, weight, k2, ahead, step, partial, sums);
}

void PackAmxColumns(std::int64_t rows, std::int64_t k, const BF16* const* x, BF16* out) {
  using Block = Square<std::int32_t, 64>;
  alignas(64) BF16 edge[kAmxRows][kTerms];
  for (std::int64_t half = 0; half < rows; half += kAmxRows, x += kAmxRows) {
    const std::int64_t count = std::min(rows - half, kAmxRows);
    std::memset(edge, 0, sizeof(edge));
    BF16* to = out + half / kAmxRows * (kAmxBlockStep / 2);
    for (std::int64_t l = 0; l < k; l += kTerms, to += kAmxBlockStep) {
      const bool is_whole = l + kTerms <= k;
      for (std::int64_t r = 0; r < count && !is_whole; ++r) {
        std::memcpy(edge[r], x[r] + l, std::size_t(k - l) * sizeof(BF16));
      }
      const auto row = [&](int r) {
        const BF16* from = is_whole && r < count ? x[r] + l : edge[r];
        return reinterpret_cast<const char*>(from);
      };
      Block::Transpose(row, reinterpret_cast<char*>(to), kTileBytes);
    }
  }
}

namespace {

// sums [16][32] or [32][32] of 32 rows of a weight.
template <bool kHasOthers>
[[gnu::noinline]] void MultiplyWeightRows(const BF16* weight, std::int64_t stride, std::int64_t k,
                                          const BF16* x, bool prefetches, float* sums) {
  FinishStores();
  _tile_zero(0);
  _tile_zero(2);
  if constexpr (kHasOthers) {
    _tile_zero(1);
    _tile_zero(3);
  }
  const auto add = [&](const BF16* w, std::int64_t pitch) {
    pitch *= std::int64_t(sizeof(BF16));
    _tile_loadd(6, w, pitch);
    _tile_loadd(4, x, kTileBytes);
    _tile_loadd(7, reinterpret_cast<const char*>(w) + kAmxRows * pitch, pitch);
    if constexpr (kHasOthers) _tile_loadd(5, x + kAmxBlockStep / 2, kTileBytes);
    _tile_dpbf16ps(0, 6, 4);
    _tile_dpbf16ps(2, 7, 4);
    if constexpr (kHasOthers) {
      _tile_dpbf16ps(1, 6, 5);
      _tile_dpbf16ps(3, 7, 5);
    }
    x += kAmxBlockStep;
  };
  std::int64_t l = 0;
  for (; l + kTerms <= k; l += kTerms) {
    for (std::int64_t r = kPanel; r < 2 * kPanel && prefetches; ++r) {
      __builtin_prefetch(weight + r * stride + l, 0, 2);
    }
    add(weight + l, stride);
  }
  if (l < k) {  // what follows belongs to the next row, and may be no number
    alignas(64) BF16 tail[kPanel][kTerms];
    std::memset(tail, 0, sizeof(tail));
    for (std::int64_t r = 0; r < kPanel; ++r) {
      std::memcpy(tail[r], weight + r * stride + l, std::size_t(k - l) * sizeof(BF16));
    }
    FinishStores();
    add(tail[0], kTerms);
  }
  alignas(64) float columns[4][kAmxRows][kAmxRows];
  _tile_stored(0, columns[0], kTileBytes);
  _tile_stored(2, columns[1], kTileBytes);
  if constexpr (kHasOthers) {
    _tile_stored(1, columns[2], kTileBytes);
    _tile_stored(3, columns[3], kTileBytes);
  }
  FinishStores();
  using Block = Square<std::int32_t, 64>;
  for (std::int64_t i = 0; i < (kHasOthers ? 4 : 2); ++i) {
    float* to = sums + i / 2 * kAmxRows * kPanel + i % 2 * kAmxRows;
    Block::Transpose(reinterpret_cast<const char*>(columns[i]), kTileBytes,
                     reinterpret_cast<char*>(to), kPanel * sizeof(float));
  }
}

}  // namespace

WeightTiles::WeightTiles() { ConfigureRows(kAmxRows, kAmxRows); }
WeightTiles::~WeightTiles() { ReleaseTiles(); }

void WeightTiles::Multiply(std::int64_t rows, const BF16* weight, std::int64_t stride,
                           std::int64_t k, const BF16* x, bool prefetches, float* sums) const {
  const auto multiply = rows > kAmxRows ? MultiplyWeightRows<true> : MultiplyWeightRows<false>;
  multiply(weight, stride, k, x, prefetches, sums);
}

template struct DenseOutput<BF16>;
template struct Chunks<AmxMath>;
template struct RowTiles<AmxMath>;
ANYOP_LINEAR_GRADIENTS(AmxMath);

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
