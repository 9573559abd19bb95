// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/common/transpose.h"
#include "ops/common/workspace.h"
#include "ops/lora/adapters.h"

namespace anyop::ops {
namespace {

constexpr std::int64_t kTogether = 2;  // strips of outputs
constexpr int kTokens = 4;             // of one adapter

// The tokens' adapters, and for each part of the outputs transposed strips of at most 16 of them.
// n: the outputs, of which a vector holds at least 4.
template <class N>
struct ExpandWorkspace : Workspace<N> {
  Part<Use, N> uses;
  N strip;
  Part<float, N> strips;  // [parts, kTogether, strip]
  constexpr ExpandWorkspace(N threads, N t, N r, N n)
      : uses(this->template Add<Use>(t)),
        strip(N(std::int64_t{16}) * (r + N(std::int64_t{16}))),
        strips(this->template Add<float>(Min(CeilDiv(n, N(std::int64_t{4})), threads) *
                                         N(kTogether) * strip)) {}
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

// y[i][0 : count] = sum_q x[i][q] * strips[q], added to what is there or in place of it. Products
// of several tokens and strips do not wait for each other; an output's bits depend on its token
// alone.
template <class T, int kN, int kWide>
[[gnu::noinline]] void ExpandStrips(const float* const* x, const float* strips, Index strip,
                                    Index r, bool add, T* const* y, Index count) {
  F32 sum[kN][kWide];
#pragma GCC unroll 4
  for (auto& of_token : sum) {
    for (F32& s : of_token) s = Zero();
  }
  for (Index q = 0; q < r; ++q) {
    F32 b[kWide];
#pragma GCC unroll 2
    for (int w = 0; w < kWide; ++w) b[w] = Load(strips + w * strip + q * kLanes);
#pragma GCC unroll 4
    for (int i = 0; i < kN; ++i) {
      const F32 value = Set(x[i][q]);
#pragma GCC unroll 2
      for (int w = 0; w < kWide; ++w) sum[i][w] = Fma(value, b[w], sum[i][w]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kN; ++i) {
#pragma GCC unroll 2
    for (int w = 0; w < kWide; ++w) {
      T* to = y[i] + w * kLanes;
      const int n = int(std::min<Index>(kLanes, count - w * kLanes));
      StoreN(to, add ? LoadN(to, n) + sum[i][w] : sum[i][w], n);
    }
  }
}

// The same for n tokens and any count of outputs that the strips hold.
template <class T>
void ExpandTokens(const float* const* x, Index n, const float* strips, Index strip, Index r,
                  bool add, T* const* y, Index count) {
  const auto expand = [&](auto wide) {
    constexpr int kWide = decltype(wide)::value;
    if (n == kTokens) {
      ExpandStrips<T, kTokens, kWide>(x, strips, strip, r, add, y, count);
      return;
    }
    for (Index i = 0; i < n; ++i) {
      ExpandStrips<T, 1, kWide>(x + i, strips, strip, r, add, y + i, count);
    }
  };
  if (count > kLanes) {
    expand(std::integral_constant<int, kTogether>{});
  } else {
    expand(std::integral_constant<int, 1>{});
  }
}

void RunExpand(const Context& ctx, const Tensor& x, const Tensor& b, const Tensor& indices,
               const Tensor& y, std::int64_t offset, bool add) {
  constexpr Index kOutputs = kTogether * kLanes;
  const Index outputs = b.dim(1), r = b.dim(2), groups = (outputs + kOutputs - 1) / kOutputs;
  const ExpandWorkspace<std::int64_t> layout(ThreadsOf(ctx), x.dim(0), r, outputs);
  const Placed placed(ctx, layout);
  Use* uses = placed[layout.uses];
  const Index n = SortUses(indices, uses), parts = std::min<Index>(ctx.threads, groups);
  const double group_ns = kTogether * (double(n) * (double(r) * 0.2 + 5) + double(r) * 4);
  const double part_ns = group_ns * double(groups) / double(std::max<Index>(parts, 1)) + 10;
  VisitFloat(y.type(), [&](auto zero) {
    using T = decltype(zero);
    ctx.ParallelFor(parts, Index(2000 / part_ns) + 1, [&](Index begin, Index end) {
      for (Index part = begin; part < end; ++part) {
        float* strips = placed[layout.strips] + part * kTogether * layout.strip;
        for (Index group = part; group < groups; group += parts) {
          const Index j = group * kOutputs, count = std::min(kOutputs, outputs - j);
          for (Index u = 0; u < n;) {
            const Use first = uses[u];
            if (u == 0 || first.adapter != uses[u - 1].adapter) {
              for (Index w = 0; w * kLanes < count; ++w) {
                TransposeStrip(b.at<const T>(first.adapter, j + w * kLanes), b.stride(1), r,
                               std::min<Index>(kLanes, count - w * kLanes),
                               strips + w * layout.strip);
              }
            }
            const float* from[kTokens];
            T* to[kTokens];
            int together = 0;
            for (; together < kTokens && u < n && uses[u].adapter == first.adapter; ++u) {
              from[together] = x.at<const float>(uses[u].token);
              to[together++] = y.at<T>(uses[u].token) + offset + j;
            }
            ExpandTokens(from, together, strips, layout.strip, r, add, to, count);
          }
        }
      }
    });
  });
}

}  // namespace
}  // namespace anyop::ops
