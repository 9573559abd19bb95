// SPDX-License-Identifier: Apache-2.0
#include "optest/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <sstream>

#include "optest/exact.h"

namespace anyop::optest {
namespace {

constexpr double kMove = 0x1p-22;  // far above what f64 rounds, far below what a formula bends
constexpr int kMoves = 16;

double SizeOf(const Results& results, std::string_view name, std::int64_t index) {
  const auto found = results.find(name);
  return found == results.end() ? 0 : std::fabs(found->second.Get(index));
}

// Every float up or down by kMove of itself.
std::vector<Argument> Moved(std::vector<Argument> arguments, std::mt19937_64& random) {
  const auto moved = [&](double x) { return x * (random() & 1 ? 1 + kMove : 1 - kMove); };
  const auto move = [&](Array& array) {
    for (std::int64_t i = 0; IsFloat(array.dtype()) && i < array.size(); ++i) {
      array.Set(i, moved(array.Get(i)));
    }
  };
  for (Argument& argument : arguments) {
    if (auto* array = std::get_if<Array>(&argument)) move(*array);
    if (auto* number = std::get_if<double>(&argument)) *number = moved(*number);
    if (auto* arrays = std::get_if<std::vector<Array>>(&argument)) {
      for (Array& array : *arrays) move(array);
    }
    if (auto* numbers = std::get_if<std::vector<double>>(&argument)) {
      for (double& number : *numbers) number = moved(number);
    }
  }
  return arguments;
}

// How wrong an element is: 0 .. 1 is within the tolerance.
constexpr double kUtterly = HUGE_VAL;

double WrongnessOfInteger(const Array& actual, const Array& exact, std::int64_t i, double allowed) {
  const std::int64_t a = actual.GetInt(i), e = exact.GetInt(i);
  if (a == e) return 0;
  return allowed > 0 ? std::fabs(double(a) - double(e)) / allowed : kUtterly;
}

double WrongnessOfFloat(DType dtype, double actual, double exact, double allowed) {
  if (std::isnan(actual) || std::isnan(exact)) {
    return std::isnan(actual) == std::isnan(exact) ? 0 : kUtterly;
  }
  if (allowed < 0) {
    const double rounded = RoundTo(dtype, exact);
    return std::bit_cast<std::uint64_t>(actual) == std::bit_cast<std::uint64_t>(rounded) ? 0
                                                                                         : kUtterly;
  }
  if (Bytes(dtype) == 1) exact = std::clamp(exact, -Largest(dtype), Largest(dtype));  // saturates
  if (actual == exact) return 0;
  if (std::isinf(exact)) return kUtterly;
  if (std::isinf(actual)) {
    const double overflow = Largest(dtype) + Ulp(dtype, Largest(dtype)) / 2;
    const double missing = overflow - std::copysign(exact, exact * actual);
    return missing <= allowed ? 0 : kUtterly;
  }
  const double error = std::fabs(actual - exact);
  // A value beyond the largest of the dtype may stay at the largest if the error allows it.
  return error <= allowed ? error / allowed : allowed > 0 ? error / allowed : kUtterly;
}

std::string Tell(const std::string& name, const Array& actual, const Array& exact, std::int64_t i,
                 double allowed) {
  std::ostringstream out;
  out.precision(9);
  const double a = actual.Get(i), e = exact.Get(i);
  out << name << actual.IndexText(i) << " is " << a << ", but must be " << e;
  if (IsFloat(actual.dtype()) && std::isfinite(a) && std::isfinite(e)) {
    out.precision(3);
    const double ulp = Ulp(actual.dtype(), e);
    out << " (" << std::fabs(a - e) / ulp << " ulp of " << Name(actual.dtype()) << "; allowed "
        << (allowed < 0 ? 0 : allowed / ulp) << ")";
  }
  return out.str();
}

// What sums of products lose that f32, or a dot instruction, takes for 0.
constexpr double kTiny = 0x1p-120;

// Beside extreme values f32 loses what is tiny, and a tolerance relative to the largest of
// all arguments says nothing where that is infinite or NaN; a result is finite then, and near.
double Limit(const Allowed& allowed, const Element& e) {
  const double limit = allowed(e);
  if (!e.all_terms.has_extremes() || limit < 0) return limit;
  return (std::isfinite(limit) ? limit : 0x1p-8 * (1 + std::fabs(e.exact))) + kTiny;
}

// No number, where f32 overflows on the way; or NaN for an infinity, of which 0 times it is made
// where f32 holds the other factor as 0.
bool IsRightBesideExtremes(double actual, double exact, const Terms& terms, const std::string& name,
                           std::int64_t i) {
  if (std::isfinite(actual)) return false;
  return (std::isnan(actual) && std::isinf(exact)) || terms.may_overflow(name, i);
}

// Compares one result; returns "" or what is wrong.
std::string CompareOne(const std::string& name, const Tolerance& tolerance, const Call& call,
                       const Array& actual, const Array& exact, const Terms& terms) {
  const Allowed allowed = tolerance.For(call);
  const std::string& formula = tolerance.formula();
  if (actual.shape() != exact.shape()) {
    return name + " is " + actual.Text() + ", but the reference's is " + exact.Text();
  }
  double worst = 1;
  std::int64_t first = -1, worst_at = -1, wrong = 0;
  for (std::int64_t i = 0; i < actual.size(); ++i) {
    const double e = exact.Get(i);
    const double limit = Limit(allowed, {call, name, i, actual.dtype(), e, actual.Get(i), terms});
    const double wrongness = IsFloat(actual.dtype())
                                 ? WrongnessOfFloat(actual.dtype(), actual.Get(i), e, limit)
                                 : WrongnessOfInteger(actual, exact, i, limit);
    if (!(wrongness > 1)) continue;
    if (terms.has_extremes() && IsRightBesideExtremes(actual.Get(i), e, terms, name, i)) continue;
    if (++wrong == 1) first = i;
    if (wrongness > worst) {
      worst = wrongness;
      worst_at = i;
    }
  }
  if (wrong == 0) return "";
  const auto limit = [&](std::int64_t i) {
    return Limit(allowed, {call, name, i, actual.dtype(), exact.Get(i), actual.Get(i), terms});
  };
  std::string text = Tell(name, actual, exact, first, limit(first)) + "; " + std::to_string(wrong) +
                     " of " + std::to_string(actual.size()) + " elements are wrong";
  if (worst_at != first) text += ", most of all " + name + actual.IndexText(worst_at);
  return formula.empty() ? text : text + "\n  allowed: " + formula;
}

}  // namespace

double LazyTerms::at(std::string_view result, std::int64_t index) const {
  if (!absolute_) absolute_ = ExactResults(call_.op(), AbsoluteArguments(call_.arguments()));
  return SizeOf(*absolute_, result, index);
}

double LazyTerms::moves(std::string_view result, std::int64_t index) const {
  if (!moves_) moves_ = Move();
  return SizeOf(*moves_, result, index);
}

double LazyTerms::row(std::string_view result, std::int64_t index) const {
  if (!rows_) rows_ = LargestOfRows();
  return SizeOf(*rows_, result, index);
}

Results LazyTerms::Move() const {
  const std::vector<Argument> wide = WideArguments(call_.arguments());
  const Results still = WideResults(call_.op(), call_.arguments(), wide);
  std::mt19937_64 random(call_.seed());
  Results squares;
  for (int draw = 0; draw < kMoves; ++draw) {
    const Results moved = WideResults(call_.op(), call_.arguments(), Moved(wide, random));
    for (const auto& [name, array] : still) {
      if (!IsFloat(array.dtype())) continue;
      Array& sum = squares.try_emplace(name, DType::kF64, array.shape()).first->second;
      const Array& other = moved.find(name)->second;
      for (std::int64_t i = 0; i < array.size(); ++i) {
        const double by = (other.Get(i) - array.Get(i)) / kMove;
        if (std::isfinite(by)) sum.Set(i, sum.Get(i) + by * by / kMoves);
      }
    }
  }
  for (auto& [name, array] : squares) {
    for (std::int64_t i = 0; i < array.size(); ++i) array.Set(i, std::sqrt(array.Get(i)));
  }
  return squares;
}

Results LazyTerms::LargestOfRows() const {
  Results rows = call_.Exact();
  for (auto& [name, array] : rows) {
    if (!IsFloat(array.dtype()) || array.shape().empty()) continue;
    const std::int64_t d = array.shape().back();
    for (std::int64_t begin = 0; begin < array.size(); begin += d) {
      double largest = 0;
      for (std::int64_t j = 0; j < d; ++j) {
        const double value = std::fabs(array.Get(begin + j));
        if (std::isfinite(value)) largest = std::max(largest, value);
      }
      for (std::int64_t j = 0; j < d; ++j) array.Set(begin + j, largest);
    }
  }
  return rows;
}

bool LazyTerms::may_overflow(std::string_view result, std::int64_t index) const {
  constexpr double kNearTheLargest = 0x1p120;
  if (!largest_) largest_ = LargestOfFiniteArguments();
  return *largest_ > kNearTheLargest ||
         (!has_infinite_ && !(at(result, index) < Largest(DType::kF32) / 2));
}

double LazyTerms::LargestOfFiniteArguments() const {
  double largest = 0;
  for (const Argument& argument : call_.arguments()) {
    const auto* array = std::get_if<Array>(&argument);
    if (!array || !IsFloat(array->dtype())) continue;
    for (std::int64_t i = 0; i < array->size(); ++i) {
      const double size = std::fabs(array->Get(i));
      if (!std::isfinite(size)) has_infinite_ = true;
      if (std::isfinite(size)) largest = std::max(largest, size);
    }
  }
  return largest;
}

Comparison Compare(const OpTest& test, const Call& call, const Results& actual,
                   const Results& exact, const Terms& terms) {
  Comparison comparison;
  for (const auto& [name, array] : actual) {
    const auto reference = exact.find(name);
    if (reference == exact.end()) {
      comparison.failure = "the reference has no " + name;
      return comparison;
    }
    comparison.elements += array.size();
    const auto judge = test.judges.find(name);
    comparison.failure = judge != test.judges.end() ? judge->second(call, array, reference->second)
                                                    : CompareOne(name, test.tolerance, call, array,
                                                                 reference->second, terms);
    if (!comparison.failure.empty()) return comparison;
  }
  return comparison;
}

std::string FirstName(const std::string& text) { return text.substr(0, text.find_first_of("[ ")); }

std::string FindDifference(const Results& a, const Results& b) {
  for (const auto& [name, first] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second.shape() != first.shape()) return name + " is missing";
    const Array& second = other->second;
    const std::int64_t element = Bytes(first.dtype());
    for (std::int64_t i = 0; i < first.size(); ++i) {
      if (std::memcmp(first.data<char>() + i * element, second.data<char>() + i * element,
                      std::size_t(element)) == 0) {
        continue;
      }
      std::ostringstream out;
      out.precision(9);
      out << name << first.IndexText(i) << " is " << first.Get(i) << " and " << second.Get(i);
      return out.str();
    }
  }
  return "";
}

}  // namespace anyop::optest
