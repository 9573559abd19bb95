// SPDX-License-Identifier: Apache-2.0
// Stops a part of a parallel region in its middle, always at the same place.
#pragma once
#include <functional>

#include "optest/memory.h"

namespace anyop::optest {

// Runs `first` until it has accessed the pages `access` times, then all of `second` on another
// thread, then the rest of `first`: what two threads may do, without waiting for the chance. Where
// `first` has fewer accesses, `second` follows it. What either throws is thrown when both have
// ended. Returns false if `second` did not end while `first` stood still: a part may wait for what
// one that has begun will write, and then both run on.
//
// An access is a fault of pages without rights. It is let pass by one step of the processor, which
// only x86-64 offers; elsewhere `first` stops before its first access, whatever `access` is. An
// instruction that reads and writes at once is not torn, though threads may meet in it.
bool RunInterrupted(const Pages& pages, int access, const std::function<void()>& first,
                    const std::function<void()>& second);

}  // namespace anyop::optest
