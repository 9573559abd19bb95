// SPDX-License-Identifier: Apache-2.0
#include "hosting/graph_call.h"

#include "graph/builder/builder.h"
#include "graph/saved/save.h"
#include "graph/saved/save_testing.h"
#include "runtime/testing/testing.h"

namespace anyop::graph_call_test {
namespace {

// y = s*x + x, and `into` grows by x.
Graph Steps(const char* place = "") {
  GraphBuilder b;
  b.SetPlace(place);
  const int x = b.Input("x", "f32[n, 4]"), into = b.Input("into", "f32[n, 4]");
  const int s = b.Scalar("s", ParamKind::kFloat);
  const int scaled = b.Call("testing.scale", {ValueArgument(x), ValueArgument(s)})[0];
  b.Call("testing.accumulate", {ValueArgument(x), ValueArgument(into)});
  b.Output(b.Call("testing.plus", {ValueArgument(scaled), ValueArgument(x)})[0], "y");
  return b.Finish();
}
std::vector<GraphNumber> Number(double s) {
  anyop_value v{};
  v.tag = ANYOP_FLOAT;
  v.f = s;
  return {{"s", v}};
}
ResultShape Inferred(const BoundCall& call, std::vector<std::vector<std::int64_t>> shapes) {
  std::vector<DLTensor> inputs;
  for (auto& shape : shapes) {
    DLTensor t{};
    t.ndim = shape.empty() ? -1 : int(shape.size());
    t.shape = shape.data();
    inputs.push_back(t);
  }
  ResultShape result;
  call.Infer(inputs, {&result, 1});
  return result;
}

TEST(GraphCall, IsOneNode) {
  const BoundCall& call = FindBoundCall(TextOfGraphCall(Steps(), Number(2), {}));
  const Array x = Counting({2, 4}), into = Counting({2, 4}), y = Array::Empty({2, 4}, DType::kF32);
  const DLTensor inputs[] = {x.tensor(), into.tensor()};
  const DLTensor outputs[] = {y.tensor()};
  call.Run(inputs, outputs);
  EXPECT_EQ(Values(y), (std::vector<float>{0, 3, 6, 9, 12, 15, 18, 21}));
  EXPECT_EQ(Values(into), (std::vector<float>{0, 2, 4, 6, 8, 10, 12, 14}));
  EXPECT_FALSE(call.inputs()[0].is_written);
  EXPECT_TRUE(call.inputs()[1].is_written);
  EXPECT_EQ(call.results()[0].name, "y");
}

TEST(GraphCall, TextIsCanonical) {
  const std::string text = TextOfGraphCall(Steps("model.py:3"), Number(2), {});
  EXPECT_EQ(text,
            R"(anyop.call/1 graph("input x: f32[n, 4]\ninput into: f32[n, 4]\ninput s: float\n)"
            R"(v3: f32[n, 4] = testing.scale(x, s)\ntesting.accumulate(x, into)\n)"
            R"(v4: f32[n, 4] = testing.plus(v3, x)\noutput v4 as y\n", s = 2.0))");
  EXPECT_EQ(FindBoundCall(text).text(), text);
  EXPECT_EQ(TextOfGraphCall(Steps("other.py:8"), Number(2), {}), text);
}

TEST(GraphCall, InfersFromWhatIsKnown) {
  const BoundCall& call = FindBoundCall(TextOfGraphCall(Steps(), Number(2), {}));
  EXPECT_EQ(Inferred(call, {{3, 4}, {3, 4}}).shape[0], 3);
  const ResultShape partly = Inferred(call, {{-1, 4}, {5, -1}});
  EXPECT_EQ(partly.rank, 2);
  EXPECT_EQ(partly.shape[0], 5);
  EXPECT_EQ(partly.shape[1], 4);
  EXPECT_EQ(Inferred(call, {{}, {}}).shape[0], -1);
  EXPECT_EQ(ErrorOf([&] {
              Inferred(call, {{2, 4}, {3, -1}});
            }),
            "graph: into is f32[3, ?], but must be f32[n, 4], and n is 2.");
  EXPECT_EQ(ErrorOf([&] {
              Inferred(call, {{2, 4}, {3}});
            }),
            "graph: into is f32[3], but must be f32[n, 4].");
}

