// SPDX-License-Identifier: Apache-2.0
// Which kernels a call may take: `all,-op1` · `none,+op1,+op2` · `rms_norm=cpu_avx2`.
#pragma once
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "anyop/scope.h"
#include "platform/threads.h"
#include "runtime/plan/thread_state.h"
#include "runtime/registry/operator.h"

namespace anyop {

struct Operator;

struct PolicyItem {
  enum Choice : std::uint8_t { kEnabled, kDisabled, kPinned };
  std::string op;  // full name
  Choice choice;
  std::string kernel;  // pinned: a kernel's name, or, where none has it, its beginning up to a "_"

  // The first word of the kernel's name, whose calls a pin is about: "cpu".
  std::string_view device() const { return std::string_view(kernel).substr(0, kernel.find('_')); }
};

// Kept for the life of the process: keys hold the number.
struct Policy {
  std::uint32_t number;   // 0: everything enabled
  bool all = true;        // what is not listed is enabled
  bool has_base = false;  // says `all` or `none` itself, so that outer policies do not matter
  std::vector<PolicyItem> items;  // by operator, then kernel
  std::string text;               // canonical

  // The items about an operator: one, or a pin for each kind of device.
  std::span<const PolicyItem> find(std::string_view op) const;
  bool Enables(std::string_view op) const {
    const std::span<const PolicyItem> own = find(op);
    return own.empty() ? all : own[0].choice != PolicyItem::kDisabled;
  }
};

// Parses and interns. Throws InvalidArgument on a contradiction, an unknown operator of a loaded
// library, or an unknown kernel; each names the nearest.
const Policy* ParsePolicy(std::string_view text);
// `inner` laid over `outer`: its items replace those about the same calls. If it says `all` or
// `none` itself, nothing of `outer` stays.
const Policy* Combine(const Policy* outer, const Policy* inner);

// The policy set for the process; null before ANYOP_POLICY was read.
extern std::atomic<const Policy*> process_policy;
const Policy* ReadProcessPolicy();
// The policy of calls on this thread.
const Policy* CurrentPolicy();

inline constexpr int kThreadsShift = 8, kPolicyShift = 32;
// The scope of a call as one word of the key: modes from bit 0 on, then threads, then the policy's
// number. ProcessWord has what the process says, ScopeWord puts a thread's scope over it.
inline std::uint64_t ProcessWord() {
  const Policy* p = process_policy.load(std::memory_order_acquire);
  if (!p) [[unlikely]] {
    p = ReadProcessPolicy();
  }
  return std::uint64_t(p->number) << kPolicyShift | std::uint64_t(NumThreads()) << kThreadsShift;
}
inline std::uint64_t ScopeWord(const ThreadState& state) {
  return (ProcessWord() & state.process_mask) | state.scope_word;
}

// Throws if the process policy names an operator or kernel of this library that it lacks:
// ANYOP_POLICY may name libraries that are loaded later. Called before the library is registered,
// so that nothing of it stays. is_whole: it brings all operators of its name, so that one that it
// lacks will not come.
struct NewLibrary;
void CheckProcessPolicy(const NewLibrary& library, bool is_whole);

// Whether a kernel answers to `wanted`: equal, or longer by "_..." where no kernel of the operator
// has that very name. Else cpu_avx512 could not be pinned where cpu_avx512_bf16 is there as well.
bool NameMatches(const Operator& op, std::string_view kernel, std::string_view wanted);

}  // namespace anyop
