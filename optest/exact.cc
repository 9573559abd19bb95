// SPDX-License-Identifier: Apache-2.0
#include "optest/exact.h"

#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "anyop/op.h"
#include "optest/frame.h"
#include "optest/running.h"
#include "optest/services.h"
#include "runtime/plan/frame.h"
#include "runtime/run/follow_composition.h"

namespace anyop::optest {
namespace {

Array ToF64(const Array& array) {
  if (!IsFloat(array.dtype())) return array;
  Array wide(DType::kF64, array.shape());
  for (std::int64_t i = 0; i < array.size(); ++i) wide.Set(i, array.Get(i));
  return wide;
}

Array RoundedTo(DType dtype, const Array& exact) {
  if (!IsFloat(dtype)) return exact;
  Array rounded(dtype, exact.shape());
  for (std::int64_t i = 0; i < exact.size(); ++i) rounded.Set(i, exact.Get(i));
  return rounded;
}

template <class F>
void ForEachArray(Argument& argument, F f) {
  if (auto* array = std::get_if<Array>(&argument)) f(*array);
  if (auto* arrays = std::get_if<std::vector<Array>>(&argument)) {
    for (Array& array : *arrays) f(array);
  }
}

// Checks `arguments`, and computes with `values`.
Results RunReference(const anyop_reference& reference, const Operator& op,
                     const std::vector<Argument>& arguments, std::vector<Argument> values,
                     std::uint64_t declined = 0) {
  const CheckedCall call = CheckArguments(op, arguments);
  const Form& form = op.contract->forms[std::size_t(call.form)];
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!form.params[i].is_mut) continue;
    ForEachArray(values[i], [](Array& array) { array = ToF64(array); });
  }
  Arrangement arrangement;
  arrangement.declined = declined;
  Frame frame(op, values, arrangement);
  for (int r = 0; r < op.n_results; ++r) {
    const ResultShape& s = call.results[r];
    const DType dtype = IsFloat(s.dtype) ? DType::kF64 : s.dtype;
    frame.AddResult(r, dtype, {s.shape, s.shape + s.rank}, arrangement);
  }
  CallDTypes dtypes(op, Frame(op, arguments).values());
  for (int r = 0; r < op.n_results; ++r) {
    dtypes.of_entry[op.n_params + r] = std::uint8_t(call.results[r].dtype);
  }
  Services services({.threads = 1, .kernel_data = dtypes.of_entry});
  const Running running("the reference of " + op.name);
  frame.NoteMemories();
  if (reference.run(services.context(), frame.values()) != ANYOP_OK) {
    throw std::runtime_error("the reference of " + op.name + " fails: " + services.error());
  }
  if (const Defect defect = frame.FindDefect(true)) {
    throw std::runtime_error("the reference of " + op.name + ": " + defect.text);
  }
  return frame.Read();
}

// A value as memory has it, and in real numbers.
struct Exactly {
  Argument narrow, wide;
};

