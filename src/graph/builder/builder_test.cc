// SPDX-License-Identifier: Apache-2.0
#include "graph/builder/builder.h"

#include "graph/ir/text.h"
#include "graph/testing.h"

namespace anyop::builder_test {
namespace {

TEST(GraphBuilder, InfersResultsWithSymbolicSizes) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[n, 64]"), y = b.Input("y", "f32[n, 64]");
  const int z = b.Call("testing.axpy", {FloatArgument(2), ValueArgument(x), ValueArgument(y)})[0];
  EXPECT_EQ(ShowType(b.graph(), z), "f32[n, 64]");
  const int parts =
      b.Call("testing.concat", {ValuesArgument({b.Reshape(z, {b.ParseSize("64*n")}),
                                                b.Reshape(x, {b.ParseSize("n*64")})})})[0];
  EXPECT_EQ(ShowType(b.graph(), parts), "f32[128*n]");
}

TEST(GraphBuilder, MultipliesAndAddsSizes) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[n, m]");
  const int flat = b.Call("testing.flatten", {ValueArgument(x)})[0];
  EXPECT_EQ(ShowType(b.graph(), flat), "f32[n*m]");
  const int starts = b.Input("starts", "i64[k + 1]"), t = b.Input("t", "f32[n]");
  const int sums = b.Call("testing.segment_sum", {ValueArgument(t), ValueArgument(starts)})[0];
  EXPECT_EQ(ShowType(b.graph(), sums), "f32[k]");
  const int even = b.Input("even", "f32[2*n*m + 2*k]");
  const int half = b.Call("testing.every_other", {ValueArgument(even)})[0];
  EXPECT_EQ(ShowType(b.graph(), half), "f32[n*m + k]");
}

TEST(GraphBuilder, NamesSizesThatNoPolynomialExpresses) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[n]");
  const int y = b.Call("testing.every_other", {ValueArgument(x)})[0];
  EXPECT_EQ(ShowType(b.graph(), y), "f32[v1_0]");
  const int z = b.Reshape(y, {b.ParseSize("v1_0"), 1});
  EXPECT_EQ(ShowType(b.graph(), z), "f32[v1_0, 1]");
  const int twice = b.Call("testing.concat", {ValuesArgument({y, y})})[0];
  EXPECT_EQ(ShowType(b.graph(), twice), "f32[2*v1_0]");
  b.Output(twice);
  Executable e(b.Finish());
  for (const std::int64_t n : {1, 4, 5}) {
    std::vector<float> expected;
    for (int k = 0; k < 2; ++k) {
      for (std::int64_t i = 0; i < n; i += 2) expected.push_back(float(i));
    }
    EXPECT_EQ(Values(Replay(e, {Counting({n})})[0]), expected);
  }
}

TEST(GraphBuilder, ParsesSizes) {
  GraphBuilder b;
  const auto show = [&](std::string_view text) {
    const Size s = b.ParseSize(text);
    return ShowSize(b.graph(), s);
  };
  EXPECT_EQ(show("n"), "n");
  EXPECT_EQ(show("1 + 2*n"), "2*n + 1");
  EXPECT_EQ(show("(n + 1)*(n - 1)"), "n*n - 1");
  EXPECT_EQ(show("n - n"), "0");
  EXPECT_EQ(show("3 - m"), "-m + 3");
  EXPECT_EQ(ErrorOf([&] { b.ParseSize("n +"); }),
            "size, line 1, column 4: expected a number.\n    n +\n       ^");
  EXPECT_NE(ErrorOf([&] { b.ParseSize("n n"); }), "");
}

TEST(GraphBuilder, RefusesWrongCallsWithThePlace) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[n, 64]"), y = b.Input("y", "f32[n, 65]"),
            other = b.Input("other", "f32[m, 64]");
  b.SetPlace("model.py:31");
  int code = 0;
  EXPECT_EQ(ErrorOf(
                [&] {
                  b.Call("testing.axpy", {FloatArgument(1), ValueArgument(x), ValueArgument(y)});
                },
                &code),
            "testing.axpy: y is f32[384, 65], but must be f32[384, 64] because x is f32[384, 64].\n"
            "  tried with n = 384, m = 1024\n  at model.py:31");
  EXPECT_EQ(code, ANYOP_INVALID_ARGUMENT);
  EXPECT_NE(ErrorOf([&] {
              b.Call("testing.axpy", {FloatArgument(1), ValueArgument(x), ValueArgument(other)});
            }),
            "");
  EXPECT_EQ(ErrorOf([&] { b.Call("testing.scale", {ValueArgument(x)}); }),
            "testing.scale: s is missing.\n  at model.py:31");
  EXPECT_EQ(ErrorOf([&] {
              b.Call("testing.pick", {ValueArgument(x), WordArgument("lost")});
            }),
            "testing.pick: which is 'lost', but must be 'first' or 'last'. Did you mean 'last'?\n"
            "  at model.py:31");
  EXPECT_NE(ErrorOf([&] { b.Call("testing.scale", {ValueArgument(x), ValueArgument(x)}); }), "");
  EXPECT_NE(ErrorOf([&] { b.Call("testing.scale", {ValueArgument(99), FloatArgument(1)}); }), "");
  EXPECT_NE(ErrorOf([&] { b.Input("x", "f32[n]"); }), "");
  EXPECT_NE(ErrorOf([&] { b.Input("9", "f32[n]"); }), "");
}

