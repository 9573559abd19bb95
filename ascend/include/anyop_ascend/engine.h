// SPDX-License-Identifier: Apache-2.0
// How a vector instruction walks its operands. A repeat reads all operands before it writes, so an
// instruction whose result overlaps a source computes each repeat into a copy.
#pragma once
#include "anyop_ascend/tensor.h"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {

// Values of 16-bit floats are computed in float and rounded once.
template <class T>
struct AnyopWideType {
  using type = T;
};
template <>
struct AnyopWideType<half> {
  using type = float;
};
template <>
struct AnyopWideType<bfloat16_t> {
  using type = float;
};
template <class T>
using AnyopWide = typename AnyopWideType<T>::type;

struct AnyopMask {
  std::uint64_t words[2];

  bool Has(int lane) const { return words[lane >> 6] >> (lane & 63) & 1; }
  static AnyopMask First(std::uint64_t lanes) {
    const auto low = lanes >= 64 ? ~0ull : (1ull << lanes) - 1;
    const auto high = lanes <= 64 ? 0 : lanes >= 128 ? ~0ull : (1ull << (lanes - 64)) - 1;
    return {{low, high}};
  }
  int Top() const {  // lanes up to the last one that is set
    if (words[1]) return 128 - __builtin_clzll(words[1]);
    return words[0] ? 64 - __builtin_clzll(words[0]) : 0;
  }
  bool IsFirst(int lanes) const {
    const AnyopMask first = First(static_cast<std::uint64_t>(lanes));
    return first.words[0] == words[0] && (lanes <= 64 || first.words[1] == words[1]);
  }
};

// The mask of an instruction, which the block keeps for those that set none.
template <bool is_set>
inline AnyopMask MaskOf(std::uint64_t mask, int lanes, rt::Site site) {
  rt::Block& block = *rt::block;
  if (is_set) {
    if (kChecked && !block.counts && (!mask || mask > static_cast<std::uint64_t>(lanes))) {
      rt::CheckMask(mask, lanes, site);
    }
    const AnyopMask set = block.counts ? AnyopMask{{mask, 0}} : AnyopMask::First(mask);
    block.mask[0] = set.words[0];
    block.mask[1] = set.words[1];
  }
  return {{block.mask[0], block.mask[1]}};
}
template <bool is_set>
inline AnyopMask MaskOf(const std::uint64_t* mask, int lanes, rt::Site site) {
  rt::Block& block = *rt::block;
  if (is_set) {
    block.mask[0] = mask[0];
    block.mask[1] = lanes > 64 ? mask[1] : 0;
    if (kChecked && !block.counts && !block.mask[0] && !block.mask[1]) {
      rt::CheckMask(0, lanes, site);
    }
  }
  return {{block.mask[0], block.mask[1]}};
}

constexpr int Widest(std::initializer_list<std::size_t> bytes) {
  std::size_t most = 0;
  for (std::size_t size : bytes) most = size > most ? size : most;
  return static_cast<int>(most);
}

inline rt::Repeats CountOf(std::int64_t elements, int lanes) {
  return {{0, 0}, 0, lanes, elements, true};
}
inline rt::Repeats RepeatsOf(AnyopMask mask, std::int32_t repeats, int lanes) {
  if (!rt::block->counts) return {{mask.words[0], mask.words[1]}, repeats, lanes, -1, false};
  const auto total = static_cast<std::int64_t>(mask.words[0]);
  const AnyopMask all = AnyopMask::First(static_cast<std::uint64_t>(lanes));
  return {{all.words[0], all.words[1]},
          static_cast<std::int32_t>((total + lanes - 1) / lanes),
          lanes,
          total,
          false};
}

// A typed operand: strides in units of 32 bytes.
template <class T>
struct AnyopView {
  LocalTensor<T> tensor;
  std::uint32_t block_stride = 1;
  std::uint32_t repeat_stride = 8;

  rt::Operand operand() const { return {tensor.span(), block_stride, repeat_stride}; }
  T* Row(std::int64_t repeat) const {
    return reinterpret_cast<T*>(tensor.bytes() + repeat * repeat_stride * 32);
  }
  // Repeats follow one another without gaps.
  bool IsDense(int lanes) const {
    return block_stride == 1 && repeat_stride * 32 == lanes * sizeof(T);
  }
  T* Lane(T* row, int lane) const {
    constexpr int kPerBlock = 32 / sizeof(T);
    return reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(row) +
                                std::size_t{block_stride} * 32 * (lane / kPerBlock)) +
           lane % kPerBlock;
  }
};

