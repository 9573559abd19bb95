// SPDX-License-Identifier: Apache-2.0
// A compiled graph: for each set of sizes a flat list of kernels with planned memory.
//
//   Executable e(std::move(graph));
//   anyop_value inputs[] = {x, eps};                       // as the graph's inputs are
//   std::shared_ptr<Specialisation> s = e.Prepare(inputs);  // checks sizes; plans once per set
//   ... allocate outputs from OutputsOf(*s), contiguous ...
//   e.Replay(*s, inputs, outputs);
//
// Any number of threads may use one executable at once, each call with memory of its own; state
// that a graph writes is the caller's to guard.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/passes/passes.h"
#include "signature/check.h"

namespace anyop {

class Specialisation;

struct CompileOptions {
  std::size_t specialisations = 64;  // kept at most; the one that was not used for longest goes
  bool optimize = true;              // false: no passes, for tests and comparisons
  bool fuse = true;                  // nodes that are an operator's .means become it; see passes.h
  bool share_memory = true;          // false: every value has memory of its own
  bool regions = true;               // rows of several nodes in one pass over memory; see region.h
  std::int64_t block_rows = 0;       // of these; 0: by the caches and the work, else for tests
  PassListener on_pass = nullptr;    // told what each pass changed
  std::string name = "graph";        // what recordings call it
};

// The options for graphs that were saved: the passes ran before that, and would pack and fold a
// second time. Nodes keep their places when a graph is loaded.
inline CompileOptions LoadedOptions() {
  CompileOptions options;
  options.optimize = false;
  return options;
}

// The memory and the nodes of a specialisation.
struct MemoryReport {
  std::int64_t arena_bytes = 0, bound_bytes = 0;  // no plan is below the bound
  std::int64_t unshared_bytes = 0;                // without sharing memory
  int nodes = 0, kernels_checked = 0;             // those that look at data before they run
};

class Executable {
 public:
  explicit Executable(Graph graph, const CompileOptions& options = {});
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  // After the passes.
  const Graph& graph() const;

  // The device of input i in a call that somebody makes up to look at the graph: that of the
  // graph's state, but the host for a planned input.
  DLDevice DeviceOfInput(int i) const;

  // The specialisation of these inputs, made if it is new. inputs: as many as the graph has,
  // tensors and numbers. Throws InvalidArgument where they do not fit the graph, and what the
  // operators throw, with the node's place.
  std::shared_ptr<Specialisation> Prepare(std::span<const anyop_value> inputs);

  // Runs. outputs: contiguous tensors of the shapes in OutputsOf(s), apart from inputs and state.
  // An input that is not contiguous is copied first, which strict mode refuses. If an operator
  // refuses at its turn, what ran before it stays done.
  void Replay(Specialisation& s, std::span<const anyop_value> inputs,
              std::span<const DLTensor* const> outputs);
  // The same, one node after the other, on a device waiting for each. ns: per node of graph(), the
  // time of its kernel with what is checked at its turn.
  void ReplayTimed(Specialisation& s, std::span<const anyop_value> inputs,
                   std::span<const DLTensor* const> outputs, std::span<double> ns);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// dtype and shape of each output.
std::span<const ResultShape> OutputsOf(const Specialisation& s);
// Where inputs and outputs lie.
DLDevice DeviceOf(const Specialisation& s);
// Of all kernels together: a host releases its lock where that is long.
double EstimatedNs(const Specialisation& s);
MemoryReport ReportOf(const Specialisation& s);

}  // namespace anyop
