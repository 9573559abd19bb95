// SPDX-License-Identifier: Apache-2.0
// Texts of random graphs of real operators, changed token by token and line by line: each is
// refused at its place, or read, printed as it is read again, compiled and specialised.
#include <map>

#include "graph/builder/parse_graph.h"
#include "graph/executable.h"
#include "graph/fuzz_testing.h"
#include "graph/ir/text.h"
#include "random_graph.h"
#include "runtime/registry/registry.h"

namespace anyop::testing::graph_text_fuzz_test {
namespace {

class Environment : public ::testing::Environment {
 public:
  void SetUp() override { LoadBuiltIn(); }
};
[[maybe_unused]] ::testing::Environment* const kEnvironment =
    ::testing::AddGlobalTestEnvironment(new Environment);

const std::vector<std::string> kWords = {
    "anyop.add", "anyop.softmax", "anyop.rms_norm", "'a'", "v1", "v2", "v3", "v4", "v5"};

// False: not with the sizes of small inputs.
bool Specialised(Graph graph) {
  const fuzz::SmallInputs small(graph);
  if (!small.are_made()) return false;
  std::vector<anyop_value> inputs;
  for (const Argument& a : small.arguments()) inputs.push_back(a.value());
  Executable executable(std::move(graph));
  executable.Prepare(inputs);
  return true;
}

TEST(GraphTextFuzz, IsReadOrRefusedAtItsPlace) {
  fuzz::Tries tries(8);
  RandomGraph made;
  std::string text;
  std::map<std::string, Array> arrays;
  int read = 0, specialised = 0;
  while (tries.Next()) {
    if (tries.tries() % 50 == 1) {
      made = GraphMaker(tries.random()).Make();
      text = Print(made.graph);
      arrays.clear();
      for (const GraphValue& v : made.graph.values) {
        if (!v.array.is_none()) arrays[v.name] = v.array;
      }
    }
    const GraphData data = [&](const std::string& name) {
      const auto found = arrays.find(name);
      return found == arrays.end() ? Array() : found->second;
    };
    const std::string changed = fuzz::ChangedGraphText(text, tries.random, kWords);
    Graph graph;
    const bool is_read = fuzz::IsAnswered(
        [&] { graph = ParseGraph(changed, data); },
        [](const std::string& error) { return error.starts_with("graph, line "); });
    if (!is_read) continue;
    ++read;
    const std::string printed = Print(graph);
    EXPECT_EQ(Print(ParseGraph(printed, data)), printed) << changed;
    specialised += fuzz::IsAnswered(
        [&] {
          if (!Specialised(std::move(graph))) Fail(ANYOP_INVALID_ARGUMENT, "graph: too large");
        },
        [](const std::string& error) {
          return error.find("graph") != error.npos || error.find("\n  in ") != error.npos;
        });
  }
  std::printf("%d read, %d of these specialised\n", read, specialised);
  EXPECT_GT(read, 0);
  EXPECT_GT(specialised, 0);
}

}  // namespace
}  // namespace anyop::testing::graph_text_fuzz_test
