// SPDX-License-Identifier: Apache-2.0
// A replay of a graph as a folder, for `anyop replay`: what its calls are recorded as (see
// runtime/observe/record.h), in one piece. In NAME.graph:
//
//   graph               the graph with its weights and its state before the replay, saved as
//                       CompiledGraph::Save does
//   inputs.safetensors  the elements of the inputs that are tensors
//   call.json           "format": "anyop-graph-capsule 1"; "graph": its name; "strides": of inputs
//                       that are not contiguous; "numbers": of the other inputs; threads, isa,
//                       policy, batch_invariant
#pragma once
#include <span>
#include <string>

#include "graph/specialise/specialisation.h"

namespace anyop {

// Records a replay before it runs, of those with the same sizes the first ANYOP_RECORD_EACH. A
// graph that calls Python cannot be saved: a warning says so, and its calls are recorded one by
// one, as calls outside of graphs are.
void RecordGraph(const std::string& name, Specialisation& s, std::span<const anyop_value> inputs);

}  // namespace anyop
