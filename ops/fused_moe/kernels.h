// SPDX-License-Identifier: Apache-2.0
// The kernels of fused_moe, with weights as they lie and packed, of floats and of bytes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ops/common/elementwise/gelu.h"
#include "ops/common/elementwise/swiglu.h"
#include "ops/common/grouped/call.h"
#include "ops/common/quantize/int8.h"

namespace anyop::ops {
namespace {

using Index = std::int64_t;

// Pairs of a token and a choice that are computed at a time; bounds the workspace. Each batch of
// pairs reads the weights of its experts once.
inline constexpr Index kPairs = 4096;

template <class N>
constexpr N PairsAtATime(const N& t, const N& k) {
  return Min(t, Max(N(Index{1}), N(kPairs) / Max(k, N(Index{1})))) * k;
}

// M: the math of the products. threads: 0 where weights are packed. is_scaled: 1 where the router's
// weights are on the input. steps: of d and of f, as packed panels have them.
template <class M, class N>
struct MoeWorkspace : Workspace<N> {
  N pairs;
  Part<Index, N> offsets, next;    // [e + 1], [e]
  Part<Index, N> pair_of, row_of;  // of each row, and of each pair; -1: none
  Part<const void*, N> rows;
  Part<float, N> scaled;   // [pairs][d]: x times the router's weight
  Part<float, N> sums;     // [pairs][max(2 f, d)]: of either product
  Part<float, N> gated;    // [pairs][f]
  Part<char, N> products;  // a GroupedWorkspace of either product
  constexpr MoeWorkspace(N threads, N t, N k, N e, N d, N f, N is_scaled, N d_steps, N f_steps)
      : pairs(PairsAtATime(t, k)),
        offsets(this->template Add<Index>(e + N(Index{1}))),
        next(this->template Add<Index>(e)),
        pair_of(this->template Add<Index>(pairs)),
        row_of(this->template Add<Index>(pairs)),
        rows(this->template Add<const void*>(pairs)),
        scaled(this->template Add<float>(pairs * d * is_scaled)),
        sums(this->template Add<float>(pairs * Max(N(Index{2}) * f, d))),
        gated(this->template Add<float>(pairs * f)),
        products(this->template Add<char>(
            Max(GroupedWorkspace<M, N>(threads, pairs, e, d_steps).bytes(),
                GroupedWorkspace<M, N>(threads, pairs, e, f_steps).bytes()))) {}
};
template <class N>
constexpr N StepsOfFloats(const N& k) {
  return CeilDiv(k, N(Index{2}));
}
template <class N>
constexpr N StepsOfBytes(const N& k) {
  return CeilDiv(k, N(Index{4}));
}
template <class N>
constexpr MoeWorkspace<WidestMath, N> FloatsLayout(N threads, N t, N k, N e, N d, N f,
                                                   N is_scaled) {
  return {threads, t, k, e, d, f, is_scaled, StepsOfFloats(d), StepsOfFloats(f)};
}
// And the rows of either product in bytes.
template <class N>
struct MoeInt8Workspace : MoeWorkspace<WidestBytesMath, N> {
  Part<float, N> scale;           // [pairs]
  Part<std::int32_t, N> sum;      // [pairs]
  Part<std::int8_t, N> bytes_of;  // [pairs][pitch]
  constexpr MoeInt8Workspace(N threads, N t, N k, N e, N d, N f, N is_scaled)
      : MoeWorkspace<WidestBytesMath, N>(threads, t, k, e, d, f, is_scaled, StepsOfBytes(d),
                                         StepsOfBytes(f)),
        scale(this->template Add<float>(this->pairs)),
        sum(this->template Add<std::int32_t>(this->pairs)),
        bytes_of(this->template Add<std::int8_t>(this->pairs * PitchOfBytes(Max(d, f)))) {}
};
constexpr SizeText BytesOfMoe(SizeText threads, SizeText f, bool is_int8) {
  const SizeText t = "t", k = "k", e = "e", d = "d", scaled = "apply_router_weight_on_input";
  if (is_int8) return MoeInt8Workspace<SizeText>(threads, t, k, e, d, f, scaled).bytes();
  return FloatsLayout<SizeText>(threads, t, k, e, d, f, scaled).bytes();
}
constexpr SizeText MoeBytes() { return BytesOfMoe("threads", "f", false); }
constexpr SizeText MoePackedBytes() { return BytesOfMoe(Index{0}, "features", false); }
constexpr SizeText MoeInt8Bytes() { return BytesOfMoe("threads", "f", true); }
constexpr SizeText MoeInt8PackedBytes() { return BytesOfMoe(Index{0}, "features", true); }

// What is between the two products: from a row of 2 f sums to f values, in the same place.
struct Gating {
  std::string_view activation;
  Swiglu swiglu;
  bool is_interleaved;

