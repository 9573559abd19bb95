// SPDX-License-Identifier: Apache-2.0
// The services that kernels get, and the context of one call of a kernel.
#pragma once
#include <string>

#include "platform/cpu.h"
#include "runtime/plan/plan.h"

namespace anyop {

// What the services need of a call: ctx->runtime points to it.
struct RunState {
  double estimated_ns = 0;
  // Made by set_error when there is an error: a string here would be made and ended in every call.
  std::string* error = nullptr;

  explicit RunState(const Plan& plan) : estimated_ns(plan.estimated_ns) {}
  ~RunState() {
    if (error) [[unlikely]]
      delete error;
  }
  RunState(const RunState&) = delete;
  RunState& operator=(const RunState&) = delete;
};

extern const anyop_host kServices;

inline anyop_context MakeContext(const Plan& plan, void* workspace, RunState* state) {
  return {sizeof(anyop_context), plan.flags,   &kServices,     nullptr, workspace,
          plan.workspace_bytes,  plan.threads, LastLevelKib(), state,   plan.kernel_data};
}

// Throws the error that a check or kernel reported. file: the library that this code is of, where
// it is not the operator's own.
[[noreturn]] void FailCall(const Operator& op, int code, const RunState& state,
                           const std::string& file = "");
// The same for the plan's kernel.
[[noreturn]] void FailKernel(const Plan& plan, int code, const RunState& state);

// "[4, 1]"
std::string ShowStrides(const DLTensor& tensor);

}  // namespace anyop
