// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "anyop/simd/bytes.h"
#include "ops/common/elementwise/elementwise.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
namespace {

// Sums of rows that stand where `destination` says, for moe_unpermute and the gradients.

using Index = std::int64_t;

Index RowGrain(Index elements) { return 20000 / (elements + 100) + 1; }

// y[i] = sum_a weights[i, a] * x[destination[i, a]]. weights: null for ones.
template <class T>
void SumRow(const Tensor& x, const std::int32_t* destination, const float* weights, Index k, T* y,
            Index d) {
  const T* base = x.base<const T>();
  const Index pitch = x.stride(0);
  ForBlocks<4>(d, [&](Index j, auto count, auto block) {
    F32 sum[block], v[block];
    for (int b = 0; b < block; ++b) sum[b] = Zero();
    for (Index a = 0; a < k; ++a) {
      if (destination[a] < 0) continue;
      LoadBlock(v, base + destination[a] * pitch + j, count);
      const F32 w = Set(weights ? weights[a] : 1.0f);
      for (int b = 0; b < block; ++b) sum[b] = Fma(v[b], w, sum[b]);
    }
    StoreBlock(y + j, sum, count);
  });
}

void Unpermute(const Context& ctx, const Tensor& x, const Tensor& destination,
               const Tensor* weights, const Tensor& y) {
  const Index k = destination.dim(1), d = x.dim(1);
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    ctx.ParallelFor(y.dim(0), RowGrain((k + 1) * d), [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) {
        SumRow(x, destination.at<const std::int32_t>(i),
               weights ? weights->at<const float>(i) : nullptr, k, y.at<T>(i), d);
      }
    });
  });
}

// The same of f8e4m3.
void SumRow8(const Tensor& x, const std::int32_t* destination, Index k, F8E4M3* y, Index d) {
  ForLanes(d, [&](Index j, auto count) {
    F32 sum = Zero();
    for (Index a = 0; a < k; ++a) {
      if (destination[a] < 0) continue;
      sum += LoadAny(x.at<const F8E4M3>(destination[a]) + j, count);
    }
    StoreBytes(y + j, sum, count);
  });
}

void PermuteBackward(const Context& ctx, const Tensor& dx_sorted, const Tensor& destination,
                     const Tensor* dx) {
  if (!dx) return;
  if (dx_sorted.type() != DType::kF8E4M3) {
    return Unpermute(ctx, dx_sorted, destination, nullptr, *dx);
  }
  const Index k = destination.dim(1), d = dx_sorted.dim(1);
  ctx.ParallelFor(dx->dim(0), RowGrain((k + 1) * d), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      SumRow8(dx_sorted, destination.at<const std::int32_t>(i), k, dx->at<F8E4M3>(i), d);
    }
  });
}

template <class T>
float Dot(const T* x, const T* y, Index d) {
  F32 sum[4] = {Zero(), Zero(), Zero(), Zero()};
  ForBlocks<4>(d, [&](Index j, auto count, auto block) {
    F32 u[block], v[block];
    LoadBlock(u, x + j, count);
    LoadBlock(v, y + j, count);
    for (int b = 0; b < block; ++b) sum[b] = Fma(u[b], v[b], sum[b]);
  });
  return ReduceAdd((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

template <class N>
struct PairsWorkspace : Workspace<N> {
  Part<Index, N> first, next;  // [m], [t * k]
  constexpr PairsWorkspace(N m, N pairs)
      : first(this->template Add<Index>(m)), next(this->template Add<Index>(pairs)) {}
};
constexpr SizeText PairsBytes() {
  return PairsWorkspace<SizeText>("m", SizeText("t") * SizeText("k")).bytes();
}

// The pairs of each row, in rising order, as lists: of a row that two pairs share the gradient is a
// sum.
class PairLists {
 public:
  PairLists(const Context& ctx, const Tensor& destination, Index m) {
    const PairsWorkspace<Index> layout(m, destination.dim(0) * destination.dim(1));
    const Placed placed(ctx, layout);
    first_ = placed[layout.first], next_ = placed[layout.next];
    std::memset(first_, 0xff, std::size_t(m) * 8);  // -1
    const Index k = destination.dim(1);
    for (Index i = destination.dim(0) - 1; i >= 0; --i) {
      const std::int32_t* rows = destination.at<const std::int32_t>(i);
      for (Index a = k - 1; a >= 0; --a) {
        if (rows[a] < 0) continue;
        next_[i * k + a] = first_[rows[a]];
        first_[rows[a]] = i * k + a;
      }
    }
  }
  Index first(Index row) const { return first_[row]; }
  Index next(Index pair) const { return next_[pair]; }

 private:
  Index* first_;  // [m]; -1: none
  Index* next_;   // [t * k]
};

// to = the sum of weight * dy over the pairs of a row, 0 if it has none.
template <class T>
void GradientOfRow(const PairLists& pairs, Index row, const Tensor& dy, const Tensor* weights,
                   Index k, T* to, Index d) {
  ForBlocks<4>(d, [&](Index j, auto count, auto block) {
    F32 sum[block], v[block];
    for (int b = 0; b < block; ++b) sum[b] = Zero();
    for (Index pair = pairs.first(row); pair >= 0; pair = pairs.next(pair)) {
      const Index i = pair / k;
      LoadBlock(v, dy.at<const T>(i) + j, count);
      const F32 w = Set(weights ? weights->at<const float>(i)[pair % k] : 1.0f);
      for (int b = 0; b < block; ++b) sum[b] = Fma(v[b], w, sum[b]);
    }
    StoreBlock(to + j, sum, count);
  });
}

void UnpermuteBackward(const Context& ctx, const Tensor& dy, const Tensor& x_sorted,
                       const Tensor& destination, const Tensor* weights, const Tensor* dx_sorted,
                       const Tensor* dweights) {
  const Index k = destination.dim(1), m = x_sorted.dim(0), d = x_sorted.dim(1);
  VisitFloat(dy.type(), [&](auto zero) {
    using T = decltype(zero);
    if (dx_sorted) {
      const PairLists pairs(ctx, destination, m);
      ctx.ParallelFor(m, RowGrain(2 * d), [&](Index begin, Index end) {
        for (Index r = begin; r < end; ++r) {
          GradientOfRow(pairs, r, dy, weights, k, dx_sorted->at<T>(r), d);
        }
      });
    }
    if (!dweights) return;
    ctx.ParallelFor(dy.dim(0), RowGrain((k + 1) * d), [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) {
        const std::int32_t* rows = destination.at<const std::int32_t>(i);
        float* to = dweights->at<float>(i);
        for (Index a = 0; a < k; ++a) {
          to[a] = rows[a] < 0 ? 0 : Dot(dy.at<const T>(i), x_sorted.at<const T>(rows[a]), d);
        }
      }
    });
  });
}

}  // namespace

ANYOP_KERNEL(moe_permute_backward){.run = Bind<&PermuteBackward>()};
ANYOP_KERNEL(moe_unpermute){.run = Bind<&Unpermute>()};
ANYOP_KERNEL(moe_unpermute_backward){.workspace = kWorkspace<&PairsBytes>,
                                     .run = Bind<&UnpermuteBackward>()};

}  // namespace anyop::ops
