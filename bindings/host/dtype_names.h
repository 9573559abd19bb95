// SPDX-License-Identifier: Apache-2.0
// Dtypes as NumPy and PyTorch write them.
#pragma once
#include "anyop/dtype.h"

namespace anyop {

inline constexpr const char* kLongDTypeNames[kDTypes] = {
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2",
    "int64",   "int32",   "int16",   "int8",     "uint8",         "bool"};

}  // namespace anyop
