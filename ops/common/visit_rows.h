// SPDX-License-Identifier: Apache-2.0
// A number of rows as a constant, so that their sums stay in registers.
#pragma once
#include <cstdint>
#include <type_traits>

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Calls f with min(rows, kMax) as a constant; rows >= 1.
template <int kMax, class F>
[[gnu::always_inline]] inline void VisitRows(std::int64_t rows, F&& f) {
  if constexpr (kMax > 1) {
    if (rows < kMax) return VisitRows<kMax - 1>(rows, f);
  }
  f(std::integral_constant<int, kMax>{});
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
