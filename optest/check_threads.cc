// SPDX-License-Identifier: Apache-2.0
// Bits that must not depend on the number of threads, nor on what runs at the same time.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "optest/compare.h"
#include "optest/findings.h"
#include "optest/kernel_run.h"
#include "optest/session.h"

namespace anyop::optest {
namespace {

constexpr std::size_t kMostStops = 6;  // memories at which a kernel's parts are interrupted
constexpr std::int64_t kMostAccesses = 12;

struct Way {
  int threads;
  Cut cut;
  const char* how;
};
constexpr Way kWays[] = {{2, Cut::kPool, "with 1 thread and with 2"},
                         {3, Cut::kBackwards, "with 1 thread and with 3, the last part first"},
                         {7, Cut::kBackwards, "with 1 thread and with 7, the last part first"},
                         {4, Cut::kThreads, "with 1 thread and with 4 that begin together"}};

Arrangement PageEnds() {
  Arrangement arrangement;
  arrangement.layout = [](int) { return Layout::kPageEnd; };
  return arrangement;
}

// One kernel on one call.
class ThreadCheck {
 public:
  ThreadCheck(Call& call, const OperatorKernel& kernel, Findings* findings)
      : call_(call), kernel_(kernel), findings_(*findings) {}

  // may_stop: false once a part of the kernel has waited for one that stood still.
  void Run(bool* may_stop) {
    const KernelRun one = RunKernel(call_.op(), kernel_, call_.arguments());
    if (!one.is_taken || one.defect) return;  // MatchesItsReference reports that
    bool is_cut = false;
    for (const Way& way : kWays) {
      if (!RunWay(way, one.results, &is_cut)) return;
    }
    if (is_cut && *may_stop && IsQuick(call_)) Interrupt(may_stop);
  }

 private:
  bool RunWay(const Way& way, const Results& one, bool* is_cut) {
    ServicesOptions options;
    options.threads = way.threads;
    options.cut = way.cut;
    const KernelRun many = RunKernel(call_.op(), kernel_, call_.arguments(), {}, options);
    *is_cut = *is_cut || many.cut_regions > 0;
    if (many.defect) return Finds(many.defect, std::to_string(way.threads) + " threads");
    const std::string difference = FindDifference(one, many.results);
    if (difference.empty()) return true;
    return Differs(
        difference + ' ' + way.how +
        ", but the bits must be the same. No part of a region may depend on what another "
        "one has left in memory, nor a sum on where its loop is cut.");
  }

  // One part in the middle of another, at several places.
  void Interrupt(bool* may_stop) {
    const KernelRun alone = RunKernel(call_.op(), kernel_, call_.arguments(), PageEnds());
    std::vector<std::string> memories;
    if (*kernel_.data.workspace) memories.emplace_back("workspace");
    for (const auto& [name, array] : alone.results) memories.push_back(name);
    memories.resize(std::min(memories.size(), kMostStops));
    for (const std::string& memory : memories) {
      for (const std::int64_t access : {std::int64_t(1), call_.Draw(2, kMostAccesses)}) {
        if (!InterruptAt({memory, int(access)}, alone.results, may_stop) || !*may_stop) return;
      }
    }
  }

  bool InterruptAt(const Stop& stop, const Results& alone, bool* may_stop) {
    ServicesOptions options;
    options.threads = 4;
    options.cut = Cut::kInterrupted;
    options.stop = stop;
    const KernelRun run = RunKernel(call_.op(), kernel_, call_.arguments(), PageEnds(), options);
    *may_stop = !run.waits;
    if (run.defect) return Finds(run.defect, "4 threads");
    const std::string difference = FindDifference(alone, run.results);
    if (difference.empty()) return true;
    return Differs(
        difference +
        " where another part of the region runs in the middle of one (after "
        "access " +
        std::to_string(stop.access) + " of " + stop.memory +
        "), as threads may do: both write the same memory. Give each its own scratch, by "
        "the slot that f(begin, end, slot) of ctx.ParallelFor gets.");
  }

  bool Differs(const std::string& text) { return Finds({"differs " + FirstName(text), text}); }
  bool Finds(const Defect& defect, const std::string& how = "") {
    findings_.Add(defect, kernel_, call_, how);
    return false;
  }

  Call& call_;
  const OperatorKernel& kernel_;
  Findings& findings_;
};

}  // namespace

void CheckThreadInvariance(const OpTest& test) {
  if (!test.thread_invariant) return;
  const auto kernels = Kernels(*Find(test.op));
  std::map<const OperatorKernel*, bool> may_stop;
  Findings findings;
  ForEachCall(test, Purpose::kValues, [&](Call& call) {
    for (const OperatorKernel* kernel : kernels) {
      if (findings.AreEnoughOf(*kernel)) continue;
      ThreadCheck(call, *kernel, &findings).Run(&may_stop.try_emplace(kernel, true).first->second);
    }
  });
  findings.Report();
}

}  // namespace anyop::optest
