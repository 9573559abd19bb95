// SPDX-License-Identifier: Apache-2.0
// Tiles of AMX: eight registers of up to 16 rows of 64 bytes, which a thread configures before it
// uses them and gives back behind that, since each switch of threads would save their 8 KB.
#pragma once
#if defined(__AMX_TILE__)
#include <cstdint>

#include "anyop/simd.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

inline constexpr std::int64_t kTileBytes = 64;  // of a row

// The compiler does not know that instructions of tiles read memory.
[[gnu::always_inline]] inline void FinishStores() { asm volatile("" ::: "memory"); }

// rows: of each tile, 1 to 16.
inline void ConfigureTiles(const std::uint8_t (&rows)[8]) {
  struct alignas(64) {
    std::uint8_t palette = 1, start = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  } shapes;
  for (int tile = 0; tile < 8; ++tile) {
    shapes.row_bytes[tile] = kTileBytes;
    shapes.rows[tile] = rows[tile];
  }
  // As FinishStores: the stores above must not be left out or come later.
  asm volatile("" : : "r"(&shapes) : "memory");
  _tile_loadconfig(&shapes);
}
inline void ReleaseTiles() { _tile_release(); }

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
#endif
