// SPDX-License-Identifier: Apache-2.0
// Calls whose arguments are known when the graph is compiled run then, once: casts and packing of
// weights, tables of angles. A node with `.prepack` becomes the statements of that where the first
// one, which packs frozen weights, can run now.
#include <algorithm>
#include <optional>

#include "graph/builder/copy_graph.h"
#include "graph/ir/alias.h"
#include "graph/ir/frame.h"
#include "graph/passes/passes.h"
#include "graph/replay/run_once.h"
#include "platform/error.h"
#include "runtime/registry/composition.h"
#include "runtime/registry/operator.h"
#include "runtime/run/follow_composition.h"

namespace anyop {
namespace {

bool IsKnown(const Graph& graph, int value) {
  const GraphValue& root = graph.value(graph.Root(value));
  // Folding runs on the host, which does not read memory of a device.
  if (!root.array.is_none() && !root.array.device().is_host()) return false;
  return root.kind == GraphValue::kConstant || root.is_frozen;
}

// Whether every argument is known now and nothing is changed.
bool CanFold(const Graph& graph, const GraphNode& node) {
  if (!WrittenValues(node).empty() || node.results.empty()) return false;
  bool is_known = true;
  for (const GraphArgument& a : node.arguments) {
    is_known &= a.kind != GraphArgument::kSize;  // which only a call knows
    for (const int v : a.values) is_known &= IsKnown(graph, v);
  }
  return is_known;
}

// Whether a node has no tensor but the graph's own constants. Then its results are constants, too,
// which are copied to the device where the graph runs; state is bound to where its memory lies.
bool IsOfConstants(const Graph& graph, const GraphNode& node) {
  return std::ranges::all_of(node.arguments, [&](const GraphArgument& a) {
    return std::ranges::all_of(
        a.values, [&](int v) { return graph.value(graph.Root(v)).kind == GraphValue::kConstant; });
  });
}

// Runs a node now, in a graph of its own. Throws the operator's errors.
std::vector<Array> Fold(const Graph& graph, const GraphNode& node) {
  GraphCopy copy(graph);
  GraphBuilder::CallOptions options;
  for (std::size_t r = 0; r < node.results.size(); ++r) {
    options.declined |= std::uint32_t(node.results[r] < 0) << r;
  }
  const std::vector<int> results = copy.builder.Call(*node.op, copy.Arguments(node), options);
  for (const int v : results) {
    if (v >= 0) copy.builder.Output(v);
  }
  return RunOnce(copy.builder.Finish());
}

// The statements of one node's .prepack, called in the copied graph. Those whose conditions are not
// true are left out.
class Prepacker : public CompositionFollower<GraphArgument> {
 public:
  // node: with the copy's values as arguments.
  Prepacker(GraphCopy* copy, const GraphNode& node, const Contract& contract,
            const Composition& composition)
      : CompositionFollower(*node.op, composition),
        copy_(*copy),
        builder_(copy->builder),
        node_(node),
        contract_(contract) {}

  // The results of the node, or nothing where it stays as it is: no statement runs now, or one does
  // not take these arguments, or a result is of another type.
  std::optional<std::vector<int>> Run() {
    try {
      const auto& all = composition_.statements;
      const auto first =
          std::find_if(all.begin(), all.end(), [&](const Statement& s) { return Holds(s); });
      if (first == all.end() || !IsKnownNow(*first) || !Follow()) return std::nullopt;
    } catch (const Error&) {
      return std::nullopt;
    }
    std::vector<int> results;
    for (const GraphArgument& a : results_) results.push_back(IsNone(a) ? -1 : a.values[0]);
    return results;
  }

 private:
  bool Holds(const Statement& s) const {
    return std::all_of(s.conditions.begin(), s.conditions.end(), [&](const Expression& condition) {
      const GraphArgument value = builder_.Evaluated(contract_, node_, condition);
      return value.kind == GraphArgument::kInt && value.i != 0;
    });
  }
  // Before anything is made: whether the tensors of the first statement are known.
  bool IsKnownNow(const Statement& first) const {
    bool has_tensor = false, is_known = true;
    for (const StatementArgument& a : first.arguments) {
      if (a.kind != StatementArgument::kParameter) continue;
      for (const int v : node_.arguments[std::size_t(a.index)].values) {
        has_tensor = true;
        is_known &= IsKnown(builder_.graph(), v);
      }
    }
    return has_tensor && is_known;
  }