  Gating(std::string_view activation, std::optional<float> limit, double alpha, double beta,
         std::string_view order)
      : activation(activation),
        swiglu(limit, alpha, beta),
        is_interleaved(order == "interleaved") {}

  void Apply(float* z, Index f) const {
    if (activation == "swiglu") {
      return ApplyTo(z, f, [&](F32& g, F32 u) {
        g = swiglu.Gate(g);
        F32 lost, s[1] = {swiglu.Argument(g, &lost)};
        SigmoidAll<float>(s);
        g = Fma(s[0] * (Set(1.0f) - s[0]), lost, s[0]) * g * (swiglu.Up(u) + swiglu.beta);
      });
    }
    if (activation == "silu") {
      return ApplyTo(z, f, [](F32& g, F32 u) {
        F32 s[1] = {g};
        SigmoidAll<float>(s);
        g = s[0] * g * u;
      });
    }
    if (activation == "gelu") return ApplyTo(z, f, &Multiply<Gelu::kErf>);
    ApplyTo(z, f, &Multiply<Gelu::kTanh>);
  }

 private:
  template <Gelu kKind>
  static void Multiply(F32& g, F32 u) {
    F32 v[1] = {g};
    GeluAll<kKind, float>(v);
    g = v[0] * u;
  }
  template <class F>
  void ApplyTo(float* z, Index f, F&& gate) const {
    if (!is_interleaved) {
      return ForLanes(f, [&](Index j, auto count) {
        F32 g = LoadN(z + j, count);
        gate(g, LoadN(z + f + j, count));
        StoreN(z + j, g, count);
      });
    }
    // Each vector is read before its place is written: values move to the left.
    float gates[kLanes], ups[kLanes];
    for (Index j = 0; j < f; j += kLanes) {
      const int count = int(std::min<Index>(kLanes, f - j));
      for (int i = 0; i < count; ++i) gates[i] = z[2 * (j + i)], ups[i] = z[2 * (j + i) + 1];
      F32 g = LoadN(gates, count);
      gate(g, LoadN(ups, count));
      StoreN(z + j, g, count);
    }
  }
};

struct MoeCall {
  const Tensor& x;        // [t, d]
  const Tensor& w13;      // [e, 2 f, d], or packed
  const Tensor& w2;       // [e, d, f], or packed
  const Tensor* scale13;  // [e, 2 f], of bytes
  const Tensor* scale2;   // [e, d]
  const Tensor& weights;  // [t, k]
  const Tensor& ids;      // [t, k]
  const Tensor* b13;      // [e, 2 f]
  const Tensor* b2;       // [e, d]
  const Gating& gating;
  bool is_scaled, is_packed;
  Index f;
  const Tensor& y;  // [t, d]
};

template <class Layout>
class MoeRun {
 public:
  MoeRun(const Context& ctx, const MoeCall& call)
      : ctx_(ctx),
        call_(call),
        k_(call.ids.dim(1)),
        experts_(call.w13.dim(0)),
        d_(call.x.dim(1)),
        width_(std::max(2 * call.f, d_)),
        layout_(MakeLayout()),
        placed_(ctx, layout_) {}

  void Run() {
    const Index tokens = k_ ? layout_.pairs / k_ : call_.x.dim(0);
    for (first_ = 0; first_ < call_.x.dim(0); first_ += tokens) {
      tokens_ = std::min(tokens, call_.x.dim(0) - first_);
      Sort();
      if (rows_) {
        ReadInput();
        Multiply(call_.w13, call_.scale13, call_.b13, d_, 2 * call_.f);
        Gate();
        Multiply(call_.w2, call_.scale2, call_.b2, call_.f, d_);
      }
      Combine();
    }
  }

 private:
  static constexpr bool kIsInt8 = std::is_same_v<Layout, MoeInt8Workspace<Index>>;

  Layout MakeLayout() const {
    const Index threads = call_.is_packed ? 0 : ThreadsOf(ctx_);
    if constexpr (kIsInt8) {
      return {threads, call_.x.dim(0), k_, experts_, d_, call_.f, call_.is_scaled};
    } else {
      return FloatsLayout<Index>(threads, call_.x.dim(0), k_, experts_, d_, call_.f,
                                 call_.is_scaled);
    }
  }
  Index Expert(Index pair) const {
    return ReadIndex(call_.ids, (first_ + pair / k_) * call_.ids.stride(0) + pair % k_);
  }
  float Weight(Index pair) const {
    return call_.weights.at<const float>(first_ + pair / k_)[pair % k_];
  }
  float* Sums(Index row) const { return placed_[layout_.sums] + row * width_; }

