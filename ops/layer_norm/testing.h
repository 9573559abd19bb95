// SPDX-License-Identifier: Apache-2.0
// The error that normalized rows have in f32.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "optest/optest.h"

namespace anyop::optest {

struct NormalizedRow {
  double mean = 0, scale = 0, largest = 0;

  double z(double x) const { return (x - mean) * scale; }
  // |z| + s * max|x|, to which the error of z is relative.
  double error(double x) const { return std::fabs(z(x)) + scale * largest; }
};

inline std::vector<NormalizedRow> NormalizedRows(const Call& call) {
  const Array& x = call.array("x");
  const std::int64_t d = x.dim(-1);
  std::vector<NormalizedRow> rows(std::size_t(x.rows()));
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    NormalizedRow& row = rows[std::size_t(r)];
    double squares = 0;
    for (std::int64_t j = 0; j < d; ++j) {
      row.mean += x.Get(r * d + j) / double(d);
      row.largest = std::max(row.largest, std::fabs(x.Get(r * d + j)));
    }
    for (std::int64_t j = 0; j < d; ++j) squares += std::pow(x.Get(r * d + j) - row.mean, 2);
    row.scale = 1 / std::sqrt(squares / double(d) + call.number("eps"));
  }
  return rows;
}

}  // namespace anyop::optest
