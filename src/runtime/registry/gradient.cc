// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/gradient.h"

#include <algorithm>

#include "platform/error.h"
#include "signature/expression.h"
#include "signature/facts.h"

namespace anyop {
namespace {

class Wiring {
 public:
  Wiring(const Operator& op, Operator& gradient)
      : op_(op),
        gradient_(gradient),
        forward_(op.contract->forms[0]),
        backward_(gradient.contract->forms[0]) {}

  GradientWiring Wire() const {
    GradientWiring wiring{};
    wiring.op = &gradient_;
    for (int i = 0; i < gradient_.n_params; ++i) AddSource(i, &wiring);
    for (const Result& r : backward_.results) {
      wiring.targets.push_back(Target(r));
      wiring.differentiable_params |= 1ull << wiring.targets.back();
    }
    if (!wiring.differentiable_results) Refuse("it takes the gradient of no result");
    if (wiring.targets.empty()) Refuse("it has no result");
    for (const Form& form : gradient_.contract->forms) CheckConditions(form);
    return wiring;
  }

 private:
  [[noreturn]] void Refuse(const std::string& why, const std::string& hint = "") const {
    Fail(ANYOP_INVALID_ARGUMENT, op_.name + ": " + gradient_.name +
                                     " cannot be its gradient: " + why + "." + hint + "\n  " +
                                     op_.contract->text + "\n  " + gradient_.contract->text);
  }

  void AddSource(int index, GradientWiring* wiring) const {
    const GradientSource s = wiring->sources.emplace_back(Source(index));
    if (s.kind == GradientSource::kResultGradient)
      wiring->differentiable_results |= 1ull << s.index;
    if (s.kind != GradientSource::kParam) return;
    const auto& words = gradient_.contract->words[std::size_t(index)];
    // All of them are words of the forward's (CheckPassed): as many are the same ones.
    if (words.size() == op_.contract->words[std::size_t(s.index)].size()) return;
    wiring->fewer_words.push_back({s.index, &words});
  }

  GradientSource Source(int index) const {
    const Param& p = backward_.params[std::size_t(index)];
    if (p.is_mut) Refuse("it writes its parameter " + InQuotes(p.name));
    const int own = forward_.param(p.name), result = forward_.result(p.name);
    const int of = forward_.result(PrimalOf(p.name));
    if (of >= 0 && (own >= 0 || result >= 0)) {
      Refuse("its parameter " + InQuotes(p.name) + " could be the gradient of " +
             InQuotes(PrimalOf(p.name)) + " or what " + op_.name + " itself calls so");
    }
    if (own >= 0) {
      if (forward_.params[std::size_t(own)].is_mut) {
        Refuse("its parameter " + InQuotes(p.name) + " is written by " + op_.name +
               ", and what was there before is gone");
      }
      CheckPassed(p, index, own);
      return {GradientSource::kParam, own};
    }
    if (of < 0 && result < 0) {
      Refuse("its parameter " + InQuotes(p.name) + " is no parameter or result of " + op_.name +
             ", and no 'd' with a result's name");
    }
    if (p.kind != ParamKind::kTensor) {
      Refuse("its parameter " + InQuotes(p.name) + " is a tensor of " + op_.name +
             ", but no tensor");
    }
    if (p.is_planned) {
      Refuse("its parameter " + InQuotes(p.name) + " is planned, but a result of " + op_.name +
             " or its gradient, which lie on the device of a call");
    }
    if (of >= 0) return {GradientSource::kResultGradient, of};
    return {GradientSource::kResult, result};
  }

  // A parameter of the forward is passed on: whatever was given there must be taken here.
  void CheckPassed(const Param& p, int index, int own) const {
    const Param& from = forward_.params[std::size_t(own)];
    if (p.kind != from.kind) {
      Refuse("its parameter " + InQuotes(p.name) + " is of another kind than that of " + op_.name);
    }
    if (p.is_planned != from.is_planned) {
      Refuse("its parameter " + InQuotes(p.name) +
             (p.is_planned ? " is planned, but not in " : " is not planned, but is in ") +
             op_.name);
    }
    if (from.is_optional && !p.is_optional) {
      Refuse("its parameter " + InQuotes(p.name) + " must be given, but may be absent in " +
             op_.name);
    }
    const auto& known = op_.contract->words[std::size_t(own)];
    for (const std::string& word : gradient_.contract->words[std::size_t(index)]) {
      if (std::ranges::find(known, word) != known.end()) continue;
      Refuse("its parameter " + InQuotes(p.name) + " may be " + InQuotes(word) + ", a word that " +
                 op_.name + " does not know",
             DidYouMean(word, known));
    }
  }

