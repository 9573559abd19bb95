// SPDX-License-Identifier: Apache-2.0
// Reductions. Sums are trees over the lanes of a repeat, then over repeats in order.
#pragma once
#include "anyop_ascend/vector.h"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {
namespace anyop_reducing {

// Values of the active lanes of a group, and where they were.
template <class T>
struct Lanes {
  T values[kLanes<T>];
  std::uint8_t lanes[kLanes<T>];
  int count = 0;
};

// Sums and extremes write their result for a group of lanes to `to`.
struct Sum {
  template <class T>
  static void Write(Lanes<T>& group, T* to) {
    if (!group.count) group.values[0] = T(0);
    for (int step = 1; step < group.count; step *= 2)
      for (int i = 0; i + step < group.count; i += 2 * step)
        group.values[i] = anyop_element::Add::Of(group.values[i], group.values[i + step]);
    std::memcpy(to, group.values, sizeof(T));
  }
};
template <bool is_least>
struct Extreme {
  ReduceOrder order;

  template <class T>
  void Write(Lanes<T>& group, T* to) const {
    int best = 0;
    for (int i = 1; i < group.count; ++i) {
      const T a = group.values[i], b = group.values[best];
      if (is_least ? a < b : a > b) best = i;
    }
    const T value = group.count ? group.values[best] : T(0);
    const std::uint32_t lane = group.count ? group.lanes[best] : 0;
    const bool value_first =
        order == ReduceOrder::ORDER_VALUE_INDEX || order == ReduceOrder::ORDER_ONLY_VALUE;
    const bool has_both =
        order == ReduceOrder::ORDER_VALUE_INDEX || order == ReduceOrder::ORDER_INDEX_VALUE;
    if (value_first || has_both) std::memcpy(to + (value_first ? 0 : 1), &value, sizeof(T));
    if (!value_first || has_both) std::memcpy(to + (value_first ? 1 : 0), &lane, sizeof(T));
  }
};

struct Form {
  int lanes;                   // of a group
  int results;                 // elements that a group leaves
  std::uint32_t repeat_bytes;  // from the results of a repeat to those of the next
};

template <class T, class R>
inline void Groups(const rt::Repeats& shape, const LocalTensor<T>& dst, const AnyopView<T>& src,
                   const Form& form, const R& reduction, rt::Site site) {
  if constexpr (kChecked) {
    const rt::Operand source = src.operand();
    const rt::Groups groups{form.lanes, static_cast<std::uint32_t>(form.results * sizeof(T)),
                            form.repeat_bytes};
    if (!rt::CheckReduce(shape, &source, 1, dst.span(), groups, site)) return;
  }
  const AnyopMask mask{{shape.mask[0], shape.mask[1]}};
  const int top = mask.Top();
  for (int r = 0; r < shape.repeats; ++r) {
    int n = top;
    if (shape.total >= 0) {
      n = static_cast<int>(
          std::min<std::int64_t>(shape.lanes, shape.total - std::int64_t{r} * shape.lanes));
    }
    T* row = src.Row(r);
    T* to = reinterpret_cast<T*>(dst.bytes() + std::size_t{form.repeat_bytes} * r);
    T results[kLanes<T>];
    int count = 0;
    for (int begin = 0; begin < n; begin += form.lanes) {
      Lanes<T> group;
      for (int i = begin; i < std::min(n, begin + form.lanes); ++i) {
        if (!mask.Has(i)) continue;
        group.lanes[group.count] = static_cast<std::uint8_t>(i);
        group.values[group.count++] = *src.Lane(row, i);
      }
      reduction.Write(group, results + count);
      count += form.results;
    }
    std::memcpy(to, results, count * sizeof(T));
  }
}
template <class T, bool is_set, class M, class R>
inline void Repeated(const LocalTensor<T>& dst, const LocalTensor<T>& src, M mask, int repeats,
                     const Form& form, int src_block, int src_repeat, const R& reduction,
                     rt::Site site) {
  if (kChecked && !repeats && !rt::block->counts) rt::CheckTimes(repeats, site);
  Groups(RepeatsOf(MaskOf<is_set>(mask, kLanes<T>, site), repeats, kLanes<T>), dst,
         AnyopView<T>{src, static_cast<std::uint32_t>(src_block),
                      static_cast<std::uint32_t>(src_repeat)},
         form, reduction, site);
}

// Elements of a work tensor, as the documentation has them: `results` of each repeat of the source,
// in whole blocks of 32 bytes, and where places are kept, the same of what that leaves, twice.
template <class T>
inline std::uint64_t WorkOf(std::int32_t count, std::uint64_t results, bool keeps_places) {
  std::uint64_t elements = count, work = 0;
  for (int step = 0; step < (keeps_places ? 3 : 1); ++step) {
    elements = (elements + kLanes<T> - 1) / kLanes<T> * results;
    work += (elements * sizeof(T) + 31) / 32 * 32 / sizeof(T);
  }
  return work;
}

// A count of elements into one result. Source, work and result may be one tensor.
template <class T>
inline bool CheckCount(const LocalTensor<T>& dst, std::uint32_t results, const LocalTensor<T>& src,
                       std::int32_t count, rt::Site site, const LocalTensor<T>* work = nullptr,
                       std::uint64_t work_elements = 0) {
  if constexpr (kChecked) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(count) * sizeof(T);
    if (count <= 0 || !rt::CheckSpan(dst.span(), 0, results * sizeof(T), 32, site) ||
        !rt::CheckSpan(src.span(), 0, bytes, 32, site) ||
        (work && !rt::CheckSpan(work->span(), 0, work_elements * sizeof(T), 32, site))) {
      return false;
    }
    const rt::Instruction by = rt::Issue(rt::kV, site);
    rt::Touch(by, rt::kRead, src.bytes(), bytes);
    if (work) rt::Touch(by, rt::kWrite, work->bytes(), work_elements * sizeof(T));
    rt::Touch(by, rt::kWrite, dst.bytes(), results * sizeof(T));
    rt::DefineFrom(by, dst.bytes(), results * sizeof(T), src.bytes(), bytes);
  }
  return count > 0;
}
template <bool is_least, class T>
inline void ExtremeOf(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                      const LocalTensor<T>& work, std::int32_t count, bool with_index,
                      rt::Site site) {
  const std::uint64_t elements = WorkOf<T>(count, 2, with_index);
  if (!CheckCount(dst, with_index ? 2 : 1, src, count, site, &work, elements)) return;
  const T* values = src.data();
  std::uint32_t best = 0;
  for (std::int32_t i = 1; i < count; ++i)
    if (is_least ? values[i] < values[best] : values[i] > values[best]) best = i;
  const T value = values[best];
  std::memcpy(dst.data(), &value, sizeof(T));
  if (with_index) std::memcpy(dst.data() + 1, &best, sizeof(T));
}

