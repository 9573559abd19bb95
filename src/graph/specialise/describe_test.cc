// SPDX-License-Identifier: Apache-2.0
#include "graph/specialise/describe.h"

#include <algorithm>

#include "graph/specialise/specialisation.h"
#include "graph/testing.h"

namespace anyop::describe_test {
namespace {

// c = x + x, d = 2*c[:, :2]; then a state is written.
Graph Steps(const Array& state) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[n, 4]"), s = b.State("s", state);
  b.SetPlace("a.py:1");
  const int c = b.Call("testing.axpy", {FloatArgument(1), ValueArgument(x), ValueArgument(x)})[0];
  const int half = b.Slice(c, 1, 0, 2);
  const int d = b.Call("testing.scale", {ValueArgument(half), FloatArgument(2)})[0];
  const int top = b.Slice(x, 0, 0, 2);
  b.Call(*Find("testing.scale"), {ValueArgument(top), FloatArgument(3)}, {0, {s}, ""});
  b.Output(d, "d");
  return b.Finish();
}

struct Prepared {
  Array state = Counting({2, 4}), x = Counting({2, 4});
  Executable e{Steps(state)};
  anyop_value inputs[1] = {Argument(x).value()};
  std::shared_ptr<Specialisation> s = e.Prepare(inputs);
};

TEST(DescribeGraph, TellsValuesNodesAndOutputs) {
  const Prepared p;
  const std::string text = DescribeGraph(p.e.graph());
  const char* const parts[] = {
      R"({"name": "x", "kind": "input", "type": "f32[n, 4]"})",
      R"({"name": "s", "kind": "state", "type": "f32[2, 4]", "written": true})",
      R"--("view": "slice(v2, 1, 0, 2)", "of": 2})--",
      R"("op": "testing.axpy")",
      R"("place": "a.py:1", "arguments": [0, 0], "results": [2], "written": []})",
      R"("arguments": [5], "results": [1], "written": [1]})",
      R"("outputs": [{"name": "d", "value": 4}])",
  };
  for (const char* part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find("kernel"), std::string::npos);
  EXPECT_EQ(text.find("memory"), std::string::npos);
}

TEST(DescribeGraph, TellsShapesCostsAndMemoryAtSizes) {
  const Prepared p;
  const std::string text = DescribeGraph(p.e.graph(), p.s.get());
  for (const char* part : {R"("at": "f32[2, 4]", "bytes": 32})", R"("kernel": "cpu_f32")",
                           R"("memory": {"peak_bytes": )", R"("value": 2, "offset": 0)"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(NodeCosts, AreWhatTheOperatorStatesOrAllThatItTouches) {
  const Prepared p;
  const std::vector<NodeCost> costs = NodeCosts(*p.s);
  ASSERT_EQ(costs.size(), 3u);
  EXPECT_EQ(costs[0].flops, 16);  // 2 * size(x)
  EXPECT_EQ(costs[0].bytes, 3 * 32);
  EXPECT_EQ(costs[1].flops, 0);
  EXPECT_EQ(costs[1].bytes, 2 * 16);
}

TEST(MemorySpans, LastFromTheNodeThatWritesToTheLastThatReads) {
  const Prepared p;
  const std::vector<MemorySpan> spans = MemorySpans(*p.s);
  const auto c = std::find_if(spans.begin(), spans.end(), [](auto& m) { return m.value == 2; });
  ASSERT_NE(c, spans.end());
  EXPECT_EQ(c->first, 0);
  EXPECT_EQ(c->last, 1);
  EXPECT_EQ(c->bytes, 32);
  for (const MemorySpan& m : spans) EXPECT_LE(m.offset + m.bytes, p.s->memory.peak_bytes);
}

}  // namespace
}  // namespace anyop::describe_test
