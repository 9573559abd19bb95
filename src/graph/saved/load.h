// SPDX-License-Identifier: Apache-2.0
// Reads graphs that WriteGraphs wrote.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "anyop/graph.h"
#include "graph/ir/graph.h"
#include "graph/saved/manifest.h"

namespace anyop {

struct LoadedGraph {
  std::string name;
  Graph graph;
  bool returns_tuple = false;
  std::vector<Array> memory;  // that it uses: graphs of one folder share some of it
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

// The memory that the manifest calls `tensor`, for the value `name`.
using SavedMemory = std::function<Array(const std::string& name, const std::string& tensor)>;
// The graph that DetachGraph took apart. what: begins the messages. Throws as ReadGraphs.
Graph AttachGraph(const std::string& what, const std::string& manifest, const std::string& text,
                  const SavedMemory& memory);
// Where a value lies in `memory`, of bytes; keeps that alive. Throws InvalidArgument where an
// element lies outside.
Array ViewIn(const Array& memory, const SavedValue& where, const std::string& name);

}  // namespace anyop
