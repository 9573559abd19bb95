// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/common/elementwise/elementwise.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
namespace {

using PartTensors = std::span<const Tensor* const>;

template <class N>
struct MergeWorkspace : Workspace<N> {
  Part<float, N> weights;  // [t][h][parts]
  constexpr MergeWorkspace(N t, N h, N parts) : weights(this->template Add<float>(parts * t * h)) {}
};
constexpr SizeText MergeBytes() { return MergeWorkspace<SizeText>("t", "h", "len(outs)").bytes(); }

constexpr float kNothing = -1;  // the weight of a part that does not count

// The weights exp(lse_a - max) of one head, [t][h][parts], and lse.
void WeighHead(PartTensors lses, std::int64_t head, std::int64_t heads, float* weights,
               const Tensor& lse) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto parts = std::int64_t(lses.size());
  ForLanes(lse.dim(1), [&](std::int64_t t, auto count) {
    const auto load = [&](std::int64_t a) [[gnu::always_inline]] {
      const F32 v = LoadN(lses[std::size_t(a)]->at<const float>(head) + t, count);
      return Select(v == Set(kInfinity), Set(-kInfinity), v);
    };
    F32 largest = Set(-kInfinity);
    for (std::int64_t a = 0; a < parts; ++a) largest = Max(load(a), largest);
    largest = Select(largest == Set(-kInfinity), Zero(), largest);
    float lanes[kLanes];
    F32 sum = Zero();
    for (std::int64_t a = 0; a < parts; ++a) {
      const F32 v = load(a), weight = Exp(v - largest);
      sum += weight;
      Store(lanes, Select(v == Set(-kInfinity), Set(kNothing), weight));
      for (int i = 0; i < int(count); ++i) weights[((t + i) * heads + head) * parts + a] = lanes[i];
    }
    Store(lanes, sum);
    for (int i = 0; i < int(count); ++i) lanes[i] = std::log(lanes[i]);  // of 0: -infinity
    StoreN(lse.at<float>(head) + t, largest + Load(lanes), count);
  });
}

// Row (token, head) of y: the parts' rows by their shares of the sum of weights. Divided before the
// rows are added, so that rows of the largest numbers do not overflow.
template <class T>
void MergeRow(PartTensors outs, const float* weights, std::int64_t token, std::int64_t head,
              const Tensor& y) {
  float sum = 0;
  for (std::size_t a = 0; a < outs.size(); ++a) sum += weights[a] == kNothing ? 0 : weights[a];
  const F32 inverse = Set(sum == 0 ? 0 : 1 / sum);
  T* to = y.at<T>(token, head);
  ForBlocks<4>(y.dim(2), [&](std::int64_t i, auto count, auto block) {
    F32 total[block];
    for (F32& v : total) v = Zero();
    for (std::size_t a = 0; a < outs.size(); ++a) {
      if (weights[a] == kNothing) continue;
      F32 v[block];
      LoadBlock(v, outs[a]->at<const T>(token, head) + i, count);
      const F32 share = Set(weights[a]) * inverse;
      for (int k = 0; k < block; ++k) total[k] = Fma(v[k], share, total[k]);
    }
    StoreBlock(to + i, total, count);
  });
}

void Run(const Context& ctx, PartTensors outs, PartTensors lses, const Tensor& y,
         const Tensor& lse) {
  const std::int64_t tokens = y.dim(0), heads = y.dim(1), parts = std::int64_t(outs.size());
  const MergeWorkspace<std::int64_t> layout(tokens, heads, parts);
  float* weights = Placed(ctx, layout)[layout.weights];
  const double head_ns = double(tokens) * (5 + 2 * double(parts)) + 10;
  ctx.ParallelFor(heads, std::int64_t(2000 / head_ns) + 1, [&](std::int64_t b, std::int64_t e) {
    for (std::int64_t head = b; head < e; ++head) WeighHead(lses, head, heads, weights, lse);
  });
  VisitFloat(y.type(), [&](auto zero) {
    using T = decltype(zero);
    const double row_ns = double(y.dim(2) * (parts + 1)) * sizeof(T) * 0.02 + 10;
    ctx.ParallelFor(tokens * heads, std::int64_t(2000 / row_ns) + 1,
                    [&](std::int64_t b, std::int64_t e) {
                      for (std::int64_t r = b; r < e; ++r) {
                        MergeRow<T>(outs, weights + r * parts, r / heads, r % heads, y);
                      }
                    });
  });
}

}  // namespace

ANYOP_KERNEL(merge_attention_states){.workspace = kWorkspace<&MergeBytes>, .run = Bind<&Run>()};

}  // namespace anyop::ops