// Whether elements can be written one by one without changing a source that is still to be read.
template <class D, class S>
inline bool IsSafe(const D* d, const S* s, std::int64_t n) {
  const auto* to = reinterpret_cast<const unsigned char*>(d);
  const auto* from = reinterpret_cast<const unsigned char*>(s);
  if (to == from) return sizeof(D) == sizeof(S);
  return to + n * sizeof(D) <= from || from + n * sizeof(S) <= to;
}

// n elements in a row. `compute` gets the old value of the result and the sources' elements.
template <int lanes, class D, class F, class... S>
inline void ComputeRow(D* d, std::int64_t n, const F& compute, const S*... s) {
  if ((IsSafe(d, s, n) && ...)) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) d[i] = compute(d[i], s[i]...);
    return;
  }
  D results[lanes];
  for (std::int64_t begin = 0; begin < n; begin += lanes) {
    const std::int64_t end = std::min<std::int64_t>(n, begin + lanes);
    for (std::int64_t i = begin; i < end; ++i) results[i - begin] = compute(d[i], s[i]...);
    std::memcpy(d + begin, results, (end - begin) * sizeof(D));
  }
}

template <int lanes, class D, class F, class... S>
inline void ComputeMasked(const AnyopView<D>& dst, D* row, AnyopMask mask, int n, const F& compute,
                          const std::pair<const AnyopView<S>*, S*>&... sources) {
  D results[lanes];
  for (int i = 0; i < n; ++i) {
    if (mask.Has(i)) {
      results[i] = compute(*dst.Lane(row, i), *sources.first->Lane(sources.second, i)...);
    }
  }
  for (int i = 0; i < n; ++i)
    if (mask.Has(i)) *dst.Lane(row, i) = results[i];
}

template <int lanes, class D, class F, class... S>
inline void ComputeRepeats(const rt::Repeats& shape, const AnyopView<D>& dst, const F& compute,
                           const AnyopView<S>&... src) {
  const AnyopMask mask{{shape.mask[0], shape.mask[1]}};
  const int top = mask.Top();
  const bool is_first = mask.IsFirst(top);
  if (is_first && top == lanes && dst.IsDense(lanes) && (src.IsDense(lanes) && ...)) {
    const std::int64_t n = shape.total < 0 ? std::int64_t{shape.repeats} * lanes : shape.total;
    ComputeRow<lanes>(dst.Row(0), n, compute, src.Row(0)...);
    return;
  }
  const bool is_row = is_first && dst.block_stride == 1 && ((src.block_stride == 1) && ...);
  for (int r = 0; r < shape.repeats; ++r) {
    int n = top;
    if (shape.total >= 0) {
      n = static_cast<int>(std::min<std::int64_t>(lanes, shape.total - std::int64_t{r} * lanes));
    }
    if (is_row) {
      ComputeRow<lanes>(dst.Row(r), n, compute, src.Row(r)...);
    } else {
      ComputeMasked<lanes>(dst, dst.Row(r), mask, n, compute,
                           std::pair<const AnyopView<S>*, S*>(&src, src.Row(r))...);
    }
  }
}

// Whether a bit of the result depends on the same bits of the sources alone.
template <class F>
struct AnyopIsBitwise : std::false_type {};

// A whole vector instruction: checks, then values.
template <bool reads_result, class F, class D, class... S>
inline void RunOver(const rt::Repeats& shape, rt::Site site, const F& compute,
                    const AnyopView<D>& dst, const AnyopView<S>&... src) {
  constexpr int kLanes = 256 / Widest({sizeof(D), sizeof(S)...});
  if constexpr (kChecked) {
    const rt::Operand operands[] = {dst.operand(), src.operand()..., dst.operand()};
    constexpr int kOperands = 1 + sizeof...(S) + (reads_result ? 1 : 0);
    rt::Repeats checked = shape;
    checked.is_bitwise = AnyopIsBitwise<F>::value;
    if (!rt::CheckVector(checked, operands, kOperands, site)) return;
  }
  if (shape.is_dense) {
    ComputeRow<kLanes>(dst.tensor.data(), shape.total, compute,
                       static_cast<const S*>(src.tensor.data())...);
  } else {
    ComputeRepeats<kLanes>(shape, dst, compute, src...);
  }
}
template <class F, class D, class... S>
inline void RunVector(const rt::Repeats& shape, rt::Site site, const F& compute,
                      const AnyopView<D>& dst, const AnyopView<S>&... src) {
  RunOver<false>(shape, site, compute, dst, src...);
}

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
