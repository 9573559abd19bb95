// SPDX-License-Identifier: Apache-2.0
// Vector instructions that compute one element from elements at the same place. Each has three
// forms: a count; a number of lanes with repeats; a bit mask with repeats.
#pragma once
#include "anyop_ascend/arithmetic.h"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {

template <class T>
constexpr int kLanes = 256 / sizeof(T);

// Forms of two sources. T: of the result, U: of the sources, which may be narrower.
template <bool is_set, bool reads, class T, class U, class F, class M>
inline void Binary(const LocalTensor<T>& dst, const LocalTensor<U>& src0,
                   const LocalTensor<U>& src1, M mask, AnyopTimes repeats,
                   const BinaryRepeatParams& p, const F& compute, rt::Site site) {
  constexpr int kWidth = 256 / Widest({sizeof(T), sizeof(U)});
  RunOver<reads>(RepeatsOf(MaskOf<is_set>(mask, kWidth, site), repeats.Of(site), kWidth), site,
                 compute, AnyopView<T>{dst, p.dstBlkStride, p.dstRepStride},
                 AnyopView<U>{src0, p.src0BlkStride, p.src0RepStride},
                 AnyopView<U>{src1, p.src1BlkStride, p.src1RepStride});
}
template <bool reads, class T, class U, class F>
inline void BinaryCount(const LocalTensor<T>& dst, const LocalTensor<U>& src0,
                        const LocalTensor<U>& src1, std::int64_t count, const F& compute,
                        rt::Site site) {
  constexpr int kWidth = 256 / Widest({sizeof(T), sizeof(U)});
  RunOver<reads>(CountOf(count, kWidth), site, compute, AnyopView<T>{dst}, AnyopView<U>{src0},
                 AnyopView<U>{src1});
}
template <bool is_set, bool reads, class T, class U, class F, class M>
inline void Unary(const LocalTensor<T>& dst, const LocalTensor<U>& src, M mask, AnyopTimes repeats,
                  const UnaryRepeatParams& p, const F& compute, rt::Site site) {
  constexpr int kWidth = 256 / Widest({sizeof(T), sizeof(U)});
  RunOver<reads>(RepeatsOf(MaskOf<is_set>(mask, kWidth, site), repeats.Of(site), kWidth), site,
                 compute, AnyopView<T>{dst, p.dstBlkStride, p.dstRepStride},
                 AnyopView<U>{src, p.srcBlkStride, p.srcRepStride});
}
template <bool reads, class T, class U, class F>
inline void UnaryCount(const LocalTensor<T>& dst, const LocalTensor<U>& src, std::int64_t count,
                       const F& compute, rt::Site site) {
  constexpr int kWidth = 256 / Widest({sizeof(T), sizeof(U)});
  RunOver<reads>(CountOf(count, kWidth), site, compute, AnyopView<T>{dst}, AnyopView<U>{src});
}

// What an instruction computes for each element, whose old value in the result it does not need.
template <class E>
struct AnyopEach {
  template <class T>
  auto operator()(T, T a, T b) const {
    return E::Of(a, b);
  }
  template <class T>
  auto operator()(T, T a) const {
    return E::Of(a);
  }
};
template <>
struct AnyopIsBitwise<AnyopEach<anyop_element::And>> : std::true_type {};
template <>
struct AnyopIsBitwise<AnyopEach<anyop_element::Or>> : std::true_type {};
template <>
struct AnyopIsBitwise<AnyopEach<anyop_element::Not>> : std::true_type {};

