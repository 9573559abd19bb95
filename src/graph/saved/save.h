// SPDX-License-Identifier: Apache-2.0
// Writes graphs to a folder that ReadGraphs reads.
//
// What is saved is the graph after its passes, packed weights included: a packed layout is the
// result of an operator, the same on every machine and for every kernel, and versioned as every
// operator is, by its signature. So loading packs nothing, and kernels read mapped pages.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "anyop/graph.h"
#include "graph/ir/graph.h"
#include "graph/saved/safetensors.h"

namespace anyop {

struct GraphToSave {
  std::string name;
  const Graph* graph;
  bool returns_tuple = false;
};

// Writes path/manifest.json, a text per graph and the weights, or changes nothing. Memory that
// several graphs use is written once, and so are equal weights of several graphs. State that a
// graph changes and that is all zero, as a new cache is, is no more than its shape.
// A saved graph at `path` is replaced in one step if its folder holds nothing else.
// Throws InvalidArgument: no graph or twice the same name, a name that cannot be a file's,
// something at `path` that is no saved graph, a link, a folder with other files in it, a graph that
// calls Python. NotAvailable: the system refuses.
void WriteGraphs(const std::string& path, std::span<const GraphToSave> graphs,
                 const SaveOptions& options = {});

// A graph apart from its memory, for callers that keep the memory themselves: Python's pickle and
// deepcopy.
struct DetachedGraph {
  std::string manifest, text;
  std::vector<NamedArray> memory;  // what the manifest names, as it is: nothing is copied
};
// Throws InvalidArgument where the graph calls Python. AttachGraph puts the parts together.
DetachedGraph DetachGraph(const Graph& graph, const std::string& name);

}  // namespace anyop
