// SPDX-License-Identifier: Apache-2.0
// Consecutive calls that a replay runs block by block: their rows are cut so that what one call
// hands to the next stays in a core's cache, and threads meet once for all of them.
#pragma once
#include <cstdint>
#include <vector>

#include "anyop/signature.h"
#include "runtime/plan/plan.h"

namespace anyop {

class Specialisation;

// A tensor of which each block sees its own rows.
struct RegionTensor {
  int value = -1;
  std::int64_t pitch_bytes = 0;  // from row to row
  std::int64_t local = -1;       // where its block lies in a thread's memory; -1: in the value's
  int rank = 0;
  std::int64_t shape[kMaxRank] = {}, strides[kMaxRank] = {};  // of a whole block; in elements
  bool is_contiguous = true;
};

struct RegionCall {
  int call = -1;                           // of the specialisation
  Plan *block = nullptr, *rest = nullptr;  // of a whole block and of the last one; with references
  std::size_t frame = 0;                   // in a thread's frames
  std::int64_t workspace = -1;             // in a thread's memory; -1: none
  std::vector<int> tensors;                // by place in the frame: of Region::tensors, or -1
};

struct Region {
  int first = 0, last = 0;  // calls
  std::int64_t rows = 0, block = 0;
  int threads = 1;  // at most
  double estimated_ns = 0;
  std::vector<RegionTensor> tensors;
  std::vector<RegionCall> calls;
  std::size_t frame_values = 0;
  std::int64_t thread_bytes = 0;  // of one thread's memory
  std::int64_t memory = -1;       // of all threads, in the arena; -1: none

  std::int64_t blocks() const { return (rows + block - 1) / block; }
};

// Gives back the references of its plans.
void ReleasePlans(Region& region);

// Sets regions, and PlannedCall::region. A call may join if its operator says `.rowwise`, if it
// goes straight to its kernel, and if that kernel takes a block, too. A value that one of them
// writes must be cut in the same rows by all. block_rows: of every region; 0: by size of the
// caches, and only where the work is worth it.
void FindRegions(Specialisation* s, std::int64_t block_rows);

}  // namespace anyop
