// SPDX-License-Identifier: Apache-2.0
// Reads graphs that WriteGraphs wrote.
#pragma once
#include <string>
#include <vector>

#include "anyop/graph.h"
#include "graph/ir/graph.h"

namespace anyop {

struct LoadedGraph {
  std::string name;
  Graph graph;
  bool returns_tuple = false;
};

struct LoadedGraphs {
  std::vector<LoadedGraph> graphs;
  std::string metadata;  // JSON
};

// State that several graphs share is one memory for the graphs of one call. Frozen state and
// constants are read-only pages of the file.
// Throws NotAvailable: no such folder or graph, written by a newer anyop, an operator that is not
// loaded. InvalidArgument: damaged files, weights that are missing or of another type, an operator
// whose signature has changed.
LoadedGraphs ReadGraphs(const std::string& path, const LoadOptions& options = {});
// The graph of this name alone; "" where there is but one.
LoadedGraphs ReadGraph(const std::string& path, const std::string& name,
                       const LoadOptions& options = {});

}  // namespace anyop
