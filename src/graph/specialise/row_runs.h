// SPDX-License-Identifier: Apache-2.0
// Consecutive calls that may run block by block of the same rows, whether that pays or not.
#pragma once
#include <cstdint>
#include <vector>

#include "graph/specialise/specialisation.h"

namespace anyop {

// A tensor of a call: whole, or cut by rows.
struct Touch {
  int value, place;  // in the frame
  bool is_written, is_row;
  std::int64_t pitch_bytes = 0, row_bytes = 0;  // of a row tensor
  int lead = 0;                                 // dimensions that are rows
};

struct RowRun {
  int first = 0;  // call
  std::int64_t rows = 0;
  std::vector<std::vector<Touch>> calls;  // what each one touches
};

// Runs of at least two calls, in the order of the calls, which they do not share.
std::vector<RowRun> FindRowRuns(const Specialisation& s);

}  // namespace anyop
