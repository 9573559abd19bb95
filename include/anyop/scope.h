// SPDX-License-Identifier: Apache-2.0
// What surrounds a call on this thread: policy, strict, batch-invariant mode, threads.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace anyop {

struct Policy;

// The process-wide policy, under every scope: ANYOP_POLICY at start. Throws InvalidArgument on
// contradictions and unknown names. "" resets it.
void SetProcessPolicy(std::string_view text);
std::string ProcessPolicy();

struct ScopeState {
  const Policy* policy = nullptr;  // null: the process policy
  int threads = 0;                 // 0: NumThreads()
  bool is_strict = false;
  bool is_batch_invariant = false;
};
ScopeState CurrentScope();         // of this thread
void SetScope(const ScopeState&);  // for hosts whose scopes do not nest like C++ blocks

// Each changes one property until the end of the block, on this thread.
class Scope {
 public:
  Scope() : saved_(CurrentScope()) {}
  ~Scope() { SetScope(saved_); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  // "all,-op1", "none,+op1", "rms_norm=cpu_avx2": laid over the policy in force.
  Scope& policy(std::string_view text);
  Scope& strict(bool on = true);
  Scope& batch_invariant(bool on = true);
  Scope& threads(int n);

 private:
  ScopeState saved_;
};

}  // namespace anyop
