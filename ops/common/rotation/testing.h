// SPDX-License-Identifier: Apache-2.0
// The error that a rotation may have: 0.51 ulp + 3u (|a| + |b|) max(|c|, |s|) of each pair.
#pragma once
#include <algorithm>
#include <cmath>
#include <string>

#include "optest/optest.h"

namespace anyop::optest {

// input: the tensor that result `result` is the rotation of.
inline double RotationAllowance(const Element& e, const Array& input) {
  const Call& call = e.call;
  const Array& table = call.array("cos_sin_cache");
  const std::int64_t d = input.dim(2), q = table.dim(1) / 2, offset = call.integer("offset");
  const std::int64_t z = e.index % d - offset, token = e.index / (d * input.dim(1));
  const std::int64_t row = call.given("positions") ? call.array("positions").GetInt(token) : token;
  if (z < 0 || z >= 2 * q || row < 0) return 0;
  const bool neox = call.word("style") == "neox";
  const std::int64_t pair = neox ? z % q : z / 2;
  const std::int64_t other = neox ? (z + q) % (2 * q) : z ^ 1;
  const double ab = std::abs(input.Get(e.index)) + std::abs(input.Get(e.index + other - z));
  const double cs =
      std::max(std::abs(table.Get({row, pair})), std::abs(table.Get({row, q + pair})));
  return 0.51 * e.ulp() + 3 * kU * ab * cs;
}

}  // namespace anyop::optest
