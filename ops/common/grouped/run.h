// SPDX-License-Identifier: Apache-2.0
// How the rows of groups are multiplied: their rows are packed side by side, then threads share the
// panels of all groups in one parallel region. A region for each group would have threads meet once
// for each of a token's experts.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ops/common/grouped/call.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// The product of one part, of floats.
template <class M>
struct GroupProduct {
  using T = typename M::Weight;
  using Sum = float;
  using Element = T;
  const GroupedCall& call;
  const GroupPart& part;
  std::int64_t rows, k, n;

  GroupProduct(const GroupedCall& call, const GroupPart& part)
      : call(call), part(part), rows(part.rows), k(call.k), n(call.n) {}
  std::int64_t steps() const { return (k + 1) / 2; }
  std::int64_t panels() const { return CeilDiv(n, kPanel); }
  const T* row(std::int64_t r) const { return static_cast<const T*>(call.x[part.first + r]); }
  template <int kR, class Left>
  static void Pack(const T* const (&x)[kR], std::int64_t k, Left* out) {
    PackRows(x, k, out);
  }
  [[gnu::noinline]] void StorePanel(const float* sums, std::int64_t first, std::int64_t count,
                                    std::int64_t panel) const {
    const std::int64_t column = panel * kPanel, columns = Min(n - column, kPanel);
    const T* bias = call.bias ? call.bias->at<const T>(part.group) + column : nullptr;
    const auto store = [&](auto zero) {
      using Y = decltype(zero);
      for (std::int64_t r = 0; r < count; ++r) {
        Y* row = static_cast<Y*>(call.y) + (part.first + first + r) * call.y_stride + column;
        StoreRow<Activation::kNone>(sums + r * kPanel, bias, row, columns);
      }
    };
    if (call.y_type == DType::kF32) return store(float{});
    store(T{});
  }
};

// The product of one part, of bytes. M: of packed rows.
template <class M>
struct BytesGroupProduct {
  using Sum = std::int32_t;
  using Element = std::int8_t;
  const GroupedCall& call;
  const GroupPart& part;
  std::int64_t rows, k, n;

  BytesGroupProduct(const GroupedCall& call, const GroupPart& part)
      : call(call), part(part), rows(part.rows), k(call.k), n(call.n) {}
  std::int64_t steps() const { return CeilDiv(k, 4); }
  std::int64_t panels() const { return CeilDiv(n, kPanel); }
  const std::int8_t* row(std::int64_t r) const {
    return static_cast<const std::int8_t*>(call.x[part.first + r]);
  }
  template <int kR>
  static void Pack(const std::int8_t* const (&x)[kR], std::int64_t k, typename M::Left* out) {
    const I8x2* pairs[kR];
    for (int r = 0; r < kR; ++r) pairs[r] = reinterpret_cast<const I8x2*>(x[r]);
    PackRows(pairs, 2 * CeilDiv(k, 4), out);
  }
  [[gnu::noinline]] void StorePanel(const std::int32_t* sums, std::int64_t first,
                                    std::int64_t count, std::int64_t panel) const {
    const std::int64_t column = panel * kPanel, columns = Min(n - column, kPanel);
    const float* weight_scale = call.weight_scale->at<const float>(part.group) + column;
    float biases[kPanel];
    if (call.bias) {
      VisitFloat(call.bias->type(), [&](auto zero) {
        ReadBiases(call.bias->at<const decltype(zero)>(part.group) + column, columns, biases);
      });
    }
    VisitFloat(call.y_type, [&](auto zero) {
      using Y = decltype(zero);
      for (std::int64_t r = 0; r < count; ++r) {
        const std::int64_t at = part.first + first + r;
        StoreBytesRow(sums + r * kPanel, {std::uint32_t(call.x_sum[at]) * M::kOffset},
                      call.x_scale[at], weight_scale, call.bias ? biases : nullptr, columns,
                      static_cast<Y*>(call.y) + at * call.y_stride + column);
      }
    });
  }
};

// M: of packed rows; R: of rows as they lie; P: the product of one part.
template <class M, class R, class P>
class GroupedRun {
 public:
  using Left = typename M::Left;
  using Weight = typename M::Weight;
  using Row = typename P::Element;

  GroupedRun(const Context& ctx, const GroupedCall& call, char* memory)
      : ctx_(ctx),
        call_(call),
        steps_(P(call, {}).steps()),
        panels_(P(call, {}).panels()),
        layout_(call.is_packed ? 0 : ThreadsOf(ctx), call.rows(), call.groups, steps_),
        placed_(memory),
        parts_(placed_[layout_.parts]),
        buffers_(placed_[layout_.panels], placed_[layout_.taken], steps_ * kStepWeights,
                 layout_.taken.count) {}

  void Run() {
    if (panels_ == 0) return;
    while (CollectParts()) {
      PackParts();
      ctx_.ParallelFor(items_, PanelGrain<Weight>(rows_ / count_ + 1, call_.k),
                       [&](std::int64_t b, std::int64_t e) { Multiply(b, e); });
    }
  }

 private:
  // Few rows are multiplied with the weight as it lies. Their sums have another order of additions
  // then, which batch-invariant mode forbids: a row must have the bits that it has in a batch.
  bool IsFew(std::int64_t rows) const {
    return !call_.is_packed && rows <= kMaxRows && !ctx_.batch_invariant();
  }
  PackedProduct<M, P> ProductOf(const P& p, const GroupPart& part) const {
    PackedProduct<M, P> product = PartOf<M>(ctx_, p, placed_[layout_.left], 0);
    product.left += part.left * LeftSteps<M>(steps_) * 2;
    product.rows = part.rows;
    return product;
  }
  // Weights that are not packed are packed on the way, once for all rows of a part: its groups of
  // rows are one piece of work then.
  std::int64_t ItemsOf(const GroupPart& part) const {
    return call_.is_packed ? panels_ * ProductOf(P(call_, part), part).groups() : panels_;
  }

