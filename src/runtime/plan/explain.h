// SPDX-License-Identifier: Apache-2.0
// Which kernel a call takes, and why each other one is declined.
#pragma once
#include <string>
#include <vector>

#include "anyop/abi.h"

namespace anyop {

struct Operator;

// What became of a kernel in the choice for one call.
struct KernelChoice {
  std::string kernel;  // "means" for the composition
  bool taken = false;
  std::string reason;    // "declined: d % 16 == 0 is false, d is 100"; "" if taken without contest
  double probe_ns = -1;  // what `anyop tune` recorded of it and its neighbour; -1: nothing
};
// "12 ns", "3.4 us".
std::string ShowTime(double ns);

struct Explanation {
  std::string op;                     // full name
  std::string call;                   // "rms_norm(x: bf16[2, 100], weight: None, eps: 1e-06, ...)"
  std::string error;                  // why the call is refused; "" if it is not
  std::vector<KernelChoice> kernels;  // best first
  std::vector<std::string> notes;     // copies made, results left out
  std::uint64_t workspace_bytes = 0;
  double estimated_ns = 0;
  int threads = 1;
  std::string text() const;
};
// "rms_norm(x: bf16[2, 100], weight: None, eps: 1e-06)": types of tensors, other values.
std::string ShowCall(const Operator& op, const anyop_value* frame);
// frame: as for GetPlan. Runs nothing.
Explanation Explain(Operator& op, const anyop_value* frame);

// Signature, document, kernels with their conditions: for people.
std::string InfoText(const Operator& op);
// The contract as data: name, hash, parameters, results, kernels, gradient, document.
std::string InfoJson(const Operator& op);

}  // namespace anyop
