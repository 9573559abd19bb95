// SPDX-License-Identifier: Apache-2.0
// The unit in which a row is normalized.
//
// The squares of a row leave f32 from 2^64 on, and below 2^-75: its scale would be 0 or infinite,
// and its elements zeros that nobody can tell from results. Such a row is multiplied by a power of
// 2 before it is squared.
#pragma once
#include <cmath>

#include "anyop/simd.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// The unit of a row whose mean square, with eps added, is this in f32. Infinite means too large,
// and so does NaN, which such sums end in too.
[[gnu::always_inline]] inline float UnitOf(float mean_square) {
  if (mean_square >= 0x1p-90f && mean_square <= 0x1p120f) [[likely]]
    return 1;
  return mean_square < 1 ? 0x1p96f : 0x1p-96f;
}

// 1 / sqrt(mean_square + eps) where mean_square is that of the row times its unit.
inline float ScaleInUnits(float mean_square, float eps, float unit) {
  const double all = double(mean_square) + double(eps) * double(unit) * double(unit);
  return float(1 / std::sqrt(all));
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