// Name(dst, src0, src1) by count, by mask of lanes and by mask of bits. reads: whether dst is read,
// too.
#define ANYOP_ASCEND_BINARY_BY(Name, reads, F)                                                     \
  template <class T, bool isSetMask = true>                                                        \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0,                          \
                   const LocalTensor<T>& src1, const std::int32_t& count, ANYOP_ASCEND_SITE) {     \
    BinaryCount<reads>(dst, src0, src1, count, F(), site);                                         \
  }                                                                                                \
  template <class T, bool isSetMask = true>                                                        \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0,                          \
                   const LocalTensor<T>& src1, std::uint64_t mask, const AnyopTimes repeats,       \
                   const BinaryRepeatParams& p, ANYOP_ASCEND_SITE) {                               \
    Binary<isSetMask, reads>(dst, src0, src1, mask, repeats, p, F(), site);                        \
  }                                                                                                \
  template <class T, bool isSetMask = true>                                                        \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0,                          \
                   const LocalTensor<T>& src1, std::uint64_t mask[], const AnyopTimes repeats,     \
                   const BinaryRepeatParams& p, ANYOP_ASCEND_SITE) {                               \
    Binary<isSetMask, reads>(dst, src0, src1, static_cast<const std::uint64_t*>(mask), repeats, p, \
                             F(), site);                                                           \
  }
#define ANYOP_ASCEND_BINARY(Name) \
  ANYOP_ASCEND_BINARY_BY(Name, false, AnyopEach<anyop_element::Name>)
ANYOP_ASCEND_BINARY(Add)
ANYOP_ASCEND_BINARY(Sub)
ANYOP_ASCEND_BINARY(Mul)
ANYOP_ASCEND_BINARY(Div)
ANYOP_ASCEND_BINARY(Max)
ANYOP_ASCEND_BINARY(Min)
ANYOP_ASCEND_BINARY(And)
ANYOP_ASCEND_BINARY(Or)
ANYOP_ASCEND_BINARY(AddRelu)
ANYOP_ASCEND_BINARY(SubRelu)
#undef ANYOP_ASCEND_BINARY

#define ANYOP_ASCEND_UNARY(Name)                                                                 \
  template <class T, bool isSetMask = true>                                                      \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src,                         \
                   const std::int32_t& count, ANYOP_ASCEND_SITE) {                               \
    UnaryCount<false>(dst, src, count, AnyopEach<anyop_element::Name>(), site);                  \
  }                                                                                              \
  template <class T, bool isSetMask = true>                                                      \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, std::uint64_t mask,     \
                   const AnyopTimes repeats, const UnaryRepeatParams& p, ANYOP_ASCEND_SITE) {    \
    Unary<isSetMask, false>(dst, src, mask, repeats, p, AnyopEach<anyop_element::Name>(), site); \
  }                                                                                              \
  template <class T, bool isSetMask = true>                                                      \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, std::uint64_t mask[],   \
                   const AnyopTimes repeats, const UnaryRepeatParams& p, ANYOP_ASCEND_SITE) {    \
    Unary<isSetMask, false>(dst, src, static_cast<const std::uint64_t*>(mask), repeats, p,       \
                            AnyopEach<anyop_element::Name>(), site);                             \
  }
ANYOP_ASCEND_UNARY(Exp)
ANYOP_ASCEND_UNARY(Ln)
ANYOP_ASCEND_UNARY(Sqrt)
ANYOP_ASCEND_UNARY(Rsqrt)
ANYOP_ASCEND_UNARY(Reciprocal)
ANYOP_ASCEND_UNARY(Abs)
ANYOP_ASCEND_UNARY(Relu)
ANYOP_ASCEND_UNARY(Not)
ANYOP_ASCEND_UNARY(Neg)
#undef ANYOP_ASCEND_UNARY

// The extended functions take tensors and a count, with or without memory for intermediate values,
// which is not needed here.
#define ANYOP_ASCEND_FUNCTION(Name)                                                            \
  template <class T, bool isReuseSource = false>                                               \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, std::uint32_t count,  \
                   ANYOP_ASCEND_SITE) {                                                        \
    UnaryCount<false>(                                                                         \
        dst, src, count, [](T, T a) { return anyop_element::Name::Of(a); }, site);             \
  }                                                                                            \
  template <class T, bool isReuseSource = false>                                               \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src,                       \
                   const LocalTensor<std::uint8_t>&, std::uint32_t count, ANYOP_ASCEND_SITE) { \
    UnaryCount<false>(                                                                         \
        dst, src, count, [](T, T a) { return anyop_element::Name::Of(a); }, site);             \
  }