  bool FollowStatement(const Statement& s) override {
    return !Holds(s) || CompositionFollower::FollowStatement(s);
  }
  bool VisitCall(const Statement& s, Operator& inner, std::vector<Given> given) override {
    GraphNode call{&inner, {}, {}, 0, node_.place};
    for (Given& g : given) call.arguments.push_back(std::move(g.value));
    call.results.assign(std::size_t(inner.n_results), 0);
    builder_.SetPlace(node_.place);
    std::vector<int> made;
    if (CanFold(builder_.graph(), call)) {
      for (const Array& a : Fold(builder_.graph(), call)) {
        made.push_back(builder_.State(copy_.FreeName("packed"), a, true));
        if (IsOfConstants(builder_.graph(), call)) builder_.MakeConstant(made.back());
      }
    } else {
      made = builder_.Call(inner, call.arguments);
    }
    for (std::size_t r = 0; r < s.results.size(); ++r) {
      Assign(s.results[r], made[r] < 0 ? GraphArgument{} : ValueArgument(made[r]));
    }
    return true;
  }

  GraphArgument Parameter(int i) const override { return node_.arguments[std::size_t(i)]; }
  GraphArgument Computed(const StatementArgument& a) const override {
    if (a.kind == StatementArgument::kExpression) {
      return builder_.Evaluated(contract_, node_, a.expression);
    }
    Fail(ANYOP_INTERNAL, op_.Message(".prepack uses a dtype variable."));
  }
  GraphArgument Literal(DType dtype) const override { return DTypeArgument(dtype); }
  GraphArgument Literal(std::string_view word) const override { return WordArgument(word); }
  GraphArgument Literal(const std::vector<std::int64_t>& list) const override {
    return IntsArgument(list);
  }
  bool Default(const Operator& inner, int i, GraphArgument* a) const override {
    *a = builder_.Default(inner, i);
    return true;
  }
  bool IsNone(const GraphArgument& a) const override { return a.kind == GraphArgument::kNone; }

  const GraphCopy& copy_;
  GraphBuilder& builder_;
  const GraphNode& node_;
  const Contract& contract_;
};

// The results of a node's .prepack in the copied graph; nothing where the node stays as it is.
std::optional<std::vector<int>> Prepacked(GraphCopy* copy, const GraphNode& node) {
  GraphNode copied = node;
  copied.arguments = copy->Arguments(node);
  // A contract of its own, because parsing adds the expressions of .prepack to it.
  const auto contract = ParseContract(node.op->data->signature);
  const std::vector<Composition> compositions =
      ParseCompositions(*contract, node.op->data->prepack, CompositionField::kPrepack);
  if (compositions.size() != 1) return std::nullopt;  // one for all forms
  return Prepacker(copy, copied, *contract, compositions[0]).Run();
}

class Folder {
 public:
  explicit Folder(Graph* graph) : graph_(*graph), copy_(*graph) {}

  void Run() {
    copy_.CopyInputs();
    for (const GraphNode& node : graph_.nodes) {
      if (!FoldNode(node) && !PrepackNode(node)) copy_.CopyNode(node);
    }
    copy_.CopyOutputs();
    graph_ = copy_.builder.Finish();
  }

 private:
  bool FoldNode(const GraphNode& node) {
    GraphNode copied = node;
    copied.arguments = copy_.Arguments(node);
    const Graph& now = copy_.builder.graph();
    if (!CanFold(now, copied) || IsWrittenLater(node)) return false;
    std::vector<Array> arrays;
    try {
      arrays = Fold(now, copied);
    } catch (const Error&) {
      return false;  // the node stays, and fails with its place when it is reached
    }
    std::vector<int> made;
    std::size_t next = 0;
    for (const int v : node.results) {
      made.push_back(v < 0 ? -1
                           : copy_.builder.State(copy_.builder.FreeName(graph_.value(v).name),
                                                 arrays[next++], true));
    }
    for (const int id : made) {
      if (id >= 0 && IsOfConstants(now, copied)) copy_.builder.MakeConstant(id);
    }
    copy_.SetResults(node, made);
    return true;
  }

  bool PrepackNode(const GraphNode& node) {
    if (!*node.op->data->prepack || !WrittenValues(node).empty()) return false;
    const auto results = Prepacked(&copy_, node);
    if (!results) return false;
    for (std::size_t r = 0; r < node.results.size(); ++r) {
      const int old = node.results[r], made = (*results)[r];
      if (old >= 0 &&
          (made < 0 || ShowType(copy_.builder.graph(), made) != ShowType(graph_, old))) {
        return false;  // nodes that were made have no use, and the next passes remove them
      }
    }
    copy_.SetResults(node, *results);
    return true;
  }

  bool IsWrittenLater(const GraphNode& node) {
    if (is_written_.empty()) is_written_ = WrittenRoots(graph_);
    return std::any_of(node.results.begin(), node.results.end(),
                       [&](int v) { return v >= 0 && is_written_[std::size_t(v)]; });
  }

  Graph& graph_;
  GraphCopy copy_;
  std::vector<bool> is_written_;
};

}  // namespace

void FoldKnown(Graph* graph) {
  const bool is_useful = std::any_of(
      graph->nodes.begin(), graph->nodes.end(),
      [&](const GraphNode& node) { return CanFold(*graph, node) || *node.op->data->prepack; });
  if (is_useful) Folder(graph).Run();
}

}  // namespace anyop