TEST(GraphCall, RefusesMemoryOfItsOwn) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[4]"), w = b.State("w", Counting({4}), true);
  b.Output(b.Call("testing.plus", {ValueArgument(x), ValueArgument(w)})[0]);
  const Graph graph = b.Finish();
  EXPECT_EQ(ErrorOf([&] { TextOfGraphCall(graph, {}, {}); }),
            "graph: w is state of the graph, but its text cannot hold memory. Try an input in its "
            "place, or a saved graph.");
}

// y = x + w; `cache` grows by x if it is there.
Graph WithMemory(float w, bool has_cache = false) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[2]"), weight = b.State("w", Floats({2}, {w, w}), true);
  if (has_cache) {
    const int cache = b.State("cache", Floats({2}, {0, 0}));
    b.Call("testing.accumulate", {ValueArgument(x), ValueArgument(cache)});
  }
  b.Output(b.Call("testing.plus", {ValueArgument(x), ValueArgument(weight)})[0], "y");
  return b.Finish();
}
void Save(const std::string& path, const Graph& graph) {
  const GraphToSave saved[] = {{"step", &graph}};
  WriteGraphs(path, saved);
}

TEST(GraphCall, MayBeThatOfASavedGraph) {
  const testing_graphs::Folder folder;
  Save(folder.path, WithMemory(5));
  const std::string text = TextOfSavedGraphCall(folder.parent + "/./saved", "", {}, {});
  const std::string start = "anyop.call/1 saved(\"" + folder.path + "\", \"step\", \"";
  EXPECT_TRUE(text.starts_with(start) && text.size() == start.size() + 18) << text;
  const BoundCall& call = FindBoundCall(text);
  EXPECT_EQ(call.text(), text);
  const Array x = Counting({2}), y = Array::Empty({2}, DType::kF32);
  const DLTensor inputs[] = {x.tensor()}, outputs[] = {y.tensor()};
  call.Run(inputs, outputs);
  EXPECT_EQ(Values(y), (std::vector<float>{5, 6}));

  Save(folder.path, WithMemory(7));
  const std::string anew = TextOfSavedGraphCall(folder.path, "step", {}, {});
  EXPECT_NE(anew, text);
  call.Run(inputs, outputs);  // the pages that it was bound with
  EXPECT_EQ(Values(y), (std::vector<float>{5, 6}));
  const std::string other = text + " in threads = 2", was = text.substr(start.size(), 16);
  EXPECT_EQ(ErrorOf([&] { FindBoundCall(other); }),
            "graph: " + folder.path + " has the digest " + anew.substr(start.size(), 16) +
                ", but " + was +
                " when the call was bound: it was saved anew. Try binding it again.");
}

TEST(GraphCall, SharesNoMemoryThatIsWritten) {
  const testing_graphs::Folder folder;
  Save(folder.path, WithMemory(5, true));
  const std::string text = TextOfSavedGraphCall(folder.path, "step", {}, {});
  EXPECT_EQ(ErrorOf([&] { FindBoundCall(text); }),
            "graph: cache is state that the graph writes, but every node with this text would "
            "share it. Try an input in its place.");
}

TEST(GraphCall, FixesEveryNumber) {
  EXPECT_EQ(ErrorOf([] { TextOfGraphCall(Steps(), {}, {}); }),
            "graph: s is missing: a bound call fixes the inputs that are no tensors.");
  std::vector<GraphNumber> two = Number(1);
  two.push_back({"t", two[0].value});
  EXPECT_EQ(ErrorOf([&] { TextOfGraphCall(Steps(), two, {}); }),
            "graph: no input that is a number is called t.");
  two = Number(1);
  two[0].value.tag = ANYOP_BOOL;
  two[0].value.i = 1;
  EXPECT_EQ(ErrorOf([&] { TextOfGraphCall(Steps(), two, {}); }),
            "graph: s is True, but must be float.");
}

}  // namespace
}  // namespace anyop::graph_call_test