ANYOP_ASCEND_FUNCTION(Sigmoid)
ANYOP_ASCEND_FUNCTION(Silu)
ANYOP_ASCEND_FUNCTION(Tanh)
ANYOP_ASCEND_FUNCTION(Sin)
ANYOP_ASCEND_FUNCTION(Cos)
ANYOP_ASCEND_FUNCTION(Erf)
ANYOP_ASCEND_FUNCTION(Erfc)
ANYOP_ASCEND_FUNCTION(Tan)
ANYOP_ASCEND_FUNCTION(Asin)
ANYOP_ASCEND_FUNCTION(Acos)
ANYOP_ASCEND_FUNCTION(Atan)
ANYOP_ASCEND_FUNCTION(Sinh)
ANYOP_ASCEND_FUNCTION(Cosh)
ANYOP_ASCEND_FUNCTION(Asinh)
ANYOP_ASCEND_FUNCTION(Acosh)
ANYOP_ASCEND_FUNCTION(Atanh)
ANYOP_ASCEND_FUNCTION(Log)
ANYOP_ASCEND_FUNCTION(Log2)
ANYOP_ASCEND_FUNCTION(Log10)
ANYOP_ASCEND_FUNCTION(Ceil)
ANYOP_ASCEND_FUNCTION(Floor)
ANYOP_ASCEND_FUNCTION(Trunc)
ANYOP_ASCEND_FUNCTION(Round)
ANYOP_ASCEND_FUNCTION(Frac)
ANYOP_ASCEND_FUNCTION(Sign)
#undef ANYOP_ASCEND_FUNCTION

#define ANYOP_ASCEND_SCALAR(Name, Element)                                                         \
  template <class T, bool isSetMask = true>                                                        \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src,                           \
                   const AnyopNotDeduced<T>& scalar, const std::int32_t& count,                    \
                   ANYOP_ASCEND_SITE) {                                                            \
    UnaryCount<false>(                                                                             \
        dst, src, count, [scalar](T, T a) { return anyop_element::Element::Of(a, scalar); },       \
        site);                                                                                     \
  }                                                                                                \
  template <class T, bool isSetMask = true>                                                        \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src,                           \
                   const AnyopNotDeduced<T>& scalar, std::uint64_t mask, const AnyopTimes repeats, \
                   const UnaryRepeatParams& p, ANYOP_ASCEND_SITE) {                                \
    Unary<isSetMask, false>(                                                                       \
        dst, src, mask, repeats, p,                                                                \
        [scalar](T, T a) { return anyop_element::Element::Of(a, scalar); }, site);                 \
  }                                                                                                \
  template <class T, bool isSetMask = true>                                                        \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src,                           \
                   const AnyopNotDeduced<T>& scalar, std::uint64_t mask[],                         \
                   const AnyopTimes repeats, const UnaryRepeatParams& p, ANYOP_ASCEND_SITE) {      \
    Unary<isSetMask, false>(                                                                       \
        dst, src, static_cast<const std::uint64_t*>(mask), repeats, p,                             \
        [scalar](T, T a) { return anyop_element::Element::Of(a, scalar); }, site);                 \
  }
ANYOP_ASCEND_SCALAR(Adds, Add)
ANYOP_ASCEND_SCALAR(Muls, Mul)
ANYOP_ASCEND_SCALAR(Maxs, Max)
ANYOP_ASCEND_SCALAR(Mins, Min)
ANYOP_ASCEND_SCALAR(LeakyRelu, LeakyRelu)
ANYOP_ASCEND_SCALAR(ShiftLeft, ShiftLeft)
ANYOP_ASCEND_SCALAR(ShiftRight, ShiftRight)
#undef ANYOP_ASCEND_SCALAR

