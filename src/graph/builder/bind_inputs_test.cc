// SPDX-License-Identifier: Apache-2.0
#include "graph/builder/copy_graph.h"
#include "graph/ir/text.h"
#include "graph/testing.h"

namespace anyop::bind_inputs_test {
namespace {

// y = s*x for x f32[2*m + 1, 4]; z = the first k rows of it.
Graph Inner() {
  GraphBuilder b;
  const int x = b.Input("x", "f32[2*m + 1, 4]");
  const int s = b.Scalar("s", ParamKind::kFloat), k = b.Scalar("k", ParamKind::kInt);
  b.SetPlace("inner.py:1");
  const int y = b.Call("testing.scale", {ValueArgument(x), ValueArgument(s)})[0];
  b.Output(y);
  b.SetPlace("inner.py:2");
  b.Output(b.Slice(y, 0, 0, Size::Symbol(b.graph().value(k).symbol)), "top");
  return b.Finish();
}

int NoData(const GraphValue&) { return -1; }

TEST(BindInputs, PutsArgumentsAndTheirSizesInPlaceOfInputs) {
  const Graph inner = Inner();
  GraphBuilder b;
  const int x = b.Input("x", "f32[4*n + 3, 4]"), j = b.Scalar("j", ParamKind::kInt);
  GraphCopy copy(inner, &b, &NoData);
  const Size k = Size::Symbol(b.graph().value(j).symbol) - Size(1);
  copy.BindInputs(std::vector{ValueArgument(x), FloatArgument(2), SizeArgument(k)}, "inner");
  for (const GraphNode& node : inner.nodes) copy.CopyNode(node);
  copy.CopyOutputs();
  EXPECT_EQ(Print(b.Finish()),
            "input x: f32[4*n + 3, 4]\n"
            "input j: int\n"
            "v3: f32[4*n + 3, 4] = testing.scale(x, s=2.0)  # inner.py:1\n"
            "output v3\n"
            "v4: f32[j - 1, 4] = slice(v3, 0, 0, j - 1)  # inner.py:2\n"
            "output v4 as top\n");
}

std::string Refusal(const GraphArgument& x, const GraphArgument& s, const GraphArgument& k,
                    GraphBuilder* b) {
  const Graph inner = Inner();
  GraphCopy copy(inner, b, &NoData);
  try {
    copy.BindInputs(std::vector{x, s, k}, "inner");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(BindInputs, RefusesWhatFitsNotAtAllSizes) {
  GraphBuilder b;
  const int odd = b.Input("a", "f32[2*n + 1, 4]"), even = b.Input("b", "f32[2*n, 4]"),
            half = b.Input("c", "f16[2*n + 1, 4]"), flat = b.Input("d", "f32[2*n + 1]"),
            e = b.Scalar("e", ParamKind::kFloat);
  const GraphArgument x = ValueArgument(odd), s = FloatArgument(1), k = IntArgument(1);
  const std::string rest = ", but must be f32[2*m + 1, 4] at all sizes of the graph that is made.";
  EXPECT_EQ(Refusal(x, s, k, &b), "");
  EXPECT_EQ(Refusal(x, ValueArgument(e), k, &b), "");
  EXPECT_EQ(Refusal(x, IntArgument(1), k, &b), "");
  EXPECT_EQ(Refusal(ValueArgument(even), s, k, &b), "inner: x is f32[2*n, 4]" + rest);
  EXPECT_EQ(Refusal(ValueArgument(half), s, k, &b),
            "inner: x is f16[2*n + 1, 4]" + rest + " Try a cast to f32.");
  EXPECT_EQ(Refusal(ValueArgument(flat), s, k, &b), "inner: x is f32[2*n + 1]" + rest);
  EXPECT_EQ(Refusal(ValueArgument(e), s, k, &b), "inner: x is float" + rest);
  EXPECT_EQ(Refusal(IntArgument(3), s, k, &b), "inner: x is 3" + rest);
  EXPECT_EQ(Refusal(x, s, ValueArgument(e), &b),
            "inner: k is float, but must be int at all sizes of the graph that is made.");
  EXPECT_EQ(Refusal(x, x, k, &b),
            "inner: s is f32[2*n + 1, 4], but must be float at all sizes of the graph that is "
            "made.");
}

}  // namespace
}  // namespace anyop::bind_inputs_test
