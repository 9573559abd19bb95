// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/common/transpose.h"
#include "ops/common/workspace.h"
#include "ops/lora/adapters.h"

namespace anyop::ops {
namespace {

// The tokens' adapters, and for each part of the outputs a transposed strip of 16 of them. n: the
// outputs, of which a vector holds at least 4.
template <class N>
struct ExpandWorkspace : Workspace<N> {
  Part<Use, N> uses;
  N strip;
  Part<float, N> strips;  // [parts, strip]
  constexpr ExpandWorkspace(N threads, N t, N r, N n)
      : uses(this->template Add<Use>(t)),
        strip(N(std::int64_t{16}) * (r + N(std::int64_t{16}))),
        strips(this->template Add<float>(Min(CeilDiv(n, N(std::int64_t{4})), threads) * strip)) {}
};
constexpr SizeText ExpandBytes() {
  return ExpandWorkspace<SizeText>("threads", "t", "r", "n").bytes();
}

// strip[q][lane] = b[lane * pitch + q] for q < r and `count` outputs; 0 in other lanes.
template <class T>
void TransposeStrip(const T* b, Index pitch, Index r, Index count, float* strip) {
  alignas(64) float square[kLanes * kLanes];
  for (Index q = 0; q < r; q += kLanes) {
    const int n = int(std::min<Index>(kLanes, r - q));
    for (Index lane = 0; lane < kLanes; ++lane) {
      Store(square + lane * kLanes, lane < count ? LoadN(b + lane * pitch + q, n) : Zero());
    }
    Square<std::int32_t>::Transpose(reinterpret_cast<const char*>(square), 4 * kLanes,
                                    reinterpret_cast<char*>(strip + q * kLanes), 4 * kLanes);
  }
}

// y[0 : count] = sum_q x[q] * strip[q], added to what is there or in place of it.
template <class T>
void ExpandStrip(const float* x, const float* strip, Index r, bool add, T* y, int count) {
  F32 sum = Zero();
  for (Index q = 0; q < r; ++q) sum = Fma(Set(x[q]), Load(strip + q * kLanes), sum);
  StoreN(y, add ? LoadN(y, count) + sum : sum, count);
}

void RunExpand(const Context& ctx, const Tensor& x, const Tensor& b, const Tensor& indices,
               const Tensor& y, std::int64_t offset, bool add) {
  const Index outputs = b.dim(1), r = b.dim(2), strips = (outputs + kLanes - 1) / kLanes;
  const ExpandWorkspace<std::int64_t> layout(ThreadsOf(ctx), x.dim(0), r, outputs);
  const Placed placed(ctx, layout);
  Use* uses = placed[layout.uses];
  const Index n = SortUses(indices, uses), parts = std::min<Index>(ctx.threads, strips);
  const double strip_ns = double(n) * (double(r) * 0.5 + 5) + double(r) * 4;
  const double part_ns = strip_ns * double(strips) / double(std::max<Index>(parts, 1)) + 10;
  VisitFloat(y.type(), [&](auto zero) {
    using T = decltype(zero);
    ctx.ParallelFor(parts, Index(2000 / part_ns) + 1, [&](Index begin, Index end) {
      for (Index part = begin; part < end; ++part) {
        float* strip = placed[layout.strips] + part * layout.strip;
        for (Index s = part; s < strips; s += parts) {
          const Index j = s * kLanes, count = std::min<Index>(kLanes, outputs - j);
          for (Index u = 0; u < n; ++u) {
            const Use use = uses[u];
            if (u == 0 || use.adapter != uses[u - 1].adapter) {
              TransposeStrip(b.at<const T>(use.adapter, j), b.stride(1), r, count, strip);
            }
            ExpandStrip(x.at<const float>(use.token), strip, r, add,
                        y.at<T>(use.token) + offset + j, int(count));
          }
        }
      }
    });
  });
}

}  // namespace
}  // namespace anyop::ops
