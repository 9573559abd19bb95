// SPDX-License-Identifier: Apache-2.0
// Memory that a replay writes must lie apart from all else: outputs and changed inputs from
// everything, inputs from state that the graph writes.
#pragma once
#include <span>
#include <vector>

#include "graph/specialise/specialisation.h"
#include "runtime/memory/overlap.h"

namespace anyop {

class Boundary {
 public:
  explicit Boundary(const Graph& graph);

  // Throws InvalidArgument where an output is not as s.outputs says, contiguous, aligned and in CPU
  // memory, where a changed input is not contiguous and aligned, and where memory overlaps.
  void Check(const Specialisation& s, std::span<const anyop_value> inputs,
             std::span<const DLTensor* const> outputs) const;

 private:
  // Memory of states, sorted and apart, so that a search finds the only one that may overlap.
  // Neighbours that overlap are one, under the name of the first.
  struct State {
    MemoryRange memory;
    int value;
    bool operator<(const State& other) const { return memory < other.memory; }
  };
  struct Name {
    bool is_output;
    int index;
  };
  struct Given {
    MemoryRange memory;
    Name name;
    bool is_written;
  };
  static std::vector<State> Merged(std::vector<State> states);
  void CheckOutput(const Specialisation& s, int k, const DLTensor& t) const;
  void CheckInput(int k, const DLTensor& t, const MemoryRange& m) const;
  void CheckApart(const MemoryRange& m, const std::vector<State>& from, const Name& what) const;
  void CheckGiven(std::span<Given> given) const;
  [[noreturn]] void RefusePair(const Given& a, const Given& b) const;
  std::string NameOf(const Name& name) const;

  const Graph& graph_;
  std::vector<State> states_, written_states_;
  std::vector<bool> is_written_;  // by input
};

}  // namespace anyop
