// SPDX-License-Identifier: Apache-2.0
// What the command line asks for, and what has run so far.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "optest/checks.h"
#include "optest/generate.h"
#include "runtime/device/device.h"

namespace anyop::optest {

// How many of the calls that take the reference more than a moment run: OPTEST_LARGE.
enum class Large { kNone, kSome, kAll };

struct Session {
  SeedOptions seeds;
  std::optional<std::uint64_t> only_call;  // --call=N
  std::string kernel;                      // --kernel=NAME
  Large large = Large::kAll;
  Tally tally;
};
Session& TheSession();

// Removes optest's own flags from argv; throws std::invalid_argument for a bad one.
void ReadFlags(int* argc, char** argv);

// Calls body for every generated call until one has failed. Calls that take long are left out, and
// counted, unless --exhaustive.
void ForEachCall(const OpTest& test, Purpose purpose, const std::function<void(Call&)>& body);

// The kernels of the operator that the host runs, or a device, and that --kernel and this machine
// leave; these others are counted.
std::vector<const OperatorKernel*> Kernels(const Operator& op, const DeviceKind* device = nullptr);

// "cpu_avx512 2x5x17": a kernel and the sizes of the first tensor.
std::string Title(const OperatorKernel& kernel, const Call& call);
// What to print with a failure of a call.
std::string Reproduce(const Call& call);
// Fails the test with one report: what is wrong, in which kernel, memory and call.
void Report(const std::string& what, const OperatorKernel& kernel, const Call& call,
            const std::string& memory = "");

// Whether the call is none of the large ones.
bool IsQuick(const Call& call);

}  // namespace anyop::optest
