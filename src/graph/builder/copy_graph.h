// SPDX-License-Identifier: Apache-2.0
// Copies a graph call by call into a new builder, so that a pass may put other calls in their
// place. A new call is checked and inferred as every call of a builder is.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "graph/builder/builder.h"

namespace anyop {

class GraphCopy {
 public:
  // A value of `into` for a state or constant.
  using BindData = std::function<int(const GraphValue&)>;

  explicit GraphCopy(const Graph& from);
  // Into a graph that exists.
  GraphCopy(const Graph& from, GraphBuilder* into, BindData data);

  // The inputs, in their order: a whole graph begins with them.
  void CopyInputs();
  // Arguments stand for the inputs: values and literals of the builder. name: of the graph, in
  // errors. Throws InvalidArgument where one is not of its input's type at all sizes.
  void BindInputs(std::span<const GraphArgument> arguments, const std::string& name);
  // The copy of a value; states, constants and views are copied at their first use.
  int Value(int value);
  std::vector<GraphArgument> Arguments(const GraphNode& node);
  // Makes the node's call in the builder.
  void CopyNode(const GraphNode& node);
  // `copies` of this builder stand for the results of a node, -1 for those that are declined.
  void SetResults(const GraphNode& node, const std::vector<int>& copies);
  void CopyOutputs();
  // This name, or one after it that no value of either graph has.
  std::string FreeName(const std::string& name) const;

 private:
  std::unique_ptr<GraphBuilder> own_;  // before `builder`, which may refer to it

 public:
  GraphBuilder& builder;

 private:
  void BindTensor(int input, const GraphArgument& given, const std::string& name);
  void BindNumber(int input, const GraphArgument& given, const std::string& name);
  [[noreturn]] void RefuseInput(int input, const GraphArgument& given, const std::string& name);
  bool IsBound(const Size& size) const;
  Size Mapped(const Size& size);
  std::vector<Size> Mapped(const std::vector<Size>& sizes);
  void SetValue(int value, int copy);

  const Graph& from_;
  const BindData data_;
  std::vector<int> copy_of_;            // by value; -1: not yet
  std::vector<Size> symbols_;           // by symbol
  std::vector<bool> is_bound_;          // by symbol: an argument gives it a size
  std::vector<GraphArgument> numbers_;  // by value, of inputs that are numbers and are bound
};

}  // namespace anyop
