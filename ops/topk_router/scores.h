// SPDX-License-Identifier: Apache-2.0
// The probabilities of a token's experts, for the router and its gradient.
#pragma once
#include <algorithm>
#include <cmath>
#include <string_view>

#include "ops/common/elementwise.h"
#include "ops/common/largest.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
namespace {

// For each part of the tokens kRows arrays of one float for each expert.
template <int kRows, class N>
constexpr RowsWorkspace<float, N> LayoutOf(N threads, N t, N e) {
  return {Min(t, threads), N(std::int64_t{kRows}) * e};
}
template <int kRows>
constexpr SizeText RouterBytes() {
  return LayoutOf<kRows, SizeText>("threads", "t", "e").bytes();
}

// Calls f(token, scratch) for every token; scratch: kRows arrays of e that nobody else uses
// meanwhile.
template <int kRows, class F>
void ForTokens(const Context& ctx, std::int64_t tokens, std::int64_t e, double token_ns, F&& f) {
  const auto layout = LayoutOf<kRows, std::int64_t>(ThreadsOf(ctx), tokens, e);
  float* rows = Placed(ctx, layout)[layout.rows];
  const std::int64_t parts = std::min<std::int64_t>(ctx.threads, tokens);
  const double part_ns = token_ns * double(tokens) / double(std::max<std::int64_t>(parts, 1)) + 10;
  ctx.ParallelFor(parts, std::int64_t(2000 / part_ns) + 1,
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t part = begin; part < end; ++part) {
                      float* scratch = rows + part * layout.row;
                      for (std::int64_t i = part; i < tokens; i += parts) f(i, scratch);
                    }
                  });
}

void Widen(const Tensor& logits, std::int64_t i, float* p) {
  VisitFloat(logits.type(), [&](auto zero) {
    const auto* row = logits.base<const decltype(zero)>() + i * logits.stride(0);
    ForLanes(logits.dim(1), [&](std::int64_t j, auto n) { StoreN(p + j, LoadN(row + j, n), n); });
  });
}

void SigmoidOf(float* p, std::int64_t e) {
  ForBlocks<4>(e, [&](std::int64_t j, auto count, auto block) {
    F32 v[block];
    LoadAll(v, p + j, count);
    SigmoidAll(v);
    StoreAll(p + j, v, count);
  });
}

// NaN in every element where one is NaN or +inf, or all are -inf.
void SoftmaxOf(float* p, std::int64_t e) {
  const F32 m = Set(Largest(p, e));
  F32 sums[4] = {Zero(), Zero(), Zero(), Zero()};
  ForBlocks<4>(e, [&](std::int64_t j, auto count, auto block) {
    F32 x[block], v[block];
    LoadAll(x, p + j, count);
    for (int k = 0; k < block; ++k) v[k] = x[k] - m;
    ExpAll(v);
    for (int k = 0; k < block; ++k) {
      // e^t, t = fl(x - m), times 1 + what the rounding of t lost.
      const F32 t = x[k] - m, b = t - x[k], lost = (x[k] - (t - b)) - (m + b);
      v[k] = Select(t < Set(-110.0f), Zero(), Fma(v[k], lost, v[k]));
      sums[k] += KeepFirst(v[k], count, Zero());
    }
    StoreAll(p + j, v, count);
  });
  const float sum = ReduceAdd((sums[0] + sums[1]) + (sums[2] + sums[3]));
  const F32 inverse = Set(1 / sum);
  ForLanes(e, [&](std::int64_t j, auto n) { StoreN(p + j, LoadN(p + j, n) * inverse, n); });
}

// p[e]: the probabilities of token i.
void Probabilities(const Tensor& logits, std::int64_t i, bool is_softmax, float* p) {
  Widen(logits, i, p);
  is_softmax ? SoftmaxOf(p, logits.dim(1)) : SigmoidOf(p, logits.dim(1));
}

// Keeps a sum of weights that are all 0 from being divided by.
constexpr double kLeastSum = 1e-20;

}  // namespace
}  // namespace anyop::ops
