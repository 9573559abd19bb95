// SPDX-License-Identifier: Apache-2.0
// Watches the arena while a graph is replayed in check mode.
#pragma once
#include <vector>

#include "graph/specialise/check_places.h"

namespace anyop {

class ArenaWatch {
 public:
  // Fills the arena with NaN.
  ArenaWatch(const Specialisation& s, char* arena);

  // Inputs were copied.
  void Start();
  // These nodes have run. Throws Internal where something changed that they may not write; what
  // nobody reads after them becomes NaN.
  void After(int first, int last);

 private:
  bool MayWrite(const ArenaBlock& block, int first, int last) const;
  void Compare(std::int64_t begin, std::int64_t end, int node) const;
  void Poison(const ArenaBlock& block, int last);

  const Specialisation& s_;
  char* const arena_;
  const std::vector<ArenaBlock> blocks_;
  std::vector<char> before_;
};

}  // namespace anyop
