// SPDX-License-Identifier: Apache-2.0
// Indices that are looked at on the card, and what was wrong with them.
//
// A stream has words in the card's memory and a record in the host's. A check that finds something
// sets the words, so that kernels that say `stops` write nothing, and the record, which the host
// reads without waiting. Once the host has taken the error, the words are cleared in the order of
// the stream. What is captured into a graph has words of its own for each capture, as nobody knows
// where the graph will run: its next check clears them, and its error is told to whoever asks
// first.
#pragma once
#include <cstdint>
#include <string>

#include "devices/cuda/card.h"

namespace anyop::cuda {

void CheckIndices(StreamHandle* stream, const anyop_index_check& check);
const std::uint32_t* FailedWordOf(StreamHandle* stream);

// The oldest error of the stream, or of any (`all`), which is taken away; empty: there is none.
std::string TakeIndexError(int device, StreamHandle* stream, bool all);

// The stream is about to be destroyed: its error stays with the card.
void ForgetStream(StreamHandle* stream);

}  // namespace anyop::cuda
