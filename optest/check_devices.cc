// SPDX-License-Identifier: Apache-2.0
// Kernels on the devices of the libraries that are loaded.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "optest/compare.h"
#include "optest/device_frame.h"
#include "optest/exact.h"
#include "optest/failures.h"
#include "optest/running.h"
#include "optest/session.h"
#include "runtime/device/device.h"

namespace anyop::optest {
namespace {

// Of an operator on a device with kernels of the host, unless --exhaustive: they are the same code
// as there, and what differs is what the runtime does around them.
constexpr std::size_t kMostCalls = 8;

// What a call does: results, or the error that ends it.
struct Outcome {
  Results results;
  Defect defect;  // what it did to memory that it must leave alone
  int code = ANYOP_OK;
  std::string error;
};

Outcome OnHost(const Call& call, const Arrangement& arrangement) {
  Outcome outcome;
  try {
    outcome.results = Call(call).Run(arrangement, &outcome.defect);
  } catch (const Error& e) {
    outcome.code = e.code, outcome.error = e.what();
  }
  return outcome;
}

// right: the call whose results these would be, if this one is wrong.
Outcome OnDevice(const Call& call, const Arrangement& arrangement, Device device,
                 const Call* right = nullptr) {
  Operator& op = *Find(call.op().name);
  Frame frame(op, call.arguments(), arrangement);
  DeviceFrame there(op, &frame, device);
  Outcome outcome;
  try {
    if (right) {
      Frame of_right(op, right->arguments(), arrangement);
      there.AddResults(*GetPlan(op, of_right.values()), arrangement);
    } else {
      there.AddResults(*GetPlan(op, there.values()), arrangement);
    }
    Run(op, *GetPlan(op, there.values()), there.values());
    Stream::Current(device).Synchronize();
  } catch (const Error& e) {
    outcome.code = e.code, outcome.error = e.what();
  }
  outcome.defect = there.BringBack();
  if (!outcome.defect) outcome.defect = frame.FindDefect(outcome.code == ANYOP_OK);
  outcome.results = frame.Read();
  return outcome;
}

class DeviceCheck {
 public:
  DeviceCheck(const OpTest& test, Call& call, const OperatorKernel* kernel, Device device)
      : test_(test), call_(call), kernel_(kernel), device_(device) {}

  // Whether the kernel takes the call.
  bool Run() {
    Scope scope;
    if (kernel_) scope.policy(call_.op().name + "=" + kernel_->name);
    const Running running((kernel_ ? "kernel " + kernel_->name : "the composition") + " on " +
                          device_.name());
    const bool is_taken = RunAndCompare({});
    if (is_taken && !HasFailed() && !is_for_host()) CheckWritten();
    if (is_taken && !HasFailed() && kernel_) RunAndCompare(MixedArrangement(call_));
    if (is_taken && !HasFailed()) RunWrongIndices();
    return is_taken;
  }

 private:
  bool is_for_host() const { return !kernel_ || kernel_->is_for_host; }

  // Whether the kernel takes the call.
  bool RunAndCompare(const Arrangement& arrangement) {
    const Outcome there = OnDevice(call_, arrangement, device_);
    if (there.code == ANYOP_UNSUPPORTED && !is_for_host()) return false;
    std::string wrong = there.defect.text;
    Tally& tally = TheSession().tally;
    if (is_for_host()) {
      const Outcome here = OnHost(call_, arrangement);
      if (here.code == ANYOP_UNSUPPORTED && there.code == ANYOP_UNSUPPORTED) return false;
      if (here.code != ANYOP_OK) return CompareErrors(here, there, call_), false;
      if (wrong.empty()) wrong = FindDifference(here.results, there.results);
    } else if (wrong.empty() && there.code == ANYOP_OK) {
      const Comparison c = Compare(test_, call_, there.results, call_.Exact(), LazyTerms(call_));
      wrong = c.failure;
      tally.elements += c.elements;
    }
    if (there.code != ANYOP_OK) wrong = there.error;
    if (!wrong.empty()) Tell(wrong, call_);
    ++tally.calls;
    ++tally.ran[call_.op().display_name() + " " + (kernel_ ? kernel_->name : "means") + " on " +
                device_.name()];
    return true;
  }

  // Over other bytes the kernel gives the same: all was written, and nothing depends on what the
  // results held.
  void CheckWritten() {
    Arrangement other;
    other.poison = kOtherPoison;
    const std::string difference = FindDifference(OnDevice(call_, {}, device_).results,
                                                  OnDevice(call_, other, device_).results);
    if (difference.empty()) return;
    Tell(difference +
             " in two runs that find other bytes there: the element is not written, or depends on "
             "what was there before",
         call_);
  }

