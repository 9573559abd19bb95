// SPDX-License-Identifier: Apache-2.0
// The products of many rows with tiles of AMX, for code that is compiled for dot instructions: all
// else that it does is the same.
#pragma once
#include <cstdint>

namespace anyop::ops {

// Pairs of bf16 as words.
struct AttentionTiles {
  // Give the thread its tiles, and take them back. scores and add_values are called in between.
  void (*begin)();
  void (*end)();
  // scores [64, 64], the first `lanes` columns, of keys [64, row] and queries [row, 64]; row and
  // lanes: multiples of 16.
  void (*scores)(const std::uint32_t* keys, const std::uint32_t* queries, std::int64_t row,
                 int lanes, float* scores);
  // sums [64, row] += weights [32, 2, 64], whose parts are added, transposed, times values [32,
  // row], for the rows whose bit is set; row: a multiple of 32.
  void (*add_values)(const std::uint32_t* weights, const std::uint32_t* values, std::int64_t row,
                     std::uint64_t rows, float* sums);
};

// Null where the library was built without them.
extern const AttentionTiles amx_attention_tiles [[gnu::weak]];

// What kernels need beside dot instructions; the rest stands in cmake/isa.cmake.
#define ANYOP_AND_TILES ",amx_tile,amx_bf16"

}  // namespace anyop::ops
