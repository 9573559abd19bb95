// SPDX-License-Identifier: Apache-2.0
// Where the values of a specialisation lie: in the caller's memory, in place of an argument that
// is not used again, or in the arena.
#pragma once
#include "graph/specialise/specialisation.h"

namespace anyop {

// Sets places, buffers, memory and copies_out, and the workspaces of calls. share: false gives
// every value memory of its own, for comparisons.
void PlaceMemory(Specialisation* s, bool share);

}  // namespace anyop
