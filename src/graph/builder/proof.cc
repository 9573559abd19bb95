// SPDX-License-Identifier: Apache-2.0
#include "graph/builder/proof.h"

#include <algorithm>
#include <bit>

#include "graph/ir/frame.h"
#include "platform/error.h"
#include "runtime/registry/operator.h"
#include "signature/binding.h"
#include "signature/check.h"
#include "signature/symbolic.h"

namespace anyop {
namespace {

bool HasNoSymbolBits(const GraphArgument& a) {
  const auto is_symbol = [](double f) { return IsSymbol(std::bit_cast<std::int64_t>(f)); };
  return !IsSymbol(a.i) && !is_symbol(a.f) &&
         std::none_of(a.ints.begin(), a.ints.end(), IsSymbol) &&
         std::none_of(a.floats.begin(), a.floats.end(), is_symbol);
}

}  // namespace

void GraphProof::AddValues(const Graph& graph) {
  for (std::size_t v = places_.size(); v < graph.values.size(); ++v) {
    const GraphValue& value = graph.values[v];
    std::vector<std::int64_t>& shape = shapes_.emplace_back();
    for (const Size& s : value.shape) {
      // The whole size of a dimension is never below 0; a symbol in n - 1 alone, or a number of
      // the call, may be.
      if (value.kind == GraphValue::kInput && s.symbol() >= 0) numbers_.AddSizeSymbol(s.symbol());
      shape.push_back(numbers_.Bits(s));
    }
    DLTensor& t = tensors_.emplace_back();
    FillTensor(&t, nullptr, kHostDevice, ToDL(value.dtype), int(shape.size()), shape.data());
    places_.push_back(value.kind == GraphValue::kScalar ? nullptr : &t);
    // Any value will do for a number of the call: ScalarParams says that it is unknown.
    scalars_.push_back(value.scalar == ParamKind::kFloat ? FloatValue(0) : BoolValue(false));
  }
  // Only new symbols, so that the time for a call does not grow with the graph.
  for (; n_symbols_ < graph.symbols.size(); ++n_symbols_) {
    if (graph.symbols[n_symbols_].value >= 0) numbers_.AddSizeSymbol(int(n_symbols_));
  }
}

bool GraphProof::FillFrameOf(const Graph& graph, const GraphNode& node, anyop_value* frame,
                             std::vector<const DLTensor*>* lists) {
  numbers_.Forget(n_numbers_);
  AddValues(graph);
  n_numbers_ = numbers_.size();
  lists->resize(ListElements(node) + 1);
  FillFrame({graph, {}, places_, scalars_, &numbers_}, node, frame, lists->data());
  return std::all_of(node.arguments.begin(), node.arguments.end(), HasNoSymbolBits);
}

InferredResult GraphProof::ToInferred(DType dtype, const std::int64_t* shape, int rank) {
  InferredResult result{dtype, {}};
  for (int k = 0; k < rank; ++k) {
    std::optional<Size>& size = result.shape.emplace_back();
    if (shape[k] == -1) continue;
    Number n = Int(shape[k]);
    if (IsSymbol(shape[k])) n.known = false, n.symbol = SymbolOf(shape[k]);
    size = numbers_.ToSize(n);
  }
  return result;
}

bool GraphProof::Prove(const Graph& graph, const GraphNode& node,
                       std::vector<InferredResult>* results) {
  results->clear();
  const Operator& op = *node.op;
  anyop_value frame[kMaxParams + kMaxResults];
  std::vector<const DLTensor*> lists;
  ResultShape shapes[kMaxResults];
  std::string error;
  try {
    if (!FillFrameOf(graph, node, frame, &lists)) return false;
    const std::uint64_t unknown = ScalarParams(graph, node);
    if (InferPartial(*op.contract, frame, unknown, shapes, &error, &numbers_) < 0) return false;
  } catch (const Error&) {  // a size beyond 63 bits, or of more terms than a polynomial may have
    return false;
  }
  for (int r = 0; r < op.n_results; ++r) {
    results->push_back(ToInferred(shapes[r].dtype, shapes[r].shape, shapes[r].rank));
  }
  bool is_sure = true;
  for (const InferredResult& result : *results) {
    for (const auto& size : result.shape) is_sure &= size && numbers_.IsAtLeast(*size, 0);
  }
  return is_sure && numbers_.is_sure();
}

bool GraphProof::Evaluate(const Graph& graph, const Contract& contract, const GraphNode& node,
                          const Expression& expression, Size* size) {
  anyop_value frame[kMaxParams + kMaxResults];
  std::vector<const DLTensor*> lists;
  if (!FillFrameOf(graph, node, frame, &lists)) return false;
  for (int form = 0; form < int(contract.forms.size()); ++form) {
    if (FormFits(contract, form, frame, 0) == Fit::kNo) continue;
    Bindings bindings;
    std::string error;
    const std::uint64_t unknown = ScalarParams(graph, node);
    const int root = expression.node[std::size_t(form)];
    if (root < 0 || !CheckForm(contract, form, frame, &bindings, &error, unknown, &numbers_)) break;
    const Number n = anyop::Evaluate(contract, form, root, bindings, frame);
    if (!n.is_unknown() && !n.is_float) *size = numbers_.ToSize(n);
    return !n.is_unknown() && !n.is_float;
  }
  return false;
}

}  // namespace anyop