  // A gradient is a public operator: it must refuse what its forward refuses. A condition that
  // stands in every form of the forward that may lead to this form must stand here, too, unless it
  // names what the gradient does not have.
  void CheckConditions(const Form& form) const {
    std::vector<const Form*> leading;
    for (const Form& f : op_.contract->forms) {
      if (MayLeadTo(f, form)) leading.push_back(&f);
    }
    if (leading.empty()) return;
    for (const int node : Conjuncts(*leading[0])) {
      const Form& first = *leading[0];
      if (!HasNames(form, first, node) || Asks(form, first, node)) continue;
      const auto asks = [&](const Form* f) { return Asks(*f, first, node); };
      if (!std::ranges::all_of(leading, asks)) continue;
      Refuse("it does not repeat the condition " + Show(first, node) + " of " + op_.name);
    }
  }
  // Whether some call of this form of the forward, by its words and ranks, may have its gradient by
  // this form of the gradient.
  static bool MayLeadTo(const Form& forward, const Form& backward) {
    for (const Param& p : backward.params) {
      const int own = forward.param(p.name);
      if (own < 0) continue;
      const Param& from = forward.params[std::size_t(own)];
      if (!(from.words.empty() && p.words.empty()) && !ShareAWord(from, p)) return false;
      const auto rest =
          std::ptrdiff_t(from.tensor.dims.size()) - std::ptrdiff_t(p.tensor.dims.size());
      if ((rest > 0 && !p.tensor.has_dots) || (rest < 0 && !from.tensor.has_dots)) return false;
    }
    return true;
  }
  static bool ShareAWord(const Param& a, const Param& b) {
    return std::ranges::any_of(a.words, [&](auto word) { return parse::HasWord(b, word); });
  }
  static void AddConjuncts(const Form& form, int node, std::vector<int>* all) {
    const Node& n = form.node(node);
    if (n.op != NodeOp::kAnd) return all->push_back(node);
    AddConjuncts(form, n.a, all), AddConjuncts(form, n.b, all);
  }
  static std::vector<int> Conjuncts(const Form& form) {
    std::vector<int> all;
    for (const Condition& c : form.conditions) AddConjuncts(form, c.node, &all);
    return all;
  }
  // Whether `form` has all names that a condition of another form uses.
  static bool HasNames(const Form& form, const Form& other, int node) {
    const Node& n = other.node(node);
    for (std::size_t i = 0; i < other.params.size(); ++i) {
      if ((n.params >> i & 1) && form.param(other.params[i].name) < 0) return false;
    }
    for (std::size_t i = 0; i < other.vars.size(); ++i) {
      if ((n.vars >> i & 1) && form.var(other.vars[i]) < 0) return false;
    }
    for (std::size_t i = 0; i < other.dtype_vars.size(); ++i) {
      if ((n.dtype_vars >> i & 1) && form.dtype_var(other.dtype_vars[i]) < 0) return false;
    }
    return true;
  }
  // Whether `form` has the condition of another form, or allows fewer dtypes.
  static bool Asks(const Form& form, const Form& other, int node) {
    const Node& want = other.node(node);
    const std::string text = Show(other, node);
    return std::ranges::any_of(Conjuncts(form), [&](int own) {
      const Node& n = form.node(own);
      if (want.op != NodeOp::kIn || n.op != NodeOp::kIn) return Show(form, own) == text;
      return form.node(n.a).text == other.node(want.a).text && !(n.i & ~want.i);
    });
  }

  int Target(const Result& r) const {
    const int target = forward_.param(PrimalOf(r.name));
    if (target < 0) {
      Refuse("its result " + InQuotes(r.name) + " is no 'd' with the name of a parameter of " +
             op_.name);
    }
    if (forward_.params[std::size_t(target)].kind != ParamKind::kTensor) {
      Refuse("its result " + InQuotes(r.name) +
             " is the gradient of a parameter that is no tensor");
    }
    if (forward_.params[std::size_t(target)].is_mut) {
      Refuse("its result " + InQuotes(r.name) + " is the gradient of a parameter that " + op_.name +
             " writes");
    }
    if (!r.is_optional) {
      Refuse("its result " + InQuotes(r.name) +
             " must be one that a caller may decline: end its type with '?'");
    }
    return target;
  }

  const Operator& op_;
  Operator& gradient_;
  const Form &forward_, &backward_;
};

}  // namespace

GradientWiring WireGradient(const Operator& op, Operator& gradient) {
  return Wiring(op, gradient).Wire();
}

}  // namespace anyop
