// SPDX-License-Identifier: Apache-2.0
#include "optest/exact.h"

#include <cmath>
#include <map>
#include <memory>
#include <stdexcept>

#include "anyop/op.h"
#include "optest/frame.h"
#include "optest/services.h"

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
  Services services({.threads = 1});
  if (reference.run(services.context(), frame.values()) != ANYOP_OK) {
    throw std::runtime_error("the reference of " + op.name + " fails: " + services.error());
  }
  const std::string write = frame.FindUndeclaredWrite(true);
  if (!write.empty()) throw std::runtime_error("the reference of " + op.name + ": " + write);
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
    for (const Statement& s : composition_->statements) RunStatement(s);
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
      (target.is_result ? narrow_.results : narrow_.locals)[index] = rounded;
      (target.is_result ? wide_.results : wide_.locals)[index] = value;
      if (!target.is_result) continue;
      exact_.insert_or_assign(std::string(op_.contract->forms[0].results[index].name), value);
    }
  }

  // What a statement wrote to the composition's own `mut` parameters.
  void TakeMut(const Operator& op, const Statement& statement, const Results& exact) {
    for (std::size_t k = 0; k < statement.arguments.size(); ++k) {
      const StatementArgument& a = statement.arguments[k];
      const int i = a.keyword.empty() ? int(k) : op.contract->param(a.keyword);
      const Param& p = op.contract->forms[0].params[std::size_t(i)];
      const auto written = exact.find(p.name);
      if (!p.is_mut || a.kind != StatementArgument::kParameter || written == exact.end()) continue;
      auto* array = std::get_if<Array>(&narrow_.arguments[std::size_t(a.index)]);
      if (!array) continue;
      *array = RoundedTo(array->dtype(), written->second);
      wide_.arguments[std::size_t(a.index)] = written->second;
      exact_.insert_or_assign(std::string(op_.contract->forms[0].params[std::size_t(a.index)].name),
                              written->second);
    }
  }

  std::string FullName(const std::string& name) const {
    return name.find('.') == std::string::npos ? op_.library + "." + name : name;
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
        return values.locals[i];
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
    Frame frame(op_, narrow_.arguments);
    const int node = a.expression.node[std::size_t(call_.form)];
    const Number n = Evaluate(*op_.contract, call_.form, node, call_.bindings, frame.values());
    if (!n.known) return {};
    return n.is_float ? Argument(n.f) : Argument(n.i);
  }

  const Operator& op_;
  CheckedCall call_;
  bool is_wide_;
  const Composition* composition_;
  Values narrow_, wide_;
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
