// SPDX-License-Identifier: Apache-2.0
// How many vectors the machine that a file is compiled for keeps in registers. Sizes of tiles
// follow from it.
#pragma once
#include "anyop/simd.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr int kVectorRegisters = 32;
#else
inline constexpr int kVectorRegisters = 16;
#endif

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