  // Gives the pairs of an expert neighbouring rows, in their order.
  void Sort() {
    Index *offsets = placed_[layout_.offsets], *next = placed_[layout_.next];
    std::fill_n(offsets, experts_ + 1, 0);
    for (Index pair = 0; pair < tokens_ * k_; ++pair) {
      if (const Index expert = Expert(pair); expert >= 0) ++offsets[expert + 1];
    }
    for (Index g = 0; g < experts_; ++g) {
      next[g] = offsets[g];
      offsets[g + 1] += offsets[g];
    }
    rows_ = offsets[experts_];
    for (Index pair = 0; pair < tokens_ * k_; ++pair) {
      const Index expert = Expert(pair), row = expert < 0 ? -1 : next[expert]++;
      placed_[layout_.row_of][pair] = row;
      if (row >= 0) placed_[layout_.pair_of][row] = pair;
    }
  }

  // Calls f(row, a value of x's type) for all rows; elements: how many f looks at.
  template <class F>
  void ForRows(Index elements, F&& f) const {
    VisitFloat(call_.x.type(), [&](auto zero) {
      ctx_.ParallelFor(rows_, 8000 / (elements + 100) + 1, [&](Index begin, Index end) {
        for (Index row = begin; row < end; ++row) f(row, zero);
      });
    });
  }

  // The rows of x as the first product takes them.
  void ReadInput() const {
    ForRows(d_, [&](Index row, auto zero) {
      using T = decltype(zero);
      const Index pair = placed_[layout_.pair_of][row];
      const T* x = call_.x.at<const T>(first_ + pair / k_);
      if (call_.is_scaled) {
        T* scaled = reinterpret_cast<T*>(placed_[layout_.scaled] + row * d_);
        const F32 weight = Set(Weight(pair));
        ForLanes(d_, [&](Index j, auto count) {
          StoreN(scaled + j, LoadN(x + j, count) * weight, count);
        });
        x = scaled;
      }
      SetRow(row, x, d_);
    });
  }
  void Gate() const {
    ForRows(8 * call_.f, [&](Index row, auto zero) {
      using T = decltype(zero);
      float* z = Sums(row);
      call_.gating.Apply(z, call_.f);
      if constexpr (kIsInt8) {
        SetRow(row, z, call_.f);
      } else {
        T* q = reinterpret_cast<T*>(placed_[layout_.gated] + row * call_.f);
        ForLanes(call_.f, [&](Index j, auto count) { StoreN(q + j, LoadN(z + j, count), count); });
        SetRow(row, q, call_.f);
      }
    });
  }
  template <class T>
  void SetRow(Index row, const T* x, Index n) const {
    if constexpr (kIsInt8) {
      std::int8_t* q = placed_[layout_.bytes_of] + row * PitchOfBytes(std::max(d_, call_.f));
      placed_[layout_.scale][row] = QuantizeSymmetric(x, n, q).scale;
      placed_[layout_.sum][row] = FinishBytes(q, n, true);
      placed_[layout_.rows][row] = q;
    } else {
      placed_[layout_.rows][row] = x;
    }
  }

  void Multiply(const Tensor& weight, const Tensor* scale, const Tensor* bias, Index k,
                Index n) const {
    GroupedCall call{.type = weight.type(),
                     .groups = experts_,
                     .k = k,
                     .n = n,
                     .offsets = placed_[layout_.offsets],
                     .x = placed_[layout_.rows],
                     .weight = weight.base<const void>(),
                     .weight_stride = weight.stride(0),
                     .row_stride = call_.is_packed ? 0 : weight.stride(1),
                     .is_packed = call_.is_packed,
                     .bias = bias,
                     .y = Sums(0),
                     .y_stride = width_,
                     .y_type = DType::kF32,
                     .x_scale = nullptr,
                     .x_sum = nullptr,
                     .weight_scale = scale};
    if constexpr (kIsInt8) {
      call.x_scale = placed_[layout_.scale];
      call.x_sum = placed_[layout_.sum];
    }
    MultiplyGroups(ctx_, call, placed_[layout_.products]);
  }

