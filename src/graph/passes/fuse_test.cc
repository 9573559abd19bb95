// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/fuse.h"
#include "graph/builder/parse_graph.h"

#include "graph/ir/text.h"
#include "graph/passes/pattern.h"
#include "graph/testing.h"

namespace anyop::fuse_test {
namespace {

Array Data(const std::string&) { return Array::Zeros({4}, DType::kF32); }

// The statements of a graph after fusion, without its inputs, outputs and types.
std::string Fused(std::string_view text) {
  Graph g = ParseGraph(text, Data);
  Fuse(&g);
  EXPECT_EQ(Print(ParseGraph(Print(g), Data)), Print(g));
  std::string calls;
  for (const GraphNode& n : g.nodes) calls += ShowNode(g, n) + "\n";
  return calls;
}

// Replays with and without fusion, which must be the same for these operators.
void ExpectSameValues(std::string_view text, const std::vector<Argument>& arguments) {
  CompileOptions plain;
  plain.optimize = false;
  Executable fused(ParseGraph(text, Data)), parts(ParseGraph(text, Data), plain);
  EXPECT_LT(fused.graph().nodes.size(), parts.graph().nodes.size());
  const std::vector<Array> a = Replay(fused, arguments), b = Replay(parts, arguments);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(Values(a[i]), Values(b[i]));
}

constexpr char kChain[] =
    "input x: f32[n, 4]\n"
    "input y: f32[n, 4]\n"
    "sum: f32[n, 4] = testing.plus(x, y)\n"
    "z: f32[n, 4] = testing.times(sum, 3.0)\n"
    "output z\n";

TEST(Fuse, MakesTheOperatorOfItsParts) {
  EXPECT_EQ(Fused(kChain), "z, sum = testing.plus_times(x, y, s=3.0)\n");
  ExpectSameValues(kChain, {Counting({3, 4}), Counting({3, 4})});
}

TEST(Fuse, ReturnsIntermediatesThatTheOperatorReturns) {
  const std::string text = std::string(kChain) + "output sum\n";
  EXPECT_EQ(Fused(text), "z, sum = testing.plus_times(x, y, s=3.0)\n");
  ExpectSameValues(text, {Counting({3, 4}), Counting({3, 4})});
}

TEST(Fuse, TakesTheLongestComposition) {
  const std::string text =
      "input x: f32[n, 4]\ninput y: f32[n, 4]\n"
      "t: f32[n, 4] = testing.plus(y, x)\n"
      "u: f32[n, 4] = testing.times(t, 3.0)\n"
      "z: f32[n, 4] = testing.plus(x, u)\noutput z\n";
  EXPECT_EQ(Fused(text), "z = testing.plus_times_plus(x, y, s=3.0)\n");
  ExpectSameValues(text, {Counting({3, 4}), Counting({3, 4})});
  // t has another use, which the shorter one allows.
  EXPECT_EQ(Fused(text + "output t\n"),
            "u, t = testing.plus_times(y, x, s=3.0)\nz = testing.plus(x, u)\n");
}

TEST(Fuse, KeepsAnIntermediateThatIsUsedElsewhere) {
  const std::string text =
      "input x: f32[n, 4]\ninput y: f32[n, 4]\n"
      "t: f32[n, 4] = testing.plus(x, y)\nu: f32[n, 4] = testing.times(t, 3.0)\n"
      "z: f32[n, 4] = testing.plus(u, x)\noutput z\n";
  for (const char* use : {"output u\n", "v: f32[1, 4] = slice(u, 0, 0, 1)\noutput v\n"}) {
    EXPECT_EQ(Fused(text + use).find("plus_times_plus"), std::string::npos) << use;
  }
}

TEST(Fuse, LeavesCompositionsWithViewsAlone) {
  EXPECT_EQ(Fused("input x: f32[n, 4]\na: f32[n, 2] = slice(x, 1, 0, 2)\n"
                  "b: f32[n, 2] = slice(x, 1, 2, 4)\nt: f32[n, 2] = testing.plus(a, b)\n"
                  "y: f32[n, 2] = testing.times(t, 2.0)\noutput y\n"),
            "y, t = testing.plus_times(a, b, s=2.0)\n");
  // Nor are its calls a pattern without the views.
  for (const Pattern& p : FindPatterns()) EXPECT_NE(p.op->name, "testing.plus_halves");
}

TEST(Fuse, LeavesCompositionsOfOperatorsThatOnlyADeviceHasKernelsFor) {
  for (const Pattern& p : FindPatterns()) EXPECT_NE(p.op->name, "testing.far_or_means");
}

TEST(Fuse, WantsTheSameLiterals) {
  const auto with = [](const std::string& second) {
    return Fused(
        "input x: f32[n]\ninput y: f32[n]\ninput m: int\nu: f32[n] = testing.times(x, 2.0)\n" +
        second + "output u\noutput v\n");
  };
  EXPECT_EQ(with("v: f32[n] = testing.times(y, n)\n"), "u, v = testing.times_both(x, y)\n");
  EXPECT_NE(with("v: f32[n] = testing.times(y, 3.0)\n").find("testing.times("), std::string::npos);
  EXPECT_NE(with("v: f32[n] = testing.times(y, m)\n").find("testing.times("), std::string::npos);
}

TEST(Fuse, RefusesSizesThatTheOperatorRefuses) {
  const auto with = [](const std::string& d) {
    return Fused("input x: f32[n, " + d + "]\ninput y: f32[n, " + d + "]\nsum: f32[n, " + d +
                 "] = testing.plus(x, y)\nz: f32[n, " + d + "] = testing.times(sum, 3.0)\n" +
                 "output z\n");
  };
  EXPECT_EQ(with("512"), "z, sum = testing.plus_times(x, y, s=3.0)\n");
  EXPECT_EQ(with("513"), "sum = testing.plus(x, y)\nz = testing.times(sum, s=3.0)\n");
  EXPECT_EQ(with("d"), "sum = testing.plus(x, y)\nz = testing.times(sum, s=3.0)\n");
}

TEST(Fuse, MindsWhatIsWrittenInBetween) {
  const auto with = [](const std::string& between) {
    return Fused("input x: f32[4]\nstate s: f32[4]\nsum: f32[4] = testing.plus(x, s)\n" + between +
                 "z: f32[4] = testing.times(sum, 3.0)\noutput z\n");
  };
  EXPECT_EQ(with("testing.plus_into(x, s)\n"),
            "z, sum = testing.plus_times(x, s, s=3.0)\ntesting.plus_into(x, s)\n");
  EXPECT_EQ(with("testing.plus_into(x, sum)\n").find("plus_times"), std::string::npos);
  EXPECT_EQ(with("testing.plus_into(sum, s)\n"),
            "z, sum = testing.plus_times(x, s, s=3.0)\ntesting.plus_into(sum, s)\n");
}

TEST(Fuse, JoinsChangesInPlace) {
  const std::string text =
      "input x: f32[4]\ninput y: f32[4]\nstate s: f32[4]\ntesting.plus_into(x, s)\n";
  EXPECT_EQ(Fused(text + "testing.plus_into(y, s)\n"), "testing.plus_both_into(x, y, s)\n");
  EXPECT_EQ(Fused(text + "z: f32[4] = testing.times(s, 1.5)\ntesting.plus_into(y, s)\noutput z\n")
                .find("plus_both_into"),
            std::string::npos);
  // An argument in the memory that is written would be read too late.
  EXPECT_EQ(Fused("input x: f32[4]\nstate s: f32[4]\ntesting.plus_into(x, s)\n"
                  "testing.plus_into(s, x)\n")
                .find("plus_both_into"),
            std::string::npos);
}

TEST(Fuse, KeepsAResultThatIsWrittenOverAnIntermediate) {
  EXPECT_EQ(Fused("input x: f32[4]\nsum: f32[4] = testing.plus(x, x)\n"
                  "into sum = testing.times(sum, 3.0)\noutput sum\n")
                .find("plus_times"),
            std::string::npos);
}

TEST(Fuse, WritesIntoWhatTheLastPartWrites) {
  const std::string text =
      "input x: f32[4]\ninput y: f32[4]\nstate s: f32[4]\nsum: f32[4] = testing.plus(x, y)\n";
  const std::string into_state = text + "into s = testing.times(sum, 3.0)\noutput s\n";
  EXPECT_EQ(Fused(into_state), "s, sum = testing.plus_times(x, y, s=3.0)\n");
  ExpectSameValues(into_state, {Counting({4}), Counting({4})});
  // Its argument is read before it is written, which one call does not promise.
  EXPECT_EQ(Fused("input x: f32[4]\nstate s: f32[4]\nsum: f32[4] = testing.plus(x, s)\n"
                  "into s = testing.times(sum, 3.0)\noutput s\n")
                .find("plus_times"),
            std::string::npos);
}

TEST(Fuse, KeepsThePlacesOfAllParts) {
  Graph g = ParseGraph(
      "input x: f32[4]\nsum: f32[4] = testing.plus(x, x)  # a.py:1\n"
      "z: f32[4] = testing.times(sum, 3.0)  # a.py:2\noutput z\n");
  Fuse(&g);
  ASSERT_EQ(g.nodes.size(), 1u);
  EXPECT_EQ(g.nodes[0].place, "a.py:1, a.py:2");
}

TEST(Fuse, IsAChoice) {
  CompileOptions options;
  options.fuse = false;
  Executable e(ParseGraph(kChain), options);
  EXPECT_EQ(e.graph().nodes.size(), 2u);
}

}  // namespace
}  // namespace anyop::fuse_test
