// SPDX-License-Identifier: Apache-2.0
// The gate of a SwiGLU layer: where gate and up stand in a row, the limit, the sigmoid.
#pragma once
#include <limits>
#include <optional>

#include "ops/common/elementwise/elementwise.h"
#include "ops/common/elementwise/sigmoid_and_rest.h"
#include "ops/common/interleave.h"

namespace anyop::ops {
namespace {

enum class Order { kHalves, kInterleaved };

// The constants of a call. Without a limit it is infinite, and clamps nothing.
struct Swiglu {
  Swiglu(std::optional<float> limit, double alpha, double beta)
      : limit(Set(limit.value_or(std::numeric_limits<float>::infinity()))),
        alpha(Set(float(alpha))),
        alpha_rest(Set(float(alpha - double(float(alpha))))),
        beta(Set(float(beta))),
        has_limit(limit.has_value()) {}

  // Min and Max return their second operand where one is NaN: here that is g or u, which stays NaN.
  [[gnu::always_inline]] F32 Gate(F32 g) const { return Min(limit, g); }
  [[gnu::always_inline]] F32 Up(F32 u) const { return Max(Zero() - limit, Min(limit, u)); }

  // z = alpha * g, and what its rounding lost: of a large z that would cost sigma(z) |z| / 2 ulp.
  [[gnu::always_inline]] F32 Argument(F32 g, F32* lost) const {
    const F32 z = alpha * g;
    const F32 rest = FmaExact(alpha, g, Zero() - z) + alpha_rest * g;
    // Beyond 1000 sigma is 0 or 1 whatever was lost, and rest may be no number.
    *lost = Select(Abs(z) < Set(1000.0f), rest, Zero());
    // Infinite only where g is: a gradient has the products z sigma(z) and z sigma(-z), in which an
    // infinity of rounding alone would meet a 0. Of a g that is NaN, z is NaN.
    const F32 most = Max(Set(std::numeric_limits<float>::max()), Abs(g));
    return Max(Zero() - most, Min(most, z));
  }

  F32 limit, alpha, alpha_rest, beta;
  bool has_limit;
};

// One row of x, [2 * d].
template <class T, Order kOrder>
struct GateAndUp {
  T* row;
  std::int64_t d;

  template <int N, class Count>
  [[gnu::always_inline]] void Load(F32 (&g)[N], F32 (&u)[N], std::int64_t i, Count count) const {
    if constexpr (kOrder == Order::kHalves) {
      LoadBlock(g, row + i, count);
      LoadBlock(u, row + d + i, count);
    } else {
      for (int k = 0; k < N; ++k) LoadInTurns(row + 2 * (i + k * kLanes), count, g[k], u[k]);
    }
  }
  template <int N, class Count>
  [[gnu::always_inline]] void Store(const F32 (&g)[N], const F32 (&u)[N], std::int64_t i,
                                    Count count) const {
    if constexpr (kOrder == Order::kHalves) {
      StoreBlock(row + i, g, count);
      StoreBlock(row + d + i, u, count);
    } else {
      for (int k = 0; k < N; ++k) StoreInTurns(row + 2 * (i + k * kLanes), g[k], u[k], count);
    }
  }
};

// One row of d elements beside it, lanes in the order that GateAndUp has.
template <Order kOrder, int N, class T, class Count>
[[gnu::always_inline]] inline void LoadBeside(F32 (&v)[N], const T* p, Count count) {
  if constexpr (kOrder == Order::kHalves) {
    LoadBlock(v, p, count);
  } else {
    LoadAll(v, p, count);
  }
}
template <Order kOrder, int N, class T, class Count>
[[gnu::always_inline]] inline void StoreBeside(T* p, const F32 (&v)[N], Count count) {
  if constexpr (kOrder == Order::kHalves) {
    StoreBlock(p, v, count);
  } else {
    StoreAll(p, v, count);
  }
}

// Calls f with a value of the element type, and with the order as a constant.
template <class F>
[[gnu::always_inline]] inline void VisitOrder(DType dtype, std::string_view order, F&& f) {
  VisitFloat(dtype, [&](auto zero) {
    if (order == "halves") return f(zero, std::integral_constant<Order, Order::kHalves>{});
    f(zero, std::integral_constant<Order, Order::kInterleaved>{});
  });
}

}  // namespace
}  // namespace anyop::ops
