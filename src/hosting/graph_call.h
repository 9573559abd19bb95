// SPDX-License-Identifier: Apache-2.0
// A bound call of a compiled graph: one node of another framework's graph. The graph has no memory
// of its own, so that its text says all of it: weights and caches are inputs.
#pragma once
#include <memory>

#include "graph/executable.h"
#include "hosting/call_text.h"

namespace anyop {

std::unique_ptr<BoundCall> MakeGraphCall(GraphText text, const ScopeState& scope);

// The text of a call of this graph. numbers: those of its inputs that are no tensors, in any
// order. Throws InvalidArgument for a graph that has state or constants.
std::string TextOfGraphCall(const Graph& graph, std::vector<GraphNumber> numbers,
                            const ScopeState& scope);

}  // namespace anyop