// dst += src0 * src1.
struct AnyopMultiplyAdd {
  template <class T, class U>
  T operator()(T d, U a, U b) const {
    return static_cast<T>(AnyopWide<T>(d) +
                          AnyopWide<T>(AnyopWide<U>(a)) * AnyopWide<T>(AnyopWide<U>(b)));
  }
};
template <class T, class U>
inline void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0,
                      const LocalTensor<U>& src1, const std::int32_t& count, ANYOP_ASCEND_SITE) {
  BinaryCount<true>(dst, src0, src1, count, AnyopMultiplyAdd(), site);
}
template <class T, class U, bool isSetMask = true>
inline void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0,
                      const LocalTensor<U>& src1, std::uint64_t mask, const AnyopTimes repeats,
                      const BinaryRepeatParams& p, ANYOP_ASCEND_SITE) {
  Binary<isSetMask, true>(dst, src0, src1, mask, repeats, p, AnyopMultiplyAdd(), site);
}
template <class T, class U, bool isSetMask = true>
inline void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0,
                      const LocalTensor<U>& src1, std::uint64_t mask[], const AnyopTimes repeats,
                      const BinaryRepeatParams& p, ANYOP_ASCEND_SITE) {
  Binary<isSetMask, true>(dst, src0, src1, static_cast<const std::uint64_t*>(mask), repeats, p,
                          AnyopMultiplyAdd(), site);
}
// dst = src0 * dst + src1; FusedMulAddRelu: no less than 0.
template <bool is_relu>
struct AnyopFused {
  template <class T>
  T operator()(T d, T a, T b) const {
    const T value = anyop_element::Add::Of(anyop_element::Mul::Of(a, d), b);
    return is_relu ? anyop_element::Relu::Of(value) : value;
  }
};
ANYOP_ASCEND_BINARY_BY(FusedMulAdd, true, AnyopFused<false>)
ANYOP_ASCEND_BINARY_BY(FusedMulAddRelu, true, AnyopFused<true>)
#undef ANYOP_ASCEND_BINARY_BY
// dst += src * scalar.
template <class T, class U, bool isSetMask = true>
inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src,
                 const AnyopNotDeduced<U>& scalar, const std::int32_t& count, ANYOP_ASCEND_SITE) {
  UnaryCount<true>(
      dst, src, count, [scalar](T d, U a) { return AnyopMultiplyAdd()(d, a, scalar); }, site);
}
template <class T, class U, bool isSetMask = true>
inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src,
                 const AnyopNotDeduced<U>& scalar, std::uint64_t mask, const AnyopTimes repeats,
                 const UnaryRepeatParams& p, ANYOP_ASCEND_SITE) {
  Unary<isSetMask, true>(
      dst, src, mask, repeats, p, [scalar](T d, U a) { return AnyopMultiplyAdd()(d, a, scalar); },
      site);
}

template <class T, bool isSetMask = true>
inline void Duplicate(const LocalTensor<T>& dst, const AnyopNotDeduced<T>& scalar,
                      const std::int32_t& count, ANYOP_ASCEND_SITE) {
  RunVector(
      CountOf(count, kLanes<T>), site, [scalar](T) { return scalar; }, AnyopView<T>{dst});
}
template <class T, bool isSetMask = true>
inline void Duplicate(const LocalTensor<T>& dst, const AnyopNotDeduced<T>& scalar,
                      std::uint64_t mask, const AnyopTimes repeats,
                      const std::uint16_t dstBlockStride, const std::uint8_t dstRepeatStride,
                      ANYOP_ASCEND_SITE) {
  RunVector(
      RepeatsOf(MaskOf<isSetMask>(mask, kLanes<T>, site), repeats.Of(site), kLanes<T>), site,
      [scalar](T) { return scalar; }, AnyopView<T>{dst, dstBlockStride, dstRepeatStride});
}
template <class T, bool isSetMask = true>
inline void Duplicate(const LocalTensor<T>& dst, const AnyopNotDeduced<T>& scalar,
                      std::uint64_t mask[], const AnyopTimes repeats,
                      const std::uint16_t dstBlockStride, const std::uint8_t dstRepeatStride,
                      ANYOP_ASCEND_SITE) {
  const std::uint64_t* bits = mask;
  RunVector(
      RepeatsOf(MaskOf<isSetMask>(bits, kLanes<T>, site), repeats.Of(site), kLanes<T>), site,
      [scalar](T) { return scalar; }, AnyopView<T>{dst, dstBlockStride, dstRepeatStride});
}

