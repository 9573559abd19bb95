// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/explain.h"

#include <cstdio>

#include "runtime/device/device.h"
#include "runtime/plan/frame.h"
#include "runtime/plan/make_plan.h"
#include "runtime/plan/policy.h"
#include "runtime/plan/services.h"
#include "runtime/registry/replace.h"
#include "runtime/run/call.h"
#include "runtime/run/device_call.h"

namespace anyop {
namespace {

void AddNotes(const Operator& op, const Plan& plan, const anyop_value* frame, Explanation* e) {
  const Form& form = op.contract->forms[std::size_t(plan.form)];
  for (int i = 0; i < op.n_params; ++i) {
    if (!(plan.copied >> i & 1)) continue;
    std::string note = std::string(form.params[std::size_t(i)].name) + " is copied first";
    if (form.params[std::size_t(i)].is_mut) note += " and back afterwards";
    if (frame[i].tag == ANYOP_TENSOR) {
      note += ": no kernel takes strides " + ShowStrides(*frame[i].t);
      if (form.params[std::size_t(i)].is_dense) note += ", dense memory is needed";
    }
    e->notes.push_back(note + ".");
  }
  for (int i = op.n_params; i < op.n_params + op.n_results; ++i) {
    if (!(plan.copied >> i & 1)) continue;
    e->notes.push_back(std::string(form.results[std::size_t(i - op.n_params)].name) +
                       " is written through a copy: no kernel takes strides " +
                       ShowStrides(*frame[i].t) + ".");
  }
  std::string read;
  const std::uint64_t copied = CopiedForChecks(op, plan, frame);
  for (int i = 0; i < op.n_params; ++i) {
    if (copied >> i & 1) read += (read.empty() ? "" : ", ") + std::string(EntryName(op, i));
  }
  if (!read.empty()) {
    e->notes.push_back("the host waits for copies of " + read + ", whose data are checked.");
  }
  if (plan.taken_by) {
    e->notes.push_back("runs on " + plan.taken_by->NameOf(0) +
                       ", on copies: the policy pins a kernel of it.");
  }
  if (plan.runs_on_host) {
    e->notes.push_back("runs on the CPU, on copies: no kernel of " + Device(plan.device).name() +
                       " takes the call.");
  }
  if (plan.is_empty) e->notes.push_back("nothing to write: no kernel runs.");
}

}  // namespace

std::string ShowTime(double ns) {
  char text[32];
  std::snprintf(text, sizeof text, ns < 1000 ? "%.0f ns" : "%.1f us", ns < 1000 ? ns : ns / 1000);
  return text;
}

std::string ShowCall(const Operator& op, const anyop_value* frame) {
  const Form& form = op.contract->forms[0];
  std::string text = op.display_name() + "(";
  for (int i = 0; i < op.n_params; ++i) {
    text += (i ? ", " : "") + std::string(form.params[std::size_t(i)].name) + ": " + Show(frame[i]);
  }
  return text + ")";
}

Explanation Explain(Operator& given, const anyop_value* frame) {
  Operator& op = Latest(given);
  Explanation e;
  e.op = op.name;
  e.call = ShowCall(op, frame);
  Plan plan;
  try {
    MakePlan(op, frame, CurrentScope(), *CurrentPolicy(), &plan, &e.kernels);
  } catch (const Error& error) {
    e.error = error.what();
    return e;
  }
  // Numbers that are merely compared with constants are no part of a plan: each call checks them.
  std::string error;
  if (!CheckScalars(*op.contract, plan.form, frame, &error)) {
    e.error = op.Message(error);
  }
  AddNotes(op, plan, frame, &e);
  e.workspace_bytes = plan.workspace_bytes;
  e.estimated_ns = plan.estimated_ns;
  e.threads = plan.threads;
  return e;
}

std::string Explanation::text() const {
  std::string text = call + "\n";
  for (const KernelChoice& k : kernels) {
    text += "  " + k.kernel + ": " + (k.taken ? "taken" : k.reason);
    if (k.taken && k.probe_ns >= 0) text += ", measured " + ShowTime(k.probe_ns);
    text += "\n";
  }
  if (!error.empty()) return text + "  refused: " + error + "\n";
  for (const std::string& n : notes) text += "  " + n + "\n";
  text += "  about " + ShowTime(estimated_ns) + " on one thread, at most " +
          std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  if (workspace_bytes) text += ", " + std::to_string(workspace_bytes) + " bytes of workspace";
  return text + "\n";
}

}  // namespace anyop