  // y[i] = sum_a weights[i, a] * the row of pair (i, a).
  void Combine() const {
    VisitFloat(call_.y.type(), [&](auto zero) {
      using T = decltype(zero);
      ctx_.ParallelFor(tokens_, 20000 / ((k_ + 1) * d_ + 100) + 1, [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) CombineRow(i, call_.y.at<T>(first_ + i));
      });
    });
  }
  template <class T>
  void CombineRow(Index i, T* y) const {
    ForBlocks<4>(d_, [&](Index j, auto count, auto block) {
      F32 sum[block], v[block];
      for (int b = 0; b < block; ++b) sum[b] = Zero();
      for (Index pair = i * k_; pair < (i + 1) * k_; ++pair) {
        const Index row = placed_[layout_.row_of][pair];
        if (row < 0) continue;
        LoadAll(v, Sums(row) + j, count);
        const F32 weight = Set(call_.is_scaled ? 1.0f : Weight(pair));
        for (int b = 0; b < block; ++b) sum[b] = Fma(v[b], weight, sum[b]);
      }
      StoreAll(y + j, sum, count);
    });
  }

  const Context& ctx_;
  const MoeCall& call_;
  const Index k_, experts_, d_, width_;
  const Layout layout_;
  const Placed placed_;
  Index first_ = 0, tokens_ = 0, rows_ = 0;  // of the pairs at a time
};

template <bool kIsPacked>
void RunMoe(const Context& ctx, const Tensor& x, const Tensor& w13, const Tensor& w2, Index f,
            const Tensor& weights, const Tensor& ids, const Tensor* b13, const Tensor* b2,
            const Gating& gating, bool is_scaled, const Tensor& y) {
  const MoeCall call{x,   w13, w2,     nullptr,   nullptr,   weights, ids,
                     b13, b2,  gating, is_scaled, kIsPacked, f,       y};
  MoeRun<MoeWorkspace<WidestMath, Index>>(ctx, call).Run();
}

inline void RunFusedMoe(const Context& ctx, const Tensor& x, const Tensor& w13, const Tensor& w2,
                        const Tensor& weights, const Tensor& ids, const Tensor* b13,
                        const Tensor* b2, std::string_view activation, std::optional<float> limit,
                        double alpha, double beta, std::string_view order, bool is_scaled,
                        const Tensor& y) {
  RunMoe<false>(ctx, x, w13, w2, w2.dim(2), weights, ids, b13, b2,
                Gating(activation, limit, alpha, beta, order), is_scaled, y);
}
inline void RunFusedMoePacked(const Context& ctx, const Tensor& x, const Tensor& w13,
                              const Tensor& w2, Index features, const Tensor& weights,
                              const Tensor& ids, const Tensor* b13, const Tensor* b2,
                              std::string_view activation, std::optional<float> limit, double alpha,
                              double beta, std::string_view order, bool is_scaled,
                              const Tensor& y) {
  RunMoe<true>(ctx, x, w13, w2, features, weights, ids, b13, b2,
               Gating(activation, limit, alpha, beta, order), is_scaled, y);
}

inline void RunMoeInt8(const Context& ctx, const MoeCall& call) {
  MoeRun<MoeInt8Workspace<Index>>(ctx, call).Run();
}
inline void RunFusedMoeInt8(const Context& ctx, const Tensor& x, const Tensor& w13,
                            const Tensor& w13_scale, const Tensor& w2, const Tensor& w2_scale,
                            const Tensor& weights, const Tensor& ids, const Tensor* b13,
                            const Tensor* b2, std::string_view activation,
                            std::optional<float> limit, double alpha, double beta,
                            std::string_view order, bool is_scaled, const Tensor& y) {
  const Gating gating(activation, limit, alpha, beta, order);
  RunMoeInt8(ctx, {x, w13, w2, &w13_scale, &w2_scale, weights, ids, b13, b2, gating, is_scaled,
                   false, w2.dim(2), y});
}
inline void RunFusedMoeInt8Packed(const Context& ctx, const Tensor& x, const Tensor& w13,
                                  const Tensor& w13_scale, const Tensor& w2, const Tensor& w2_scale,
                                  Index features, const Tensor& weights, const Tensor& ids,
                                  const Tensor* b13, const Tensor* b2, std::string_view activation,
                                  std::optional<float> limit, double alpha, double beta,
                                  std::string_view order, bool is_scaled, const Tensor& y) {
  const Gating gating(activation, limit, alpha, beta, order);
  RunMoeInt8(ctx, {x, w13, w2, &w13_scale, &w2_scale, weights, ids, b13, b2, gating, is_scaled,
                   true, features, y});
}

}  // namespace
}  // namespace anyop::ops