template <class T, bool isSetMask = true, class M>
inline void CopyRepeats(const LocalTensor<T>& dst, const LocalTensor<T>& src, M mask,
                        AnyopTimes repeats, const CopyRepeatParams& p, rt::Site site) {
  RunVector(
      RepeatsOf(MaskOf<isSetMask>(mask, kLanes<T>, site), repeats.Of(site), kLanes<T>), site,
      [](T, T a) { return a; }, AnyopView<T>{dst, p.dstStride, p.dstRepeatSize},
      AnyopView<T>{src, p.srcStride, p.srcRepeatSize});
}
template <class T, bool isSetMask = true>
inline void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const std::uint64_t mask,
                 const AnyopTimes repeats, const CopyRepeatParams& p, ANYOP_ASCEND_SITE) {
  CopyRepeats<T, isSetMask>(dst, src, mask, repeats, p, site);
}
template <class T, bool isSetMask = true>
inline void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const std::uint64_t mask[],
                 const AnyopTimes repeats, const CopyRepeatParams& p, ANYOP_ASCEND_SITE) {
  CopyRepeats<T, isSetMask>(dst, src, mask, repeats, p, site);
}
template <class T, bool isSetMask = true>
inline void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const std::uint32_t count,
                 ANYOP_ASCEND_SITE) {
  UnaryCount<false>(
      dst, src, count, [](T, T a) { return a; }, site);
}

// first, first + step, first + 2 * step, ...
template <class T>
inline void ArithProgression(const LocalTensor<T>& dst, const AnyopNotDeduced<T> first,
                             const AnyopNotDeduced<T> step, const std::int32_t count,
                             ANYOP_ASCEND_SITE) {
  std::int64_t i = 0;
  RunVector(
      CountOf(count, kLanes<T>), site,
      [&i, first, step](T) {
        return static_cast<T>(AnyopWide<T>(first) +
                              AnyopWide<T>(step) * static_cast<AnyopWide<T>>(i++));
      },
      AnyopView<T>{dst});
}
template <class T>
inline void CreateVecIndex(const LocalTensor<T>& dst, const AnyopNotDeduced<T>& first,
                           std::uint32_t count, ANYOP_ASCEND_SITE) {
  ArithProgression<T>(dst, first, T(1), static_cast<std::int32_t>(count), site);
}
template <class T>
inline void Arange(const LocalTensor<T>& dst, const AnyopNotDeduced<T> first,
                   const AnyopNotDeduced<T> step, const std::int32_t count, ANYOP_ASCEND_SITE) {
  ArithProgression<T>(dst, first, step, count, site);
}

// dst = a + b computes over all elements of dst.
template <class T, char op>
struct AnyopTensorExpression {
  const LocalTensor<T>& a;
  const LocalTensor<T>& b;
  rt::Site site;

  void Write(const LocalTensor<T>& dst) const {
    const auto count = static_cast<std::int32_t>(dst.GetSize());
    if constexpr (op == '+') Add(dst, a, b, count, site);
    if constexpr (op == '-') Sub(dst, a, b, count, site);
    if constexpr (op == '*') Mul(dst, a, b, count, site);
    if constexpr (op == '/') Div(dst, a, b, count, site);
    if constexpr (op == '&') And(dst, a, b, count, site);
    if constexpr (op == '|') Or(dst, a, b, count, site);
  }
};
#define ANYOP_ASCEND_OPERATOR(symbol, letter)                                        \
  template <class T>                                                                 \
  inline AnyopTensorExpression<T, letter> operator symbol(const LocalTensor<T>& a,   \
                                                          const LocalTensor<T>& b) { \
    return {a, b, rt::Site("", 0)};                                                  \
  }
ANYOP_ASCEND_OPERATOR(+, '+')
ANYOP_ASCEND_OPERATOR(-, '-')
ANYOP_ASCEND_OPERATOR(*, '*')
ANYOP_ASCEND_OPERATOR(/, '/')
ANYOP_ASCEND_OPERATOR(&, '&')
ANYOP_ASCEND_OPERATOR(|, '|')
#undef ANYOP_ASCEND_OPERATOR

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
