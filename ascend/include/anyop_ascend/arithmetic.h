// SPDX-License-Identifier: Apache-2.0
// Arithmetic of one element, as vector instructions do it.
#pragma once
#include "anyop_ascend/engine.h"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {
namespace anyop_element {

template <class T>
struct AnyopUnsignedType {
  using type = std::make_unsigned_t<T>;
};
template <>
struct AnyopUnsignedType<bool> {
  using type = unsigned char;
};
template <class T>
using AnyopUnsigned = typename AnyopUnsignedType<T>::type;
template <class T>
constexpr bool kIsInteger = std::is_integral<T>::value;

// Integers wrap around.
struct Add {
  template <class T>
  static T Of(T a, T b) {
    if constexpr (kIsInteger<T>)
      return static_cast<T>(AnyopUnsigned<T>(a) + AnyopUnsigned<T>(b));
    else
      return static_cast<T>(AnyopWide<T>(a) + AnyopWide<T>(b));
  }
};
struct Sub {
  template <class T>
  static T Of(T a, T b) {
    if constexpr (kIsInteger<T>)
      return static_cast<T>(AnyopUnsigned<T>(a) - AnyopUnsigned<T>(b));
    else
      return static_cast<T>(AnyopWide<T>(a) - AnyopWide<T>(b));
  }
};
struct Mul {
  template <class T>
  static T Of(T a, T b) {
    if constexpr (kIsInteger<T>)
      return static_cast<T>(std::uint64_t(a) * std::uint64_t(b));
    else
      return static_cast<T>(AnyopWide<T>(a) * AnyopWide<T>(b));
  }
};
struct Div {
  template <class T>
  static T Of(T a, T b) {
    if constexpr (kIsInteger<T>)
      return b ? static_cast<T>(a / b) : static_cast<T>(-1);
    else
      return static_cast<T>(AnyopWide<T>(a) / AnyopWide<T>(b));
  }
};
struct Max {
  template <class T>
  static T Of(T a, T b) {
    return a > b ? a : b;
  }
};
struct Min {
  template <class T>
  static T Of(T a, T b) {
    return a < b ? a : b;
  }
};
struct And {
  template <class T>
  static T Of(T a, T b) {
    static_assert(kIsInteger<T>, "And takes integers");
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T Of(T a, T b) {
    static_assert(kIsInteger<T>, "Or takes integers");
    return static_cast<T>(a | b);
  }
};
struct ShiftLeft {
  template <class T>
  static T Of(T a, T by) {
    return static_cast<T>(AnyopUnsigned<T>(a) << by);
  }
};
struct ShiftRight {
  template <class T>
  static T Of(T a, T by) {
    return static_cast<T>(a >> by);
  }
};
struct AddRelu {
  template <class T>
  static T Of(T a, T b) {
    return Max::Of(Add::Of(a, b), T(0));
  }
};
struct SubRelu {
  template <class T>
  static T Of(T a, T b) {
    return Max::Of(Sub::Of(a, b), T(0));
  }
};
struct LeakyRelu {
  template <class T>
  static T Of(T a, T slope) {
    return a > T(0) ? a : Mul::Of(a, slope);
  }
};

// Of the C++ library, in float.
#define ANYOP_ASCEND_ELEMENT(Name, function)                       \
  struct Name {                                                    \
    template <class T>                                             \
    static T Of(T a) {                                             \
      return static_cast<T>(std::function(static_cast<float>(a))); \
    }                                                              \
  };
ANYOP_ASCEND_ELEMENT(Exp, exp)
ANYOP_ASCEND_ELEMENT(Ln, log)
ANYOP_ASCEND_ELEMENT(Sqrt, sqrt)
ANYOP_ASCEND_ELEMENT(Tanh, tanh)
ANYOP_ASCEND_ELEMENT(Sin, sin)
ANYOP_ASCEND_ELEMENT(Cos, cos)
ANYOP_ASCEND_ELEMENT(Erf, erf)
ANYOP_ASCEND_ELEMENT(Erfc, erfc)
ANYOP_ASCEND_ELEMENT(Tan, tan)
ANYOP_ASCEND_ELEMENT(Asin, asin)
ANYOP_ASCEND_ELEMENT(Acos, acos)
ANYOP_ASCEND_ELEMENT(Atan, atan)
ANYOP_ASCEND_ELEMENT(Sinh, sinh)
ANYOP_ASCEND_ELEMENT(Cosh, cosh)
ANYOP_ASCEND_ELEMENT(Asinh, asinh)
ANYOP_ASCEND_ELEMENT(Acosh, acosh)
ANYOP_ASCEND_ELEMENT(Atanh, atanh)
ANYOP_ASCEND_ELEMENT(Log, log)
ANYOP_ASCEND_ELEMENT(Log2, log2)
ANYOP_ASCEND_ELEMENT(Log10, log10)
ANYOP_ASCEND_ELEMENT(Ceil, ceil)
ANYOP_ASCEND_ELEMENT(Floor, floor)
ANYOP_ASCEND_ELEMENT(Trunc, trunc)
ANYOP_ASCEND_ELEMENT(Round, round)
#undef ANYOP_ASCEND_ELEMENT
struct Frac {
  template <class T>
  static T Of(T a) {
    const float x = static_cast<float>(a);
    return static_cast<T>(x - std::trunc(x));
  }
};
struct Sign {
  template <class T>
  static T Of(T a) {
    return a > T(0) ? T(1) : a < T(0) ? T(-1) : a;
  }
};
struct Rsqrt {
  template <class T>
  static T Of(T a) {
    return static_cast<T>(1.0f / std::sqrt(static_cast<float>(a)));
  }
};
struct Reciprocal {
  template <class T>
  static T Of(T a) {
    return static_cast<T>(1.0f / static_cast<float>(a));
  }
};
struct Abs {
  template <class T>
  static T Of(T a) {
    return a < T(0) ? Sub::Of(T(0), a) : a;
  }
};
struct Relu {
  template <class T>
  static T Of(T a) {
    return a > T(0) ? a : T(0);
  }
};
struct Not {
  template <class T>
  static T Of(T a) {
    static_assert(kIsInteger<T>, "Not takes integers");
    return static_cast<T>(~a);
  }
};
struct Neg {
  template <class T>
  static T Of(T a) {
    return Sub::Of(T(0), a);
  }
};
struct Sigmoid {
  template <class T>
  static T Of(T a) {
    return static_cast<T>(1.0f / (1.0f + std::exp(-static_cast<float>(a))));
  }
};
// x / (1 + exp(-e)).
template <class T>
inline T Gated(T a, float exponent) {
  return static_cast<T>(static_cast<float>(a) / (1.0f + std::exp(-exponent)));
}
struct Gelu {  // with tanh: sqrt(8 / pi) (x + 0.044715 x^3) is the exponent
  template <class T>
  static T Of(T a) {
    const float x = static_cast<float>(a);
    return Gated(a, 1.5957691216f * (x + 0.044715f * x * x * x));
  }
};
struct FasterGelu {
  template <class T>
  static T Of(T a) {
    return Gated(a, 1.702f * static_cast<float>(a));
  }
};
struct Silu {
  template <class T>
  static T Of(T a) {
    return static_cast<T>(static_cast<float>(a) / (1.0f + std::exp(-static_cast<float>(a))));
  }
};

}  // namespace anyop_element
}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
