// SPDX-License-Identifier: Apache-2.0
// Comparisons give a bit for each element, low bit first; Select chooses by them.
#pragma once
#include "anyop_ascend/vector.h"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {
namespace anyop_comparing {

template <class T>
inline bool Holds(T a, T b, CMPMODE mode) {
  switch (mode) {
    case CMPMODE::LT:
      return a < b;
    case CMPMODE::GT:
      return a > b;
    case CMPMODE::EQ:
      return a == b;
    case CMPMODE::LE:
      return a <= b;
    case CMPMODE::GE:
      return a >= b;
    default:
      return a != b;
  }
}

// All lanes of so many elements, as repeats.
inline rt::Repeats Whole(std::int64_t elements, int lanes) {
  const AnyopMask all = AnyopMask::First(static_cast<std::uint64_t>(lanes));
  return {{all.words[0], all.words[1]},
          static_cast<std::int32_t>((elements + lanes - 1) / lanes),
          lanes,
          elements,
          false};
}
inline int LanesOf(const rt::Repeats& shape, int repeat) {
  if (shape.total < 0) return shape.lanes;
  return static_cast<int>(
      std::min<std::int64_t>(shape.lanes, shape.total - std::int64_t{repeat} * shape.lanes));
}

// Writes a bit for each lane of each repeat; holds(row of each source, lane).
template <class T, class U, class F>
inline void Write(const rt::Repeats& shape, const LocalTensor<U>& dst, const F& holds) {
  constexpr int kRepeatBytes = kLanes<T> / 8;
  for (int r = 0; r < shape.repeats; ++r) {
    const int lanes = LanesOf(shape, r);
    unsigned char bits[kRepeatBytes] = {};
    for (int i = 0; i < lanes; ++i) bits[i / 8] |= static_cast<unsigned char>(holds(r, i) << i % 8);
    std::memcpy(dst.bytes() + r * kRepeatBytes, bits, (lanes + 7) / 8);
  }
}
template <class T, class U, class B>
inline void Compare(const rt::Repeats& shape, const LocalTensor<U>& dst, const AnyopView<T>& a,
                    const B& b, CMPMODE mode, rt::Site site) {
  constexpr bool kHasTensor = std::is_same<B, AnyopView<T>>::value;
  if constexpr (kChecked) {
    rt::Operand sources[2] = {a.operand(), a.operand()};
    if constexpr (kHasTensor) sources[1] = b.operand();
    const rt::Groups groups{8, 1, kLanes<T> / 8, true};
    if (!rt::CheckReduce(shape, sources, kHasTensor ? 2 : 1, dst.span(), groups, site)) return;
  }
  Write<T>(shape, dst, [&](int r, int i) {
    const T x = *a.Lane(a.Row(r), i);
    if constexpr (kHasTensor)
      return Holds<T>(x, *b.Lane(b.Row(r), i), mode);
    else
      return Holds<T>(x, b, mode);
  });
}
template <class T>
inline rt::Repeats Counted(std::uint32_t count, rt::Site site) {
  if (kChecked && count * sizeof(T) % 256) {
    rt::Report("compare-count", site,
               "a comparison of %u elements, but the count must fill repeats of 256 bytes", count);
  }
  return Whole(count, kLanes<T>);
}
template <class T, class M>
inline rt::Repeats Repeated(M mask, AnyopTimes repeats, rt::Site site) {
  return RepeatsOf(MaskOf<true>(mask, kLanes<T>, site), repeats.Of(site), kLanes<T>);
}

// Chooses a(r, i) where bit r * lanes + i is set; mode 0 takes the first bits for every repeat.
template <class T, class U, class A, class B>
inline void Select(const rt::Repeats& shape, const AnyopView<T>& dst, const LocalTensor<U>& bits,
                   bool is_first, const A& a, const B& b) {
  for (int r = 0; r < shape.repeats; ++r) {
    const int lanes = LanesOf(shape, r);
    const unsigned char* row = bits.bytes() + (is_first ? 0 : r * (kLanes<T> / 8));
    const AnyopMask mask{{shape.mask[0], shape.mask[1]}};
    T results[kLanes<T>];
    for (int i = 0; i < lanes; ++i) results[i] = row[i / 8] >> i % 8 & 1 ? a(r, i) : b(r, i);
    T* to = dst.Row(r);
    for (int i = 0; i < lanes; ++i)
      if (mask.Has(i)) *dst.Lane(to, i) = results[i];
  }
}
// Elements whose bit is not defined are not either.
template <class T, class U>
inline void SpreadUndefined(const rt::Instruction& by, const rt::Repeats& shape,
                            const AnyopView<T>& dst, const LocalTensor<U>& bits,
                            std::uint32_t bytes, bool is_first) {
  if (rt::AreDefined(bits.bytes(), bytes)) return;
  const AnyopMask mask{{shape.mask[0], shape.mask[1]}};
  for (int r = 0; r < shape.repeats; ++r) {
    for (int i = 0; i < LanesOf(shape, r); ++i) {
      if (!mask.Has(i)) continue;
      const int bit = (is_first ? 0 : r * kLanes<T>)+i;
      if (!rt::AreBitsDefined(bits.bytes(), static_cast<std::uint64_t>(bit), 1)) {
        rt::DefineFrom(by, dst.Lane(dst.Row(r), i), sizeof(T), bits.bytes() + bit / 8, 1);
      }
    }
  }
}
template <class T, class U, class B>
inline void SelectAll(const rt::Repeats& shape, const AnyopView<T>& dst, const LocalTensor<U>& bits,
                      const AnyopView<T>& a, const B& b, SELMODE mode, rt::Site site) {
  constexpr bool kHasTensor = std::is_same<B, AnyopView<T>>::value;
  const bool is_first = mode == SELMODE::VSEL_CMPMASK_SPR;
  if constexpr (kChecked) {
    const std::int64_t elements =
        shape.total >= 0 ? shape.total : std::int64_t{shape.repeats} * kLanes<T>;
    const auto bytes = static_cast<std::uint32_t>(is_first ? kLanes<T> / 8 : (elements + 7) / 8);
    if (!rt::CheckSpan(bits.span(), 0, bytes, 1, site)) return;
    const rt::Instruction by = rt::Issue(rt::kV, site);
    rt::Touch(by, rt::kRead, bits.bytes(), bytes);
    rt::Operand operands[3] = {dst.operand(), a.operand()};
    if constexpr (kHasTensor) operands[2] = b.operand();
    if (!rt::CheckVector(shape, operands, kHasTensor ? 3 : 2, site)) return;
    SpreadUndefined(by, shape, dst, bits, bytes, is_first);
  }
  Select(
      shape, dst, bits, is_first, [&](int r, int i) { return *a.Lane(a.Row(r), i); },
      [&](int r, int i) -> T {
        if constexpr (kHasTensor)
          return *b.Lane(b.Row(r), i);
        else
          return b;
      });
}

}  // namespace anyop_comparing