  // The groups that come next, at most kWaveRows rows; false if there are none.
  bool CollectParts() {
    count_ = rows_ = items_ = 0;
    while (group_ < call_.groups) {
      const std::int64_t first = call_.offsets[group_] + done_;
      const std::int64_t left = call_.offsets[group_ + 1] - first;
      if (rows_ > 0 && rows_ + left > kWaveRows) break;
      const std::int64_t rows = std::min(left, kWaveRows);
      if (rows > 0) {
        GroupPart& part = parts_[count_++] = {group_, first, rows, rows_, items_};
        rows_ += rows;
        items_ += ItemsOf(part);
      }
      done_ += rows;
      if (rows == left) ++group_, done_ = 0;
    }
    return rows_ > 0;
  }

  void PackParts() const {
    // Parts worth 2 us, at 10 elements a nanosecond and the mean size of a part.
    const std::int64_t grain = 20000 * count_ / (rows_ * call_.k + 1) + 1;
    ctx_.ParallelFor(count_, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        if (IsFew(parts_[i].rows)) continue;
        const P p(call_, parts_[i]);
        const PackedProduct<M, P> product = ProductOf(p, parts_[i]);
        product.PackBlocksOf(
            0, p.rows, [&](std::int64_t r) { return p.row(r); },
            [&](const auto& x, std::int64_t, Left* out) { P::Pack(x, call_.k, out); });
      }
    });
  }

  // Pieces of work [begin, end) of all parts.
  void Multiply(std::int64_t begin, std::int64_t end) const {
    Weight* buffer = call_.is_packed ? nullptr : buffers_.Take();
    const GroupPart* part =
        std::upper_bound(parts_, parts_ + count_, begin,
                         [](std::int64_t item, const GroupPart& p) { return item < p.item; }) -
        1;
    for (; begin < end; ++part) {
      const std::int64_t next = part + 1 < parts_ + count_ ? part[1].item : items_;
      const std::int64_t stop = std::min(end, next);
      MultiplyPart(*part, begin - part->item, stop - part->item, buffer);
      begin = stop;
    }
    if (buffer) buffers_.Return(buffer);
  }

  void MultiplyPart(const GroupPart& part, std::int64_t begin, std::int64_t end,
                    Weight* buffer) const {
    const P p(call_, part);
    if (call_.is_packed) return MultiplyPacked(p, begin, end);
    const Row* weight = static_cast<const Row*>(call_.weight) + part.group * call_.weight_stride;
    if (IsFew(part.rows)) {
      const RowProduct<R, P> product{p, weight, call_.row_stride};
      for (std::int64_t panel = begin; panel < end; ++panel) product.Multiply(panel);
      return;
    }
    const PackedProduct<M, P> product = ProductOf(p, part);
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const Row* from = weight + panel * kPanel * call_.row_stride;
      PackPanel(from, call_.row_stride, Min(p.n - panel * kPanel, kPanel), p.k, buffer);
      const auto* next = reinterpret_cast<const Weight*>(from + kPanel * call_.row_stride);
      for (std::int64_t g = 0; g < product.groups(); ++g) {
        product.MultiplyAndStore(buffer, g == 0 ? next : nullptr, panel, g);
      }
    }
  }
  void MultiplyPacked(const P& p, std::int64_t begin, std::int64_t end) const {
    const PackedProduct<M, P> product = ProductOf(p, p.part);
    const std::int64_t stride = steps_ * kStepWeights;
    const Weight* weight =
        static_cast<const Weight*>(call_.weight) + p.part.group * panels_ * stride;
    if (p.rows <= M::kRows) return product.Stream(weight, begin, end);
    for (std::int64_t i = begin; i < end; ++i) {
      const Weight* w = weight + i % panels_ * stride;
      product.MultiplyAndStore(w, w + stride, i % panels_, i / panels_);
    }
  }

  const Context& ctx_;
  const GroupedCall& call_;
  const std::int64_t steps_, panels_;
  const GroupedWorkspace<M, std::int64_t> layout_;
  const Placed placed_;
  GroupPart* const parts_;  // of this wave
  const ThreadBuffers<Weight> buffers_;
  std::int64_t count_ = 0, rows_ = 0, items_ = 0;  // of this wave
  std::int64_t group_ = 0, done_ = 0;  // the next group, and how many of its rows are done
};

template <class M>
inline void MultiplyGroupsOf(const Context& ctx, const GroupedCall& call, char* memory) {
  GroupedRun<M, M, GroupProduct<M>>(ctx, call, memory).Run();
}
template <template <class> class M>
inline void MultiplyByteGroups(const Context& ctx, const GroupedCall& call, char* memory) {
  using Packed = M<I8x2>;
  GroupedRun<Packed, M<std::int8_t>, BytesGroupProduct<Packed>>(ctx, call, memory).Run();
}

// Of any type, without dot instructions.
inline void MultiplyAnyGroups(const Context& ctx, const GroupedCall& call, char* memory) {
  switch (call.type) {
    case DType::kF32:
      return MultiplyGroupsOf<PairMath<float>>(ctx, call, memory);
    case DType::kF16:
      return MultiplyGroupsOf<PairMath<F16>>(ctx, call, memory);
    case DType::kBF16:
      return MultiplyGroupsOf<SplitMath>(ctx, call, memory);
    default:
      return MultiplyByteGroups<WideBytesMath>(ctx, call, memory);
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
