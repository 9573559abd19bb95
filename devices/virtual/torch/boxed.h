// SPDX-License-Identifier: Apache-2.0
// Every operator of torch that has no kernel for the device, as work on the current stream.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <atomic>

namespace virtual_torch {

// The shapes of the results come from the operator's Meta kernel, their memory from torch's
// allocator, and what computes them is the CPU's kernel, on a thread of the device. A fallback that
// copied to the host and back would wait in every operator, which hides every event that a program
// forgets. Only what has no shapes before it has run (nonzero) does that.
void Boxed(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// How many calls were put on a stream, and how many waited.
struct Counts {
  std::atomic<std::int64_t> in_order{0}, at_once{0};
};
Counts& BoxedCounts();

}  // namespace virtual_torch
