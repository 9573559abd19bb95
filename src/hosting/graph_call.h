// SPDX-License-Identifier: Apache-2.0
// A bound call of a compiled graph: one node of another framework's graph. A graph that stands in
// the text has no memory of its own: weights and caches are inputs. A saved graph may hold weights,
// which are pages of its file, but no state that it writes, because every node would share it.
#pragma once
#include <memory>

#include "graph/executable.h"
#include "hosting/call_text.h"

namespace anyop {

std::unique_ptr<BoundCall> MakeGraphCall(GraphText text, const ScopeState& scope);

// The text of a call of this graph. numbers: the inputs of the graph that are no tensors, in any
// order. Throws InvalidArgument for a graph that has state or constants.
std::string TextOfGraphCall(const Graph& graph, std::vector<GraphNumber> numbers,
                            const ScopeState& scope);

// The text of a call of the graph of this name ("": the only one) that is saved at `path`, which
// the text holds as an absolute one, with a digest of all that is saved there.
std::string TextOfSavedGraphCall(const std::string& path, const std::string& name,
                                 std::vector<GraphNumber> numbers, const ScopeState& scope);

}  // namespace anyop
