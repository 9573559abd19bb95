// SPDX-License-Identifier: Apache-2.0
// Texts of random graphs of real operators, changed token by token and line by line: each is
// refused at its place, or read, printed as it is read again, compiled and specialised.
#include <map>

#include "graph/executable.h"
#include "graph/text.h"
#include "platform/testing/fuzz.h"
#include "random_graph.h"
#include "runtime/registry.h"

namespace anyop::testing {
namespace {

class Environment : public ::testing::Environment {
 public:
  void SetUp() override { LoadBuiltIn(); }
};
[[maybe_unused]] ::testing::Environment* const kEnvironment =
    ::testing::AddGlobalTestEnvironment(new Environment);

const std::vector<std::string> kWords = {"into ",
                                         "state ",
                                         "frozen ",
                                         "constant ",
                                         "input ",
                                         "output ",
                                         " as ",
                                         "_",
                                         "slice",
                                         "reshape",
                                         "transpose",
                                         "anyop.add",
                                         "anyop.softmax",
                                         "anyop.rms_norm",
                                         "(",
                                         ")",
                                         "[",
                                         "]",
                                         ",",
                                         ":",
                                         "=",
                                         "\n",
                                         "#",
                                         "n",
                                         "2*n",
                                         "n*n - 1",
                                         "-n",
                                         "i64",
                                         "f32",
                                         "bf16",
                                         "int",
                                         "float",
                                         "bool",
                                         "None",
                                         "True",
                                         "inf",
                                         "'a'",
                                         "v1",
                                         "v2",
                                         "v3",
                                         "v4",
                                         "v5"};

// As small as inputs can be that are not empty; false: not with these sizes.
bool Specialised(Graph graph) {
  std::vector<Array> arrays;
  std::vector<Argument> arguments;
  const std::vector<std::int64_t> symbols(graph.symbols.size(), 3);
  for (const int id : graph.inputs) {
    const GraphValue& v = graph.value(id);
    std::vector<std::int64_t> shape;
    std::int64_t elements = 1;
    for (const Size& s : v.shape) {
      shape.push_back(s.At(symbols));
      if (shape.back() < 0 || shape.back() > 4096) return false;
      elements *= shape.back();
      if (elements > 1 << 20) return false;
    }
    if (v.kind != GraphValue::kScalar) arrays.push_back(Array::Zeros(shape, v.dtype));
  }
  std::size_t next = 0;
  for (const int id : graph.inputs) {
    const GraphValue& v = graph.value(id);
    if (v.kind != GraphValue::kScalar) {
      arguments.emplace_back(arrays[next++]);
    } else if (v.scalar == ParamKind::kFloat) {
      arguments.emplace_back(0.5);
    } else {
      arguments.emplace_back(3);
    }
  }
  std::vector<anyop_value> inputs;
  for (const Argument& a : arguments) inputs.push_back(a.value());
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
    std::string changed = tries.random() % 3 ? text : fuzz::LinesMoved(text, tries.random);
    if (tries.random() % 4) changed = fuzz::Mutated(changed, tries.random, kWords);
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
}  // namespace anyop::testing
