// SPDX-License-Identifier: Apache-2.0
#include "graph/passes.h"
#include "graph/text.h"
#include "runtime/log.h"

namespace anyop {
namespace {

struct Pass {
  const char* name;
  void (*run)(Graph*);
};
constexpr Pass kPasses[] = {
    {"fold what is known", &FoldKnown},
    {"remove duplicates", &RemoveDuplicates},
    {"remove dead", &RemoveDead},
};
constexpr int kDebug = 0;

}  // namespace

void Optimize(Graph* graph, bool log) {
  std::string before = log ? Print(*graph) : "";
  if (log) Log(kDebug, ("graph:\n" + before).c_str());
  for (const Pass& pass : kPasses) {
    pass.run(graph);
    if (!log) continue;
    std::string after = Print(*graph);
    const bool is_same = after == before;
    Log(kDebug,
        (std::string("graph, ") + pass.name + (is_same ? ": nothing changed" : ":\n" + after))
            .c_str());
    before = std::move(after);
  }
}

}  // namespace anyop
