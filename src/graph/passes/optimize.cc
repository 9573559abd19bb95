// SPDX-License-Identifier: Apache-2.0
#include "graph/ir/text.h"
#include "graph/passes/diff.h"
#include "graph/passes/fuse.h"
#include "graph/passes/passes.h"
#include "platform/log.h"

namespace anyop {
namespace {

struct Pass {
  const char* name;
  void (*run)(Graph*);
};
// Duplicates leave nodes without a use behind, which the next pass removes. The order comes last:
// it depends on which nodes there are.
constexpr Pass kPasses[] = {
    {"fuse", &Fuse},
    {"fold what is known", &FoldKnown},
    {"remove duplicates", &RemoveDuplicates},
    {"remove dead", &RemoveDead},
    {"order", &OrderNodes},
};

void LogPass(std::string_view pass, const std::string& diff) {
  LogGraph("graph, " + std::string(pass) + (diff.empty() ? ": nothing changed" : ":\n" + diff));
}

}  // namespace

void Optimize(Graph* graph, const PassListener& listener, bool fuse) {
  const bool is_logged = LogsGraphs(), is_shown = is_logged || listener;
  std::string before = is_shown ? Print(*graph) : "";
  if (is_logged) LogGraph("graph:\n" + before);
  for (const Pass& pass : kPasses) {
    if (pass.run == &Fuse && !fuse) continue;
    pass.run(graph);
    if (!is_shown) continue;
    std::string after = Print(*graph);
    const std::string diff = UnifiedDiff(before, after);
    if (is_logged) LogPass(pass.name, diff);
    if (listener) listener(pass.name, diff);
    before = std::move(after);
  }
}

}  // namespace anyop
