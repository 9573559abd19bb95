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
#include "runtime/frame.h"
#include "runtime/registry.h"

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

// Runs the statements of a composition one by one. A result that a later statement reads has been
// rounded to its dtype, as in memory, unless `wide` is given; what is compared has not.
class CompositionRun {
 public:
  CompositionRun(const Operator& op, const std::vector<Argument>& arguments,
                 const std::vector<Argument>* wide = nullptr)
      : op_(op), call_(CheckArguments(op, arguments)), is_wide_(wide) {
    const std::size_t n = op.compositions.size();
    composition_ = &op.compositions[n == 1 ? 0 : std::size_t(call_.form)];
    narrow_ = {arguments, std::vector<Argument>(composition_->locals.size()),
               std::vector<Argument>(std::size_t(op.n_results))};
    wide_ = narrow_;
    if (wide) wide_.arguments = *wide;
  }

  Results Run() {
    for (const Statement& s : composition_->statements) {
      s.view.kind == StatementView::kNone ? RunStatement(s) : AddView(s);
    }
    const auto& params = op_.contract->forms[0].params;
    for (std::size_t i = 0; i < params.size(); ++i) {
      if (!params[i].is_mut) continue;
      if (const auto* array = std::get_if<Array>(&Source().arguments[i])) {
        exact_.emplace(params[i].name, ToF64(*array));
      }
    }
    return exact_;
  }

 private:
  // What the names of a composition hold, by index.
  struct Values {
    std::vector<Argument> arguments, locals, results;
  };
  // An intermediate that is a view: which elements of what has the memory.
  struct Viewed {
    StatementArgument root;
    std::vector<std::int64_t> shape, at;
  };
  const Values& Source() const { return is_wide_ ? wide_ : narrow_; }

  void RunStatement(const Statement& statement) {
    Operator& op = *Find(FullName(statement.op));
    Call call(op.name);
    std::vector<Argument> arguments = call.arguments(), wide = arguments;
    for (std::size_t k = 0; k < statement.arguments.size(); ++k) {
      const StatementArgument& a = statement.arguments[k];
      const int i = a.keyword.empty() ? int(k) : op.contract->param(a.keyword);
      Argument value = Value(a, narrow_);
      if (std::holds_alternative<std::monostate>(value)) {
        if (!op.contract->forms[0].params[std::size_t(i)].is_optional) return;  // skipped
      }
      if (is_wide_) wide[std::size_t(i)] = Value(a, wide_);
      arguments[std::size_t(i)] = std::move(value);
    }
    const Results exact = is_wide_ ? WideResults(op, arguments, wide) : ExactResults(op, arguments);
    TakeMut(op, statement, exact);
    const CheckedCall checked = CheckArguments(op, arguments);
    for (std::size_t r = 0; r < statement.results.size(); ++r) {
      const StatementResult& target = statement.results[r];
      const Array& value = exact.find(op.contract->forms[0].results[r].name)->second;
      const Array rounded = RoundedTo(checked.results[r].dtype, value);
      const auto index = std::size_t(target.index);
      if (!target.is_result) views_.erase(target.index);
      (target.is_result ? narrow_.results : narrow_.locals)[index] = rounded;
      (target.is_result ? wide_.results : wide_.locals)[index] = value;
      if (!target.is_result) continue;
      exact_.insert_or_assign(std::string(op_.contract->forms[0].results[index].name), value);
    }
  }

  template <class V>
  static auto* Memory(const StatementArgument& a, V& values) {
    const std::size_t i = std::size_t(a.index);
    return &(a.kind == StatementArgument::kParameter ? values.arguments[i]
             : a.kind == StatementArgument::kResult  ? values.results[i]
                                                     : values.locals[i]);
  }

