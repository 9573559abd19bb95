// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/dispatch.h"

#include <algorithm>

#include "platform/error.h"
#include "runtime/device/device.h"
#include "runtime/plan/tuned.h"

namespace anyop {
namespace {

// A condition that has no value in this call, as one about an absent argument, is not true.
bool IsTrue(const Request& r, const Expression& condition) {
  const int node = condition.node[std::size_t(r.form)];
  if (node < 0) return false;
  const Number n = Evaluate(*r.op.contract, r.form, node, r.bindings, r.frame);
  return n.known && (n.is_float ? n.f != 0 : n.i != 0);
}

// The first feature that the call's device lacks; "" if there is none.
std::string MissingOnDevice(const Request& r, const OperatorKernel& k) {
  const std::vector<std::string> has = r.device->Features(r.device_number);
  for (const std::string& feature : SplitList(k.data.needs)) {
    if (std::find(has.begin(), has.end(), feature) == has.end()) return feature;
  }
  return "";
}

// Throws if the operator lacks the kernel: a policy was checked when it was made, but a library
// that was built again may lack it. To forget the pin would run another kernel without a word.
void CheckIsThere(const Operator& op, const PolicyItem& item) {
  const auto is_named = [&](const OperatorKernel& k) {
    return NameMatches(op, k.name, item.kernel);
  };
  if (std::ranges::any_of(op.kernels, is_named)) return;
  Fail(ANYOP_UNSUPPORTED,
       op.Message("the policy pins its kernel " + item.kernel +
                  ", which it has no more: a library was built again without it. Try "
                  "another policy."));
}

bool RunsPinned(const Operator& op, const PolicyItem& item, const DeviceKind* device) {
  return std::ranges::any_of(op.kernels, [&](const OperatorKernel& k) {
    return IsFor(k, device) && NameMatches(op, k.name, item.kernel);
  });
}

// The pin that is about calls on this call's device: of a kernel that runs there, the device's own
// before the host's. Null: none is. So one policy can pin a kernel for each kind of device.
const PolicyItem* PinOf(const Request& r) {
  const PolicyItem* found = nullptr;
  for (const PolicyItem& item : r.policy.find(r.op.name)) {
    if (item.choice != PolicyItem::kPinned) continue;
    const bool is_own = r.device && item.device() == r.device->word;
    const bool runs = RunsPinned(r.op, item, r.device);
    if (runs && (!found || is_own)) found = &item;
    if (!runs) CheckIsThere(r.op, item);
  }
  return found;
}

// True if the kernel can take the call; otherwise `why`, if it is not null, gets the reason.
// Reasons are functions, so that no text is made where nobody reads it.
bool IsEligible(const Request& r, const PolicyItem* pin, bool is_enabled, const OperatorKernel& k,
                std::string* why) {
  const auto decline = [&](auto&& reason) {
    if (why) *why = "declined: " + std::string(reason());
    return false;
  };
  if (!k.is_built) return decline([] { return "not built for this machine"; });
  if (!IsFor(k, r.device)) [[unlikely]] {
    return decline([&] { return "for device " + k.device; });
  }
  if (!k.has_features) {
    return decline([&] { return "this machine has no " + k.missing + ", or ANYOP_ISA hides it"; });
  }
  if (!k.is_for_host) {
    const std::string missing = MissingOnDevice(r, k);
    if (!missing.empty()) {
      return decline([&] { return r.device->word + " has no " + missing; });
    }
  } else if (r.device && k.needs_caller) {
    return decline([] { return "a function of Python runs on the host alone"; });
  }
  if (pin && !NameMatches(r.op, k.name, pin->kernel)) {
    return decline([&] { return "the policy takes " + pin->kernel; });
  }
  if (!is_enabled && !k.is_portable) {
    return decline([&] { return "the policy disables " + r.op.display_name(); });
  }
  for (const Expression& condition : k.when) {
    if (IsTrue(r, condition)) continue;
    return decline([&] {
      return condition.node[std::size_t(r.form)] < 0
                 ? condition.text + " names what this form lacks"
                 : Describe(*r.op.contract, r.form, condition, r.bindings, r.frame);
    });
  }
  if (k.data.accepts) {
    if (const char* reason = k.data.accepts(r.frame)) return decline([&] { return reason; });
  }
  return true;
}

// Of two eligible kernels that want to be measured, the one that `anyop tune` found to be faster on
// this machine; the first where nothing is recorded, so that every process takes the same one.
int BetterOf(const Request& r, int first, int second, std::vector<KernelChoice>* choices) {
  const auto name = [&](int k) -> const std::string& { return r.op.kernels[std::size_t(k)].name; };
  const TunedChoice* t =
      FindTuned(r.op, TunedCall(*r.op.contract, r.form, r.bindings), name(first), name(second));
  const int winner = t && t->second_is_faster() ? second : first;
  if (!choices) return winner;
  KernelChoice &a = (*choices)[std::size_t(first)], &b = (*choices)[std::size_t(second)];
  std::string& reason = winner == first ? b.reason : a.reason;
  if (!t) {
    reason =
        name(first) + " comes first; " +
        (TunedPath().empty() ? "no file of `anyop tune` is read" : "`anyop tune` can measure both");
    return winner;
  }
  a.probe_ns = t->first_ns;
  b.probe_ns = t->second_ns;
  reason = name(winner) + " was faster when `anyop tune` measured both (" +
           ShowTime(std::min(t->first_ns, t->second_ns)) + " against " +
           ShowTime(std::max(t->first_ns, t->second_ns)) + ")";
  return winner;
}

bool WantsProbe(const Request& r, int first, int second) {
  const auto& kernels = r.op.kernels;
  return !r.scope.is_batch_invariant && *kernels[std::size_t(first)].data.probe &&
         *kernels[std::size_t(second)].data.probe;
}

}  // namespace

bool IsFor(const OperatorKernel& kernel, const DeviceKind* device) {
  return device ? device->Runs(kernel.device) : kernel.is_for_host;
}

const DeviceKind* TakerOfHostCalls(const Operator& op, const Policy& policy) {
  const DeviceKind* taker = nullptr;
  for (const PolicyItem& item : policy.find(op.name)) {
    if (item.choice != PolicyItem::kPinned) continue;
    if (RunsPinned(op, item, nullptr)) return nullptr;
    const DeviceKind* kind = FindDeviceKind(item.device());
    const bool takes = kind && kind->table.takes_host_calls && RunsPinned(op, item, kind);
    if (takes && !taker) taker = kind;
  }
  return taker;
}

int Dispatch(const Request& r, std::vector<KernelChoice>* choices) {
  const PolicyItem* const pin = PinOf(r);
  const bool is_enabled = r.policy.Enables(r.op.name);
  int taken = kNoKernel;
  // No later kernel can replace the taken one: the first that fits is taken, but for pairs of
  // kernels that want to be measured.
  bool is_settled = false;
  for (std::size_t k = 0; k < r.op.kernels.size(); ++k) {
    if (is_settled && !choices) break;
    std::string why;
    const bool eligible = IsEligible(r, pin, is_enabled, r.op.kernels[k], choices ? &why : nullptr);
    if (choices) choices->push_back({r.op.kernels[k].name, false, why, -1});
    if (!eligible) continue;
    if (taken < 0) {
      taken = int(k);
    } else if (!is_settled && WantsProbe(r, taken, int(k))) {
      taken = BetterOf(r, taken, int(k), choices);
    } else {
      is_settled = true;
    }
    if (!*r.op.kernels[std::size_t(taken)].data.probe) is_settled = true;
  }
  if (taken < 0 && !r.op.compositions.empty() && !pin) taken = kComposition;
  if (!choices) return taken;
  for (std::size_t k = 0; k < r.op.kernels.size(); ++k) {
    KernelChoice& c = (*choices)[k];
    c.taken = int(k) == taken;
    if (c.taken || !c.reason.empty()) continue;
    c.reason = r.op.kernels[std::size_t(taken)].name + " comes first";
  }
  if (!r.op.compositions.empty()) {
    const char* reason = taken == kComposition ? ""
                         : pin                 ? "declined: the policy takes a kernel"
                                               : "a kernel takes the call";
    choices->push_back({"means", taken == kComposition, reason, -1});
  }
  return taken;
}

std::string UnsupportedText(const Operator& op, const std::vector<KernelChoice>& choices) {
  std::string text = op.Message("no kernel takes this call");
  if (choices.empty()) {
    return text +
           ": there is none. Try loading the library of the device that its kernels are for.";
  }
  text += ":";
  for (const KernelChoice& c : choices) {
    if (!c.taken) text += "\n  " + c.kernel + ": " + c.reason;
  }
  return text;
}

}  // namespace anyop
