// SPDX-License-Identifier: Apache-2.0
// How far a result may be from the reference. u = 2^-24; `ulp` is the spacing of the result's
// dtype at the exact value; 0.51 ulp is one rounding from f32.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "optest/array.h"

namespace anyop::optest {

class Call;

inline constexpr double kU = 0x1p-24;

// What tolerances know of a call's formula, by further runs of its reference, made when one is
// first asked for.
class Terms {
 public:
  virtual ~Terms() = default;
  // S: the reference of the absolute values of all floats of the call.
  virtual double at(std::string_view result, std::int64_t index) const = 0;
  // C: how far an element moves when every float of the call moves by a part e of itself, up or
  // down by chance, over e; the root of the mean square of 16 draws. A difference of two terms
  // moves as both do, whatever is left of it.
  virtual double moves(std::string_view result, std::int64_t index) const = 0;
  // The largest absolute value of the row, the last dimension, that an element is in.
  virtual double row(std::string_view result, std::int64_t index) const = 0;
  // Whether arguments were filled with extreme values.
  virtual bool has_extremes() const = 0;
  // Whether f32 may overflow on the way to an element by the arguments that are finite. Beside
  // others, such as the infinite result of a forward operator, only the largest numbers tell.
  virtual bool may_overflow(std::string_view result, std::int64_t index) const = 0;
};

// One element of a result.
struct Element {
  const Call& call;
  std::string_view result;  // its name
  std::int64_t index;       // row-major
  DType dtype;              // of the result
  double exact;             // what the reference says
  double actual;            // what the kernel wrote
  const Terms& all_terms;
  double terms() const { return all_terms.at(result, index); }
  double moves() const { return all_terms.moves(result, index); }
  double row() const { return all_terms.row(result, index); }
  double ulp() const { return Ulp(dtype, exact); }
};

// The largest |error| allowed for an element; a negative one asks for the bits of the exact value,
// rounded once.
using Allowed = std::function<double(const Element&)>;

class Tolerance {
 public:
  // From a lambda: [](const Element& e) { return 0.51 * e.ulp() + 4 * kU * e.terms(); }
  template <class F>
  requires std::is_invocable_r_v<double, F, const Element&> Tolerance(F allowed)
      : bind_([allowed = Allowed(allowed)](const Call&) { return allowed; }) {}
  // From a function of the call, run once per call, that returns the lambda.
  template <class F>
  requires std::is_invocable_r_v<Allowed, F, const Call&> Tolerance(F bind) : bind_(bind) {}

  Allowed For(const Call& call) const { return bind_(call); }
  // What it allows, for people: the letters are those of docs/testing.md. "": nobody said.
  const std::string& formula() const { return formula_; }
  Tolerance As(std::string formula) const {
    Tolerance named = *this;
    named.formula_ = std::move(formula);
    return named;
  }

 private:
  std::function<Allowed(const Call&)> bind_;
  std::string formula_;
};

// The bits of the exact value, rounded once.
Tolerance Exact();
// 0.51 ulp for 16-bit and narrower floats, `f32_ulps` for f32; plus 2^-126. cancels: plus
// 4u * terms, for formulas with 1 + tanh or 1 - y.
Tolerance Elementwise(double f32_ulps = 4, bool cancels = false);
// 0.51 ulp + (4 + 2 sqrt(K)) u * terms(). k: an expression of the signature language, "d".
// dot: bf16 dot instructions may treat subnormals as zero, K * 2^-126 * max|a| more.
Tolerance Sum(std::string_view k, bool dot = false);
// 0.51 ulp + (a + b * sqrt(k)) u |exact|.
Tolerance Relative(double a, double b = 0, std::string_view k = "1");
// 0.51 ulp + (a + b * sqrt(k)) u C: as if every input had been rounded so often. For formulas that
// subtract.
Tolerance Conditioned(double a, double b = 0, std::string_view k = "1");
// 0.51 ulp + (a + b * sqrt(k)) u times the largest |exact| of the row.
Tolerance OfRow(double a, double b = 0, std::string_view k = "1");
// Of operators whose author states none: Elementwise(4) + (4 + 2 sqrt(K)) u (S + C), where K is the
// largest dimension of an argument.
Tolerance Usual();
// relative * (|exact| + part * the largest |exact| of the element's row, the last dimension).
Tolerance BesideRow(double relative, double part);
// The sum of both allowances.
Tolerance operator+(const Tolerance& a, const Tolerance& b);
// One for each result or `mut` parameter that is named; `others` for the rest.
Tolerance PerResult(std::map<std::string, Tolerance> by_name, Tolerance others = Exact());

}  // namespace anyop::optest
