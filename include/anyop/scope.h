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

// Who looks at the data of a call on a device (indices, an operator's own check) before a kernel
// uses them. kOnDevice: the device; an error comes later, with the next call or synchronisation.
// kOnHost: the data are copied first, and the call waits; strict mode does so, and so do devices
// that cannot look. kTrusted: nobody.
enum class DataChecks : std::uint8_t { kOnDevice, kOnHost, kTrusted };

struct ScopeState {
  const Policy* policy = nullptr;  // null: the process policy
  int threads = 0;                 // 0: NumThreads()
  bool is_strict = false;
  bool is_batch_invariant = false;
  DataChecks data_checks = DataChecks::kOnDevice;
  // A call that no kernel of its device takes runs on the host, on copies.
  bool runs_on_host = false;

  bool operator==(const ScopeState&) const = default;
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
  // For calls on devices; a call on the host is always checked.
  Scope& data_checks(DataChecks how);
  // Calls that no kernel of their device takes run on the host, on copies, and are counted as
  // fallbacks; without it they are refused.
  Scope& fallback_to_host(bool on = true);

 private:
  ScopeState saved_;
};

}  // namespace anyop