template <class T, class U>
inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0,
                    const LocalTensor<T>& src1, CMPMODE mode, std::uint32_t count,
                    ANYOP_ASCEND_SITE) {
  anyop_comparing::Compare(anyop_comparing::Counted<T>(count, site), dst, AnyopView<T>{src0},
                           AnyopView<T>{src1}, mode, site);
}
template <class T, class U, bool isSetMask = true, class M>
inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0,
                    const LocalTensor<T>& src1, CMPMODE mode, M mask, AnyopTimes repeats,
                    const BinaryRepeatParams& p, ANYOP_ASCEND_SITE) {
  anyop_comparing::Compare(anyop_comparing::Repeated<T>(mask, repeats, site), dst,
                           AnyopView<T>{src0, p.src0BlkStride, p.src0RepStride},
                           AnyopView<T>{src1, p.src1BlkStride, p.src1RepStride}, mode, site);
}
template <class T, class U>
inline void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src,
                          const AnyopNotDeduced<T> scalar, CMPMODE mode, std::uint32_t count,
                          ANYOP_ASCEND_SITE) {
  anyop_comparing::Compare(anyop_comparing::Counted<T>(count, site), dst, AnyopView<T>{src}, scalar,
                           mode, site);
}
template <class T, class U, bool isSetMask = true, class M>
inline void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src,
                          const AnyopNotDeduced<T> scalar, CMPMODE mode, M mask, AnyopTimes repeats,
                          const UnaryRepeatParams& p, ANYOP_ASCEND_SITE) {
  anyop_comparing::Compare(anyop_comparing::Repeated<T>(mask, repeats, site), dst,
                           AnyopView<T>{src, p.srcBlkStride, p.srcRepStride}, scalar, mode, site);
}

template <class T, class U>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& bits,
                   const LocalTensor<T>& src0, const LocalTensor<T>& src1, SELMODE mode,
                   std::uint32_t count, ANYOP_ASCEND_SITE) {
  anyop_comparing::SelectAll(anyop_comparing::Whole(count, kLanes<T>), AnyopView<T>{dst}, bits,
                             AnyopView<T>{src0}, AnyopView<T>{src1}, mode, site);
}
template <class T, class U>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& bits,
                   const LocalTensor<T>& src0, const AnyopNotDeduced<T> scalar, SELMODE mode,
                   std::uint32_t count, ANYOP_ASCEND_SITE) {
  anyop_comparing::SelectAll(anyop_comparing::Whole(count, kLanes<T>), AnyopView<T>{dst}, bits,
                             AnyopView<T>{src0}, scalar, mode, site);
}
template <class T, class U, bool isSetMask = true, class M>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& bits,
                   const LocalTensor<T>& src0, const LocalTensor<T>& src1, SELMODE mode, M mask,
                   AnyopTimes repeats, const BinaryRepeatParams& p, ANYOP_ASCEND_SITE) {
  anyop_comparing::SelectAll(anyop_comparing::Repeated<T>(mask, repeats, site),
                             AnyopView<T>{dst, p.dstBlkStride, p.dstRepStride}, bits,
                             AnyopView<T>{src0, p.src0BlkStride, p.src0RepStride},
                             AnyopView<T>{src1, p.src1BlkStride, p.src1RepStride}, mode, site);
}
template <class T, class U, bool isSetMask = true, class M>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& bits,
                   const LocalTensor<T>& src0, const AnyopNotDeduced<T> scalar, SELMODE mode,
                   M mask, AnyopTimes repeats, const BinaryRepeatParams& p, ANYOP_ASCEND_SITE) {
  anyop_comparing::SelectAll(anyop_comparing::Repeated<T>(mask, repeats, site),
                             AnyopView<T>{dst, p.dstBlkStride, p.dstRepStride}, bits,
                             AnyopView<T>{src0, p.src0BlkStride, p.src0RepStride}, scalar, mode,
                             site);
}

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
