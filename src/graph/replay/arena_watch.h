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
  // To be called when these nodes have run. Throws Internal where memory changed that they may not
  // write. Memory that nobody reads after them becomes NaN, so that a late reader
  // shows.
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
