// SPDX-License-Identifier: Apache-2.0
// The reference of a gradient against differences of the reference of its operator.
#include <cmath>
#include <sstream>

#include "optest/compare.h"
#include "optest/exact.h"
#include "optest/failures.h"
#include "optest/session.h"
#include "runtime/registry/gradient.h"

namespace anyop::optest {
namespace {

constexpr double kStep = 1e-5;                     // of the differences
constexpr double kRelative = 1e-6, kNoise = 1e-9;  // of |dx . v|, and of the terms of |dy . y|
constexpr std::int64_t kMostShown = 300;           // elements searched for the one to show

bool IsDifferentiable(DType d) { return d == DType::kF32 || d == DType::kF16 || d == DType::kBF16; }

Array RandomLike(const Array& like, Call& call) {
  Array random(DType::kF64, like.shape());
  for (std::int64_t i = 0; i < random.size(); ++i) {
    random.Set(i, double(call.Draw(-(1 << 20), 1 << 20)) / (1 << 20));
  }
  return random;
}

// An argument as the signature sees it, and in f64.
struct Arguments {
  std::vector<Argument> narrow, wide;
};

class GradientCheck {
 public:
  GradientCheck(Call& call, const GradientWiring& wiring)
      : call_(call),
        wiring_(wiring),
        forward_{call.arguments(), WideArguments(call.arguments())},
        checked_(CheckArguments(call.op(), call.arguments())) {}

  // Why the gradient need not take this call; "" if it must.
  std::string WhyNot() const {
    const Operator& gradient = *wiring_.op;
    for (int p = 0; p < gradient.n_params; ++p) {
      const GradientSource s = wiring_.sources[std::size_t(p)];
      if (s.kind == GradientSource::kResultGradient) {
        if (!IsDifferentiable(checked_.results[s.index].dtype)) return "a result is no float";
      } else if (s.kind == GradientSource::kParam) {
        const auto* word = std::get_if<std::string>(&forward_.narrow[std::size_t(s.index)]);
        if (word && gradient.contract->word(p, *word) < 0) return "it does not know " + *word;
      }
    }
    for (const int target : wiring_.targets) {
      const auto* array = std::get_if<Array>(&forward_.narrow[std::size_t(target)]);
      if (array && !IsDifferentiable(array->dtype())) return "an argument is no float";
    }
    return "";
  }

  // Returns what is wrong, or "".
  std::string Run() {
    results_ = WideResults(call_.op(), forward_.narrow, forward_.wide);
    MakeGradientArguments();
    CheckedCall checked;
    try {
      checked = CheckArguments(*wiring_.op, backward_.narrow);
    } catch (const Error& e) {
      return "the gradient refuses what its operator takes: " + std::string(e.what());
    }
    gradients_ = WideResults(*wiring_.op, backward_.narrow, backward_.wide);
    for (std::size_t r = 0; r < wiring_.targets.size(); ++r) {
      const auto* x = std::get_if<Array>(&forward_.narrow[std::size_t(wiring_.targets[r])]);
      if (!x) continue;
      const ResultShape& s = checked.results[r];
      const Array dx(s.dtype, {s.shape, s.shape + s.rank});
      if (dx.Text() != x->Text()) {
        return NameOf(r) + " is " + dx.Text() + ", but its argument is " + x->Text();
      }
      const std::string wrong = CheckTarget(r);
      if (!wrong.empty()) return wrong;
    }
    return CheckDeclined();
  }

 private:
  std::string NameOf(std::size_t result) const {
    return std::string(wiring_.op->contract->forms[0].results[result].name);
  }
  std::string ResultName(int index) const {
    return std::string(call_.op().contract->forms[0].results[std::size_t(index)].name);
  }

  // dy is random; one that may be absent sometimes is.
  void MakeGradientArguments() {
    const Operator& gradient = *wiring_.op;
    for (int p = 0; p < gradient.n_params; ++p) {
      const GradientSource s = wiring_.sources[std::size_t(p)];
      Argument narrow, wide;
      if (s.kind == GradientSource::kParam) {
        narrow = forward_.narrow[std::size_t(s.index)];
        wide = forward_.wide[std::size_t(s.index)];
      } else {
        const bool may_be_absent = gradient.contract->forms[0].params[std::size_t(p)].is_optional;
        const bool is_gradient = s.kind == GradientSource::kResultGradient;
        if (!is_gradient || !may_be_absent || call_.Draw(0, 2) > 0) {
          const Array& result = results_.find(ResultName(s.index))->second;
          Array rounded(checked_.results[s.index].dtype, result.shape());
          Array value = is_gradient ? RandomLike(result, call_) : result;
          for (std::int64_t i = 0; i < value.size(); ++i) {
            if (IsFloat(rounded.dtype())) rounded.Set(i, value.Get(i));
          }
          if (!IsFloat(rounded.dtype())) rounded = value;
          if (is_gradient) used_.emplace_back(ResultName(s.index), value);
          narrow = std::move(rounded);
          wide = std::move(value);
        }
      }
      backward_.narrow.push_back(std::move(narrow));
      backward_.wide.push_back(std::move(wide));
    }
  }

