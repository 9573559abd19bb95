// SPDX-License-Identifier: Apache-2.0
// Calls whose tensors lie on a device: put on its current stream, and not waited for.
#pragma once
#include "runtime/run/run.h"

namespace anyop {

// Runs such a call; RunSlow has checked its memory. Errors of earlier work on the stream are thrown
// first, before anything of this call is put there.
void RunOnDevice(Operator& op, Plan& plan, const anyop_value* frame, KernelRunner watched);

// While it lives, calls of this thread raise no late error: they are parts of a composition or of a
// graph. The error would be one of an earlier part, told only if that was quick enough, as if it
// were of the later one. The caller's next call raises it.
class PartsOfACall {
 public:
  PartsOfACall();
  ~PartsOfACall();
  PartsOfACall(const PartsOfACall&) = delete;
  PartsOfACall& operator=(const PartsOfACall&) = delete;

 private:
  const bool was_part_;
};

// The parameters that a call on a device copies to the host, by bit, because its checks read their
// data. It waits for all of them at once.
std::uint64_t CopiedForChecks(const Operator& op, const Plan& plan, const anyop_value* frame);

}  // namespace anyop
