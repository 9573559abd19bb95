// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/replace.h"

#include <string_view>

#include "runtime/plan/plan_cache.h"
#include "runtime/run/call.h"

namespace anyop {
namespace {

// The entry of an operator that was replaced. Whoever holds the old operator calls it still: a
// graph with its plans, a host with the object that stands for it.
void RunLatest(Operator& op, Plan& plan, anyop_value* frame) {
  Operator& latest = Latest(op);
  if (plan.op == &latest) return Run(latest, plan, frame);
  Run(latest, *GetPlan(latest, frame), frame);
}

}  // namespace

std::string WhyNotReplaced(const Operator& known, const Operator& made) {
  const struct {
    const char* name;
    std::string_view known, made;
  } texts[] = {
      {".means", known.data->means, made.data->means},
      {".prepack", known.data->prepack, made.data->prepack},
      {".commutes", known.data->commutes, made.data->commutes},
      {".rowwise", known.data->rowwise ? "true" : "false", made.data->rowwise ? "true" : "false"}};
  for (const auto& t : texts) {
    if (t.known == t.made) continue;
    return std::string(t.name) + " is '" + std::string(t.made) + "', but was '" +
           std::string(t.known) + "', and graphs were made by it";
  }
  return "";
}

void Replace(Operator& known, Operator& made) {
  // `newer` first: the entry follows it. Threads keep their last plan of `known`, which leads to
  // the entry; for others FindOrMakePlan looks at `newer` before the cache, whose plans are of no
  // use now.
  known.newer.store(&made, std::memory_order_release);
  known.entry.store(&RunLatest, std::memory_order_release);
  known.plans->Clear();
}

const Operator& Latest(const Operator& op) {
  const Operator* at = &op;
  while (const Operator* newer = at->newer.load(std::memory_order_acquire)) at = newer;
  return *at;
}

Operator& Latest(Operator& op) {
  return const_cast<Operator&>(Latest(static_cast<const Operator&>(op)));
}

}  // namespace anyop
