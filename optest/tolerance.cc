// SPDX-License-Identifier: Apache-2.0
#include "optest/tolerance.h"

#include <algorithm>
#include <cmath>
#include <sstream>

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

std::string NumberText(double number) {
  std::ostringstream out;
  out << number;
  return out.str();
}

// "(4 + 2 sqrt(d)) u S"
std::string PartText(double a, double b, std::string_view k, const std::string& of) {
  const std::string root = b == 0 ? "" : " + " + NumberText(b) + " sqrt(" + std::string(k) + ")";
  return (b == 0 ? NumberText(a) : "(" + NumberText(a) + root + ")") + " u " + of;
}

// 0.51 ulp + (a + b * sqrt(k)) u times what `of` says; name: its letter.
Tolerance PartOf(double (*of)(const Element&), const std::string& name, double a, double b,
                 std::string_view k) {
  const Tolerance part = [of, a, b, expression = std::string(k)](const Call& call) -> Allowed {
    const double factor = (a + b * std::sqrt(call.value(expression))) * kU;
    return Rounded(kOneRounding, [of, factor](const Element& e) { return factor * of(e); })
        .For(call);
  };
  return part.As("0.51 ulp + " + PartText(a, b, k, name));
}

}  // namespace

Tolerance Exact() {
  return Tolerance([](const Element&) { return kBitsAgree; }).As("0, the bits of y rounded once");
}

Tolerance Elementwise(double f32_ulps, bool cancels) {
  const Tolerance rounded = Rounded(f32_ulps, [cancels](const Element& e) {
    return 0x1p-126 + (cancels ? 4 * kU * e.terms() : 0);
  });
  return rounded.As(NumberText(f32_ulps) + " ulp in f32, 0.51 ulp in narrower floats, + 2^-126" +
                    (cancels ? " + 4 u S" : ""));
}

Tolerance Sum(std::string_view k, bool dot) {
  const Tolerance sum = [expression = std::string(k), dot](const Call& call) -> Allowed {
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
  return sum.As("0.51 ulp + " + PartText(4, 2, k, "S"));
}

Tolerance Relative(double a, double b, std::string_view k) {
  return PartOf([](const Element& e) { return std::fabs(e.exact); }, "|y|", a, b, k);
}

Tolerance Conditioned(double a, double b, std::string_view k) {
  return PartOf([](const Element& e) { return e.moves(); }, "C", a, b, k);
}

Tolerance OfRow(double a, double b, std::string_view k) {
  return PartOf([](const Element& e) { return e.row(); }, "R", a, b, k);
}

Tolerance Usual() {
  const Tolerance usual = [](const Call& call) -> Allowed {
    const double relative = (4 + 2 * std::sqrt(LargestDim(call))) * kU;
    return [relative, rounding = Elementwise(4).For(call)](const Element& e) {
      if (!IsFloat(e.dtype)) return kBitsAgree;
      const double allowed = rounding(e) + relative * e.terms();
      // C takes 16 more runs of the reference: only where it decides.
      const bool is_within = std::fabs(e.actual - e.exact) <= allowed;
      return is_within ? allowed : allowed + relative * e.moves();
    };
  };
  return usual.As(Elementwise(4).formula() + " + " + PartText(4, 2, "K", "(S + C)"));
}

Tolerance BesideRow(double relative, double part) {
  return [relative, part](const Element& e) {
    return relative * (std::fabs(e.exact) + part * e.row());
  };
}

Tolerance operator+(const Tolerance& a, const Tolerance& b) {
  const Tolerance sum = [a, b](const Call& call) -> Allowed {
    return [first = a.For(call), second = b.For(call)](const Element& e) {
      const double x = first(e), y = second(e);
      return x < 0 || y < 0 ? std::fmax(x, y) : x + y;
    };
  };
  const bool is_known = !a.formula().empty() && !b.formula().empty();
  return sum.As(is_known ? a.formula() + " + " + b.formula() : "");
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
