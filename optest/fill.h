// SPDX-License-Identifier: Apache-2.0
// Data for generated tensors.
#pragma once
#include <optional>

#include "optest/checks.h"

namespace anyop::optest {

// NaN and infinities stand among usual numbers, some or one alone; so do those of kMixed, which has
// all of them, -0 and subnormals. kTiny and kLarge are finite and of whole rows.
enum class Extreme : std::uint8_t { kNaN, kInfinity, kMinusInfinity, kMixed, kTiny, kLarge };
inline constexpr int kExtremes = 6;

struct FillRule {
  Range range{-2, 2};                 // of floats
  IndexRule rule = IndexRule::kNone;  // of integers
  std::int64_t bound = 0;             // of that rule
  std::optional<Extreme> extreme;     // of floats
};
void FillArray(Array& array, const FillRule& rule, Call& call);

}  // namespace anyop::optest