  // sum of dy * y over all results whose gradient is passed; with `absolute`, of |dy * y|.
  double Loss(const Results& results, bool absolute = false) const {
    double loss = 0;
    for (const auto& [name, dy] : used_) {
      const Array& y = results.find(name)->second;
      for (std::int64_t i = 0; i < y.size(); ++i) {
        if (std::isinf(y.Get(i))) continue;  // it stays so, where infinity - infinity is no number
        const double term = dy.Get(i) * y.Get(i);
        loss += absolute ? std::fabs(term) : term;
      }
    }
    return loss;
  }

  // The change of the loss along v, by central differences of width 2 * step.
  double Difference(int target, const Array& v, double step) const {
    double loss[2];
    for (int side = 0; side < 2; ++side) {
      std::vector<Argument> moved = forward_.wide;
      Array& x = std::get<Array>(moved[std::size_t(target)]);
      for (std::int64_t i = 0; i < x.size(); ++i) {
        x.Set(i, x.Get(i) + (side ? -step : step) * v.Get(i));
      }
      loss[side] = Loss(WideResults(call_.op(), forward_.narrow, moved));
    }
    return (loss[0] - loss[1]) / (2 * step);
  }

  // How far dx . v is from the difference, over what is allowed: what half the step changes shows
  // where the function bends.
  double Wrongness(int target, const Array& dx, const Array& v, double* difference) const {
    double product = 0, terms = 0;
    for (std::int64_t i = 0; i < dx.size(); ++i) {
      product += dx.Get(i) * v.Get(i);
      terms += std::fabs(dx.Get(i) * v.Get(i));
    }
    *difference = Difference(target, v, kStep);
    const double bend = std::fabs(*difference - Difference(target, v, kStep / 2));
    const double allowed = kRelative * (terms + std::fabs(*difference)) +
                           kNoise * Loss(results_, /*absolute=*/true) + 4 * bend;
    const double error = std::fabs(product - *difference);
    if (std::isnan(*difference)) return 0;  // 0 / 0 of a row of zeros
    return std::isnan(error) ? HUGE_VAL : error == 0 ? 0 : error / allowed;
  }

  std::string CheckTarget(std::size_t r) {
    const int target = wiring_.targets[r];
    const Array& dx = gradients_.find(NameOf(r))->second;
    if (dx.size() == 0) return "";
    double difference = 0;
    ++TheSession().tally.directions;
    if (Wrongness(target, dx, RandomLike(dx, call_), &difference) <= 1) return "";
    std::ostringstream text;
    text.precision(9);
    Array v(DType::kF64, dx.shape());
    for (std::int64_t i = 0; i < std::min(dx.size(), kMostShown); ++i) {
      v.Set(i, 1);
      if (Wrongness(target, dx, v, &difference) > 1) {
        text << NameOf(r) << dx.IndexText(i) << " is " << dx.Get(i)
             << ", but differences of the operator give " << difference;
        return text.str();
      }
      v.Set(i, 0);
    }
    return NameOf(r) + " is not what differences of the operator give along a random direction";
  }

  // What is asked for does not depend on what else is.
  std::string CheckDeclined() {
    const auto all = (std::uint64_t(1) << wiring_.targets.size()) - 1;
    const auto declined = std::uint64_t(call_.Draw(1, std::int64_t(all)));
    const Results fewer = WideResults(*wiring_.op, backward_.narrow, backward_.wide, declined);
    const std::string difference = FindDifference(fewer, gradients_);
    return difference.empty() ? "" : "with another result declined, " + difference;
  }

  Call& call_;
  const GradientWiring& wiring_;
  Arguments forward_, backward_;
  CheckedCall checked_;
  Results results_, gradients_;
  std::vector<std::pair<std::string, Array>> used_;  // by name of the result, dy in f64
};

}  // namespace

void CheckGradient(const OpTest& test) {
  const Operator& op = *Find(test.op);
  const GradientWiring* wiring = GradientOf(op);
  if (!wiring) return;
  Tally& tally = TheSession().tally;
  if (!FindReference(*wiring->op) && wiring->op->compositions.empty()) {
    tally.skipped[op.display_name() + "'s gradient"] = "it has no reference";
    return;
  }
  const int before = tally.directions;
  std::map<int, int> compared;          // form -> calls
  std::map<int, std::string> left_out;  // form -> why
  ForEachCall(test, Purpose::kGradient, [&](Call& call) {
    const int form = CheckArguments(op, call.arguments()).form;
    GradientCheck check(call, *wiring);
    const std::string why = check.WhyNot();
    if (!why.empty()) {
      left_out[form] = why;
      return;
    }
    ++compared[form];
    const std::string wrong = check.Run();
    if (!wrong.empty()) Fail(wrong + "\n  " + wiring->op->name + "\n  " + Reproduce(call));
  });
  if (TheSession().only_call || HasFailed()) return;
  for (const auto& [form, why] : left_out) {
    if (compared.count(form)) continue;
    tally.skipped[op.display_name() + "'s gradient, form " + std::to_string(form + 1)] = why;
  }
  if (tally.directions <= before) Fail("no gradient was compared");
}

}  // namespace anyop::optest
