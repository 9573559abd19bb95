// SPDX-License-Identifier: Apache-2.0
#include "graph/builder/points.h"

#include <algorithm>
#include <bit>
#include <exception>

#include "anyop/value.h"
#include "platform/error.h"
#include "runtime/registry/operator.h"
#include "signature/binding.h"
#include "signature/symbolic.h"

namespace anyop {
namespace {

constexpr int kLarge = 6, kSmall = 4;
constexpr int kFew = 4;  // points: with fewer, sizes are hardly told apart

// No two symbols are equal at two points: two that need not be equal are so at one point at most,
// and a call must be right at two. Large sizes are multiples of 128, which satisfies calls that
// ask for whole blocks; small ones satisfy upper limits.
std::int64_t SizeAt(int point, int symbol) {
  if (point < kLarge) return 128 * (3 + symbol * 5 + point * (7 + 2 * symbol) + point * point);
  switch (point - kLarge) {
    case 0:
      return symbol + 1;
    case 1:
      return 2 * symbol + 3;
    case 2:
      return 3 * symbol + 2;
    default:
      return symbol < 6 ? 7 - symbol : 2 + symbol;
  }
}

}  // namespace

GraphPoints::GraphPoints() : points_(kLarge + kSmall) {}

void GraphPoints::AddSymbol(const Graph& graph) {
  const int symbol = int(graph.symbols.size()) - 1;
  const GraphSymbol& s = graph.symbols.back();
  for (std::size_t p = 0; p < points_.size(); ++p) {
    Point& point = points_[p];
    const bool is_free = s.value < 0;
    point.symbols.push_back(is_free ? SizeAt(int(p), symbol)
                            : point.is_alive
                                ? point.layouts[std::size_t(s.value)].shape[s.dimension]
                                : 0);
  }
}

void GraphPoints::AddLayout(Point* point, int value, const Layout& layout) const {
  point->layouts.resize(std::size_t(value));
  point->tensors.resize(std::size_t(value));
  point->places.resize(std::size_t(value), nullptr);
  point->scalars.resize(std::size_t(value) + 1);
  point->layouts.push_back(layout);
  point->tensors.push_back(TensorOf(point->layouts.back(), nullptr));
  point->tensors.back().data = nullptr;
  point->places.push_back(&point->tensors.back());
}

void GraphPoints::AddTensorAt(const Graph& graph, int value, Point* point) const {
  const GraphValue& v = graph.value(value);
  Layout layout;
  if (!v.array.is_none()) {
    layout = LayoutOf(v.array.tensor());
  } else {
    std::vector<std::int64_t> shape;
    for (const Size& s : v.shape) shape.push_back(std::max<std::int64_t>(s.At(point->symbols), 0));
    layout = ContiguousLayout(v.dtype, shape);
  }
  AddLayout(point, value, layout);
}

void GraphPoints::AddTensor(const Graph& graph, int value) {
  std::exception_ptr why;
  for (Point& point : points_) {
    try {
      AddTensorAt(graph, value, &point);
    } catch (const Error&) {  // a shape of five large sizes is more bytes than 63 bits hold
      if (!why) why = std::current_exception();
      AddLayout(&point, value, {});
      point.is_alive = false;
    }
  }
  if (alive() < 2) std::rethrow_exception(why);
}

void GraphPoints::AddScalarAt(const Graph& graph, int value, Point* point) const {
  const GraphValue& v = graph.value(value);
  AddLayout(point, value, {});
  point->places.back() = nullptr;
  point->scalars[std::size_t(value)] = v.scalar == ParamKind::kInt
                                           ? IntValue(point->symbols[std::size_t(v.symbol)])
                                       : v.scalar == ParamKind::kFloat ? FloatValue(0)
                                                                       : BoolValue(false);
}

void GraphPoints::AddScalar(const Graph& graph, int value) {
  for (Point& point : points_) AddScalarAt(graph, value, &point);
}

std::string GraphPoints::Try(const Graph& graph, const Attempt& f) {
  int right = 0;
  const Point* wrong = nullptr;
  for (Point& point : points_) {
    point.error.clear();
    if (!point.is_alive) continue;
    point.tried.clear();
    try {
      f(point);
      ++right;
    } catch (const Error& e) {
      point.error = e.what();
      if (!wrong) wrong = &point;
    }
  }
  if (wrong && right < kFew) {
    const std::size_t before = points_.size();
    Search(graph, f);
    right += int(points_.size() - before);
  }
  // At a single point a rule may hold by chance.
  if (right < 2) {
    std::string with;
    for (std::size_t i = 0; i < graph.symbols.size(); ++i) {
      if (graph.symbols[i].value >= 0) continue;
      with += (with.empty() ? "" : ", ") + graph.symbols[i].name + " = " +
              std::to_string(wrong->symbols[i]);
    }
    return wrong->error + (with.empty() ? "" : "\n  tried with " + with);
  }
  for (Point& point : points_) point.is_alive = point.is_alive && point.error.empty();
  return "";
}

std::string GraphPoints::TryView(const Graph& graph, int base, const GraphView& view) {
  return Try(graph, [&](Point& p) {
    p.tried.push_back(Viewed(p.layouts[std::size_t(base)], view, p.symbols));
  });
}

void GraphPoints::Infer(const Graph& graph, const GraphNode& node, Point* p) const {
  const Operator& op = *node.op;
  std::vector<const DLTensor*> lists(ListElements(node) + 1);
  anyop_value frame[kMaxParams + kMaxResults];
  FillFrame({graph, p->symbols, p->places, p->scalars}, node, frame, lists.data());
  Bindings bindings;
  ResultShape results[kMaxResults];
  std::string error;
  const int form = Check(*op.contract, frame, &bindings, &error, ScalarParams(graph, node));
  if (form < 0 || !InferResults(*op.contract, form, bindings, frame, results, &error)) {
    Fail(ANYOP_INVALID_ARGUMENT, op.display_name() + ": " + error);
  }
  for (int r = 0; r < op.n_results; ++r) {
    const ResultShape& s = results[r];
    p->tried.push_back(ContiguousLayout(s.dtype, {s.shape, std::size_t(s.rank)}));
  }
}

bool GraphPoints::FillSymbolic(const Graph& graph, const GraphNode& node, anyop_value* frame,
                               std::vector<const DLTensor*>* lists) {
  numbers_.Forget(n_numbers_);
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
  n_numbers_ = numbers_.size();
  lists->resize(ListElements(node) + 1);
  FillFrame({graph, {}, places_, scalars_, &numbers_}, node, frame, lists->data());
  return std::all_of(node.arguments.begin(), node.arguments.end(), [](const GraphArgument& a) {
    const auto is_symbol = [](double f) { return IsSymbol(std::bit_cast<std::int64_t>(f)); };
    return !IsSymbol(a.i) && !is_symbol(a.f) &&
           std::none_of(a.ints.begin(), a.ints.end(), IsSymbol) &&
           std::none_of(a.floats.begin(), a.floats.end(), is_symbol);
  });
}

bool GraphPoints::Prove(const Graph& graph, const GraphNode& node) {
  inferred_.clear();
  const Operator& op = *node.op;
  anyop_value frame[kMaxParams + kMaxResults];
  std::vector<const DLTensor*> lists;
  ResultShape results[kMaxResults];
  std::string error;
  bool is_sure = true;
  try {
    if (!FillSymbolic(graph, node, frame, &lists)) return false;
    if (InferPartial(*op.contract, frame, ScalarParams(graph, node), results, &error, &numbers_) <
        0) {
      return false;
    }
  } catch (const Error&) {  // a size beyond 63 bits, or of more terms than a polynomial may have
    return false;
  }
  for (int r = 0; r < op.n_results; ++r) {
    InferredResult& result = inferred_.emplace_back();
    result.dtype = results[r].dtype;
    for (int k = 0; k < results[r].rank; ++k) {
      const std::int64_t bits = results[r].shape[k];
      std::optional<Size>& size = result.shape.emplace_back();
      if (bits == -1) continue;
      Number n = Int(bits);
      if (IsSymbol(bits)) n.known = false, n.symbol = SymbolOf(bits);
      size = numbers_.ToSize(n);
    }
  }
  for (const InferredResult& result : inferred_) {
    for (const auto& size : result.shape) is_sure &= size && numbers_.IsAtLeast(*size, 0);
  }
  return is_sure && numbers_.is_sure();
}

// Where sizes are more than polynomials hold: the dtypes and ranks that a point has found, and no
// size, so that each gets a symbol of its own.
void GraphPoints::InferFromTried() {
  const auto alive =
      std::find_if(points_.begin(), points_.end(), [](const Point& p) { return p.is_alive; });
  for (const Layout& l : alive->tried) {
    inferred_.push_back({l.dtype, std::vector<std::optional<Size>>(std::size_t(l.rank))});
  }
}

std::string GraphPoints::TryNode(const Graph& graph, const GraphNode& node) {
  const bool is_right = Prove(graph, node);
  if (!is_right) {
    const std::string error = Try(graph, [&](Point& p) { Infer(graph, node, &p); });
    if (error.empty() && inferred_.empty()) InferFromTried();
    return error;
  }
  return Try(graph, [&](Point& p) {
    for (const InferredResult& r : inferred_) {
      std::vector<std::int64_t> shape;
      for (const auto& size : r.shape) shape.push_back(size->At(p.symbols));
      p.tried.push_back(ContiguousLayout(r.dtype, shape));
    }
  });
}

void GraphPoints::AddTried(const Graph&, int value, int result) {
  for (Point& p : points_) {
    AddLayout(&p, value, p.is_alive ? p.tried[std::size_t(result)] : Layout{});
  }
}

bool GraphPoints::Holds(const Graph& graph, const Contract& contract, const GraphNode& node,
                        const std::function<bool(const Tried&)>& f) const {
  std::vector<const DLTensor*> lists(ListElements(node) + 1);
  for (const Point& p : points_) {
    if (!p.is_alive) continue;
    anyop_value frame[kMaxParams + kMaxResults];
    const FrameSource source{graph, p.symbols, p.places, p.scalars};
    FillFrame(source, node, frame, lists.data());
    Bindings bindings;
    std::string error;
    const int form = Check(contract, frame, &bindings, &error, ScalarParams(graph, node));
    if (form < 0 || !f({source, form, bindings, frame})) return false;
  }
  return true;
}

int GraphPoints::alive() const {
  return int(
      std::count_if(points_.begin(), points_.end(), [](const Point& p) { return p.is_alive; }));
}

bool GraphPoints::Evaluate(const Graph& graph, const Contract& contract, const GraphNode& node,
                           const Expression& expression, Size* size) {
  anyop_value frame[kMaxParams + kMaxResults];
  std::vector<const DLTensor*> lists;
  if (!FillSymbolic(graph, node, frame, &lists)) return false;
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
