// SPDX-License-Identifier: Apache-2.0
#include "optest/fill.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

namespace anyop::optest {
namespace {

constexpr std::int64_t kFine = 1 << 24;

double DrawFloat(const Range& range, Call& call) {
  return range.low + (range.high - range.low) * double(call.Draw(0, kFine)) / double(kFine);
}

double DrawExtreme(DType dtype, Extreme kind, Call& call) {
  if (kind == Extreme::kNaN) return NAN;
  if (kind != Extreme::kMixed) return kind == Extreme::kInfinity ? HUGE_VAL : -HUGE_VAL;
  const double tiny = Ulp(dtype, 0);
  const double values[] = {NAN, HUGE_VAL, -HUGE_VAL, -0.0, 0.0, tiny, -3 * tiny, -1e4};
  return values[call.Draw(0, std::int64_t(std::size(values)) - 1)];
}

// Rows times a power of 2 each, down to subnormals or up to large numbers, some of them the
// largest.
void ScaleRows(Array& array, Extreme kind, Call& call) {
  const std::int64_t width = array.shape().empty() ? 1 : array.dim(-1);
  const int least = std::ilogb(Ulp(array.dtype(), 0)), most = std::ilogb(Largest(array.dtype()));
  int exponent = 0;
  for (std::int64_t i = 0; i < array.size(); ++i) {
    if (i % width == 0) {
      exponent = int(kind == Extreme::kLarge ? call.Draw(most / 4, most - 1)
                                             : call.Draw(least, least / 4));
    }
    const double largest = Largest(array.dtype()), value = array.Get(i);
    const bool is_largest = kind == Extreme::kLarge && call.Draw(0, 31) == 0;
    // Never infinite, whatever the range of the parameter: what overflows on the way is judged by
    // whether all arguments are finite.
    const double size =
        is_largest ? largest : std::fmin(std::ldexp(std::fabs(value), exponent), largest);
    array.Set(i, std::copysign(size, value));
  }
}

void MakeExtreme(Array& array, Extreme kind, Call& call) {
  if (array.size() == 0) return;
  if (kind == Extreme::kTiny || kind == Extreme::kLarge) return ScaleRows(array, kind, call);
  if (call.Draw(0, 1)) {
    const std::int64_t at = call.Draw(0, array.size() - 1);
    return array.Set(at, DrawExtreme(array.dtype(), kind, call));
  }
  for (std::int64_t i = 0; i < array.size(); ++i) {
    if (call.Draw(0, 7) == 0) array.Set(i, DrawExtreme(array.dtype(), kind, call));
  }
}

// Begins with 0 and never falls; the rest of the bound is left over in half of the calls.
void FillOffsets(Array& array, std::int64_t bound, Call& call) {
  const std::int64_t n = array.size();
  const std::int64_t last =
      call.Draw(0, 1) ? bound : call.Draw(0, std::max<std::int64_t>(bound, 0));
  std::vector<std::int64_t> cuts;
  for (std::int64_t i = 0; i < n; ++i) cuts.push_back(call.Draw(0, last));
  std::sort(cuts.begin(), cuts.end());
  for (std::int64_t i = 0; i < n; ++i) {
    array.SetInt(i, i == 0 ? 0 : i == n - 1 ? last : cuts[std::size_t(i)]);
  }
}

void FillIntegers(Array& array, const FillRule& rule, Call& call) {
  if (rule.rule == IndexRule::kOffsets) return FillOffsets(array, rule.bound, call);
  const bool is_small = Bytes(array.dtype()) == 1;
  for (std::int64_t i = 0; i < array.size(); ++i) {
    std::int64_t value = call.Draw(0, 7);
    if (rule.rule == IndexRule::kBelow) {
      value = rule.bound <= 0 || call.Draw(0, 9) == 0 ? -1 : call.Draw(0, rule.bound - 1);
    } else if (is_small) {
      value = call.Draw(array.dtype() == DType::kI8 ? -128 : 0,
                        array.dtype() == DType::kI8 ? 127 : 255);
      if (array.dtype() == DType::kBool) value &= 1;
    }
    array.SetInt(i, value);
  }
}

}  // namespace

void FillArray(Array& array, const FillRule& rule, Call& call) {
  if (!IsFloat(array.dtype())) return FillIntegers(array, rule, call);
  for (std::int64_t i = 0; i < array.size(); ++i) {
    array.Set(i, DrawFloat(rule.range, call));
  }
  if (rule.extreme) MakeExtreme(array, *rule.extreme, call);
}

}  // namespace anyop::optest
