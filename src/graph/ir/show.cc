// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "graph/ir/argument.h"
#include "graph/ir/frame.h"
#include "graph/ir/text.h"
#include "runtime/registry/operator.h"
#include "signature/defaults.h"
#include "signature/expression.h"

namespace anyop {
namespace {

template <class T>
std::string List(const std::vector<T>& items, auto&& show) {
  std::string text;
  for (const T& item : items) text += (text.empty() ? "" : ", ") + show(item);
  return text;
}

std::string ShowArgument(const Graph& g, const GraphArgument& a) {
  const auto name = [&](int value) { return g.value(value).name; };
  switch (a.kind) {
    case GraphArgument::kValue:
      return name(a.values[0]);
    case GraphArgument::kValues:
      return "[" + List(a.values, name) + "]";
    case GraphArgument::kSize:
      return ShowSize(g, a.size);
    case GraphArgument::kFloat:
      return ExactFloat(a.f);
    case GraphArgument::kFloats:
      return "[" + List(a.floats, ExactFloat) + "]";
    default:
      return Show(LiteralOf(a));
  }
}

// Whether a literal equals the parameter's default, so that the text may leave it out.
bool IsDefault(const Operator& op, int i, const GraphArgument& a) {
  if (a.kind == GraphArgument::kValue || a.kind == GraphArgument::kValues) return false;
  anyop_value v;
  if (!DefaultValue(*op.contract, i, &v)) return false;
  return a.kind != GraphArgument::kSize && LiteralArgument(v) == a;
}

}  // namespace

std::string ShowSize(const Graph& graph, const Size& size) {
  const auto name = [&](int s) -> const std::string& { return graph.symbols[std::size_t(s)].name; };
  return Show(size, name);
}

std::string ShowType(const Graph& graph, int value) {
  const GraphValue& v = graph.value(value);
  if (v.kind == GraphValue::kScalar) {
    return v.scalar == ParamKind::kInt ? "int" : v.scalar == ParamKind::kFloat ? "float" : "bool";
  }
  return std::string(Name(v.dtype)) + "[" +
         List(v.shape, [&](const Size& s) { return ShowSize(graph, s); }) + "]";
}

std::string ShowView(const Graph& graph, const GraphValue& value) {
  const GraphView& v = graph.views[std::size_t(value.view)];
  const std::string& base = graph.value(value.base).name;
  const auto size = [&](const Size& s) { return ShowSize(graph, s); };
  switch (v.kind) {
    case GraphView::kSlice:
      return "slice(" + base + ", " + std::to_string(v.a) + ", " + size(v.begin) + ", " +
             size(v.end) + ")";
    case GraphView::kReshape:
      return "reshape(" + base + ", [" + List(v.shape, size) + "])";
    default:
      return "transpose(" + base + ", " + std::to_string(v.a) + ", " + std::to_string(v.b) + ")";
  }
}

std::string ShowCall(const Graph& graph, const GraphNode& node) {
  const Form& form = node.op->contract->forms[0];
  std::string text = node.op->name + "(";
  bool by_name = false, is_first = true;
  for (std::size_t i = 0; i < node.arguments.size(); ++i) {
    const GraphArgument& a = node.arguments[i];
    if (IsDefault(*node.op, int(i), a)) {
      by_name = true;
      continue;
    }
    const bool is_tensor = a.kind == GraphArgument::kValue || a.kind == GraphArgument::kValues;
    text += is_first ? "" : ", ";
    if (by_name || !is_tensor) text += std::string(form.params[i].name) + "=";
    by_name |= !is_tensor;
    text += ShowArgument(graph, a);
    is_first = false;
  }
  return text + ")";
}

std::string ShowNode(const Graph& graph, const GraphNode& node) {
  std::string text =
      List(node.results, [&](int r) { return r < 0 ? std::string("_") : graph.value(r).name; });
  return text + (text.empty() ? "" : " = ") + ShowCall(graph, node);
}

}  // namespace anyop
