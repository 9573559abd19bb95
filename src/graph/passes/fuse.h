// SPDX-License-Identifier: Apache-2.0
// Nodes that together are one operator's composition become a call of it.
#pragma once
#include "graph/ir/graph.h"

namespace anyop {

// Patterns are the compositions (.means) of all operators that are registered, those of most
// statements first. Literals and defaults must be equal, `.commutes` may swap arguments. What the
// composition computes on its way must have no other use, unless the operator returns it, and
// nothing that is read or written in between may depend on the order. The operator must take the
// values at every size that the nodes take, with a kernel of its own and results of the same types.
// Its kernels may round other than the composition does: each operator's comment says.
void Fuse(Graph* graph);

}  // namespace anyop
