// SPDX-License-Identifier: Apache-2.0
// Parts of parallel regions that use the same memory, as the thread sanitizer sees it.
#include "optest/kernel_run.h"
#include "optest/races.h"
#include "optest/session.h"

namespace anyop::optest {
namespace {

// More than 2, for kernels that treat the first and the last thread differently.
constexpr int kRacingThreads = 4;

void CheckKernelForRaces(Call& call, const OperatorKernel& kernel) {
  // Only semaphores order these threads. The pool's atomics are those of a library that is built
  // without the sanitizer, which therefore would take its parts for unordered.
  ServicesOptions options;
  options.threads = kRacingThreads;
  options.cut = Cut::kThreads;
  KernelRun run;
  const std::string reports =
      ReportsOf([&] { run = RunKernel(call.op(), kernel, call.arguments(), {}, options); });
  if (!run.is_taken) return;
  Tally& tally = TheSession().tally;
  ++tally.calls;
  ++tally.ran[call.op().display_name() + " " + kernel.name];
  if (run.defect) return Report(run.defect.text, kernel, call);
  if (!reports.empty()) Report(DescribeRace(reports), kernel, call);
}

}  // namespace

void CheckRaces(const OpTest& test) {
  const auto kernels = Kernels(*Find(test.op));
  ForEachCall(test, Purpose::kValues, [&](Call& call) {
    for (const OperatorKernel* kernel : kernels) {
      if (!HasFailed()) CheckKernelForRaces(call, *kernel);
    }
  });
}

}  // namespace anyop::optest
