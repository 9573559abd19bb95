// SPDX-License-Identifier: Apache-2.0
// Functions of floats, element by element. Tensors are f32, f16 or bf16; f32 is computed with, and
// rounded once.
#pragma once
#include <cstddef>
#include <utility>

#include "ops/common/elementwise/elementwise.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// to[i] = f(x[i]...) for tensors of one shape and dtype, of which `to` may be any. f(zero, v, w...)
// finds blocks of vectors of the xs and leaves the result in v; zero: a value of the dtype.
template <class F, class... Xs>
[[gnu::always_inline]] inline void ForEachFloat(const Context& ctx, double element_ns,
                                                const Tensor& to, F f, const Xs&... xs) {
  VisitFloat(to.type(), [&](auto zero) {
    using T = decltype(zero);
    const auto apply = [&](std::int64_t n, std::int64_t i_to, auto... i_xs) {
      T* y = to.base<T>() + i_to;
      const T* from[] = {xs.template base<const T>() + i_xs...};
      ForBlocks<4>(n, [&](std::int64_t i, auto count, auto block) {
        F32 v[sizeof...(xs)][block];
        [&]<std::size_t... k>(std::index_sequence<k...>) __attribute__((always_inline)) {
          (LoadBlock(v[k], from[k] + i, count), ...);
          f(zero, v[k]...);
        }
        (std::index_sequence_for<Xs...>{});
        StoreBlock(y + i, v[0], count);
      });
    };
    ForRuns(ctx, element_ns, apply, to, xs...);
  });
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
