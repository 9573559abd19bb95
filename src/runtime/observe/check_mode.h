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
// Switches it for the operators that are there and those to come. Calls that run already end as
// they began.
void SetChecking(bool on, bool deeply = false);
// Check mode for as long as it lives. One at a time: the end of any switches the mode off.
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
// NaN; results that share no memory with arguments begin as NaN, too. Afterwards it looks whether
// anything but the results has changed, anything beside the arguments was read, or an element of a
// result of floats was not written. If so, Internal is thrown, with the file that repeats the call
// (runtime/observe/capsule.h). The caller's memory is as it was then, because results are copied to
// it last.
void RunKernelChecked(const Operator& op, const Plan& plan, const anyop_value* frame);

}  // namespace anyop
