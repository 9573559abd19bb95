// SPDX-License-Identifier: Apache-2.0
#include "graph/builder/copy_graph.h"

#include <algorithm>

#include "graph/ir/frame.h"

namespace anyop {

GraphCopy::GraphCopy(const Graph& from)
    : own_(std::make_unique<GraphBuilder>()),
      builder(*own_),
      from_(from),
      copy_of_(from.values.size(), -1),
      symbols_(from.symbols.size()),
      is_bound_(from.symbols.size()),
      numbers_(from.values.size()) {}

GraphCopy::GraphCopy(const Graph& from, GraphBuilder* into, BindData data)
    : builder(*into),
      from_(from),
      data_(std::move(data)),
      copy_of_(from.values.size(), -1),
      symbols_(from.symbols.size()),
      is_bound_(from.symbols.size()),
      numbers_(from.values.size()) {}

// A free symbol is made where it is used first.
Size GraphCopy::Mapped(const Size& size) {
  Size mapped;
  for (const SizeTerm& t : size.terms()) {
    Size product(t.factor);
    for (const int s : t.symbols) {
      Size& symbol = symbols_[std::size_t(s)];
      const GraphSymbol& from = from_.symbols[std::size_t(s)];
      const bool is_free = from.value == GraphSymbol::kFree;
      if (is_free && !is_bound_[std::size_t(s)]) symbol = builder.Symbol(from.name);
      product = product * symbol;
    }
    mapped = mapped + product;
  }
  return mapped;
}
std::vector<Size> GraphCopy::Mapped(const std::vector<Size>& sizes) {
  std::vector<Size> mapped;
  for (const Size& s : sizes) mapped.push_back(Mapped(s));
  return mapped;
}

void GraphCopy::SetValue(int value, int copy) {
  copy_of_[std::size_t(value)] = copy;
  for (std::size_t k = 0; k < symbols_.size(); ++k) {
    const GraphSymbol& s = from_.symbols[k];
    if (s.value != value) continue;
    symbols_[k] = builder.graph().value(copy).shape[std::size_t(s.dimension)];
  }
}

void GraphCopy::CopyInputs() {
  for (const int i : from_.inputs) {
    const GraphValue& v = from_.value(i);
    SetValue(i, v.kind == GraphValue::kScalar ? builder.Scalar(v.name, v.scalar)
                                              : builder.Input(v.name, v.dtype, Mapped(v.shape)));
  }
}

int GraphCopy::Value(int value) {
  if (copy_of_[std::size_t(value)] >= 0) return copy_of_[std::size_t(value)];
  const GraphValue& v = from_.value(value);
  int copy = -1;
  if (v.kind == GraphValue::kView) {
    const int base = Value(v.base);
    const GraphView& view = from_.views[std::size_t(v.view)];
    builder.SetPlace(v.place);
    copy = view.kind == GraphView::kSlice
               ? builder.Slice(base, view.a, Mapped(view.begin), Mapped(view.end))
           : view.kind == GraphView::kReshape ? builder.Reshape(base, Mapped(view.shape))
                                              : builder.Transpose(base, view.a, view.b);
    builder.Rename(copy, v.name);
  } else if (data_) {
    copy = data_(v);
  } else {
    copy = builder.State(v.name, v.array, v.is_frozen);
    if (v.kind == GraphValue::kConstant) builder.MakeConstant(copy);
  }
  SetValue(value, copy);
  return copy;
}

std::vector<GraphArgument> GraphCopy::Arguments(const GraphNode& node) {
  std::vector<GraphArgument> arguments = node.arguments;
  for (GraphArgument& a : arguments) {
    const bool is_number = a.kind == GraphArgument::kValue &&
                           numbers_[std::size_t(a.values[0])].kind != GraphArgument::kNone;
    if (is_number) {
      a = numbers_[std::size_t(a.values[0])];
      continue;
    }
    for (int& v : a.values) v = Value(v);
    if (a.kind == GraphArgument::kSize) a = SizeArgument(Mapped(a.size));
  }
  return arguments;
}

void GraphCopy::CopyNode(const GraphNode& node) {
  GraphBuilder::CallOptions options;
  for (int r = 0; r < int(node.results.size()); ++r) {
    const int v = node.results[std::size_t(r)];
    options.declined |= std::uint32_t(v < 0) << r;
    options.into.push_back(IsInto(node, r) ? Value(v) : -1);
  }
  std::vector<GraphArgument> arguments = Arguments(node);
  // Behind the arguments, which may copy views and then set the places of these.
  builder.SetPlace(node.place);
  SetResults(node, builder.Call(*node.op, std::move(arguments), options));
}

void GraphCopy::SetResults(const GraphNode& node, const std::vector<int>& copies) {
  const auto is_made = [&](int r) { return node.results[std::size_t(r)] >= 0 && !IsInto(node, r); };
  // Two results may have each other's names, as fusion leaves them: all step aside first.
  for (int r = 0; r < int(node.results.size()) && node.results.size() > 1; ++r) {
    if (is_made(r)) builder.Rename(copies[std::size_t(r)], builder.FreeName("renamed"));
  }
  for (int r = 0; r < int(node.results.size()); ++r) {
    const int v = node.results[std::size_t(r)];
    if (!is_made(r)) continue;
    builder.Rename(copies[std::size_t(r)], from_.value(v).name);
    SetValue(v, copies[std::size_t(r)]);
  }
}

std::string GraphCopy::FreeName(const std::string& name) const {
  const auto is_free = [&](const std::string& n) {
    const auto has_it = [&](const GraphValue& v) { return v.name == n; };
    return builder.FreeName(n) == n &&
           std::none_of(from_.values.begin(), from_.values.end(), has_it);
  };
  std::string free = name;
  for (int k = 2; !is_free(free); ++k) free = name + "_" + std::to_string(k);
  return free;
}

void GraphCopy::CopyOutputs() {
  for (const GraphOutput& o : from_.outputs) builder.Output(Value(o.value), o.name);
}

}  // namespace anyop
