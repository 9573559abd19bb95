// SPDX-License-Identifier: Apache-2.0
// Which tokens a sequence has, and which state.
#pragma once
#include <cstdint>
#include <string>

#include "anyop/op.h"
#include "ops/common/check_data.h"

namespace anyop::ops {
namespace {

using Index = std::int64_t;

struct Sequence {
  Index begin, end;  // its tokens
  Index slot;        // of its state; negative: it is skipped
  bool has_state;    // before its first token
};

struct Sequences {
  Index n;
  const Tensor* query_start_loc;    // [n + 1]; null: one token each, with a state
  const Tensor* state_indices;      // [n]; null: sequence s has state s
  const Tensor* has_initial_state;  // [n]; null: none has

  Sequence operator[](Index s) const {
    const Index slot = state_indices ? ReadIndex(*state_indices, s) : s;
    if (!query_start_loc) return {s, s + 1, slot, true};
    const bool has_state =
        has_initial_state && has_initial_state->base<const std::uint8_t>()[s] != 0;
    return {ReadIndex(*query_start_loc, s), ReadIndex(*query_start_loc, s + 1), slot, has_state};
  }
  // Where the tokens of all sequences end, of t.
  Index end(Index t) const { return query_start_loc ? ReadIndex(*query_start_loc, n) : t; }
};

// In check mode: two sequences may not write one state.
inline void CheckSlots(const Tensor* state_indices) {
  if (!state_indices) return;
  Distinct taken;
  for (Index s = 0; s < state_indices->dim(0); ++s) {
    const Index slot = ReadIndex(*state_indices, s);
    if (slot < 0) continue;
    taken.Add(slot, "state_indices[" + std::to_string(s) + "]", "a state belongs to one sequence");
  }
}

}  // namespace
}  // namespace anyop::ops