  // A view is looked at when it is used: statements in between may write its memory.
  void AddView(const Statement& statement) {
    const StatementView& view = statement.view;
    const int local = statement.results[0].index;
    const auto base =
        view.base.kind == StatementArgument::kLocal ? views_.find(view.base.index) : views_.end();
    Viewed made{view.base, {}, {}};
    if (base != views_.end()) {
      made = base->second;
    } else if (const auto* array = std::get_if<Array>(Memory(view.base, narrow_))) {
      made.shape = array->shape();
      made.at.resize(std::size_t(array->size()));
      std::iota(made.at.begin(), made.at.end(), 0);
    } else {
      views_.erase(local);
      return;  // of an absent argument
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
  void TakeMut(const Operator& op, const Statement& statement, const Results& exact) {
    for (std::size_t k = 0; k < statement.arguments.size(); ++k) {
      const StatementArgument& a = statement.arguments[k];
      const int i = a.keyword.empty() ? int(k) : op.contract->param(a.keyword);
      const Param& p = op.contract->forms[0].params[std::size_t(i)];
      const auto written = exact.find(p.name);
      if (p.is_mut && written != exact.end()) Write(a, written->second);
    }
  }
  void Write(const StatementArgument& a, const Array& written) {
    const auto view = a.kind == StatementArgument::kLocal ? views_.find(a.index) : views_.end();
    const StatementArgument& root = view == views_.end() ? a : view->second.root;
    auto* narrow = std::get_if<Array>(Memory(root, narrow_));
    auto* wide = std::get_if<Array>(Memory(root, wide_));
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

  std::string FullName(const std::string& name) const {
    const std::string own = op_.library + "." + name;
    return name.find('.') == std::string::npos && FindRegistered(own) ? own : name;
  }

  Argument Value(const StatementArgument& a, const Values& values) const {
    const std::size_t i = a.index < 0 ? 0 : std::size_t(a.index);
    switch (a.kind) {
      case StatementArgument::kNone:
        return {};
      case StatementArgument::kParameter:
        return values.arguments[i];
      case StatementArgument::kResult:
        return values.results[i];
      case StatementArgument::kLocal:
        return Local(a.index, values);
      case StatementArgument::kDType:
        return DType(a.index);
      case StatementArgument::kDTypeVar:
        return DType(call_.bindings.dtype[i]);
      case StatementArgument::kWord:
        return a.text;
      case StatementArgument::kList:
        return a.list;
      case StatementArgument::kExpression:
        break;
    }
    return NumberOf(a.expression);
  }
  Argument Local(int local, const Values& values) const {
    const auto view = views_.find(local);
    if (view == views_.end()) return values.locals[std::size_t(local)];
    const auto& root = std::get<Array>(*Memory(view->second.root, values));
    Array seen(root.dtype(), view->second.shape);
    for (std::int64_t i = 0; i < seen.size(); ++i) {
      const std::int64_t at = view->second.at[std::size_t(i)];
      IsFloat(root.dtype()) ? seen.Set(i, root.Get(at)) : seen.SetInt(i, root.GetInt(at));
    }
    return seen;
  }
  Argument NumberOf(const Expression& expression) const {
    Frame frame(op_, narrow_.arguments);
    const int node = expression.node[std::size_t(call_.form)];
    const Number n = Evaluate(*op_.contract, call_.form, node, call_.bindings, frame.values());
    if (!n.known) return {};
    return n.is_float ? Argument(n.f) : Argument(n.i);
  }

  const Operator& op_;
  CheckedCall call_;
  bool is_wide_;
  const Composition* composition_;
  Values narrow_, wide_;
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
    throw Error(ANYOP_INVALID_ARGUMENT, op.display_name() + ": " + error);
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
  return CompositionRun(op, arguments).Run();
}

Results WideResults(const Operator& op, const std::vector<Argument>& arguments,
                    const std::vector<Argument>& wide, std::uint64_t declined) {
  if (const anyop_reference* reference = FindReference(op)) {
    return RunReference(*reference, op, arguments, wide, declined);
  }
  if (op.compositions.empty()) {
    throw std::runtime_error(op.name + " has neither a reference nor .means to compare with");
  }
  Results results = CompositionRun(op, arguments, &wide).Run();
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
