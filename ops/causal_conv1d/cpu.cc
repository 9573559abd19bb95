// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include "ops/causal_conv1d/sequences.h"
#include "ops/common/elementwise/elementwise.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
namespace {

constexpr Index kWidth = 64;  // channels at a time

// For each part of the channels: filters, bias, what came before a sequence, one row.
template <class N>
constexpr RowsWorkspace<float, N> LayoutOf(N threads, N c, N k) {
  const N width(std::int64_t{kWidth});
  return {Min(CeilDiv(c, width), threads), width * (N(std::int64_t{2}) * k + N(std::int64_t{1}))};
}
constexpr SizeText WorkspaceBytes() { return LayoutOf<SizeText>("threads", "c", "k").bytes(); }

// The arguments that both operators have.
struct Convolution {
  const Tensor& x;           // [t, c]
  const Tensor& weight;      // [c, k]
  const Tensor* bias;        // [c]
  const Tensor* conv_state;  // [l, k1, c]
  bool has_silu;
  const Tensor& y;  // [t, c]

  Index taps() const { return weight.dim(1); }
  Index state_rows() const { return conv_state ? conv_state->dim(1) : 0; }
  Index state_offset(Index slot, Index row) const {
    return slot * conv_state->stride(0) + row * conv_state->stride(1);
  }
};

// to[n] = elements of a tensor of floats from an offset on, and back.
void Widen(const Tensor& from, Index offset, Index n, float* to) {
  VisitFloat(from.type(), [&](auto zero) {
    const auto* p = from.base<const decltype(zero)>() + offset;
    ForLanes(n, [&](Index i, auto count) { StoreN(to + i, LoadN(p + i, count), count); });
  });
}
void Narrow(const float* from, Index n, const Tensor& to, Index offset) {
  VisitFloat(to.type(), [&](auto zero) {
    auto* p = to.base<decltype(zero)>() + offset;
    ForLanes(n, [&](Index i, auto count) { StoreN(p + i, LoadN(from + i, count), count); });
  });
}

// Channels [first, first + n) of a call, with memory of their own.
class Channels {
 public:
  Channels(const Convolution& call, Index first, Index n, float* scratch)
      : call_(call),
        first_(first),
        n_(n),
        filters_(scratch),
        bias_(filters_ + call.taps() * kWidth),
        before_(bias_ + kWidth),
        row_(before_ + (call.taps() - 1) * kWidth) {
    VisitFloat(call.weight.type(), [&](auto zero) {
      for (Index ch = 0; ch < n; ++ch) {
        const auto* w = call.weight.at<const decltype(zero)>(first + ch);
        for (Index a = 0; a < call.taps(); ++a) filters_[a * kWidth + ch] = float(w[a]);
      }
    });
    std::fill_n(bias_, kWidth, 0.0f);
    if (call.bias) Widen(*call.bias, first, n, bias_);
  }

  void Run(const Sequence& s) const {
    if (s.slot < 0) return Clear(s.begin, s.end);
    const Index taps = call_.taps();
    std::fill_n(before_, (taps - 1) * kWidth, 0.0f);
    if (call_.conv_state && s.has_state) {
      const Index skipped = call_.state_rows() - (taps - 1);  // too long ago
      for (Index a = 0; a + 1 < taps; ++a) {
        const Index from = call_.state_offset(s.slot, skipped + a) + first_;
        Widen(*call_.conv_state, from, n_, before_ + a * kWidth);
      }
    }
    VisitFloat(call_.x.type(), [&](auto zero) {
      for (Index i = s.begin; i < s.end; ++i) Convolve<decltype(zero)>(s.begin, i);
    });
    if (call_.conv_state) KeepLast(s);
  }

  // y = 0 for tokens of no sequence.
  void Clear(Index begin, Index end) const {
    std::fill_n(row_, n_, 0.0f);
    for (Index i = begin; i < end; ++i) Narrow(row_, n_, call_.y, i * call_.y.stride(0) + first_);
  }

