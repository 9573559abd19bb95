// SPDX-License-Identifier: Apache-2.0
#include "graph/ir/text.h"
#include "graph/builder/parse_graph.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <map>

#include "graph/testing.h"

namespace anyop::text_test {
namespace {

GraphData DataOf(const Graph& graph) {
  std::map<std::string, Array> data;
  for (const GraphValue& v : graph.values) data[v.name] = v.array;
  return [data](const std::string& name) {
    const auto found = data.find(name);
    return found == data.end() ? Array() : found->second;
  };
}

Graph Everything() {
  GraphBuilder b;
  const int x = b.Input("x", "f32[n, 4]"), slots = b.Input("slots", "i64[n]");
  const int s = b.Scalar("s", ParamKind::kFloat), k = b.Scalar("k", ParamKind::kInt);
  const int cache = b.State("cache", Array::Zeros({8, 4}, DType::kF32));
  const int w = b.State("w", Counting({4}), true), c = b.Constant("one", Floats({1}, {1}));
  b.SetPlace("model.py:3");
  GraphBuilder::CallOptions named;
  named.name = "scaled";
  const int y = b.Call(*Find("testing.scale"), {ValueArgument(x), ValueArgument(s)}, named)[0];
  b.Call("testing.scatter", {ValueArgument(y), ValueArgument(slots), ValueArgument(cache)});
  b.SetPlace("");
  const int row = b.Reshape(b.Slice(cache, 0, 2, 3), {4});
  GraphBuilder::CallOptions into;
  into.into = {row};
  b.Call(*Find("testing.scale"), {ValueArgument(w), FloatArgument(0.1)}, into);
  GraphBuilder::CallOptions declined;
  declined.declined = 2;
  const int low = b.Call(*Find("testing.extremes"), {ValueArgument(w)}, declined)[0];
  const Size size = Size::Symbol(b.graph().value(k).symbol);
  const int tile = b.Call("testing.uses_workspace", {ValueArgument(y), SizeArgument(size + 1)})[0];
  const int last = b.Call("testing.pick", {ValueArgument(tile), WordArgument("last")})[0];
  const int half =
      b.Call("testing.every_other", {ValueArgument(b.Reshape(y, {b.ParseSize("4*n")}))})[0];
  b.Output(b.Call("testing.concat", {ValuesArgument({low, last, c})})[0], "all");
  b.Output(b.Transpose(y, 0, 1));
  b.Output(b.Slice(half, 0, 0, b.ParseSize("n + 1")));
  return b.Finish();
}

TEST(GraphText, IsReadBack) {
  const Graph graph = Everything();
  const std::string text = Print(graph);
  EXPECT_EQ(text, R"(input x: f32[n, 4]
input slots: i64[n]
input s: float
input k: int
state cache: f32[8, 4]
frozen w: f32[4]
constant one: f32[1]
scaled: f32[n, 4] = testing.scale(x, s)  # model.py:3
testing.scatter(scaled, slots, cache)  # model.py:3
v8: f32[1, 4] = slice(cache, 0, 2, 3)
v9: f32[4] = reshape(v8, [4])
into v9 = testing.scale(w, s=0.1)
v10: f32[1], _ = testing.extremes(w)
v11: f32[3] = testing.uses_workspace(scaled, factor=k + 1)
v12: f32[1] = testing.pick(v11, which='last')
v13: f32[4*n] = reshape(scaled, [4*n])
v14: f32[2*n] = testing.every_other(v13)
v15: f32[3] = testing.concat([v10, v12, one])
output v15 as all
v16: f32[4, n] = transpose(scaled, 0, 1)
output v16
v17: f32[n + 1] = slice(v14, 0, 0, n + 1)
output v17
)");
  EXPECT_EQ(Print(ParseGraph(text, DataOf(graph))), text);
}

TEST(GraphText, ReplaysAsTheGraphItWasPrintedFrom) {
  Graph graph = Everything();
  Executable read(ParseGraph(Print(graph), DataOf(graph))), built(std::move(graph));
  const Array x = Counting({3, 4}), slots = Ints({0, 5, 1});
  const std::vector<Array> a = Replay(read, {x, slots, 0.25, 4});
  const std::vector<Array> b = Replay(built, {x, slots, 0.25, 4});
  ASSERT_EQ(a.size(), 3u);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(Values(a[i]), Values(b[i]));
  EXPECT_EQ(Values(a[0]), (std::vector<float>{0, 0, 1}));
}

TEST(GraphText, KeepsNamesOfSizes) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[n]");
  const int y = b.Call("testing.every_other", {ValueArgument(x)})[0];
  b.Output(b.Reshape(y, {1, b.ParseSize("v1_0")}));
  const std::string text = Print(b.Finish());
  EXPECT_EQ(text,
            "input x: f32[n]\n"
            "v1: f32[v1_0] = testing.every_other(x)\n"
            "v2: f32[1, v1_0] = reshape(v1, [1, v1_0])\n"
            "output v2\n");
  EXPECT_EQ(Print(ParseGraph(text)), text);
}

TEST(GraphText, TakesKeywordsAsNames) {
  const std::string text =
      "input state: f32[n]\n"
      "into: f32[n] = testing.scale(state, s=2.0)\n"
      "output: f32[n] = testing.scale(into, s=2.0)\n"
      "output output\n";
  EXPECT_EQ(Print(ParseGraph(text)), text);
}

TEST(GraphText, KeepsEveryNumber) {
  const double limit = std::numeric_limits<double>::infinity();
  for (const double f : {1e-5, 1 / 3., -0.0, 5e-324, 1e22, 9.9e29, -1.7e308, -limit}) {
    GraphBuilder b;
    const int x = b.Input("x", "f32[n]");
    b.Output(b.Call("testing.scale", {ValueArgument(x), FloatArgument(f)})[0]);
    const std::string text = Print(b.Finish());
    EXPECT_EQ(Print(ParseGraph(text)), text);
    EXPECT_EQ(ParseGraph(text).nodes[0].arguments[1].f, f) << text;
  }
}

TEST(GraphText, KeepsNamesOfSizesApart) {
  GraphBuilder b;
  const int y = b.Call("testing.every_other", {ValueArgument(b.Input("x", "f32[y_0]"))})[0];
  b.Rename(y, "y");
  b.Output(y);
  const std::string text = Print(b.Finish());
  EXPECT_EQ(text, "input x: f32[y_0]\ny: f32[y_0_] = testing.every_other(x)\noutput y\n");
  EXPECT_EQ(Print(ParseGraph(text)), text);
}

TEST(GraphText, TakesWholeNumbersOnly) {
  const auto error = [](const std::string& line) {
    const std::string text = "input x: f32[8, 8]\ninput t: i64[2]\ninput e: float\n" + line;
    return ErrorOf([&] { ParseGraph(text); });
  };
  const auto expect = [&](const std::string& line, const std::string& what) {
    EXPECT_NE(error(line).find(what), std::string::npos) << line << ": " << error(line);
  };
  EXPECT_EQ(error("y: f32[8, 5] = slice(x, 1, 0, 5)\n"), "");
  expect("y: f32[8, 5] = slice(x, 0.1, 0, 5)\n", "line 4, column 25: expected a whole number.");
  expect("y: f32[8, 5] = slice(x, 4294967297, 0, 5)\n",
         "line 4, column 25: expected a dimension, from 0 to 7.");
  expect("y: f32[8, 5] = slice(x, -1, 0, 5)\n", "expected a dimension, from 0 to 7.");
  expect("y: f32[8, 5] = slice(x, 18446744073709551617, 0, 5)\n", "more than 64 bits");
  expect("y: f32[8, 5] = slice(x, 1, 0, 5.5)\n", "expected )");
  expect("y: f32[8, 8] = transpose(x, 0, 4294967297)\n", "expected a dimension, from 0 to 7.");
  expect("y: f32[8, 8] = transpose(x, 1e0, 0)\n", "expected a whole number.");
  expect("y: f32[3] = testing.uses_workspace(x, factor=-1.5)\n", "expected a whole number.");
  expect("y: f32[3] = testing.uses_workspace(x, factor=9223372036854775808)\n",
         "more than 63 bits");
  expect("into e = testing.scale(x, s=2.0)\n",
         "testing.scale: y is written into e, a number, but must be written into a tensor.");
}

TEST(GraphText, IsRefusedWhereItWouldGrowWithoutBound) {
  std::string sum = "a0";
  std::string text = "input x: f32[a0]\n";
  for (int k = 1; k < 8; ++k) text += "input a" + std::to_string(k) + ": int\n";
  for (int k = 1; k < 8; ++k) sum += " + a" + std::to_string(k);
  std::string product = "(" + sum + ")";
  for (int k = 0; k < 10; ++k) product += "*(" + sum + ")";
  const auto error = [&](const std::string& size) {
    return ErrorOf([&] { ParseGraph(text + "y: f32[1] = slice(x, 0, 0, " + size + ")\n"); });
  };
  EXPECT_NE(error(product).find("a size of the graph is a sum of more than 1000 products, or a "
                                "product of more than 64 sizes."),
            std::string::npos);
  std::string power = "a0";
  for (int k = 0; k < 64; ++k) power += "*a0";
  EXPECT_NE(error(power).find("a product of more than 64 sizes."), std::string::npos);
  std::string views = "input v: f32[4]\n", last = "v";
  for (int k = 0; k <= 1000; ++k) {
    const std::string name = "v" + std::to_string(k) + "x";
    views += name + ": f32[4] = slice(" + last + ", 0, 0, 4)\n";
    last = name;
  }
  EXPECT_NE(ErrorOf([&] { ParseGraph(views); })
                .find("line 1002, column 1: v999x is already a view of views, 1000 deep. Try a "
                      "view of the tensor itself."),
            std::string::npos);
}

// Sixteen times the lines must not take much more than sixteen times as long.
TEST(GraphText, IsReadInTimeInProportionToItsLength) {
  const auto seconds = [](int lines) {
    std::string text = "input x: f32[n]\n", last = "x";
    for (int k = 0; k < lines; ++k) {
      const std::string name = "y" + std::to_string(k);
      text += name + ": f32[" + name + "_0] = testing.every_other(" + last + ")\n";
      text += "input z" + std::to_string(k) + ": f32[m" + std::to_string(k) + "]\n";
      if (k % 4 == 0) text += "input w" + name + ": f32[n]\n";
      last = k % 4 ? name : "w" + name;
    }
    text += "output " + last + "\n";
    double least = HUGE_VAL;  // of some: others use the machine, too
    for (int i = 0; i < 4; ++i) {
      const std::clock_t begin = std::clock();
      ParseGraph(text);
      least = std::min(least, double(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    return least;
  };
  EXPECT_LT(seconds(3200), 16 * 3 * (seconds(200) + 1e-3));
}

TEST(GraphText, PointsToWhatIsWrong) {
  const auto error = [](std::string_view text) { return ErrorOf([&] { ParseGraph(text); }); };
  EXPECT_EQ(error("input x: f32[n]\ny: f32[n] = testing.scale(z, s=2.0)\n"),
            "graph, line 2, column 27: no value and no size above has this name.\n"
            "    y: f32[n] = testing.scale(z, s=2.0)\n"
            "                              ^");
  const std::string wrong_type = error("input x: f32[n]\ny: f32[2] = testing.scale(x, s=2.0)\n");
  EXPECT_NE(wrong_type.find("line 2, column 1: y is f32[n], but the text says f32[2]."),
            std::string::npos)
      << wrong_type;
  EXPECT_NE(error("input x: f32[n]\ny: f32[n] = testing.scal(x, s=2.0)\n").find("testing.scale"),
            std::string::npos);
  EXPECT_NE(error("input x: f32[n\n"), "");
  EXPECT_NE(error("state w: f32[2]\n").find("there is no data for w"), std::string::npos);
  EXPECT_NE(error("input x: f32[2]\noutput y\n"), "");
  EXPECT_NE(error("input x: f32[2]\noutput x x\n"), "");
  EXPECT_NE(error("input x: f32[2]\ny: f32[2] = testing.scale(x, t=2.0)\n"), "");
  EXPECT_NE(error("input x: f32[2]\ny: f32[2] = testing.scale(x, 2.0, 3.0)\n"), "");
  EXPECT_NE(error("input x: f32[2]\ny: f32[2] = testing.scale(x)\n"), "");
  EXPECT_NE(error("input x: f32[2]\ny: f32[2] = reshape(x, [3])\n"), "");
  EXPECT_NE(error("input x: f32[2]\nx: f32[2] = reshape(x, [2])\n"), "");
  EXPECT_NE(error("?"), "");
}

}  // namespace
}  // namespace anyop::text_test
