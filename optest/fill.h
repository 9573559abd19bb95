// SPDX-License-Identifier: Apache-2.0
// Data for generated tensors.
#pragma once
#include <optional>

#include "optest/checks.h"

namespace anyop::optest {

struct FillRule {
  Range range{-2, 2};                 // of floats
  IndexRule rule = IndexRule::kNone;  // of integers
  std::int64_t bound = 0;             // of that rule
  bool is_special = false;            // NaN, Inf, -0, subnormal and huge floats in between
};
void FillArray(Array& array, const FillRule& rule, Call& call);

}  // namespace anyop::optest
