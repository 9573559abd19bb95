// SPDX-License-Identifier: Apache-2.0
#include "graph/builder/fit.h"

#include <algorithm>
#include <functional>

namespace anyop {
namespace {

using Values = std::span<const std::int64_t>;

// y = a*x + b at every point, with whole a and b, from two points with different x.
bool FitLine(Values x, Values y, std::int64_t* a, std::int64_t* b) {
  const auto other = std::find_if(x.begin(), x.end(), [&](std::int64_t v) { return v != x[0]; });
  if (other == x.end()) return false;
  const std::size_t k = std::size_t(other - x.begin());
  const std::int64_t rise = y[k] - y[0], run = x[k] - x[0];
  if (rise % run) return false;
  *a = rise / run;
  *b = y[0] - *a * x[0];
  for (std::size_t p = 0; p < x.size(); ++p) {
    if (*a * x[p] + *b != y[p]) return false;
  }
  return true;
}

}  // namespace

bool FitSize(Values at, std::span<const KnownSize> known, Size* fitted) {
  if (std::all_of(at.begin(), at.end(), [&](std::int64_t v) { return v == at[0]; })) {
    *fitted = Size(at[0]);
    return true;
  }
  for (const KnownSize& k : known) {
    if (!std::equal(at.begin(), at.end(), k.at.begin())) continue;
    *fitted = k.size;
    return true;
  }
  if (at.size() < 3) return false;
  std::int64_t a = 0, b = 0;
  for (const KnownSize& k : known) {
    if (!FitLine(k.at, at, &a, &b)) continue;
    *fitted = Size(a) * k.size + Size(b);
    return true;
  }
  std::vector<std::int64_t> x(at.size());
  for (std::size_t i = 0; i < known.size(); ++i) {
    for (std::size_t j = i; j < known.size(); ++j) {
      const std::vector<std::int64_t>&p = known[i].at, &q = known[j].at;
      std::transform(p.begin(), p.end(), q.begin(), x.begin(), std::multiplies());
      if (FitLine(x, at, &a, &b)) {
        *fitted = Size(a) * known[i].size * known[j].size + Size(b);
        return true;
      }
      std::transform(p.begin(), p.end(), q.begin(), x.begin(), std::plus());
      if (FitLine(x, at, &a, &b)) {
        *fitted = Size(a) * (known[i].size + known[j].size) + Size(b);
        return true;
      }
    }
  }
  return false;
}

}  // namespace anyop
