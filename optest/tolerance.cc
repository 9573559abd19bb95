// SPDX-License-Identifier: Apache-2.0
#include "optest/tolerance.h"

#include <cmath>

#include "optest/call.h"

namespace anyop::optest {
namespace {

constexpr double kOneRounding = 0.51, kBitsAgree = -1;

// Of a result with one rounding from f32; integers have no tolerance.
Tolerance Rounded(double f32_ulps, std::function<double(const Element&)> more) {
  return [f32_ulps, more](const Element& e) {
    if (!IsFloat(e.dtype)) return kBitsAgree;
    return (e.dtype == DType::kF32 ? f32_ulps : kOneRounding) * e.ulp() + more(e);
  };
}

}  // namespace

Tolerance Exact() {
  return [](const Element&) { return kBitsAgree; };
}

Tolerance Elementwise(double f32_ulps, bool cancels) {
  return Rounded(f32_ulps, [cancels](const Element& e) {
    return 0x1p-126 + (cancels ? 4 * kU * e.terms() : 0);
  });
}

Tolerance Sum(std::string_view k, bool dot) {
  return [expression = std::string(k), dot](const Call& call) -> Allowed {
    const double n = call.value(expression);
    double largest = 0;  // |a|, of the inputs
    for (const Argument& argument : call.arguments()) {
      const auto* array = std::get_if<Array>(&argument);
      if (!dot || !array || !IsFloat(array->dtype())) continue;
      for (std::int64_t i = 0; i < array->size(); ++i) {
        largest = std::fmax(largest, std::fabs(array->Get(i)));
      }
    }
    const double subnormals = n * 0x1p-126 * largest;
    return Rounded(kOneRounding,
                   [n, subnormals](const Element& e) {
                     return (4 + 2 * std::sqrt(n)) * kU * e.terms() + subnormals;
                   })
        .For(call);
  };
}

Tolerance Relative(double a, double b, std::string_view k) {
  return [a, b, expression = std::string(k)](const Call& call) -> Allowed {
    const double relative = (a + b * std::sqrt(call.value(expression))) * kU;
    return Rounded(kOneRounding,
                   [relative](const Element& e) { return relative * std::fabs(e.exact); })
        .For(call);
  };
}

Tolerance operator+(const Tolerance& a, const Tolerance& b) {
  return [a, b](const Call& call) -> Allowed {
    return [first = a.For(call), second = b.For(call)](const Element& e) {
      const double x = first(e), y = second(e);
      return x < 0 || y < 0 ? std::fmax(x, y) : x + y;
    };
  };
}

Tolerance PerResult(std::map<std::string, Tolerance> by_name, Tolerance others) {
  return [by_name, others](const Call& call) -> Allowed {
    std::map<std::string, Allowed, std::less<>> allowed;
    for (const auto& [name, tolerance] : by_name) allowed.emplace(name, tolerance.For(call));
    return [allowed, rest = others.For(call)](const Element& e) {
      // An element of a list is called "caches[2]".
      const auto found = allowed.find(e.result.substr(0, e.result.find('[')));
      return found == allowed.end() ? rest(e) : found->second(e);
    };
  };
}

}  // namespace anyop::optest
