// SPDX-License-Identifier: Apache-2.0
#include "graph/specialise/describe.h"

#include <algorithm>

#include "graph/ir/alias.h"
#include "graph/ir/text.h"
#include "graph/specialise/specialisation.h"
#include "platform/json.h"
#include "runtime/plan/frame.h"
#include "runtime/plan/make_plan.h"

namespace anyop {
namespace {

double MovedBytes(const Specialisation& s, const GraphNode& node) {
  double bytes = 0;
  const auto add = [&](int v) {
    if (v >= 0 && s.tensor_at[std::size_t(v)]) bytes += double(s.layouts[std::size_t(v)].bytes());
  };
  ForArguments(node, add);
  std::for_each(node.results.begin(), node.results.end(), add);
  return bytes;
}

class Describer {
 public:
  Describer(const Graph& graph, const Specialisation* at)
      : graph_(graph), at_(at), written_(graph.values.size()) {
    for (const GraphNode& node : graph.nodes) {
      for (const int v : WrittenValues(node)) written_[std::size_t(graph.Root(v))] = true;
    }
  }

  std::string Run() {
    json_.Begin('{').Key("values").Begin('[');
    for (int v = 0; v < int(graph_.values.size()); ++v) AddValue(v);
    json_.End(']').Key("nodes").Begin('[');
    const std::vector<NodeCost> costs = at_ ? NodeCosts(*at_) : std::vector<NodeCost>();
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      AddNode(graph_.nodes[i], at_ ? &costs[i] : nullptr);
    }
    json_.End(']').Key("outputs").Begin('[');
    for (const GraphOutput& o : graph_.outputs) {
      json_.Begin('{').Field("name", o.name).Number("value", o.value).End('}');
    }
    json_.End(']');
    if (at_) AddRegions();
    if (at_) AddMemory();
    json_.End('}');
    return json_.text();
  }

 private:
  void AddValue(int v) {
    static constexpr const char* kKinds[] = {"input",    "number", "state",
                                             "constant", "result", "view"};
    const GraphValue& value = graph_.value(v);
    json_.Begin('{').Field("name", value.name).Field("kind", kKinds[value.kind]);
    json_.Field("type", ShowType(graph_, v));
    if (value.kind == GraphValue::kView) {
      json_.Field("view", ShowView(graph_, value)).Number("of", graph_.Root(v));
    }
    if (value.is_frozen) json_.Flag("frozen", true);
    if (written_[std::size_t(v)]) json_.Flag("written", true);
    if (at_ && at_->tensor_at[std::size_t(v)]) {
      const Layout& layout = at_->layouts[std::size_t(v)];
      json_.Field("at", Show(TensorOf(layout, nullptr))).Number("bytes", layout.bytes());
    }
    json_.End('}');
  }

  void AddList(const char* key, const std::vector<int>& values) {
    json_.Key(key).Begin('[');
    for (const int v : values) json_.Number(v);
    json_.End(']');
  }

  void AddNode(const GraphNode& node, const NodeCost* cost) {
    std::vector<int> arguments, results;
    for (const GraphArgument& a : node.arguments) {
      arguments.insert(arguments.end(), a.values.begin(), a.values.end());
    }
    for (const int v : node.results) {
      if (v >= 0) results.push_back(v);
    }
    json_.Begin('{').Field("op", node.op->name).Field("call", ShowCall(graph_, node));
    json_.Field("place", node.place);
    AddList("arguments", arguments);
    AddList("results", results);
    AddList("written", WrittenValues(node));
    if (cost) {
      json_.Field("kernel", cost->kernel);
      json_.Number("flops", std::int64_t(cost->flops)).Number("bytes", std::int64_t(cost->bytes));
    }
    json_.End('}');
  }

  void AddRegions() {
    json_.Key("regions").Begin('[');
    for (const Region& r : at_->regions) {
      const auto node = [&](int call) { return at_->calls[std::size_t(call)].node; };
      json_.Begin('{').Number("first", node(r.first)).Number("last", node(r.last));
      json_.Number("rows", r.rows).Number("block", r.block).Number("threads", r.threads).End('}');
    }
    json_.End(']');
  }

  void AddMemory() {
    json_.Key("memory").Begin('{').Number("peak_bytes", at_->memory.peak_bytes);
    json_.Number("bound_bytes", at_->memory.bound_bytes);
    json_.Number("unshared_bytes", at_->unshared_bytes).Key("spans").Begin('[');
    for (const MemorySpan& m : MemorySpans(*at_)) {
      json_.Begin('{').Number("value", m.value).Number("offset", m.offset);
      json_.Number("bytes", m.bytes).Number("first", m.first).Number("last", m.last).End('}');
    }
    json_.End(']').End('}');
  }

  const Graph& graph_;
  const Specialisation* at_;
  std::vector<bool> written_;
  JsonWriter json_;
};

}  // namespace

std::vector<NodeCost> NodeCosts(const Specialisation& s) {
  const Graph& graph = *s.graph;
  std::vector<NodeCost> costs(graph.nodes.size());
  std::vector<const DLTensor*> lists;
  for (const PlannedCall& call : s.calls) {
    const GraphNode& node = graph.nodes[std::size_t(call.node)];
    const Plan& plan = *call.plan;
    anyop_value frame[kMaxParams + kMaxResults];
    lists.resize(ListElements(node) + 1);
    FillFrame({graph, s.symbols, s.tensor_at, s.scalars}, node, frame, lists.data());
    costs[std::size_t(call.node)] = {std::string(KernelName(plan)),
                                     ValueOf(plan.op->flops, plan, frame, 0),
                                     ValueOf(plan.op->bytes, plan, frame, MovedBytes(s, node))};
  }
  return costs;
}

std::vector<MemorySpan> MemorySpans(const Specialisation& s) {
  const Graph& graph = *s.graph;
  const int n = int(graph.nodes.size());
  std::vector<int> last(graph.values.size(), -1);
  for (int i = 0; i < n; ++i) {
    const auto use = [&](int v) { last[std::size_t(graph.Root(v))] = i; };
    ForArguments(graph.nodes[std::size_t(i)], use);
    for (const int v : graph.nodes[std::size_t(i)].results) {
      if (v >= 0) use(v);
    }
  }
  for (const GraphOutput& o : graph.outputs) last[std::size_t(graph.Root(o.value))] = n;
  std::vector<MemorySpan> spans;
  for (int v = 0; v < int(graph.values.size()); ++v) {
    const GraphValue& value = graph.value(v);
    const MemoryPlace& place = s.places[std::size_t(v)];
    if (value.kind == GraphValue::kView || place.kind != MemoryPlace::kArena) continue;
    const int first = value.kind == GraphValue::kResult ? value.node : -1;
    spans.push_back({v, place.offset, s.layouts[std::size_t(v)].bytes(), first,
                     std::max(first, last[std::size_t(v)])});
  }
  for (const PlannedCall& c : s.calls) {
    if (c.workspace < 0) continue;
    spans.push_back({-1, c.workspace, std::int64_t(c.plan->workspace_bytes), c.node, c.node});
  }
  for (const Region& r : s.regions) {
    if (r.memory < 0) continue;
    spans.push_back({-1, r.memory, r.thread_bytes * r.threads, s.calls[std::size_t(r.first)].node,
                     s.calls[std::size_t(r.last)].node});
  }
  return spans;
}

std::string DescribeGraph(const Graph& graph, const Specialisation* at) {
  return Describer(graph, at).Run();
}

}  // namespace anyop