// Runs the statements of a composition one by one. A result that a later statement reads has been
// rounded to its dtype, as in memory, unless `wide` is given; what is compared has not.
class CompositionRun : public CompositionFollower<Exactly> {
 public:
  CompositionRun(const Operator& op, const std::vector<Argument>& arguments,
                 const std::vector<Argument>* wide, const CheckedCall& call)
      : CompositionFollower(op, op.compositions[op.compositions.size() == 1 ? 0 : call.form]),
        call_(call),
        is_wide_(wide) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      parameters_.push_back({arguments[i], wide ? (*wide)[i] : arguments[i]});
    }
  }

  Results Run() {
    Follow();
    const auto& params = op_.contract->forms[0].params;
    for (std::size_t i = 0; i < params.size(); ++i) {
      if (!params[i].is_mut) continue;
      const Exactly& e = parameters_[i];
      if (const auto* array = std::get_if<Array>(is_wide_ ? &e.wide : &e.narrow)) {
        exact_.emplace(params[i].name, ToF64(*array));
      }
    }
    return exact_;
  }

 private:
  // An intermediate that is a view: which elements of what has the memory.
  struct Viewed {
    StatementArgument root;
    std::vector<std::int64_t> shape, at;
  };

  bool VisitCall(const Statement& s, Operator& op, std::vector<Given> call) override {
    std::vector<Argument> arguments, wide;
    for (const Given& g : call) {
      arguments.push_back(g.value.narrow);
      wide.push_back(g.value.wide);
    }
    const Results exact = is_wide_ ? WideResults(op, arguments, wide) : ExactResults(op, arguments);
    for (int i = 0; i < op.n_params; ++i) {
      const StatementArgument* from = call[std::size_t(i)].from;
      const auto written = exact.find(ParamOf(op, i).name);
      if (from && ParamOf(op, i).is_mut && written != exact.end()) Write(*from, written->second);
    }
    const CheckedCall checked = CheckArguments(op, arguments);
    for (std::size_t r = 0; r < s.results.size(); ++r) {
      const StatementResult& target = s.results[r];
      const Array& value = exact.find(op.contract->forms[0].results[r].name)->second;
      if (!target.is_result) views_.erase(target.index);
      Assign(target, {RoundedTo(checked.results[r].dtype, value), value});
      if (!target.is_result) continue;
      const Result& result = op_.contract->forms[0].results[std::size_t(target.index)];
      exact_.insert_or_assign(std::string(result.name), value);
    }
    return true;
  }

  Exactly* Memory(const StatementArgument& a) {
    const std::size_t i = std::size_t(a.index);
    return &(a.kind == StatementArgument::kParameter ? parameters_[i]
             : a.kind == StatementArgument::kResult  ? results_[i]
                                                     : locals_[i]);
  }
  const Exactly* Memory(const StatementArgument& a) const {
    return const_cast<CompositionRun*>(this)->Memory(a);
  }

  // A view is looked at when it is used: statements in between may write its memory.
  bool VisitView(const Statement& statement) override {
    const StatementView& view = statement.view;
    const int local = statement.results[0].index;
    const auto base =
        view.base.kind == StatementArgument::kLocal ? views_.find(view.base.index) : views_.end();
    Viewed made{view.base, {}, {}};
    if (base != views_.end()) {
      made = base->second;
    } else if (const auto* array = std::get_if<Array>(&Memory(view.base)->narrow)) {
      made.shape = array->shape();
      made.at.resize(std::size_t(array->size()));
      std::iota(made.at.begin(), made.at.end(), 0);
    } else {
      views_.erase(local);
      Assign(statement.results[0], {});  // of an absent argument
      return true;
    }
    std::vector<std::int64_t> sizes;
    for (const Expression& e : view.sizes) sizes.push_back(std::get<std::int64_t>(NumberOf(e)));
    if (view.kind == StatementView::kReshape) {
      made.shape = sizes;
    } else if (view.kind == StatementView::kSlice) {
      Pick(
          &made,
          [&](std::vector<std::int64_t>& shape) {
            shape[std::size_t(view.a)] = sizes[1] - sizes[0];
          },
          [&](std::vector<std::int64_t>& index) { index[std::size_t(view.a)] += sizes[0]; });
    } else {
      const auto turn = [&](std::vector<std::int64_t>& x) {
        std::swap(x[std::size_t(view.a)], x[std::size_t(view.b)]);
      };
      Pick(&made, turn, turn);
    }
    views_.insert_or_assign(local, std::move(made));
    return true;
  }

  // Changes the shape; `to_old` makes of the index of an element the one that it had.
  template <class ToNew, class ToOld>
  static void Pick(Viewed* view, ToNew to_new, ToOld to_old) {
    const std::vector<std::int64_t> old = view->shape, at = view->at;
    to_new(view->shape);
    view->at.clear();
    std::int64_t n = 1;
    for (const std::int64_t size : view->shape) n *= size;
    for (std::int64_t i = 0; i < n; ++i) {
      std::vector<std::int64_t> index(old.size());
      std::int64_t rest = i, place = 0;
      for (std::size_t d = old.size(); d-- > 0; rest /= view->shape[d]) {
        index[d] = rest % view->shape[d];
      }
      to_old(index);
      for (std::size_t d = 0; d < old.size(); ++d) place = place * old[d] + index[d];
      view->at.push_back(at[std::size_t(place)]);
    }
  }

  // What a statement wrote.
  void Write(const StatementArgument& a, const Array& written) {
    const auto view = a.kind == StatementArgument::kLocal ? views_.find(a.index) : views_.end();
    const StatementArgument& root = view == views_.end() ? a : view->second.root;
    auto* narrow = std::get_if<Array>(&Memory(root)->narrow);
    auto* wide = std::get_if<Array>(&Memory(root)->wide);
    if (!narrow || !wide) return;
    *wide = ToF64(*wide);
    for (std::int64_t i = 0; i < written.size(); ++i) {
      const std::int64_t at = view == views_.end() ? i : view->second.at[std::size_t(i)];
      if (!IsFloat(written.dtype())) {
        wide->SetInt(at, written.GetInt(i));
        narrow->SetInt(at, written.GetInt(i));
        continue;
      }
      wide->Set(at, written.Get(i));
      narrow->Set(at, written.Get(i));
    }
    const Form& form = op_.contract->forms[0];
    const std::size_t i = std::size_t(root.index);
    if (root.kind == StatementArgument::kLocal) return;
    exact_.insert_or_assign(
        std::string(root.kind == StatementArgument::kParameter ? form.params[i].name
                                                               : form.results[i].name),
        *wide);
  }

  Exactly Parameter(int i) const override { return parameters_[std::size_t(i)]; }
  Exactly Local(int local) const override {
    const auto view = views_.find(local);
    if (view == views_.end()) return locals_[std::size_t(local)];
    const Exactly& root = *Memory(view->second.root);
    return {Seen(root.narrow, view->second), Seen(root.wide, view->second)};
  }
  static Argument Seen(const Argument& of, const Viewed& view) {
    const auto& root = std::get<Array>(of);
    Array seen(root.dtype(), view.shape);
    for (std::int64_t i = 0; i < seen.size(); ++i) {
      const std::int64_t at = view.at[std::size_t(i)];
      IsFloat(root.dtype()) ? seen.Set(i, root.Get(at)) : seen.SetInt(i, root.GetInt(at));
    }
    return seen;
  }
  Exactly Computed(const StatementArgument& a) const override {
    if (a.kind == StatementArgument::kExpression) return Both(NumberOf(a.expression));
    const int var = op_.contract->forms[std::size_t(call_.form)].dtype_var(a.text);
    if (var < 0 || !(call_.bindings.dtype_bound >> var & 1)) return {};
    return Both(DType(call_.bindings.dtype[var]));
  }
  static Exactly Both(Argument a) { return {a, a}; }
  Exactly Literal(DType dtype) const override { return Both(dtype); }
  Exactly Literal(std::string_view word) const override { return Both(std::string(word)); }
  Exactly Literal(const std::vector<std::int64_t>& list) const override { return Both(list); }
  bool Default(const Operator& inner, int i, Exactly* e) const override {
    *e = Both(Call(inner.name).arguments()[std::size_t(i)]);
    return true;
  }
  bool IsNone(const Exactly& e) const override {
    return std::holds_alternative<std::monostate>(e.narrow);
  }

  Argument NumberOf(const Expression& expression) const {
    std::vector<Argument> arguments;
    for (const Exactly& e : parameters_) arguments.push_back(e.narrow);
    Frame frame(op_, arguments);
    const int node = expression.node[std::size_t(call_.form)];
    const Number n = Evaluate(*op_.contract, call_.form, node, call_.bindings, frame.values());
    if (!n.known) return {};
    return n.is_float ? Argument(n.f) : Argument(n.i);
  }

  CheckedCall call_;
  bool is_wide_;
  std::vector<Exactly> parameters_;
  std::map<int, Viewed> views_;  // by intermediate
  Results exact_;
};

}  // namespace

