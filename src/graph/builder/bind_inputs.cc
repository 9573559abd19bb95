// SPDX-License-Identifier: Apache-2.0
// Arguments of a graph that is called while another one is made.
#include "graph/builder/copy_graph.h"
#include "graph/ir/frame.h"
#include "graph/ir/text.h"
#include "platform/error.h"
#include "signature/expression.h"

namespace anyop {
namespace {

// Whether size = a*symbol + b with one symbol that is not bound yet and no other.
bool IsLinear(const Size& size, const std::vector<bool>& is_bound, int* symbol, std::int64_t* a,
              Size* b) {
  *symbol = -1;
  *b = Size(0);
  for (const SizeTerm& t : size.terms()) {
    if (t.symbols.size() == 1 && !is_bound[std::size_t(t.symbols[0])]) {
      if (*symbol >= 0) return false;
      *symbol = t.symbols[0];
      *a = t.factor;
    } else if (t.symbols.empty()) {
      *b = Size(t.factor);
    } else {
      return false;
    }
  }
  return *symbol >= 0;
}

// False where a factor is no multiple of `by`: the quotient is not whole at all sizes.
bool Divide(const Size& size, std::int64_t by, Size* quotient) {
  *quotient = Size(0);
  for (const SizeTerm& t : size.terms()) {
    if (t.factor % by) return false;
    Size term(t.factor / by);
    for (const int s : t.symbols) term = term * Size::Symbol(s);
    *quotient = *quotient + term;
  }
  return true;
}

}  // namespace

bool GraphCopy::IsBound(const Size& size) const {
  for (const SizeTerm& t : size.terms()) {
    for (const int s : t.symbols) {
      if (!is_bound_[std::size_t(s)]) return false;
    }
  }
  return true;
}

void GraphCopy::RefuseInput(int input, const GraphArgument& given, const std::string& name) {
  const bool is_value = given.kind == GraphArgument::kValue;
  const std::string shown = is_value ? ShowType(builder.graph(), given.values[0])
                            : given.kind == GraphArgument::kSize
                                ? ShowSize(builder.graph(), given.size)
                                : Show(LiteralOf(given));
  const GraphValue& wanted = from_.value(input);
  const auto is_tensor = [](const GraphValue& v) { return v.kind != GraphValue::kScalar; };
  const GraphValue* outer = is_value ? &builder.graph().value(given.values[0]) : nullptr;
  const bool casts =
      outer && is_tensor(*outer) && is_tensor(wanted) && outer->dtype != wanted.dtype;
  Fail(ANYOP_INVALID_ARGUMENT,
       name + ": " + wanted.name + " is " + shown + ", but must be " + ShowType(from_, input) +
           " at all sizes of the graph that is made." +
           (casts ? " Try a cast to " + std::string(Name(wanted.dtype)) + "." : ""));
}

void GraphCopy::BindNumber(int input, const GraphArgument& given, const std::string& name) {
  const GraphValue& v = from_.value(input);
  const Graph& graph = builder.graph();
  const bool is_value = given.kind == GraphArgument::kValue;
  if (is_value && graph.value(given.values[0]).kind != GraphValue::kScalar) {
    RefuseInput(input, given, name);
  }
  const bool is_size = given.kind == GraphArgument::kSize || given.kind == GraphArgument::kInt;
  const ParamKind kind = is_value                             ? graph.value(given.values[0]).scalar
                         : is_size                            ? ParamKind::kInt
                         : given.kind == GraphArgument::kBool ? ParamKind::kBool
                                                              : ParamKind::kFloat;
  const bool widens = v.scalar == ParamKind::kFloat && kind == ParamKind::kInt;
  if (kind != v.scalar && !widens) RefuseInput(input, given, name);
  numbers_[std::size_t(input)] =
      widens && given.kind == GraphArgument::kInt ? FloatArgument(double(given.i)) : given;
  if (v.symbol < 0) return;
  is_bound_[std::size_t(v.symbol)] = true;
  symbols_[std::size_t(v.symbol)] = is_value ? Size::Symbol(graph.value(given.values[0]).symbol)
                                    : given.kind == GraphArgument::kSize ? given.size
                                                                         : Size(given.i);
}

void GraphCopy::BindTensor(int input, const GraphArgument& given, const std::string& name) {
  const GraphValue& v = from_.value(input);
  if (given.kind != GraphArgument::kValue) RefuseInput(input, given, name);
  const GraphValue& outer = builder.graph().value(given.values[0]);
  if (outer.kind == GraphValue::kScalar || outer.dtype != v.dtype ||
      outer.shape.size() != v.shape.size()) {
    RefuseInput(input, given, name);
  }
  for (std::size_t d = 0; d < v.shape.size(); ++d) {
    int symbol;
    std::int64_t a = 0;
    Size b, quotient;
    if (!IsLinear(v.shape[d], is_bound_, &symbol, &a, &b)) continue;
    if (!Divide(outer.shape[d] - b, a, &quotient)) continue;
    is_bound_[std::size_t(symbol)] = true;
    symbols_[std::size_t(symbol)] = quotient;
  }
  SetValue(input, given.values[0]);
}

void GraphCopy::BindInputs(std::span<const GraphArgument> arguments, const std::string& name) {
  const auto is_number = [&](std::size_t k) {
    return from_.value(from_.inputs[k]).kind == GraphValue::kScalar;
  };
  // Numbers first: shapes of the tensors may use them as symbols. Shapes are compared when all
  // arguments have bound their symbols, because one may need the symbols of a later one.
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    if (is_number(k)) BindNumber(from_.inputs[k], arguments[k], name);
  }
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    if (!is_number(k)) BindTensor(from_.inputs[k], arguments[k], name);
  }
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    if (is_number(k)) continue;
    const GraphValue& v = from_.value(from_.inputs[k]);
    const GraphValue& outer = builder.graph().value(arguments[k].values[0]);
    for (std::size_t d = 0; d < v.shape.size(); ++d) {
      const bool fits = IsBound(v.shape[d]) && Mapped(v.shape[d]) == outer.shape[d];
      if (!fits) RefuseInput(from_.inputs[k], arguments[k], name);
    }
  }
}

}  // namespace anyop
