// SPDX-License-Identifier: Apache-2.0
#include "anyop/scope.h"

#include <atomic>
#include <mutex>

#include "platform/env.h"
#include "platform/error.h"
#include "platform/threads.h"
#include "runtime/plan/policy.h"
#include "runtime/plan/scope_carrier.h"
#include "runtime/plan/thread_state.h"

namespace anyop {

std::atomic<const Policy*> process_policy{nullptr};

// ANYOP_POLICY is read once, when a call first needs a policy.
const Policy* ReadProcessPolicy() {
  if (const Policy* set = process_policy.load(std::memory_order_acquire)) return set;
  static const Policy* policy = ParsePolicy(Environment("ANYOP_POLICY"));
  const Policy* none = nullptr;  // a policy that the program has set meanwhile stays
  process_policy.compare_exchange_strong(none, policy);
  return process_policy.load();
}

void SetProcessPolicy(std::string_view text) {
  process_policy.store(ParsePolicy(text), std::memory_order_release);
}

std::string ProcessPolicy() { return ReadProcessPolicy()->text; }

const Policy* CurrentPolicy() {
  FollowCarriedScope();
  if (thread_state && thread_state->scope.policy) return thread_state->scope.policy;
  return ReadProcessPolicy();
}

ScopeState InitialScope() {
  static const bool is_strict = EnvironmentFlag("ANYOP_STRICT");
  return {.is_strict = is_strict};
}

constinit std::atomic<int> threads_with_carried{0};

namespace {

std::atomic<const ScopeCarrier*> known_carrier{nullptr};

// What this thread follows of carried scopes. number: of the one that is its scope now; 0: none.
// own: the scope to which it returns when nothing is carried. task: of the carrier, when it last
// asked.
struct Followed {
  int task = -1;
  std::uint64_t number = 0;
  ScopeState own;
};
constinit thread_local Followed followed;

void SetNumber(std::uint64_t number) {
  threads_with_carried.fetch_add(int(number != 0) - int(followed.number != 0),
                                 std::memory_order_relaxed);
  followed.number = number;
}

void ChangeScope(ThreadState& state, const ScopeState& scope) {
  state.scope = scope;
  // Modes are in bits 0 to 7, threads in bits 8 to 23, the policy's number from bit 32 on.
  state.scope_word = std::uint64_t(scope.is_strict) | std::uint64_t(scope.is_batch_invariant) << 1 |
                     std::uint64_t(scope.data_checks) << 2 |
                     std::uint64_t(scope.runs_on_host) << 4 |
                     std::uint64_t(scope.threads) << kThreadsShift;
  if (scope.policy) state.scope_word |= std::uint64_t(scope.policy->number) << kPolicyShift;
  state.process_mask =
      (scope.policy ? 0 : ~0ull << kPolicyShift) | (scope.threads ? 0 : 0xffffull << kThreadsShift);
}

// Puts the scope of this thread into the carrier. That of a thread in no block is not carried, so
// that calls need not look while no thread has a scope.
void PutScope(const ScopeCarrier& carrier, const ScopeState& scope) {
  static std::atomic<std::uint64_t> last{0};
  if (scope == InitialScope()) {
    SetNumber(0);
    return carrier.Put(nullptr);
  }
  SetNumber(last.fetch_add(1, std::memory_order_relaxed) + 1);
  carrier.Put(std::make_shared<const CarriedScope>(CarriedScope{followed.number, scope}));
}

}  // namespace

void TakeCarriedScope() {
  const ScopeCarrier& carrier = *known_carrier.load(std::memory_order_acquire);
  const int task = carrier.task();
  if (task == followed.task) [[likely]]
    return;
  followed.task = task;
  const CarriedScope* carried = carrier.Get();
  const std::uint64_t number = carried ? carried->number : 0;
  if (number == followed.number) return;
  ThreadState& state = State();
  if (!followed.number) followed.own = state.scope;
  ChangeScope(state, carried ? carried->scope : followed.own);
  SetNumber(number);
}

void SetScopeCarrier(const ScopeCarrier& carrier) {
  known_carrier.store(&carrier, std::memory_order_release);
  if (State().scope == InitialScope()) return;
  followed.own = InitialScope();
  PutScope(carrier, State().scope);
}

ScopeState CurrentScope() {
  FollowCarriedScope();
  return State().scope;
}

void SetScope(const ScopeState& scope) {
  ThreadState& state = State();
  const ScopeState before = state.scope;
  ChangeScope(state, scope);
  if (const ScopeCarrier* carrier = known_carrier.load(std::memory_order_acquire)) {
    if (!followed.number) followed.own = before;
    PutScope(*carrier, scope);
  }
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
