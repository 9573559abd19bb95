// SPDX-License-Identifier: Apache-2.0
#include "optest/tolerance.h"

#include <algorithm>
#include <cmath>

#include "optest/call.h"

namespace anyop::optest {
namespace {

constexpr double kOneRounding = 0.51, kBitsAgree = -1;

double LargestDim(const Call& call) {
  std::int64_t largest = 1;
  for (const Argument& argument : call.arguments()) {
    const auto* array = std::get_if<Array>(&argument);
    for (std::size_t i = 0; array && i < array->shape().size(); ++i) {
      largest = std::max(largest, array->shape()[i]);
    }
  }
  return double(largest);
}

// Of a result with one rounding from f32; integers have no tolerance.
Tolerance Rounded(double f32_ulps, std::function<double(const Element&)> more) {
  return [f32_ulps, more](const Element& e) {
    if (!IsFloat(e.dtype)) return kBitsAgree;
    return (e.dtype == DType::kF32 ? f32_ulps : kOneRounding) * e.ulp() + more(e);
  };
}

// 0.51 ulp + (a + b * sqrt(k)) u times what `of` says.
Tolerance PartOf(double (*of)(const Element&), double a, double b, std::string_view k) {
  return [of, a, b, expression = std::string(k)](const Call& call) -> Allowed {
    const double part = (a + b * std::sqrt(call.value(expression))) * kU;
    return Rounded(kOneRounding, [of, part](const Element& e) { return part * of(e); }).For(call);
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
  return PartOf([](const Element& e) { return std::fabs(e.exact); }, a, b, k);
}

Tolerance Conditioned(double a, double b, std::string_view k) {
  return PartOf([](const Element& e) { return e.moves(); }, a, b, k);
}

Tolerance OfRow(double a, double b, std::string_view k) {
  return PartOf([](const Element& e) { return e.row(); }, a, b, k);
}

Tolerance Usual() {
  return [](const Call& call) -> Allowed {
    const double relative = (4 + 2 * std::sqrt(LargestDim(call))) * kU;
    return [relative, rounding = Elementwise(4).For(call)](const Element& e) {
      if (!IsFloat(e.dtype)) return kBitsAgree;
      const double allowed = rounding(e) + relative * e.terms();
      // C takes 16 more runs of the reference: only where it decides.
      const bool is_within = std::fabs(e.actual - e.exact) <= allowed;
      return is_within ? allowed : allowed + relative * e.moves();
    };
  };
}

Tolerance BesideRow(double relative, double part) {
  return [relative, part](const Element& e) {
    return relative * (std::fabs(e.exact) + part * e.row());
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
