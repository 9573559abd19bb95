// SPDX-License-Identifier: Apache-2.0
// Calls whose tensors lie on a device: put on its current stream, and not waited for.
#pragma once
#include "runtime/run/run.h"

namespace anyop {

// As RunSlow, after the check of memory. Errors of earlier work on the stream are thrown first.
void RunOnDevice(Operator& op, Plan& plan, const anyop_value* frame, KernelRunner watched);

// The calls of a composition or of a graph raise no late error, which would be of the parts before
// them, whenever these are quick, and look as if it were of this part: the next call of the
// caller's does.
class PartsOfACall {
 public:
  PartsOfACall();
  ~PartsOfACall();
  PartsOfACall(const PartsOfACall&) = delete;
  PartsOfACall& operator=(const PartsOfACall&) = delete;

 private:
  const bool was_part_;
};

// The parameters that such a call copies to the host, by bit, and waits for once, because its
// checks read their data.
std::uint64_t CopiedForChecks(const Operator& op, const Plan& plan, const anyop_value* frame);

}  // namespace anyop
