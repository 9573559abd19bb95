// SPDX-License-Identifier: Apache-2.0
// The loops whose speed is a ceiling, in vectors of the widest kind that the processor has.
#pragma once
#include <cstdint>

namespace anyop {

// p, from, to: 64-byte aligned; bytes: a multiple of 512.
using ReadLoop = void (*)(const char* p, std::int64_t bytes);
using CopyLoop = void (*)(char* to, const char* from, std::int64_t bytes);
// `rounds` times kAccumulators independent vector instructions.
using RateLoop = void (*)(std::int64_t rounds);
inline constexpr int kAccumulators = 12;  // 2 units x 4 cycles = 8 in flight, with room

inline constexpr double kTileOperations = 2 * 16 * 16 * 32;

struct CeilingLoops {
  ReadLoop read;
  CopyLoop copy;
  RateLoop fma;       // f32
  RateLoop bf16_dot;  // null: the processor has no such instruction
  RateLoop int8_dot;
  int vector_bytes;        // operations per instruction: 2 per element of a source vector
  bool has_tiles = false;  // bf16_dot multiplies tiles: kTileOperations per instruction
};

CeilingLoops WidestLoops();

}  // namespace anyop
