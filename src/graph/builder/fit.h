// SPDX-License-Identifier: Apache-2.0
// Finds the polynomial behind a size that is known at some points only.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "graph/ir/size.h"

namespace anyop {

// A size and what it is at each point.
struct KnownSize {
  Size size;
  std::vector<std::int64_t> at;
};

// A constant, one of `known`, or a*k + b or a*k*l + b or a*(k + l) + b of one or two of them, the
// first that has the value at[p] at every point p. False if there is none. Points: 3 or more, or
// only a constant or a known size is looked for.
bool FitSize(std::span<const std::int64_t> at, std::span<const KnownSize> known, Size* fitted);

}  // namespace anyop