// Large sizes in so many dimensions are more bytes than there can be.
TEST(GraphBuilder, TakesSizesOfTheirOwnInEveryDimension) {
  for (const char* type : {"f64[a, b, c, d, e]", "f32[a, b, c, d, e, f, g, h]"}) {
    GraphBuilder b;
    const int x = b.Input("x", type);
    const int y = b.Call("testing.axpy", {FloatArgument(1), ValueArgument(x), ValueArgument(x)})[0];
    EXPECT_EQ(ShowType(b.graph(), y), type);
  }
}

TEST(GraphBuilder, ChecksViewsAtSomeSizes) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[n, 6]");
  const int s = b.Slice(x, 1, 2, 4);
  EXPECT_EQ(ShowType(b.graph(), s), "f32[n, 2]");
  EXPECT_EQ(ShowType(b.graph(), b.Slice(x, 0, b.ParseSize("n - 1"), b.ParseSize("n"))),
            "f32[1, 6]");
  EXPECT_EQ(ShowType(b.graph(), b.Transpose(s, 0, 1)), "f32[2, n]");
  EXPECT_NE(ErrorOf([&] { b.Slice(x, 1, 2, 7); }), "");
  EXPECT_NE(ErrorOf([&] { b.Slice(x, 2, 0, 1); }), "");
  EXPECT_NE(ErrorOf([&] { b.Reshape(x, {b.ParseSize("5*n")}); }), "");
  EXPECT_NE(ErrorOf([&] { b.Reshape(s, {b.ParseSize("2*n")}); }), "");  // has gaps
  EXPECT_EQ(ShowType(b.graph(), b.Reshape(s, {b.ParseSize("n"), 1, 2})), "f32[n, 1, 2]");
}

TEST(GraphBuilder, TakesSizesInAnyOrder) {
  const char* const orders[][3] = {{"n", "b", "a"}, {"b", "a", "n"}, {"n", "a", "b"},
                                   {"a", "n", "b"}, {"a", "b", "n"}, {"b", "n", "a"}};
  for (const auto& order : orders) {
    GraphBuilder b;
    for (const char* name : order) b.Symbol(name);
    const int x = b.Input("x", "f32[n, 8]");
    const int part = b.Slice(x, 0, b.Symbol("a"), b.Symbol("b"));
    const int rest = b.Slice(x, 0, b.Symbol("b"), b.Symbol("n"));
    const int y = b.Call("testing.scale", {ValueArgument(part), FloatArgument(2)})[0];
    const int z = b.Call("testing.scale", {ValueArgument(rest), FloatArgument(2)})[0];
    EXPECT_EQ(ShowType(b.graph(), y), ShowType(b.graph(), part));
    EXPECT_EQ(ShowType(b.graph(), z), ShowType(b.graph(), rest));
  }
}

TEST(GraphBuilder, RefusesSizesThatOnlyHappenToFit) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[n, 8]"), y = b.Input("y", "f32[m, 8]");
  const int part = b.Slice(x, 0, 0, b.Symbol("m"));
  EXPECT_EQ(ShowType(b.graph(), part), "f32[m, 8]");
  b.Call("testing.axpy", {FloatArgument(1), ValueArgument(part), ValueArgument(y)});
  EXPECT_THROW(b.Call("testing.axpy", {FloatArgument(1), ValueArgument(x), ValueArgument(y)}),
               Error);
  const int one_less = b.Slice(x, 0, 1, b.Symbol("n"));
  EXPECT_THROW(
      b.Call("testing.axpy", {FloatArgument(1), ValueArgument(one_less), ValueArgument(y)}), Error);
}

TEST(GraphBuilder, RefusesToWriteConstantsAndFrozenState) {
  GraphBuilder b;
  const Array data = Counting({4});
  const int c = b.Constant("c", data), f = b.State("f", data, true), s = b.State("s", data);
  EXPECT_EQ(ErrorOf([&] {
              b.Call("testing.accumulate", {ValueArgument(s), ValueArgument(c)});
            }),
            "testing.accumulate: into is c, which is written, but is a constant of the graph.");
  EXPECT_EQ(ErrorOf([&] {
              b.Call("testing.accumulate", {ValueArgument(s), ValueArgument(f)});
            }),
            "testing.accumulate: into is f, which is written, but is frozen state of the graph.");
  EXPECT_EQ(ErrorOf([&] {
              b.Call("testing.accumulate", {ValueArgument(c), ValueArgument(s)});
            }),
            "");
}

TEST(GraphBuilder, FindsFreeNames) {
  GraphBuilder b;
  b.Input("w", "f32[n]");
  EXPECT_EQ(b.FreeName("x"), "x");
  EXPECT_EQ(b.FreeName("w"), "w_2");
  b.Input("w_2", "f32[n]");
  EXPECT_EQ(b.FreeName("w"), "w_3");
}

}  // namespace
}  // namespace anyop::builder_test
