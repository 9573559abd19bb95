// SPDX-License-Identifier: Apache-2.0
// Calls of the graph builder.
#include "graph/builder/builder.h"
#include "graph/builder/points.h"
#include "graph/builder/proof.h"
#include "platform/error.h"
#include "runtime/registry/operator.h"
#include "signature/defaults.h"

namespace anyop {

GraphArgument GraphBuilder::Default(const Operator& op, int i) const {
  const Param& p = op.contract->forms[0].params[std::size_t(i)];
  anyop_value v{};
  if (!DefaultValue(*op.contract, i, &v)) {
    Refuse(op.Message(std::string(p.name) + " is missing."));
  }
  return LiteralArgument(v);
}

// Adds the defaults of arguments that are left out, and brings each argument into the kind that
// its parameter takes.
void GraphBuilder::Complete(const Operator& op, std::vector<GraphArgument>* arguments) const {
  const Form& form = op.contract->forms[0];
  if (arguments->size() > std::size_t(op.n_params)) {
    Refuse(op.Message(std::to_string(arguments->size()) + " arguments are given, but there are " +
                      std::to_string(op.n_params) + "."));
  }
  for (int i = int(arguments->size()); i < op.n_params; ++i) {
    arguments->push_back(Default(op, i));
  }
  for (int i = 0; i < op.n_params; ++i) {
    GraphArgument& a = (*arguments)[std::size_t(i)];
    const Param& p = form.params[std::size_t(i)];
    for (const int value : a.values) CheckValue(value, "an argument");
    if (p.kind == ParamKind::kFloat && a.kind == GraphArgument::kInt)
      a = FloatArgument(double(a.i));
    if (p.kind == ParamKind::kTensors && a.kind == GraphArgument::kNone && !p.is_optional) {
      a = ValuesArgument({});
    }
    if (a.kind == GraphArgument::kWord && op.contract->word(i, a.word) < 0) {
      Refuse(op.Message((p.kind == ParamKind::kWord ? WordError(*op.contract, i, a.word)
                                                    : std::string(p.name) + " is the word '" +
                                                          a.word + "', but cannot be one.")));
    }
    // Sizes are computed over symbols: as one, a whole number of the call may decide a shape.
    if (a.kind == GraphArgument::kValue && graph_.value(a.values[0]).symbol >= 0) {
      a = SizeArgument(Size::Symbol(graph_.value(a.values[0]).symbol));
    }
    if (a.kind == GraphArgument::kValues || a.kind == GraphArgument::kValue) CheckKind(op, i, a);
  }
}

void GraphBuilder::CheckKind(const Operator& op, int i, const GraphArgument& a) const {
  const Param& p = op.contract->forms[0].params[std::size_t(i)];
  for (const int value : a.values) {
    const GraphValue& v = graph_.value(value);
    const bool is_number = v.kind == GraphValue::kScalar;
    if (is_number == IsTensor(p.kind)) {
      Refuse(op.Message(std::string(p.name) + " is " + v.name + ", a " +
                        (is_number ? "number" : "tensor") + ", but must be a " +
                        (is_number ? "tensor" : "number") + "."));
    }
    if (p.is_mut) CheckWritten(op, p.name, value);
  }
}

void GraphBuilder::CheckWritten(const Operator& op, std::string_view what, int value) const {
  const GraphValue& root = graph_.value(graph_.Root(value));
  // Passes fold and pack both, and constants are copied to devices: a write would not be seen.
  if (root.kind != GraphValue::kConstant && !root.is_frozen) return;
  Refuse(op.Message(std::string(what) + " is " + graph_.value(value).name +
                    ", which is written, but is " +
                    (root.is_frozen ? "frozen state" : "a constant") + " of the graph."));
}

std::vector<int> GraphBuilder::Call(Operator& op, std::vector<GraphArgument> arguments,
                                    const CallOptions& options) {
  Complete(op, &arguments);
  GraphNode node{&op, std::move(arguments), {}, 0, place_};
  const Form& form = op.contract->forms[0];
  for (int r = 0; r < op.n_results; ++r) {
    const int into = std::size_t(r) < options.into.size() ? options.into[std::size_t(r)] : -1;
    if (into >= 0) {
      CheckValue(into, "a result");
      if (graph_.value(into).kind == GraphValue::kScalar) {
        Refuse(op.Message(std::string(form.results[std::size_t(r)].name) + " is written into " +
                          graph_.value(into).name +
                          ", a number, but must be written into a tensor."));
      }
      CheckWritten(op, form.results[std::size_t(r)].name, into);
    }
    if (options.declined >> r & 1 && !form.results[std::size_t(r)].is_optional) {
      Refuse(op.Message("the result " + std::string(form.results[std::size_t(r)].name) +
                        " cannot be declined."));
    }
    node.into |= std::uint32_t(into >= 0) << r;
    node.results.push_back(into);
  }
  // Nothing has been added so far: a refused call leaves the graph as it was.
  std::vector<InferredResult> inferred;
  const std::string error = Infer(node, &inferred);
  if (!error.empty()) Refuse(error);
  const int number = int(graph_.nodes.size());
  for (int r = 0; r < op.n_results; ++r) {
    if (node.into >> r & 1 || options.declined >> r & 1) continue;
    node.results[std::size_t(r)] =
        AddResult(number, r, inferred[std::size_t(r)], r == 0 ? options.name : "");
  }
  graph_.nodes.push_back(node);
  return node.results;
}

GraphArgument GraphBuilder::Evaluated(const Contract& contract, const GraphNode& call,
                                      const Expression& expression) const {
  Size size;
  if (!proof_->Evaluate(graph_, contract, call, expression, &size)) {
    Refuse(contract.name + ": " + expression.text + " has no value here.");
  }
  return SizeArgument(size);
}

// The error of a call that is neither proven nor right at two points.
std::string GraphBuilder::Infer(const GraphNode& node, std::vector<InferredResult>* results) {
  if (proof_->Prove(graph_, node, results)) return points_->TryProven(graph_, *results);
  std::string error = points_->TryNode(graph_, node);
  if (error.empty() && results->empty()) *results = points_->TriedResults();
  return error;
}

int GraphBuilder::AddResult(int number, int r, const InferredResult& result,
                            std::string_view name) {
  GraphValue v;
  v.dtype = result.dtype;
  v.node = number;
  v.result = r;
  std::vector<int> unknown;
  for (const std::optional<Size>& size : result.shape) {
    if (!size) unknown.push_back(int(v.shape.size()));
    v.shape.push_back(size.value_or(Size()));
  }
  const int id = Add(std::move(v), name);
  // In this order: a new symbol takes its numbers from the value's layouts.
  points_->AddTried(graph_, id, r);
  for (const int d : unknown) {
    const std::string symbol = graph_.value(id).name + "_" + std::to_string(d);
    graph_.value(id).shape[std::size_t(d)] = Size::Symbol(NewSymbol(symbol, id, d));
  }
  return id;
}

}  // namespace anyop