CheckedCall CheckArguments(const Operator& op, const std::vector<Argument>& arguments) {
  CheckedCall call;
  Frame frame(op, arguments);
  std::string error;
  call.form = Check(*op.contract, frame.values(), &call.bindings, &error);
  if (call.form < 0 ||
      !InferResults(*op.contract, call.form, call.bindings, frame.values(), call.results, &error)) {
    throw Error(ANYOP_INVALID_ARGUMENT, op.Message(error));
  }
  return call;
}

Results ExactResults(const Operator& op, const std::vector<Argument>& arguments) {
  if (const anyop_reference* reference = FindReference(op)) {
    return RunReference(*reference, op, arguments, arguments);
  }
  if (op.compositions.empty()) {
    throw std::runtime_error(op.name + " has neither a reference nor .means to compare with");
  }
  return CompositionRun(op, arguments, nullptr, CheckArguments(op, arguments)).Run();
}

Results WideResults(const Operator& op, const std::vector<Argument>& arguments,
                    const std::vector<Argument>& wide, std::uint64_t declined) {
  if (const anyop_reference* reference = FindReference(op)) {
    return RunReference(*reference, op, arguments, wide, declined);
  }
  if (op.compositions.empty()) {
    throw std::runtime_error(op.name + " has neither a reference nor .means to compare with");
  }
  Results results = CompositionRun(op, arguments, &wide, CheckArguments(op, arguments)).Run();
  for (int r = 0; r < op.n_results; ++r) {
    if (declined >> r & 1) results.erase(std::string(op.contract->forms[0].results[r].name));
  }
  return results;
}

