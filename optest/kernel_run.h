// SPDX-License-Identifier: Apache-2.0
// Runs one kernel directly, with everything that the runtime would give it.
#pragma once
#include <string>

#include "optest/exact.h"
#include "optest/frame.h"
#include "optest/services.h"

namespace anyop::optest {

// Why the kernel does not take the call: the machine, .when, or its C++ predicate; "" if it does.
std::string WhyNot(const Operator& op, const OperatorKernel& kernel, const CheckedCall& checked,
                   Frame& frame);

struct KernelRun {
  bool is_taken = false;  // the kernel takes calls like this one
  Defect defect;          // it failed, or did to memory what it must not
  int cut_regions = 0;    // parallel regions of several parts
  bool waits = false;     // with Cut::kInterrupted: a part waited for one that stood still
  Results results;
};
KernelRun RunKernel(const Operator& op, const OperatorKernel& kernel,
                    const std::vector<Argument>& arguments, const Arrangement& arrangement = {},
                    ServicesOptions services = {});

// The text with which the operator's .check refuses the arguments; "" if it does not.
std::string CheckRefusal(const Operator& op, const std::vector<Argument>& arguments);

}  // namespace anyop::optest
