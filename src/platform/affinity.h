// SPDX-License-Identifier: Apache-2.0
// Which processors threads may run on, where OpenMP has bound the thread that asks.
#pragma once
#include <sched.h>

namespace anyop {

// The processors that this thread may use. Where a library of OpenMP has bound it to one of its
// places (GOMP_CPU_AFFINITY, OMP_PROC_BIND), all of its places: that library's threads use them
// together, and so may ours. False if the system does not tell.
bool ReadProcessors(cpu_set_t& processors);

// Lets this thread run on all of `processors`. A worker must ask for that, because a new thread
// inherits the binding of the one that made it.
void RunOn(const cpu_set_t& processors);

}  // namespace anyop
