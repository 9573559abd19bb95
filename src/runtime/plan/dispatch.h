// SPDX-License-Identifier: Apache-2.0
// The choice of a kernel: the first in the list that everything allows.
#pragma once
#include <string>
#include <vector>

#include "anyop/scope.h"
#include "runtime/plan/explain.h"
#include "runtime/plan/policy.h"
#include "runtime/registry/operator.h"
#include "signature/check.h"

namespace anyop {

// A checked call, about to get its kernel.
struct Request {
  const Operator& op;
  int form;
  const Bindings& bindings;
  const anyop_value* frame;
  const Policy& policy;
  ScopeState scope;
  const DeviceKind* device = nullptr;  // null: the host
  int device_number = 0;
};

// Whether calls on the device, or on the host where it is null, may take the kernel.
bool IsFor(const OperatorKernel& kernel, const DeviceKind* device);

// The device that takes the operator's calls on the host, because the policy pins a kernel of it
// and none of the host's; null: the host itself.
const DeviceKind* TakerOfHostCalls(const Operator& op, const Policy& policy);

constexpr int kComposition = -1, kNoKernel = -2;

// The index of the kernel, kComposition or kNoKernel. choices gets what becomes of every kernel,
// for explain and for errors; with null no text is made, and the search ends with the choice.
int Dispatch(const Request& request, std::vector<KernelChoice>* choices);

// "rms_norm: no kernel takes this call:\n  cpu_avx512: declined: ..."
std::string UnsupportedText(const Operator& op, const std::vector<KernelChoice>& choices);

}  // namespace anyop
