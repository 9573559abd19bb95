// SPDX-License-Identifier: Apache-2.0
// The formats of dtypes that hold floats, and how far apart their numbers lie.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "anyop/dtype.h"

namespace anyop {

struct FloatFormat {
  int mantissa_bits, least_exponent;  // of normal numbers
  double largest;                     // finite
};
inline FloatFormat FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return {52, -1022, std::numeric_limits<double>::max()};
    case DType::kF16:
      return {10, -14, 65504};
    case DType::kBF16:
      return {7, -126, 0x1.fep127};
    case DType::kF8E4M3:
      return {3, -6, 448};
    case DType::kF8E5M2:
      return {2, -14, 57344};
    case DType::kF8E4M3FNUZ:
      return {3, -7, 240};
    case DType::kF8E5M2FNUZ:
      return {2, -15, 57344};
    case DType::kF8E8M0:
      return {0, -127, 0x1p127};
    default:
      return {23, -126, std::numeric_limits<float>::max()};
  }
}

// The spacing of a float dtype at `value`: the distance between the two neighbours around it. Of
// subnormals the smallest one; of values beyond the largest the spacing of the largest.
inline double Ulp(DType dtype, double value) {
  const FloatFormat f = FormatOf(dtype);
  double size = std::fabs(value);
  if (!(size <= f.largest)) size = f.largest;  // NaN, too
  const int exponent = size == 0 ? f.least_exponent : std::max(std::ilogb(size), f.least_exponent);
  return std::ldexp(1.0, exponent - f.mantissa_bits);
}

}  // namespace anyop
