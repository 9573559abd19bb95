// SPDX-License-Identifier: Apache-2.0
// Tables of cosines hold numbers only. A table may be all that a model sees of its positions, and
// infinities in it only show at the model's end.
#pragma once
#include <cmath>
#include <cstdint>
#include <string>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

inline std::string ShowFloat(float x) {
  return std::isnan(x) ? "nan" : std::isinf(x) ? x < 0 ? "-inf" : "inf" : std::to_string(x);
}

// Refuses the call where a frequency, or its multiple at the last position that the table has (-1:
// it has none), is no finite f32. with: what made the frequency: " with base 1e-200".
inline void CheckAngles(std::int64_t pair, float frequency, std::int64_t last,
                        const std::string& with) {
  if (std::isfinite(frequency) && (last < 0 || std::isfinite(float(last) * frequency))) return;
  Refuse("the frequency of pair " + std::to_string(pair) + " is " + ShowFloat(frequency) + with +
         ", but it and its multiples up to the last position must be finite, because the table "
         "holds their cosines.");
}

}  // namespace
}  // namespace anyop::ops
