// SPDX-License-Identifier: Apache-2.0
// Calling operators: what hosts (Python, frameworks, the C++ API) build on.
//
//   Operator* op = Find("rms_norm");
//   anyop_value frame[] = {x, weight, eps, weight_offset, /* y: */ {}};
//   const HeldPlan plan = GetPlan(*op, frame);  // checks the call, throws Error
//   ... allocate the results whose tag is ANYOP_NONE from plan->results, contiguous ...
//   Run(*op, *plan, frame);
//
// A frame holds n_params + n_results values. A result whose signature says `?` may stay NONE: it is
// declined and not computed. A result given before GetPlan is checked against the signature.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "anyop/scope.h"
#include "platform/error.h"
#include "runtime/plan/explain.h"
#include "runtime/plan/thread_state.h"
#include "runtime/registry/operator.h"
#include "runtime/run/counters.h"

namespace anyop {

// "anyop.rms_norm" or "rms_norm" (for anyop's own). Throws NotAvailable with the nearest name.
// Loads the built-in library at first use.
Operator* Find(std::string_view name);
// All operators, in the order of their full names.
std::vector<Operator*> Operators();
// The operators that were registered after the first `first` ones, in order of registration. So a
// host that knows some of them asks for the new ones alone.
std::vector<Operator*> OperatorsFrom(std::size_t first);

// Loads an operator library; loading the same contracts again does nothing. Errors: NotAvailable
// (no such file, no operator library, built for a newer boundary), InvalidArgument (a contract that
// contradicts a registered one, a signature or expression that does not parse).
void Load(const std::string& path);
// Registers the operators of a table in memory, which stays there, as Load does those of a file.
// file: where messages say that they are from.
void Define(const anyop_library_info& info, const std::string& file);
// Loads double-precision references for tests and the check observer.
void LoadReferences(const std::string& path);
const anyop_reference* FindReference(const Operator& op);  // null if there is none
// The libraries loaded so far, built-in first.
struct LoadedLibrary {
  std::string name, version, file;
};
std::vector<LoadedLibrary> Libraries();

// The plan of this call, for as long as it is held, on this thread.
// Cost: about 10 ns if the same thread's last call of `op` had the same shapes and scope.
HeldPlan::Counted FindPlan(Operator& op, anyop_value* frame);
inline HeldPlan GetPlan(Operator& op, anyop_value* frame) { return HeldPlan(FindPlan(op, frame)); }

// The plan of a part of a call on `device`: of a composition's statement, or of a graph's node. A
// part without a tensor there, with numbers alone for instance, would run on the host and write
// device memory. So its results say where it runs: `wanted`, by bit; those in the frame are there.
HeldPlan::Counted FindPlanOn(DLDevice device, Operator& op, anyop_value* frame,
                             std::uint64_t wanted);
inline HeldPlan GetPlanOn(DLDevice device, Operator& op, anyop_value* frame, std::uint64_t wanted) {
  return HeldPlan(FindPlanOn(device, op, frame, wanted));
}

// Checks what depends on data and addresses, then runs. Nothing is written if it throws.
inline void Run(Operator& op, Plan& plan, anyop_value* frame) {
  // Relaxed: any entry that is read is one that may run, and observers begin with later calls.
  op.entry.load(std::memory_order_relaxed)(op, plan, frame);
}
// The runtime's own entry, of operators that nobody observes.
void RunPlan(Operator& op, Plan& plan, anyop_value* frame);

}  // namespace anyop
