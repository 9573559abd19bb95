// SPDX-License-Identifier: Apache-2.0
#include "anyop/scope.h"

#include <atomic>
#include <mutex>

#include "platform/env.h"
#include "platform/error.h"
#include "platform/threads.h"
#include "runtime/policy.h"
#include "runtime/thread_state.h"

namespace anyop {

std::atomic<const Policy*> process_policy{nullptr};

// ANYOP_POLICY is read once, when a call first needs a policy.
const Policy* ReadProcessPolicy() {
  if (const Policy* set = process_policy.load(std::memory_order_acquire)) return set;
  static const Policy* policy = ParsePolicy(Environment("ANYOP_POLICY"));
  const Policy* none = nullptr;
  process_policy.compare_exchange_strong(none, policy);
  return process_policy.load();
}

void SetProcessPolicy(std::string_view text) {
  process_policy.store(ParsePolicy(text), std::memory_order_release);
}

std::string ProcessPolicy() { return ReadProcessPolicy()->text; }

const Policy* CurrentPolicy() {
  if (thread_state && thread_state->scope.policy) return thread_state->scope.policy;
  return ReadProcessPolicy();
}

ScopeState CurrentScope() { return State().scope; }

void SetScope(const ScopeState& scope) {
  ThreadState& state = State();
  state.scope = scope;
  state.scope_word = std::uint64_t(scope.is_strict) | std::uint64_t(scope.is_batch_invariant) << 1 |
                     std::uint64_t(scope.data_checks) << 2 |
                     std::uint64_t(scope.runs_on_host) << 4 |
                     std::uint64_t(scope.threads) << kThreadsShift;
  if (scope.policy) state.scope_word |= std::uint64_t(scope.policy->number) << kPolicyShift;
  state.process_mask =
      (scope.policy ? 0 : ~0ull << kPolicyShift) | (scope.threads ? 0 : 0xffffull << kThreadsShift);
}

Scope& Scope::policy(std::string_view text) {
  ScopeState now = CurrentScope();
  now.policy = Combine(CurrentPolicy(), ParsePolicy(text));
  SetScope(now);
  return *this;
}

Scope& Scope::strict(bool on) {
  ScopeState now = CurrentScope();
  now.is_strict = on;
  SetScope(now);
  return *this;
}

Scope& Scope::batch_invariant(bool on) {
  ScopeState now = CurrentScope();
  now.is_batch_invariant = on;
  SetScope(now);
  return *this;
}

Scope& Scope::threads(int n) {
  if (n < 1 || n > kMaxThreads) {
    Fail(ANYOP_INVALID_ARGUMENT, "threads is " + std::to_string(n) + ", but must be 1 to " +
                                     std::to_string(kMaxThreads) + ".");
  }
  ScopeState now = CurrentScope();
  now.threads = n;
  SetScope(now);
  return *this;
}

Scope& Scope::data_checks(DataChecks how) {
  ScopeState now = CurrentScope();
  now.data_checks = how;
  SetScope(now);
  return *this;
}

Scope& Scope::fallback_to_host(bool on) {
  ScopeState now = CurrentScope();
  now.runs_on_host = on;
  SetScope(now);
  return *this;
}

}  // namespace anyop