std::vector<Argument> WideArguments(std::vector<Argument> arguments) {
  for (Argument& argument : arguments) {
    ForEachArray(argument, [](Array& array) { array = ToF64(array); });
  }
  return arguments;
}

std::vector<Argument> AbsoluteArguments(const std::vector<Argument>& arguments) {
  std::vector<Argument> absolute = arguments;
  for (Argument& argument : absolute) {
    ForEachArray(argument, [](Array& array) {
      if (!IsFloat(array.dtype())) return;
      for (std::int64_t i = 0; i < array.size(); ++i) array.Set(i, std::fabs(array.Get(i)));
    });
    if (auto* f = std::get_if<double>(&argument)) *f = std::fabs(*f);
  }
  return absolute;
}

double EvaluateOn(const Operator& op, const std::vector<Argument>& arguments,
                  std::string_view expression) {
  struct Compiled {
    std::unique_ptr<Contract> contract;  // our own: compiling adds to it
    std::map<std::string, Expression, std::less<>> expressions;
  };
  static std::map<std::string, Compiled> cache;
  Compiled& c = cache[op.name];
  if (!c.contract) c.contract = ParseContract(op.contract->text);
  auto found = c.expressions.find(expression);
  if (found == c.expressions.end()) {
    found = c.expressions.emplace(expression, CompileExpression(*c.contract, expression)).first;
  }
  const CheckedCall call = CheckArguments(op, arguments);
  Frame frame(op, arguments);
  const int node = found->second.node[std::size_t(call.form)];
  Number n;
  if (node >= 0) n = Evaluate(*c.contract, call.form, node, call.bindings, frame.values());
  if (!n.known) throw std::runtime_error(std::string(expression) + " is unknown in this call");
  return n.is_float ? n.f : double(n.i);
}

void TakeWritten(const Operator& op, const Results& results, std::vector<Argument>* arguments) {
  for (std::size_t i = 0; i < arguments->size(); ++i) {
    const std::string name(op.contract->forms[0].params[i].name);
    if (auto* arrays = std::get_if<std::vector<Array>>(&(*arguments)[i])) {
      for (std::size_t k = 0; k < arrays->size(); ++k) {
        const auto found = results.find(name + "[" + std::to_string(k) + "]");
        if (found != results.end()) (*arrays)[k] = found->second;
      }
    } else if (const auto found = results.find(name); found != results.end()) {
      (*arguments)[i] = found->second;
    }
  }
}

}  // namespace anyop::optest
