// SPDX-License-Identifier: Apache-2.0
// `below v` and `offsets t`: one pass over an index tensor, before anything is written.
#pragma once
#include <string>

#include "runtime/plan/plan.h"

namespace anyop {

// True if every entry obeys. value: an integer tensor whose last stride is 1 (others were copied
// before), a list of ints, or an int.
bool IndicesHold(const IndexCheck& check, const anyop_value& value);

// The part from the comma on, of an entry that is too large: ", but must be less than 65536
// (...)."; of offsets ", but must be at most 65536 (...).".
std::string IndexBound(const IndexCheck& check, const Plan& plan, const anyop_value* frame);
// "slot_mapping[3] is 70000, but must be less than 65536 (nb*bs, nb is 16, bs is 4096)."
std::string IndexError(const IndexCheck& check, const Plan& plan, const anyop_value* frame);

}  // namespace anyop