template <bool is_least, class T>
inline void ExtremeOfRepeats(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                             const LocalTensor<T>& work, std::int32_t mask, std::int32_t repeats,
                             std::int32_t src_repeat, bool with_index, rt::Site site) {
  const Form form{kLanes<T>, 2, 2 * sizeof(T)};
  Repeated<T, true>(work, src, mask, repeats, form, 1, src_repeat,
                    Extreme<is_least>{ReduceOrder::ORDER_VALUE_INDEX}, site);
  if (!CheckCount(dst, with_index ? 2 : 1, work, 2 * repeats, site)) return;
  std::int32_t best = 0;
  for (std::int32_t r = 1; r < repeats; ++r) {
    const T a = work.data()[2 * r], b = work.data()[2 * best];
    if (is_least ? a < b : a > b) best = r;
  }
  std::uint32_t lane = 0;
  std::memcpy(&lane, work.data() + 2 * best + 1, sizeof(T));
  lane += static_cast<std::uint32_t>(best * mask);
  std::memcpy(dst.data(), work.data() + 2 * best, sizeof(T));
  if (with_index) std::memcpy(dst.data() + 1, &lane, sizeof(T));
}

}  // namespace anyop_reducing

template <class T, bool isSetMask = true>
inline void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                      const LocalTensor<T>& work, const std::int32_t count, ANYOP_ASCEND_SITE) {
  constexpr int kWidth = kLanes<T>;
  const std::uint64_t elements = anyop_reducing::WorkOf<T>(count, 1, false);
  if (!anyop_reducing::CheckCount(dst, 1, src, count, site, &work, elements)) return;
  T total = T(0);
  for (std::int32_t begin = 0; begin < count; begin += kWidth) {
    anyop_reducing::Lanes<T> repeat;
    repeat.count = std::min(kWidth, count - begin);
    std::memcpy(repeat.values, src.data() + begin, repeat.count * sizeof(T));
    T sum;
    anyop_reducing::Sum::Write(repeat, &sum);
    total = begin ? anyop_element::Add::Of(total, sum) : sum;
  }
  std::memcpy(dst.data(), &total, sizeof(T));
}
template <class T>
inline void ReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                      const LocalTensor<T>& work, const std::int32_t count, bool calIndex = false,
                      ANYOP_ASCEND_SITE) {
  anyop_reducing::ExtremeOf<false>(dst, src, work, count, calIndex, site);
}
template <class T>
inline void ReduceMin(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                      const LocalTensor<T>& work, const std::int32_t count, bool calIndex = false,
                      ANYOP_ASCEND_SITE) {
  anyop_reducing::ExtremeOf<true>(dst, src, work, count, calIndex, site);
}

