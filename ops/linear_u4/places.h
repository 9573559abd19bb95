// SPDX-License-Identifier: Apache-2.0
// Where AWQ keeps 8 neighbours of a row in a word of 32 bits.
#pragma once

namespace anyop::ops {

// Element i is in bits 4p to 4p + 3, p = kAwqPlaces[i].
inline constexpr int kAwqPlaces[8] = {0, 4, 1, 5, 2, 6, 3, 7};

}  // namespace anyop::ops
