// SPDX-License-Identifier: Apache-2.0
#include "graph/builder/builder.h"

#include <algorithm>

#include "graph/builder/points.h"
#include "graph/ir/size_text.h"
#include "platform/error.h"
#include "runtime/registry/operator.h"
#include "signature/check.h"
#include "signature/defaults.h"

namespace anyop {

GraphBuilder::GraphBuilder()
    : proof_(std::make_unique<GraphProof>()), points_(std::make_unique<GraphPoints>()) {}
GraphBuilder::~GraphBuilder() = default;

void GraphBuilder::Refuse(const std::string& text) const {
  Fail(ANYOP_INVALID_ARGUMENT, place_.empty() ? text : text + "\n  at " + place_);
}

std::vector<std::string> GraphBuilder::symbol_names() const {
  std::vector<std::string> names;
  for (const GraphSymbol& s : graph_.symbols) names.push_back(s.name);
  return names;
}

int GraphBuilder::NewSymbol(std::string name, int value, int dimension) {
  const int symbol = int(graph_.symbols.size());
  while (!symbols_.emplace(name, symbol).second) name += "_";
  graph_.symbols.push_back({std::move(name), value, dimension});
  if (value >= 0) sizes_of_[value].push_back(symbol);
  points_->AddSymbol(graph_);
  return symbol;
}

int GraphBuilder::FindSymbol(std::string_view name) const {
  const auto found = symbols_.find(name);
  return found == symbols_.end() ? -1 : found->second;
}

Size GraphBuilder::Symbol(std::string_view name) {
  if (!IsGraphName(name)) {
    Refuse("a symbol cannot be called '" + std::string(name) +
           "': a name is made of letters, digits and _, and begins with no digit.");
  }
  const int known = FindSymbol(name);
  return Size::Symbol(known >= 0 ? known : NewSymbol(std::string(name), -1, -1));
}

Size GraphBuilder::ParseSize(std::string_view text) {
  try {
    SizeParser parser{{text}, [this](std::string_view name) { return Symbol(name); }};
    const Size size = parser.Sum();
    parser.End();
    return size;
  } catch (const SignatureError& e) {
    Refuse("size, " + PointAt(text, e));
  }
}

int GraphBuilder::Add(GraphValue value, std::string_view name) {
  if (!name.empty() && !IsGraphName(name)) {
    Refuse("a value cannot be called '" + std::string(name) +
           "': a name is made of letters, digits and _, and begins with no digit.");
  }
  value.name = name;
  // Inputs, states and constants are named by the user, so that two of one name are a mistake;
  // results and views get a free name instead.
  const bool is_given = !name.empty() && value.kind < GraphValue::kResult;
  if (is_given && names_.contains(name)) {
    Refuse("two values of the graph are called " + std::string(name) + ".");
  }
  for (int k = int(graph_.values.size()); value.name.empty() || names_.contains(value.name); ++k) {
    value.name = (name.empty() ? "v" : std::string(name) + "_") + std::to_string(k);
  }
  const int id = int(graph_.values.size());
  names_.emplace(value.name, id);
  graph_.values.push_back(std::move(value));
  return id;
}

std::string GraphBuilder::FreeName(std::string_view name) const {
  std::string free(name);
  for (int k = 2; names_.contains(free); ++k) free = std::string(name) + "_" + std::to_string(k);
  return free;
}

int GraphBuilder::Input(std::string_view name, DType dtype, std::vector<Size> shape) {
  if (shape.size() > std::size_t(kMaxRank)) {
    Refuse(std::string(name) + " has " + std::to_string(shape.size()) +
           " dimensions, but at most " + std::to_string(kMaxRank) + " are possible.");
  }
  GraphValue v;
  v.kind = GraphValue::kInput;
  v.dtype = dtype;
  v.shape = std::move(shape);
  const int id = Add(std::move(v), name);
  points_->AddTensor(graph_, id);
  graph_.inputs.push_back(id);
  return id;
}

int GraphBuilder::Input(std::string_view name, std::string_view type) {
  try {
    SizeParser parser{{type}, [this](std::string_view symbol) { return Symbol(symbol); }};
    const DType dtype = DType(parser.lexer.DType());
    std::vector<Size> shape = parser.Shape();
    parser.End();
    return Input(name, dtype, std::move(shape));
  } catch (const SignatureError& e) {
    Refuse("the type of " + std::string(name) + ", " + PointAt(type, e));
  }
}

int GraphBuilder::Scalar(std::string_view name, ParamKind kind) {
  if (kind != ParamKind::kInt && kind != ParamKind::kFloat && kind != ParamKind::kBool) {
    Refuse(std::string(name) + " must be an int, a float or a bool, or be part of the graph.");
  }
  GraphValue v;
  v.kind = GraphValue::kScalar;
  v.scalar = kind;
  if (kind == ParamKind::kInt) v.symbol = Symbol(name).symbol();
  const int id = Add(std::move(v), name);
  points_->AddScalar(graph_, id);
  graph_.inputs.push_back(id);
  return id;
}

int GraphBuilder::State(std::string_view name, const Array& array, bool is_frozen) {
  if (array.is_none()) Refuse(std::string(name) + " is no tensor, but must be one.");
  GraphValue v;
  v.kind = GraphValue::kState;
  v.dtype = array.dtype();
  v.shape.assign(array.shape().begin(), array.shape().end());
  v.is_frozen = is_frozen;
  v.array = array;
  const int id = Add(std::move(v), name);
  points_->AddTensor(graph_, id);
  return id;
}

int GraphBuilder::Constant(std::string_view name, const Array& array) {
  const int id = State(name, array.Clone());
  MakeConstant(id);
  return id;
}

void GraphBuilder::Rename(int value, std::string_view name) {
  std::string& current = graph_.value(value).name;
  if (current == name || names_.contains(name)) return;
  if (const auto sizes = sizes_of_.find(value); sizes != sizes_of_.end()) {
    // Symbols that are sizes of this value bear its name: "y_0".
    for (const int k : sizes->second) {
      GraphSymbol& s = graph_.symbols[std::size_t(k)];
      symbols_.erase(s.name);
      s.name = std::string(name) + "_" + std::to_string(s.dimension);
      while (!symbols_.emplace(s.name, k).second) s.name += "_";
    }
  }
  names_.erase(current);
  current = name;
  names_.emplace(current, value);
}

void GraphBuilder::CheckValue(int value, const char* what) const {
  if (value < 0 || value >= int(graph_.values.size())) {
    Refuse(std::string(what) + " is no value of this graph.");
  }
}

void GraphBuilder::CheckDimension(int value, int dimension) const {
  CheckValue(value, "the base of a view");
  const GraphValue& v = graph_.value(value);
  if (v.kind == GraphValue::kScalar || dimension < 0 || dimension >= int(v.shape.size())) {
    Refuse(v.name + " is " + ShowType(graph_, value) + " and has no dimension " +
           std::to_string(dimension) + ".");
  }
}

int GraphBuilder::Slice(int value, int dimension, const Size& begin, const Size& end) {
  CheckDimension(value, dimension);
  GraphView view;
  view.a = dimension;
  view.begin = begin;
  view.end = end;
  return AddView(value, std::move(view));
}

int GraphBuilder::Reshape(int value, std::vector<Size> shape) {
  CheckValue(value, "the base of a view");
  if (shape.size() > std::size_t(kMaxRank) || graph_.value(value).kind == GraphValue::kScalar) {
    Refuse(graph_.value(value).name + " is " + ShowType(graph_, value) +
           " and cannot be seen with " + std::to_string(shape.size()) + " dimensions.");
  }
  GraphView view;
  view.kind = GraphView::kReshape;
  view.shape = std::move(shape);
  return AddView(value, std::move(view));
}

int GraphBuilder::Transpose(int value, int a, int b) {
  CheckDimension(value, a);
  CheckDimension(value, b);
  GraphView view;
  view.kind = GraphView::kTranspose;
  view.a = a;
  view.b = b;
  return AddView(value, std::move(view));
}

int GraphBuilder::AddView(int base, GraphView view) {
  // A view is resolved by recursion through all views below it: a text with views of views
  // without end would take the whole stack.
  int depth = 0;
  for (int v = base; graph_.value(v).kind == GraphValue::kView; v = graph_.value(v).base) {
    if (++depth == kMostViews) {
      Refuse(graph_.value(base).name + " is already a view of views, " +
             std::to_string(kMostViews) + " deep. Try a view of the tensor itself.");
    }
  }
  GraphValue v;
  v.kind = GraphValue::kView;
  v.dtype = graph_.value(base).dtype;
  v.base = base;
  v.view = int(graph_.views.size());
  v.place = place_;
  const std::string error = points_->TryView(graph_, base, view);
  if (!error.empty()) Refuse(graph_.value(base).name + ": " + error);
  const std::vector<Size>& from = graph_.value(base).shape;
  v.shape = view.kind == GraphView::kReshape ? view.shape : from;
  if (view.kind == GraphView::kSlice) v.shape[std::size_t(view.a)] = view.end - view.begin;
  if (view.kind == GraphView::kTranspose) {
    std::swap(v.shape[std::size_t(view.a)], v.shape[std::size_t(view.b)]);
  }
  graph_.views.push_back(std::move(view));
  const int id = Add(std::move(v), "");
  points_->AddTried(graph_, id, 0);
  return id;
}

void GraphBuilder::Output(int value, std::string_view name) {
  CheckValue(value, "an output");
  if (graph_.value(value).kind == GraphValue::kScalar) {
    Refuse(graph_.value(value).name + " is a number, but an output must be a tensor.");
  }
  graph_.outputs.push_back({std::string(name.empty() ? graph_.value(value).name : name), value});
}

Graph GraphBuilder::Finish() {
  Graph done = std::move(graph_);
  graph_ = {};
  names_.clear();
  symbols_.clear();
  sizes_of_.clear();
  proof_ = std::make_unique<GraphProof>();
  points_ = std::make_unique<GraphPoints>();
  return done;
}

}  // namespace anyop