 private:
  template <class T>
  void Convolve(Index begin, Index i) const {
    const Index taps = call_.taps(), oldest = i - (taps - 1), pitch = call_.x.stride(0);
    const T* x = call_.x.base<const T>() + first_;
    T* y = call_.y.base<T>() + i * call_.y.stride(0) + first_;
    ForBlocks<4>(n_, [&](Index ch, auto count, auto block) {
      F32 sum[block], w[block], v[block];
      LoadAll(sum, bias_ + ch, count);
      for (Index a = 0; a < taps; ++a) {
        LoadAll(w, filters_ + a * kWidth + ch, count);
        if (oldest + a >= begin) {
          LoadAll(v, x + (oldest + a) * pitch + ch, count);
        } else {
          LoadAll(v, before_ + (oldest + a + taps - 1 - begin) * kWidth + ch, count);
        }
        for (int b = 0; b < block; ++b) sum[b] = Fma(w[b], v[b], sum[b]);
      }
      if (call_.has_silu) {
        for (int b = 0; b < block; ++b) v[b] = sum[b];
        SigmoidAll<T>(v);
        for (int b = 0; b < block; ++b) sum[b] = sum[b] * v[b];
      }
      StoreAll(y + ch, sum, count);
    });
  }

  // The last rows of what the state held and of the sequence become the state, in rising order:
  // what is read lies behind what is written.
  void KeepLast(const Sequence& s) const {
    const Index rows = call_.state_rows(), length = s.end - s.begin;
    if (length == 0 && s.has_state) return;
    for (Index j = 0; j < rows; ++j) {
      const Index from = j + length;  // of the old state, then of the sequence
      if (from >= rows) {
        Widen(call_.x, (s.begin + from - rows) * call_.x.stride(0) + first_, n_, row_);
      } else if (s.has_state) {
        Widen(*call_.conv_state, call_.state_offset(s.slot, from) + first_, n_, row_);
      } else {
        std::fill_n(row_, n_, 0.0f);
      }
      Narrow(row_, n_, *call_.conv_state, call_.state_offset(s.slot, j) + first_);
    }
  }

  const Convolution& call_;
  Index first_, n_;
  float* filters_;  // [k, kWidth]
  float* bias_;     // [kWidth]
  float* before_;   // [k - 1, kWidth]: what came before the sequence, oldest first
  float* row_;      // [kWidth]
};

void Convolve(const Context& ctx, const Convolution& call, const Sequences& sequences) {
  const Index c = call.x.dim(1), t = call.x.dim(0), taps = call.taps();
  const Index blocks = (c + kWidth - 1) / kWidth, parts = std::min<Index>(ctx.threads, blocks);
  const double block_ns = double(kWidth) * double(taps) * (double(t) * 0.1 + 1) + 50;
  const double part_ns = block_ns * double(blocks) / double(std::max<Index>(parts, 1)) + 10;
  const auto layout = LayoutOf<std::int64_t>(ThreadsOf(ctx), c, taps);
  float* rows = Placed(ctx, layout)[layout.rows];
  ctx.ParallelFor(parts, Index(2000 / part_ns) + 1, [&](Index begin, Index end) {
    for (Index part = begin; part < end; ++part) {
      float* scratch = rows + part * layout.row;
      for (Index block = part; block < blocks; block += parts) {
        const Index first = block * kWidth;
        const Channels channels(call, first, std::min(kWidth, c - first), scratch);
        for (Index s = 0; s < sequences.n; ++s) channels.Run(sequences[s]);
        channels.Clear(sequences.end(t), t);
      }
    }
  });
}

void Run(const Context& ctx, const Tensor& x, const Tensor& weight, const Tensor* bias,
         const Tensor* conv_state, const Tensor& query_start_loc, const Tensor* state_indices,
         const Tensor* has_initial_state, std::string_view activation, const Tensor& y) {
  const Convolution call{x, weight, bias, conv_state, activation == "silu", y};
  Convolve(ctx, call,
           {query_start_loc.dim(0) - 1, &query_start_loc, state_indices, has_initial_state});
}

void RunUpdate(const Context& ctx, const Tensor& x, const Tensor& weight, const Tensor* bias,
               const Tensor& conv_state, const Tensor* state_indices, std::string_view activation,
               const Tensor& y) {
  const Convolution call{x, weight, bias, &conv_state, activation == "silu", y};
  Convolve(ctx, call, {x.dim(0), nullptr, state_indices, nullptr});
}

}  // namespace

ANYOP_KERNEL(causal_conv1d){.workspace = kWorkspace<&WorkspaceBytes>, .run = Bind<&Run>()};
ANYOP_KERNEL(causal_conv1d_update){.workspace = kWorkspace<&WorkspaceBytes>,
                                   .run = Bind<&RunUpdate>()};

}  // namespace anyop::ops