// Repeats of `mask` lanes into one result. Indices count lanes, `mask` of them for each repeat.
template <class T>
inline void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                      const LocalTensor<T>& work, const std::int32_t mask,
                      const std::int32_t repeats, const std::int32_t srcRepStride,
                      ANYOP_ASCEND_SITE) {
  const anyop_reducing::Form form{kLanes<T>, 1, sizeof(T)};
  anyop_reducing::Repeated<T, true>(work, src, mask, repeats, form, 1, srcRepStride,
                                    anyop_reducing::Sum(), site);
  if (!anyop_reducing::CheckCount(dst, 1, work, repeats, site)) return;
  T total = work.data()[0];
  for (std::int32_t r = 1; r < repeats; ++r) total = anyop_element::Add::Of(total, work.data()[r]);
  std::memcpy(dst.data(), &total, sizeof(T));
}
#define ANYOP_ASCEND_EXTREME(Name, is_least)                                                \
  template <class T>                                                                        \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src,                    \
                   const LocalTensor<T>& work, const std::int32_t mask,                     \
                   const std::int32_t repeats, const std::int32_t srcRepStride,             \
                   bool calIndex = false, ANYOP_ASCEND_SITE) {                              \
    anyop_reducing::ExtremeOfRepeats<is_least>(dst, src, work, mask, repeats, srcRepStride, \
                                               calIndex, site);                             \
  }
ANYOP_ASCEND_EXTREME(ReduceMax, false)
ANYOP_ASCEND_EXTREME(ReduceMin, true)
#undef ANYOP_ASCEND_EXTREME

// Strides of results count results of a repeat: 1 element (2 with an index), 8 elements, 128 bytes.
template <class T, bool isSetMask = true, class M>
inline void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const M mask,
                           const std::int32_t repeats, const std::int32_t dstRepStride,
                           const std::int32_t srcBlkStride, const std::int32_t srcRepStride,
                           ANYOP_ASCEND_SITE) {
  const anyop_reducing::Form form{kLanes<T>, 1,
                                  static_cast<std::uint32_t>(dstRepStride * sizeof(T))};
  anyop_reducing::Repeated<T, isSetMask>(dst, src, mask, repeats, form, srcBlkStride, srcRepStride,
                                         anyop_reducing::Sum(), site);
}
// The same, with another order of arguments.
template <class T, bool isSetMask = true, class M>
inline void RepeatReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                            const std::int32_t repeats, const M mask, const std::int32_t,
                            const std::int32_t srcBlkStride, const std::int32_t dstRepStride,
                            const std::int32_t srcRepStride, ANYOP_ASCEND_SITE) {
  WholeReduceSum<T, isSetMask>(dst, src, mask, repeats, dstRepStride, srcBlkStride, srcRepStride,
                               site);
}
#define ANYOP_ASCEND_WHOLE(Name, is_least)                                                         \
  template <class T, bool isSetMask = true, class M>                                               \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const M mask,             \
                   const std::int32_t repeats, const std::int32_t dstRepStride,                    \
                   const std::int32_t srcBlkStride, const std::int32_t srcRepStride,               \
                   ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX, ANYOP_ASCEND_SITE) {        \
    const int results =                                                                            \
        order == ReduceOrder::ORDER_ONLY_VALUE || order == ReduceOrder::ORDER_ONLY_INDEX ? 1 : 2;  \
    const anyop_reducing::Form form{                                                               \
        kLanes<T>, results, static_cast<std::uint32_t>(dstRepStride * results * sizeof(T))};       \
    anyop_reducing::Repeated<T, isSetMask>(dst, src, mask, repeats, form, srcBlkStride,            \
                                           srcRepStride, anyop_reducing::Extreme<is_least>{order}, \
                                           site);                                                  \
  }
ANYOP_ASCEND_WHOLE(WholeReduceMax, false)
ANYOP_ASCEND_WHOLE(WholeReduceMin, true)
#undef ANYOP_ASCEND_WHOLE

#define ANYOP_ASCEND_PARTS(Name, group, stride_bytes, reduction)                              \
  template <class T, bool isSetMask = true, class M>                                          \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src,                      \
                   const std::int32_t repeats, const M mask, const std::int32_t dstRepStride, \
                   const std::int32_t srcBlkStride, const std::int32_t srcRepStride,          \
                   ANYOP_ASCEND_SITE) {                                                       \
    const anyop_reducing::Form form{static_cast<int>(group), 1,                               \
                                    static_cast<std::uint32_t>(dstRepStride * stride_bytes)}; \
    anyop_reducing::Repeated<T, isSetMask>(dst, src, mask, repeats, form, srcBlkStride,       \
                                           srcRepStride, reduction, site);                    \
  }
ANYOP_ASCEND_PARTS(BlockReduceSum, (32 / sizeof(T)), (8 * sizeof(T)), anyop_reducing::Sum())
ANYOP_ASCEND_PARTS(BlockReduceMax, (32 / sizeof(T)), (8 * sizeof(T)),
                   anyop_reducing::Extreme<false>{ReduceOrder::ORDER_ONLY_VALUE})
ANYOP_ASCEND_PARTS(BlockReduceMin, (32 / sizeof(T)), (8 * sizeof(T)),
                   anyop_reducing::Extreme<true>{ReduceOrder::ORDER_ONLY_VALUE})
ANYOP_ASCEND_PARTS(PairReduceSum, 2, 128, anyop_reducing::Sum())
#undef ANYOP_ASCEND_PARTS

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
