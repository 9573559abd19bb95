// SPDX-License-Identifier: Apache-2.0
// The public header, as a user calls it.
#include "anyop/graph.h"

#include "graph/saved/save_testing.h"

namespace anyop::api_test {
namespace {

using ::anyop::testing_graphs::Folder;

CompiledGraph Step(const Array& cache) {
  GraphRecorder r("step");
  const GraphTensor x = r.Input("x", "f32[n, 4]"), s = r.Input("s", "float");
  const GraphTensor y = r.Call("testing.scale", x, NamedOperand("s", s))[0];
  r.Call("testing.scatter", r.Slice(y, 0, "n - 1", "n"), Ints({2}), cache);
  r.Output(r.Reshape(r.Slice(y, 0, "n - 1", "n"), {"4"}), "last");
  r.Output(r.Transpose(y, 0, 1));
  return r.Compile();
}

TEST(PublicGraph, IsBuiltAndReplayed) {
  const Array cache = Array::Zeros({3, 4}, DType::kF32);
  const CompiledGraph g = Step(cache);
  EXPECT_EQ(g.name(), "step");
  EXPECT_EQ(g.text(),
            "input x: f32[n, 4]\n"
            "input s: float\n"
            "state slots: i64[1]\n"
            "state cache: f32[3, 4]\n"
            "v2: f32[n, 4] = testing.scale(x, s)\n"
            "v3: f32[1, 4] = slice(v2, 0, n - 1, n)\n"
            "testing.scatter(v3, slots, cache)\n"
            "v7: f32[4] = reshape(v3, [4])\n"
            "output v7 as last\n"
            "v8: f32[4, n] = transpose(v2, 0, 1)\n"
            "output v8\n");
  const std::vector<Array> out = g(Counting({1, 4}), 2.0);
  EXPECT_EQ(Values(out[0]), (std::vector<float>{0, 2, 4, 6}));
  EXPECT_EQ(cache.at<float>(2, 3), 6);
  EXPECT_EQ(g.state("cache").data(), cache.data());
  const Array last = Array::Zeros({4}, DType::kF32), flipped = Array::Zeros({4, 1}, DType::kF32);
  const Array x = Counting({1, 4});
  g.RunInto(std::vector<Argument>{x, 3.0}, std::vector<Array>{last, flipped});
  EXPECT_EQ(Values(flipped), (std::vector<float>{0, 3, 6, 9}));
}

TEST(PublicGraph, TellsWhatItTakesAndGives) {
  const CompiledGraph g = Step(Array::Zeros({3, 4}, DType::kF32));
  const std::vector<GraphPort> in = g.inputs(), out = g.outputs();
  ASSERT_EQ(in.size(), 2u);
  EXPECT_EQ(in[0].name + ": " + in[0].type, "x: f32[n, 4]");
  EXPECT_EQ(in[1].name + ": " + in[1].type, "s: float");
  EXPECT_FALSE(in[1].is_tensor);
  EXPECT_EQ(out[0].name + ": " + out[0].type, "last: f32[4]");
}

TEST(PublicGraph, IsSavedAndLoaded) {
  const Folder folder;
  const CompiledGraph g = Step(Array::Zeros({3, 4}, DType::kF32));
  SaveOptions options;
  options.metadata = "[1]";
  g.Save(folder.path, options);
  std::string metadata;
  const CompiledGraph loaded = LoadGraph(folder.path, "step", &metadata);
  EXPECT_EQ(metadata, "[1]");
  EXPECT_EQ(loaded.text(), g.text());
  EXPECT_EQ(Values(loaded(Counting({1, 4}), 2.0)[0]), (std::vector<float>{0, 2, 4, 6}));
  EXPECT_EQ(loaded.state("cache").at<float>(2, 3), 6);
  EXPECT_EQ(LoadGraphs(folder.path)[0].state("cache").at<float>(2, 3), 0);
}

TEST(PublicGraph, RefusesWrongCalls) {
  GraphRecorder r;
  const GraphTensor x = r.Input("x", "f32[n, 4]");
  const auto error = [&](auto&&... args) {
    return ErrorOf([&] { r.Call("testing.scale", args...); });
  };
  EXPECT_EQ(error(x), "testing.scale: s is missing.");
  EXPECT_EQ(error(x, 2.0, 3.0), "testing.scale: 3 arguments are given, but there are 2.");
  EXPECT_EQ(error(x, Named("t", 2.0)), "testing.scale: there is no parameter 't'.");
  EXPECT_EQ(error(x, Named("x", 2.0)), "testing.scale: x is given twice.");
  EXPECT_NE(error(x, "word"), "");
  EXPECT_EQ(error(Named("x", Counting({2, 4})), 2.0),
            "x is named, but an array of a graph's call becomes state. Try NamedOperand.");
  EXPECT_NE(error(2.0, 2.0), "");
  EXPECT_NE(ErrorOf([&] { r.Call("testing.scal", x, 2.0); }).find("testing.scale"),
            std::string::npos);
  EXPECT_NE(ErrorOf([&] { r.Input("y", "f99[n]"); }), "");
  EXPECT_NE(ErrorOf([&] { r.Slice(x, 5, 0, 1); }), "");
  const CompiledGraph g = Step(Array::Zeros({3, 4}, DType::kF32));
  EXPECT_EQ(ErrorOf([&] { g.state("cash"); }), "step has no state 'cash'. Did you mean 'cache'?");
  EXPECT_NE(ErrorOf([&] { g(Counting({1, 5}), 2.0); }), "");
  EXPECT_NE(ErrorOf([&] { g(Counting({1, 4})); }), "");
}

}  // namespace
}  // namespace anyop::api_test
