// SPDX-License-Identifier: Apache-2.0
// What a call of a graph says: are its arguments as the graph's inputs are, and which number is
// each symbol.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "anyop/abi.h"
#include "graph/ir/graph.h"

namespace anyop {

class GraphInputs {
 public:
  // Throws InvalidArgument if no input binds some symbol that the graph uses.
  explicit GraphInputs(const Graph& graph);

  // Sets symbols[k] of every free symbol k. Throws InvalidArgument where an argument does not fit.
  void Bind(std::span<const anyop_value> inputs, std::int64_t* symbols) const;

  // Whether symbol k decides about sizes or kernels, so that each of its values is planned apart.
  bool IsInKey(int symbol) const { return in_key_[std::size_t(symbol)]; }
  // Likewise for input i, a float or bool.
  bool IsNumberInKey(int input) const { return number_in_key_[std::size_t(input)]; }

  // Whether a tensor must be copied before its first use: not contiguous, or misaligned.
  static bool NeedsCopy(const DLTensor& tensor);
  // That of the tensors among the inputs that are not planned, else of the graph's own. Throws
  // InvalidArgument where two inputs lie on two devices, or a planned one is not the host's.
  DLDevice DeviceOf(std::span<const anyop_value> inputs) const;
  // Where the graph's state lies; the host where it has none.
  DLDevice StateDevice() const;
  // Whether a call takes input i, or a view of it, as a planned tensor.
  bool IsPlanned(int input) const { return IsPlannedValue(graph_.inputs[std::size_t(input)]); }
  // The same of a value that is no view.
  bool IsPlannedValue(int value) const { return is_planned_[std::size_t(value)]; }

 private:
  // One dimension of one input: binds symbol = (size - b) / a, or compares with a size.
  struct Step {
    int input, dimension, symbol;  // symbol -1: compares
    std::int64_t a, b;
  };
  void AddSteps();
  void FindKeys();
  void FindPlanned();
  void CheckTensor(int input, const anyop_value& given) const;
  [[noreturn]] void Refuse(int input, const anyop_value& given, const std::string& why) const;
  std::string BoundText(std::span<const anyop_value> inputs, int input) const;

  const Graph& graph_;
  std::vector<Step> steps_;
  std::vector<bool> in_key_, number_in_key_;
  std::vector<bool> is_planned_;  // by value
};

}  // namespace anyop
