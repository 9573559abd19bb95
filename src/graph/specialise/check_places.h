// SPDX-License-Identifier: Apache-2.0
// Whether a specialisation's memory is right, found without the code that planned it.
#pragma once
#include <string>
#include <vector>

#include "graph/specialise/specialisation.h"

namespace anyop {

// A piece of the arena and the nodes during which it holds something: inputs are copied at node
// -1, outputs behind the last node.
struct ArenaBlock {
  std::string name;
  std::int64_t at, bytes;
  int first, last;  // nodes; of a region all or none
  int root = -1;    // the value; -1: a workspace, or the memory of a region
};
// In the order of their first nodes.
std::vector<ArenaBlock> ArenaBlocks(const Specialisation& s);

// The first defect; "" if there is none: values, workspaces and regions' memory that are needed at
// one node overlap in the arena (but for a result over the argument that ends there), lie beyond
// it, or are not aligned.
std::string CheckPlaces(const Specialisation& s);

}  // namespace anyop
