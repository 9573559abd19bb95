// SPDX-License-Identifier: Apache-2.0
// The services that kernels get, and the context of one call of a kernel.
#pragma once
#include <string>

#include "runtime/plan.h"

namespace anyop {

// What a call keeps beside its context.
struct CallState {
  std::string error_text;
  double estimated_ns = 0;
};

extern const anyop_host kHost;

inline anyop_context MakeContext(const Plan& plan, void* workspace, CallState* state) {
  state->estimated_ns = plan.estimated_ns;
  return {sizeof(anyop_context), plan.flags,  &kHost,       nullptr, workspace,
          plan.workspace_bytes,  plan.tiling, plan.threads, 0,       state};
}

// Raises what a kernel, check or plan function reported.
[[noreturn]] void FailCall(const Operator& op, int code, const std::string& text);

// "[4, 1]"
std::string ShowStrides(const DLTensor& tensor);

}  // namespace anyop
