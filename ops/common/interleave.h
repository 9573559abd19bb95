// SPDX-License-Identifier: Apache-2.0
// Rows whose elements belong to two sequences in turns: x[2i] to the one, x[2i + 1] to the other.
#pragma once
#include <algorithm>
#include <type_traits>
#include <utility>

#include "anyop/simd.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {
namespace interleave {

template <int kFirst, int... kLane>
[[gnu::always_inline]] inline F32 EverySecond(F32 a, F32 b, std::integer_sequence<int, kLane...>) {
  return {__builtin_shufflevector(a.v, b.v, (kFirst + 2 * kLane)...)};
}
template <int kFirst, int... kLane>
[[gnu::always_inline]] inline F32 InTurns(F32 a, F32 b, std::integer_sequence<int, kLane...>) {
  return {__builtin_shufflevector(a.v, b.v, (kFirst + kLane / 2 + kLane % 2 * kLanes)...)};
}
using LaneNumbers = std::make_integer_sequence<int, kLanes>;

}  // namespace interleave

// The first n pairs at p; other lanes read 0.
template <class T, class Count>
[[gnu::always_inline]] inline void LoadInTurns(const T* p, Count n, F32& even, F32& odd) {
  using namespace interleave;
  F32 low, high = Zero();
  if constexpr (std::is_same_v<Count, Full>) {
    low = Load(p), high = Load(p + kLanes);
  } else {
    low = LoadN(p, std::min(2 * n, kLanes));
    if (2 * n > kLanes) high = LoadN(p + kLanes, 2 * n - kLanes);
  }
  even = EverySecond<0>(low, high, LaneNumbers{});
  odd = EverySecond<1>(low, high, LaneNumbers{});
}

template <class T, class Count>
[[gnu::always_inline]] inline void StoreInTurns(T* p, F32 even, F32 odd, Count n) {
  using namespace interleave;
  const F32 low = InTurns<0>(even, odd, LaneNumbers{});
  const F32 high = InTurns<kLanes / 2>(even, odd, LaneNumbers{});
  if constexpr (std::is_same_v<Count, Full>) {
    Store(p, low), Store(p + kLanes, high);
  } else {
    StoreN(p, low, std::min(2 * n, kLanes));
    if (2 * n > kLanes) StoreN(p + kLanes, high, 2 * n - kLanes);
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
