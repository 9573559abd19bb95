// SPDX-License-Identifier: Apache-2.0
#include "graph/ir/text.h"
#include "runtime/registry/operator.h"

namespace anyop {
namespace {

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph), is_printed_(graph.values.size()) {}

  std::string Run() {
    for (const int v : graph_.inputs) Declare(v, "input");
    for (int v = 0; v < int(graph_.values.size()); ++v) {
      const GraphValue& value = graph_.value(v);
      if (value.kind == GraphValue::kConstant) Declare(v, "constant");
      if (value.kind == GraphValue::kState) Declare(v, value.is_frozen ? "frozen" : "state");
    }
    // A view comes right before its first use, so also before a node that writes a result into it.
    for (const GraphNode& node : graph_.nodes) PrintNode(node);
    for (const GraphOutput& o : graph_.outputs) {
      Ensure(o.value);
      const std::string& name = graph_.value(o.value).name;
      text_ += "output " + name + (o.name == name ? "" : " as " + o.name) + "\n";
    }
    return std::move(text_);
  }

 private:
  static std::string Comment(const std::string& place) {
    return place.empty() ? "" : "  # " + place;
  }
  std::string Typed(int v) const { return graph_.value(v).name + ": " + ShowType(graph_, v); }
  void Declare(int v, const char* what) {
    text_ += std::string(what) + " " + Typed(v) + "\n";
    is_printed_[std::size_t(v)] = true;
  }
  void Ensure(int v) {
    const GraphValue& value = graph_.value(v);
    if (is_printed_[std::size_t(v)] || value.kind != GraphValue::kView) return;
    Ensure(value.base);
    text_ += Typed(v) + " = " + ShowView(graph_, value) + Comment(value.place) + "\n";
    is_printed_[std::size_t(v)] = true;
  }
  void PrintNode(const GraphNode& node) {
    for (const GraphArgument& a : node.arguments) {
      for (const int v : a.values) Ensure(v);
    }
    std::string results;
    for (std::size_t r = 0; r < node.results.size(); ++r) {
      const int v = node.results[r];
      if (v >= 0) Ensure(v);
      results += (r ? ", " : "") + (v < 0                ? "_"
                                    : node.into >> r & 1 ? "into " + graph_.value(v).name
                                                         : Typed(v));
    }
    text_ += results + (results.empty() ? "" : " = ") + ShowCall(graph_, node) +
             Comment(node.place) + "\n";
  }

  const Graph& graph_;
  std::vector<bool> is_printed_;
  std::string text_;
};

}  // namespace

std::string Print(const Graph& graph) { return Printer(graph).Run(); }

}  // namespace anyop