  // A call that is refused is so, sooner or later, in the words of the host, and writes nothing.
  void CompareErrors(const Outcome& here, const Outcome& there, const Call& call) {
    if (there.code != here.code) {
      Tell("the host says: " + here.error +
               "\n  the device: " + (there.code == ANYOP_OK ? "nothing" : there.error),
           call);
    } else if (kernel_ && there.error != here.error && there.error != here.error + Later()) {
      Tell("it is refused with '" + there.error + "', but on the host with '" + here.error + "'",
           call);
    } else if (kernel_ && there.defect) {  // a composition has begun by then
      Tell(there.defect.text, call);
    }
  }

  // An index that is out of range is refused, sooner or later, in the words of the host, and
  // nothing is written.
  void RunWrongIndices() {
    const Form& form = call_.op().contract->forms[0];
    for (std::size_t i = 0; i < form.params.size(); ++i) {
      const auto* array = std::get_if<Array>(&call_.arguments()[i]);
      if (form.params[i].rule == IndexRule::kNone || !array || array->size() == 0) continue;
      Array wrong = *array;
      wrong.SetInt(array->size() - 1, std::int64_t(Largest(array->dtype()) / 2));
      Call spoilt(call_);
      spoilt.Set(form.params[i].name, wrong);
      const Outcome here = OnHost(spoilt, {});
      if (here.code != ANYOP_INVALID_ARGUMENT) continue;  // of a form without the rule
      CompareErrors(here, OnDevice(spoilt, {}, device_, &call_), spoilt);
    }
  }

  std::string Later() const {
    return " This is of earlier work on " + device_.name() + ", whose results are not to be used.";
  }

  void Tell(const std::string& what, const Call& call) {
    Fail(what + "\n  " + (kernel_ ? Title(*kernel_, call) : "the composition") + " on " +
         device_.name() + "\n  " + Reproduce(call));
  }

  const OpTest& test_;
  Call& call_;
  const OperatorKernel* const kernel_;
  const Device device_;
};

// The kernels that a device runs; null: the composition of what has none.
std::vector<const OperatorKernel*> KernelsOn(Device device, const Operator& op) {
  std::vector<const OperatorKernel*> kernels = Kernels(op, &DeviceKindOf(device.dl()));
  if (op.kernels.empty()) kernels.push_back(nullptr);
  // A checked build says what is wrong where the fast one has wrong values, or ends the process.
  std::ranges::stable_partition(
      kernels, [](const OperatorKernel* k) { return k && k->name.ends_with("_checked"); });
  return kernels;
}

}  // namespace

bool RunsOnSomeDevice(const Operator& op) {
  return std::ranges::any_of(
      Devices(), [&](const DeviceInfo& info) { return !KernelsOn(info.device, op).empty(); });
}

void CheckDevices(const OpTest& test) {
  const bool is_exhaustive = TheSession().seeds.is_exhaustive;
  const Operator& op = *Find(test.op);
  for (const DeviceInfo& info : Devices()) {
    const auto kernels = KernelsOn(info.device, op);
    if (kernels.empty() || info.device.dl().device_id > 0) continue;
    const Stream streams[] = {Stream(info.device), Stream(info.device)};
    std::vector<std::uint64_t> seeds = Seeds(test, Purpose::kValues, TheSession().seeds);
    if (TheSession().only_call) seeds = {*TheSession().only_call};
    const std::size_t step =
        is_exhaustive ? 1 : std::max<std::size_t>(seeds.size() / kMostCalls, 1);
    const bool has_own =
        std::ranges::any_of(kernels, [](const OperatorKernel* k) { return k && !k->is_for_host; });
    for (std::size_t s = 0; s < seeds.size() && !HasFailed(); s += has_own ? 1 : step) {
      std::optional<Call> call = Generate(test, seeds[s], Purpose::kValues);
      if (!call || !(IsQuick(*call) || is_exhaustive)) continue;
      NoteCall(Reproduce(*call));
      const StreamScope scope(streams[s / step % 2]);
      bool is_taken = false;
      for (const OperatorKernel* kernel : kernels) {
        const bool is_own = kernel && !kernel->is_for_host;
        if (HasFailed() || !(is_own || s % step == 0)) continue;
        is_taken |= DeviceCheck(test, *call, kernel, info.device).Run();
      }
      // Elsewhere CheckPromises asks this of the host.
      if (is_taken || HasFailed() || RunsOnHost(op) || IsUnsupported(test, *call)) continue;
      Fail("the signature promises this call, but no kernel takes it on " + info.device.name() +
           "\n  " + Reproduce(*call));
    }
  }
}

}  // namespace anyop::optest
