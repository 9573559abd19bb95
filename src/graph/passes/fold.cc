// SPDX-License-Identifier: Apache-2.0
// Calls whose arguments are known when the graph is compiled run then, once: casts and packing of
// weights, tables of angles. Nodes with `.prepack` become its statements where those over frozen
// weights can run now.
#include <algorithm>
#include <optional>

#include "graph/builder/copy_graph.h"
#include "graph/ir/alias.h"
#include "graph/ir/frame.h"
#include "graph/passes/passes.h"
#include "graph/replay/run_once.h"
#include "platform/error.h"
#include "runtime/composition.h"
#include "runtime/operator.h"
#include "runtime/registry.h"

namespace anyop {
namespace {

bool IsKnown(const Graph& graph, int value) {
  const GraphValue& root = graph.value(graph.Root(value));
  if (!root.array.is_none() && !root.array.device().is_host()) return false;  // it is not read here
  return root.kind == GraphValue::kConstant || root.is_frozen;
}

// Whether every argument is known now and nothing is changed.
bool CanFold(const Graph& graph, const GraphNode& node) {
  if (!WrittenValues(node).empty() || node.results.empty()) return false;
  bool is_known = true;
  for (const GraphArgument& a : node.arguments) {
    is_known &= a.kind != GraphArgument::kSize;
    for (const int v : a.values) is_known &= IsKnown(graph, v);
  }
  return is_known;
}

// Runs a node now. Throws what it throws.
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

// The statements of one node's .prepack, called in the copied graph.
class Prepacker {
 public:
  Prepacker(GraphCopy* copy, const GraphNode& node)
      : copy_(*copy), builder_(copy->builder), node_(node) {
    node_.arguments = copy->Arguments(node);
    contract_ = ParseContract(node.op->data->signature);
    compositions_ =
        ParseCompositions(*contract_, node.op->data->prepack, CompositionField::kPrepack);
  }

  // The results of the node, or nothing where it stays as it is: no statement runs now, or one does
  // not take these arguments, or a result is of another type. Statements whose conditions are not
  // true are left out.
  std::optional<std::vector<int>> Run() {
    if (compositions_.empty()) return std::nullopt;
    const Composition& composition = compositions_[0];  // one for all forms
    results_.assign(node_.results.size(), -1);
    locals_.assign(composition.locals.size(), -1);
    try {
      std::vector<const Statement*> statements;
      for (const Statement& s : composition.statements) {
        if (Holds(s)) statements.push_back(&s);
      }
      if (statements.empty() || !IsKnownNow(*statements[0])) return std::nullopt;
      for (const Statement* s : statements) Call(*s);
    } catch (const Error&) {
      return std::nullopt;
    }
    return results_;
  }

 private:
  bool Holds(const Statement& s) const {
    return std::all_of(s.conditions.begin(), s.conditions.end(), [&](const Expression& condition) {
      const GraphArgument value = builder_.Evaluated(*contract_, node_, condition);
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
    return has_tensor && is_known && compositions_.size() == 1;
  }

  GraphArgument Argument(const StatementArgument& a) {
    switch (a.kind) {
      case StatementArgument::kParameter:
        return node_.arguments[std::size_t(a.index)];
      case StatementArgument::kResult:
        return ValueArgument(results_[std::size_t(a.index)]);
      case StatementArgument::kLocal:
        return ValueArgument(locals_[std::size_t(a.index)]);
      case StatementArgument::kExpression:
        return builder_.Evaluated(*contract_, node_, a.expression);
      case StatementArgument::kDType:
        return DTypeArgument(DType(a.index));
      case StatementArgument::kWord:
        return WordArgument(std::string_view(a.text).substr(1, a.text.size() - 2));
      case StatementArgument::kList:
        return IntsArgument(a.list);
      case StatementArgument::kNone:
        return {};
      default:
        Fail(ANYOP_INTERNAL, node_.op->display_name() + ": .prepack uses a dtype variable.");
    }
  }

  void Call(const Statement& s) {
    const std::string own = node_.op->library + "." + s.op;
    Operator& op = *Find(s.op.find('.') == s.op.npos && FindRegistered(own) ? own : s.op);
    GraphNode call{&op, {}, {}, 0, node_.place};
    std::vector<bool> given(std::size_t(op.n_params));
    call.arguments.resize(given.size());
    for (std::size_t k = 0; k < s.arguments.size(); ++k) {
      const StatementArgument& a = s.arguments[k];
      const std::size_t i = a.keyword.empty() ? k : std::size_t(op.contract->param(a.keyword));
      if (i >= given.size()) Fail(ANYOP_INTERNAL, op.name + ": .prepack gives what it lacks.");
      call.arguments[i] = Argument(a);
      given[i] = true;
    }
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (!given[i]) call.arguments[i] = builder_.Default(op, int(i));
    }
    call.results.assign(std::size_t(op.n_results), 0);
    builder_.SetPlace(node_.place);
    std::vector<int> made;
    if (CanFold(builder_.graph(), call)) {
      for (const Array& a : Fold(builder_.graph(), call)) {
        made.push_back(builder_.State(copy_.FreeName("packed"), a, true));
      }
    } else {
      made = builder_.Call(op, call.arguments);
    }
    for (std::size_t r = 0; r < s.results.size(); ++r) {
      const StatementResult& to = s.results[r];
      (to.is_result ? results_ : locals_)[std::size_t(to.index)] = made[r];
    }
  }

  const GraphCopy& copy_;
  GraphBuilder& builder_;
  GraphNode node_;                      // with the copy's values as arguments
  std::unique_ptr<Contract> contract_;  // of its own: expressions add to it
  std::vector<Composition> compositions_;
  std::vector<int> results_, locals_;
};

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
      return false;  // it will say so when it runs
    }
    std::vector<int> made;
    std::size_t next = 0;
    for (const int v : node.results) {
      made.push_back(v < 0 ? -1
                           : copy_.builder.State(copy_.builder.FreeName(graph_.value(v).name),
                                                 arrays[next++], true));
    }
    copy_.SetResults(node, made);
    return true;
  }

  bool PrepackNode(const GraphNode& node) {
    if (!*node.op->data->prepack || !WrittenValues(node).empty()) return false;
    const auto results = Prepacker(&copy_, node).Run();
    if (!results) return false;
    for (std::size_t r = 0; r < node.results.size(); ++r) {
      const int old = node.results[r], made = (*results)[r];
      if (old >= 0 &&
          (made < 0 || ShowType(copy_.builder.graph(), made) != ShowType(graph_, old))) {
        return false;  // what was made is dead
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
