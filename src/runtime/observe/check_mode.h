// SPDX-License-Identifier: Apache-2.0
// Check mode: every call of every operator is watched for what its kernel does to memory, and its
// data are looked at (`.check_data`).
#pragma once
#include <stdexcept>
#include <string>

#include "runtime/registry/operator.h"

namespace anyop {

// Whether it is on: by ANYOP_CHECK=1 or deep, or by SetChecking.
bool IsChecking();
// Whether results are looked at, too: NaN, and how far they are from the reference.
bool IsCheckingDeeply();
// Of the operators that are there and of those to come; calls that run already end as they began.
void SetChecking(bool on, bool deeply = false);
// For as long as it lives: one at a time.
class Checking {
 public:
  explicit Checking(bool on = true, bool deeply = false) { SetChecking(on, deeply); }
  ~Checking() { SetChecking(false); }
  Checking(const Checking&) = delete;
  Checking& operator=(const Checking&) = delete;
};

// What check mode found in a kernel. code: "write-outside", "read-outside", "write-input",
// "unwritten", "nan" or "inaccurate" (docs/debugging.md says what each means).
struct Finding : std::runtime_error {
  Finding(const char* its_code, const std::string& sentence)
      : std::runtime_error(sentence), code(its_code) {}
  const char* code;
};

// Runs the kernel on guarded copies of what it reads and writes, and on a guarded workspace full of
// NaN; results that share no memory with arguments begin as NaN, too. Then nothing but its results
// has changed, nothing beside its arguments was read, and each element of a result of floats is
// written. Else Internal is thrown, with the file that repeats the call
// (runtime/observe/capsule.h), and the caller's memory is as it was, arguments that the kernel
// wrote included.
void RunKernelChecked(const Operator& op, const Plan& plan, const anyop_value* frame);

}  // namespace anyop
