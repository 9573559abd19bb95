// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>

#include "graph/builder/parse_graph.h"
#include "graph/ir/text.h"
#include "graph/memory/live_bytes.h"
#include "graph/passes/dependences.h"
#include "graph/passes/passes.h"
#include "graph/specialise/specialisation.h"
#include "graph/testing.h"

namespace anyop::order_test {
namespace {

// The first results of the calls in their order: "a b c"; the operator of those that have none.
std::string Calls(const Graph& graph) {
  std::string calls;
  for (const GraphNode& node : graph.nodes) {
    calls += calls.empty() ? "" : " ";
    calls += node.results.empty() ? node.op->name : graph.value(node.results[0]).name;
  }
  return calls;
}
Graph Ordered(const std::string& text, const GraphData& data = nullptr) {
  Graph graph = ParseGraph(text, data);
  OrderNodes(&graph);
  return graph;
}
Array Four(const std::string&) { return Array::Zeros({4}, DType::kF32); }

// Each of four long vectors is made before the first is read.
constexpr char kBranches[] =
    "input x: f32[n, 64]\n"
    "input y: f32[n, 64]\n"
    "a: f32[64*n] = testing.flatten(x)\n"
    "b: f32[64*n] = testing.flatten(y)\n"
    "c: f32[128*n] = testing.concat([a, a])\n"
    "d: f32[128*n] = testing.concat([b, b])\n"
    "a1: f32[1] = testing.pick(a)\n"
    "b1: f32[1] = testing.pick(b)\n"
    "c1: f32[1] = testing.pick(c)\n"
    "d1: f32[1] = testing.pick(d)\n"
    "z: f32[4] = testing.concat([a1, b1, c1, d1])\n"
    "output z\n";

TEST(Order, RunsBranchAfterBranchWhereLessIsAliveThen) {
  EXPECT_EQ(Calls(Ordered(kBranches)), "a a1 c c1 b b1 d d1 z");
  const Array x = Counting({512, 64});
  std::int64_t peaks[2];
  std::vector<float> results[2];
  for (const bool optimize : {false, true}) {
    CompileOptions options;
    options.optimize = optimize;
    Executable e(ParseGraph(kBranches), options);
    const anyop_value inputs[] = {Argument(x).value(), Argument(x).value()};
    peaks[optimize] = e.Prepare(inputs)->memory.peak_bytes;
    results[optimize] = Values(Replay(e, {x, x})[0]);
  }
  EXPECT_LE(2 * peaks[true], peaks[false] + 1024);
  EXPECT_EQ(results[false], results[true]);
}

TEST(Order, MakesValuesWhenTheyAreNeeded) {
  EXPECT_EQ(Calls(Ordered("input x: f32[n, 64]\n"
                          "early: f32[64*n] = testing.flatten(x)\n"
                          "a: f32[64*n] = testing.flatten(x)\n"
                          "b: f32[128*n] = testing.concat([a, a])\n"
                          "c: f32[256*n] = testing.concat([b, b])\n"
                          "d: f32[128*n] = testing.every_other(c)\n"
                          "e: f32[64*n] = testing.every_other(d)\n"
                          "z: f32[64*n] = testing.axpy(a=1.0, x=e, y=early)\n"
                          "output z\n")),
            "a b c d e early z");
}

TEST(Order, StaysWhereLittleIsWon) {
  std::string small = kBranches;
  for (std::size_t at; (at = small.find("n, 64")) != small.npos;) small.replace(at, 5, "1, 64");
  for (std::size_t at; (at = small.find("*n")) != small.npos;) small.erase(at, 2);
  EXPECT_EQ(Calls(Ordered(small)), "a b c d a1 b1 c1 d1 z");
}

TEST(Order, KeepsReadsBeforeTheWritesThatFollowThem) {
  // All that is long could go at once, if it were not changed in between.
  const auto write = [](const char* to) {
    return "testing.accumulate(" + std::string(to) + ", " + to + "2)\n";
  };
  const std::string text =
      "input x: f32[n, 64]\n"
      "state s: f32[4]\n"
      "a: f32[64*n] = testing.flatten(x)\n"
      "a2: f32[64*n] = testing.flatten(x)\n"
      "b: f32[64*n] = testing.flatten(x)\n"
      "b2: f32[64*n] = testing.flatten(x)\n"
      "before: f32[1] = testing.pick(a2)\n" +
      write("a") + write("b") +
      "after: f32[1] = testing.pick(a2)\n"
      "other: f32[1] = testing.pick(b2)\n"
      "z: f32[3] = testing.concat([before, after, other])\n"
      "output z\n";
  const Graph graph = Ordered(text, &Four);
  EXPECT_EQ(Calls(graph), "a a2 before testing.accumulate after b b2 testing.accumulate other z");
}

TEST(Order, KeepsTheOrderOfChangesThatAreSeen) {
  const Graph graph = ParseGraph(
      "input x: f32[4]\n"
      "input y: f32[4]\n"
      "state s: f32[4]\n"
      "state t: f32[4]\n"
      "testing.accumulate(x, s)\n"
      "a: f32[4] = testing.scale(s, s=2.0)\n"
      "testing.accumulate(x, t)\n"
      "testing.accumulate(a, y)\n"
      "b: f32[4] = testing.scale(x, s=2.0)\n"
      "testing.accumulate(b, s)\n"
      "output a\n",
      &Four);
  const std::vector<std::vector<int>> expected = {{}, {0}, {0}, {1, 2}, {}, {4, 0, 1, 3}};
  EXPECT_EQ(NodeDependences(graph), expected);
}

TEST(Order, KeepsSizesBehindTheCallThatTellsThem) {
  // ceil_div is no polynomial: the size is a symbol of its own.
  const Graph graph = ParseGraph(
      "input x: f32[n]\n"
      "input y: f32[n]\n"
      "h: f32[h_0] = testing.every_other(x)\n"
      "v: f32[h_0] = slice(y, 0, 0, h_0)\n"
      "w: f32[h_0] = testing.scale(v, s=2.0)\n"
      "t: f32[3] = testing.uses_workspace(y, factor=h_0)\n"
      "output w\n");
  EXPECT_EQ(NodeDependences(graph)[1], std::vector<int>{0});
  EXPECT_EQ(NodeDependences(graph)[2], std::vector<int>{0});
}

TEST(Order, KnowsStatesThatAreTheSameMemory) {
  const Array whole = Counting({8}), tail = whole.Slice(0, 2, 6), apart = Counting({4});
  const Graph graph = ParseGraph(
      "input x: f32[8]\n"
      "state whole: f32[8]\n"
      "state tail: f32[4]\n"
      "state apart: f32[4]\n"
      "a: f32[4] = testing.scale(tail, s=2.0)\n"
      "b: f32[4] = testing.scale(apart, s=2.0)\n"
      "testing.accumulate(x, whole)\n"
      "c: f32[4] = testing.scale(tail, s=2.0)\n"
      "output c\n",
      [&](const std::string& name) {
        return name == "whole" ? whole : name == "tail" ? tail : apart;
      });
  const std::vector<std::vector<int>> expected = {{}, {}, {0}, {2}};
  EXPECT_EQ(NodeDependences(graph), expected);
}

TEST(Order, OfNodesIsKnownToTheirValues) {
  Graph graph = Ordered(kBranches);
  for (int i = 0; i < int(graph.nodes.size()); ++i) {
    EXPECT_EQ(graph.value(graph.nodes[std::size_t(i)].results[0]).node, i);
  }
}

TEST(Order, KeepsCallsTogetherThatHandRowsToEachOther) {
  // Branch after branch as before, but each branch is two calls on the same rows.
  std::string text = "input x: f32[n, 64]\n";
  for (const std::string k : {"a", "b", "c"}) {
    text += k + "1: f32[n, 64] = testing.scale(x, s=" + std::to_string(k[0]) + ".0)\n" + k +
            "2: f32[n, 64] = testing.scale(" + k + "1, s=2.0)\n";
  }
  for (const std::string k : {"a", "b", "c"}) {
    text += k + "3: f32[64*n] = testing.flatten(" + k + "2)\n" + k + "4: f32[1] = testing.pick(" +
            k + "3)\n";
  }
  text += "z: f32[3] = testing.concat([a4, b4, c4])\noutput z\n";
  EXPECT_EQ(Calls(Ordered(text)), "a1 a2 a3 a4 b1 b2 b3 b4 c1 c2 c3 c4 z");
}

TEST(Order, BringsCallsOnTheSameRowsTogether) {
  EXPECT_EQ(Calls(Ordered("input x: f32[n, 64]\n"
                          "input y: f32[n, 64]\n"
                          "a: f32[n, 64] = testing.scale(x, s=2.0)\n"
                          "f: f32[64*n] = testing.flatten(y)\n"
                          "b: f32[n, 64] = testing.scale(y, s=3.0)\n"
                          "output a\n"
                          "output f\n"
                          "output b\n")),
            "a b f");
}

TEST(LiveBytes, CountsWhatReplaysWouldPlan) {
  const auto peak = [](const std::string& calls) {
    const Graph graph = ParseGraph("input x: f32[n, 4]\n" + calls);
    std::vector<int> order;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) order.push_back(int(i));
    return LiveBytes(graph, 10).PeakOf(order) / (10 * 4 * 4);
  };
  const std::string first = "a: f32[n, 4] = testing.scale(x, s=2.0)\n",
                    second = "b: f32[n, 4] = testing.scale(a, s=3.0)\n",
                    third = "c: f32[4*n] = testing.flatten(b)\n",
                    again = "d: f32[4*n] = testing.flatten(a)\n";
  EXPECT_EQ(peak(first + "output a\n"), 0) << "in the caller's memory";
  EXPECT_EQ(peak(first + second + third + "output c\n"), 1) << "b lies over a";
  EXPECT_EQ(peak(first + second + third + again + "output c\noutput d\n"), 2) << "a is used later";
  EXPECT_EQ(
      peak(first + "y: f32[1, 4] = slice(a, 0, 0, 1)\n" + second + third + "output y\noutput c\n"),
      2)
      << "y keeps a";
}

TEST(Order, OfAThousandNodesTakesLittle) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[n, 64]");
  std::vector<int> ends;
  for (int branch = 0; branch < 50; ++branch) {
    int h = x;
    for (int k = 0; k < 20; ++k) {
      h = b.Call("testing.scale", {ValueArgument(h), FloatArgument(branch + k + 1)})[0];
    }
    ends.push_back(b.Call("testing.flatten", {ValueArgument(h)})[0]);
  }
  b.Output(b.Call("testing.concat", {ValuesArgument(ends)})[0]);
  const Graph graph = b.Finish();
  double best = 1e9;
  for (int k = 0; k < 20; ++k) {
    Graph copy = graph;
    const auto start = std::chrono::steady_clock::now();
    OrderNodes(&copy);
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, spent.count());
  }
  const bool is_watched = HasSanitizer("asan") || HasSanitizer("tsan");
  EXPECT_LT(best, is_watched ? 1000 : 20) << "ms for " << graph.nodes.size() << " nodes";
  RecordProperty("milliseconds", std::to_string(best));
}

}  // namespace
}  // namespace anyop::order_test
