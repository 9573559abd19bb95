// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/services.h"

#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "anyop/tensor.h"
#include "platform/error.h"
#include "platform/log.h"
#include "platform/threads.h"
#include "runtime/plan/calling_host.h"
#include "runtime/plan/frame.h"

namespace anyop {

constinit thread_local HostName calling_host = nullptr;
constinit thread_local bool kernel_has_raised = false;

HostName InternHostName(std::string_view name) {
  static auto& mutex = *new std::mutex;
  static auto& names = *new std::set<std::string, std::less<>>;  // whose nodes stay where they are
  const std::lock_guard lock(mutex);
  return names.emplace(name).first->c_str();
}

namespace {

void RunParallel(const anyop_context* c, std::int64_t n, std::int64_t grain, RangeFunction fn,
                 void* arg) {
  ParallelFor(c->threads, n, grain, fn, arg, static_cast<RunState*>(c->runtime)->estimated_ns);
}

int SetError(const anyop_context* c, int code, const char* text) {
  auto* state = static_cast<RunState*>(c->runtime);
  delete std::exchange(state->error, nullptr);
  state->error = new std::string(text);
  return code;
}

}  // namespace

const anyop_host kServices = {sizeof(anyop_host), ANYOP_ABI_VERSION, &RunParallel, &SetError, &Log};

void FailCall(const Operator& op, int code, const RunState& state, const std::string& file) {
  const std::string text = state.error ? *state.error : "";
  // An operator may return any number; hosts know the codes of abi.h alone.
  if (code < ANYOP_INVALID_ARGUMENT || code > ANYOP_INTERNAL) code = ANYOP_INTERNAL;
  std::string full = op.Message(text.empty() ? "the call failed." : text);
  if (code == ANYOP_INTERNAL && !file.empty()) {
    full += " The code of a kernel says so; it is of " + file + ".";
  } else if (code == ANYOP_INTERNAL && op.library == "anyop") {
    full += " This is a defect of anyop. Please report it.";
  } else if (code == ANYOP_INTERNAL) {
    full += " The operator's own code says so; it is of library " + op.library + ".";
  }
  Fail(code, full);
}

void FailKernel(const Plan& plan, int code, const RunState& state) {
  FailCall(*plan.op, code, state, KernelFile(plan));
}

std::string ShowStrides(const DLTensor& tensor) {
  std::string text = "[";
  for (int i = 0; i < tensor.ndim; ++i) {
    text += (i ? ", " : "") + std::to_string(static_cast<const Tensor&>(tensor).stride(i));
  }
  return text + "]";
}

}  // namespace anyop
