// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "ops/common/elementwise/elementwise.h"
#include "ops/common/transpose.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
namespace {

// Tokens in the order of their adapters, so that an adapter is read once for all of its tokens.

using Index = std::int64_t;

// A token and its adapter.
struct Use {
  Index adapter, token;
};

// uses: room for one of each token. Those without an adapter are left out; returns how many remain.
Index SortUses(const Tensor& indices, Use* uses) {
  Index n = 0;
  for (Index i = 0; i < indices.dim(0); ++i) {
    const Index adapter = ReadIndex(indices, i);
    if (adapter >= 0) uses[n++] = {adapter, i};
  }
  std::sort(uses, uses + n, [](const Use& a, const Use& b) {
    return a.adapter != b.adapter ? a.adapter < b.adapter : a.token < b.token;
  });
  return n;
}

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

// The tokens' adapters.
template <class N>
constexpr ArrayWorkspace<Use, N> ShrinkLayout(N t) {
  return ArrayWorkspace<Use, N>(t);
}
constexpr SizeText ShrinkBytes() { return ShrinkLayout<SizeText>("t").bytes(); }

// y[r][j] = scale * sum_l x[r][l] * a[j * pitch + l] for kRows rows and kOutputs outputs. Each sum
// has the same order, whatever these are.
template <int kRows, int kOutputs, class T>
void ShrinkTile(const T* const (&x)[kRows], const T* a, Index pitch, Index k, float scale,
                float* const (&y)[kRows]) {
  F32 sum[kRows][kOutputs];
  for (auto& row : sum) {
    for (F32& s : row) s = Zero();
  }
  ForLanes(k, [&](Index l, auto n) {
    F32 v[kRows];
    for (int r = 0; r < kRows; ++r) v[r] = LoadN(x[r] + l, n);
    for (int j = 0; j < kOutputs; ++j) {
      const F32 w = LoadN(a + j * pitch + l, n);
      for (int r = 0; r < kRows; ++r) sum[r][j] = Fma(v[r], w, sum[r][j]);
    }
  });
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kOutputs; ++j) y[r][j] = scale * ReduceAdd(sum[r][j]);
  }
}

template <int kRows, class T>
void ShrinkRows(const T* const (&x)[kRows], const T* a, Index pitch, Index k, Index outputs,
                float scale, float* const (&y)[kRows]) {
  if (outputs == 4) return ShrinkTile<kRows, 4>(x, a, pitch, k, scale, y);
  for (Index j = 0; j < outputs; ++j) {
    float* to[kRows];
    for (int r = 0; r < kRows; ++r) to[r] = y[r] + j;
    ShrinkTile<kRows, 1>(x, a + j * pitch, pitch, k, scale, to);
  }
}

void RunShrink(const Context& ctx, const Tensor& x, const Tensor& a, const Tensor& indices,
               float scale, const Tensor& y) {
  const Index r = a.dim(1), k = a.dim(2), tiles = (r + 3) / 4;
  for (Index i = 0; i < indices.dim(0); ++i) {
    if (ReadIndex(indices, i) < 0) std::fill_n(y.at<float>(i), r, 0.0f);
  }
  const auto layout = ShrinkLayout<std::int64_t>(x.dim(0));
  Use* uses = Placed(ctx, layout)[layout.elements];
  const Index n = SortUses(indices, uses), pairs = (n + 1) / 2;
  VisitFloat(x.type(), [&](auto zero) {
    using T = decltype(zero);
    const auto shrink = [&](Index begin, Index end) {
      for (Index item = begin; item < end; ++item) {
        const Index at = item / tiles * 2, j = item % tiles * 4,
                    outputs = std::min<Index>(4, r - j);
        const Use first = uses[at], second = uses[std::min(at + 1, n - 1)];
        const auto factors = [&](const Use& use) { return a.at<const T>(use.adapter, j); };
        const auto result = [&](const Use& use) { return y.at<float>(use.token) + j; };
        const T *u = x.at<const T>(first.token), *v = x.at<const T>(second.token);
        if (at + 1 < n && first.adapter == second.adapter) {
          ShrinkRows<2, T>({u, v}, factors(first), a.stride(1), k, outputs, scale,
                           {result(first), result(second)});
          continue;
        }
        ShrinkRows<1, T>({u}, factors(first), a.stride(1), k, outputs, scale, {result(first)});
        if (at + 1 < n) {
          ShrinkRows<1, T>({v}, factors(second), a.stride(1), k, outputs, scale, {result(second)});
        }
      }
    };
    ctx.ParallelFor(pairs * tiles, 20000 / (8 * k + 100) + 1, shrink);
  });
}

}  // namespace

ANYOP_KERNEL(lora_shrink){.workspace = kWorkspace<&ShrinkBytes>, .run = Bind<&RunShrink>()};
ANYOP_KERNEL(lora_expand){.workspace = kWorkspace<&ExpandBytes>, .run = Bind<&RunExpand>()};

}  // namespace anyop::ops
