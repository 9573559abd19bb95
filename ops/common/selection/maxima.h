// SPDX-License-Identifier: Apache-2.0
// The largest few of a short row, one after the other.
#pragma once
#include <bit>
#include <cstdint>

#include "anyop/simd.h"
#include "ops/common/selection/largest.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// indices: the k largest of x[d] by falling value, equals by rising index, as far as they are above
// -inf. Returns how many; x becomes -inf there.
template <class Index>
std::int64_t TakeMaxima(float* x, std::int64_t d, std::int64_t k, Index* indices) {
  for (std::int64_t taken = 0; taken < k; ++taken) {
    F32 most = Set(kMinusInfinity);
    ForLanes(d, [&](std::int64_t i, auto n) {
      most = Max(KeepFirst(LoadN(x + i, n), n, Set(kMinusInfinity)), most);  // passes over NaN
    });
    const float m = ReduceMax(most);
    if (m == kMinusInfinity) return taken;
    std::int64_t i = 0;
    std::uint32_t lanes = 0;
    for (; !lanes; i += kLanes) {
      const int n = int(std::min<std::int64_t>(kLanes, d - i));
      lanes = Bits(LoadN(x + i, n) == Set(m)) & ((1u << n) - 1);
    }
    indices[taken] = Index(i - kLanes + std::countr_zero(lanes));
    x[indices[taken]] = kMinusInfinity;
  }
  return k;
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
