// SPDX-License-Identifier: Apache-2.0
#include "graph/builder/points.h"

#include <algorithm>
#include <exception>

#include "anyop/value.h"
#include "platform/error.h"
#include "runtime/registry/operator.h"
#include "signature/binding.h"

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
    Fail(ANYOP_INVALID_ARGUMENT, op.Message(error));
  }
  for (int r = 0; r < op.n_results; ++r) {
    const ResultShape& s = results[r];
    p->tried.push_back(ContiguousLayout(s.dtype, {s.shape, std::size_t(s.rank)}));
  }
}

std::string GraphPoints::TryNode(const Graph& graph, const GraphNode& node) {
  return Try(graph, [&](Point& p) { Infer(graph, node, &p); });
}

std::string GraphPoints::TryProven(const Graph& graph, const std::vector<InferredResult>& results) {
  return Try(graph, [&](Point& p) {
    for (const InferredResult& r : results) {
      std::vector<std::int64_t> shape;
      for (const auto& size : r.shape) shape.push_back(size->At(p.symbols));
      p.tried.push_back(ContiguousLayout(r.dtype, shape));
    }
  });
}

std::vector<InferredResult> GraphPoints::TriedResults() const {
  const auto alive =
      std::find_if(points_.begin(), points_.end(), [](const Point& p) { return p.is_alive; });
  std::vector<InferredResult> results;
  for (const Layout& l : alive->tried) {
    results.push_back({l.dtype, std::vector<std::optional<Size>>(std::size_t(l.rank))});
  }
  return results;
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

}  // namespace anyop
