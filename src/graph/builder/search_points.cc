// SPDX-License-Identifier: Apache-2.0
// Finds more points when few of the first ones satisfy the graph: x[:k], for instance, needs k to
// be at most the dimension, and x[a:b] needs three sizes in their order.
#include <algorithm>
#include <numeric>
#include <random>

#include "graph/builder/points.h"
#include "platform/error.h"

namespace anyop {
namespace {

constexpr int kCandidates = 48, kEnough = 4;

// Distinct multiples of 128 in a random order, far and irregularly apart: a rule that asks for more
// than an order of the sizes is hardly met by chance.
void ChooseSizes(const Graph& graph, std::mt19937* random, std::vector<std::int64_t>* symbols) {
  std::vector<std::size_t> order(graph.symbols.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::shuffle(order.begin(), order.end(), *random);
  symbols->assign(order.size(), 0);
  std::int64_t size = 0;
  for (const std::size_t k : order) {
    if (graph.symbols[k].value != GraphSymbol::kFree) continue;
    size += 128 * std::int64_t(3 + (*random)() % 5000);
    (*symbols)[k] = size;
  }
}

}  // namespace

void GraphPoints::Rebuild(const Graph& graph, Point* point) const {
  std::size_t next = 0;  // node
  const auto infer_up_to = [&](std::size_t end) {
    for (; next < end; ++next) {
      point->tried.clear();
      Infer(graph, graph.nodes[next], point);
    }
  };
  for (int v = 0; v < int(graph.values.size()); ++v) {
    const GraphValue& value = graph.value(v);
    if (value.kind == GraphValue::kResult) {
      infer_up_to(std::size_t(value.node) + 1);
      AddLayout(point, v, point->tried[std::size_t(value.result)]);
    } else if (value.kind == GraphValue::kView) {
      AddLayout(point, v,
                Viewed(point->layouts[std::size_t(value.base)],
                       graph.views[std::size_t(value.view)], point->symbols));
    } else if (value.kind == GraphValue::kScalar) {
      AddScalarAt(graph, v, point);
    } else {
      AddTensorAt(graph, v, point);
    }
    for (std::size_t k = 0; k < graph.symbols.size(); ++k) {
      const GraphSymbol& s = graph.symbols[k];
      if (s.value == v) point->symbols[k] = point->layouts[std::size_t(v)].shape[s.dimension];
    }
  }
  infer_up_to(graph.nodes.size());
}

void GraphPoints::Search(const Graph& graph, const Attempt& f) {
  const auto is_free = [](const GraphSymbol& s) { return s.value == GraphSymbol::kFree; };
  // One symbol alone has no order.
  if (std::count_if(graph.symbols.begin(), graph.symbols.end(), is_free) < 2) return;
  // A seed that follows from the graph: one program gives one graph in every process.
  std::mt19937 random(unsigned(points_.size()));
  int found = 0;
  for (int k = 0; k < kCandidates && found < kEnough; ++k) {
    Point& point = points_.emplace_back();
    ChooseSizes(graph, &random, &point.symbols);
    try {
      Rebuild(graph, &point);
      point.tried.clear();
      f(point);
      ++found;
    } catch (const Error&) {
      points_.pop_back();
    }
  }
}

}  // namespace anyop
