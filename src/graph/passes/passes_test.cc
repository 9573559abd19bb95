// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/passes.h"

#include <algorithm>
#include <cstdlib>
#include <random>

#include "graph/ir/text.h"
#include "graph/testing.h"
#include "platform/log.h"

namespace anyop::passes_test {
namespace {

int Scale(GraphBuilder& b, int x, double s) {
  return b.Call("testing.scale", {ValueArgument(x), FloatArgument(s)})[0];
}
int Add(GraphBuilder& b, int x, int y) {
  return b.Call("testing.axpy", {FloatArgument(1), ValueArgument(x), ValueArgument(y)})[0];
}
void Accumulate(GraphBuilder& b, int x, int into) {
  b.Call("testing.accumulate", {ValueArgument(x), ValueArgument(into)});
}

TEST(RemoveDead, KeepsWhatIsSeen) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[n]"), unused = b.Input("unused", "f32[n]");
  const int state = b.State("state", Array::Zeros({4}, DType::kF32));
  const int never = b.State("never", Counting({4}));
  const int a = Scale(b, x, 2);
  Scale(b, Scale(b, a, 3), 4);  // dead
  const int four = b.Slice(a, 0, 0, 4);
  const int copy = Scale(b, four, 5);
  Accumulate(b, copy, state);
  const int scratch = Scale(b, x, 6);
  Accumulate(b, x, scratch);  // dead: nobody reads it
  Scale(b, never, 1);
  b.Output(a);
  Graph g = b.Finish();
  RemoveDead(&g);
  EXPECT_EQ(Print(g),
            "input x: f32[n]\n"
            "input unused: f32[n]\n"
            "state state: f32[4]\n"
            "v4: f32[n] = testing.scale(x, s=2.0)\n"
            "v7: f32[4] = slice(v4, 0, 0, 4)\n"
            "v8: f32[4] = testing.scale(v7, s=5.0)\n"
            "testing.accumulate(v8, state)\n"
            "output v4\n");
  EXPECT_EQ(g.inputs.size(), 2u);
  EXPECT_EQ(unused, 1);
}

TEST(RemoveDead, KeepsChangesThatAreReadLater) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[n]");
  const int a = Scale(b, x, 2);
  Accumulate(b, x, a);
  b.Output(Scale(b, a, 1));
  Accumulate(b, x, a);  // after the last reading
  Graph g = b.Finish();
  RemoveDead(&g);
  EXPECT_EQ(g.nodes.size(), 3u);
}

TEST(RemoveDuplicates, UnifiesCallsAndViews) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[4]");
  const int a = Scale(b, b.Slice(x, 0, 0, 2), 2), c = Scale(b, b.Slice(x, 0, 0, 2), 2);
  const int d = Scale(b, b.Slice(x, 0, 2, 4), 2);
  b.Output(Add(b, a, c));
  b.Output(d);
  Graph g = b.Finish();
  RemoveDuplicates(&g);
  RemoveDead(&g);
  EXPECT_EQ(g.nodes.size(), 3u);
  Executable e(std::move(g));
  const std::vector<Array> r = Replay(e, {Counting({4})});
  EXPECT_EQ(Values(r[0]), (std::vector<float>{0, 4}));
  EXPECT_EQ(Values(r[1]), (std::vector<float>{4, 6}));
}

TEST(RemoveDuplicates, MindsWhatIsWrittenInBetween) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[2]");
  const int state = b.State("state", Array::Zeros({2}, DType::kF32));
  const int before = Scale(b, state, 1);
  Accumulate(b, x, state);
  const int after = Scale(b, state, 1);
  b.Output(before);
  b.Output(after);
  Graph g = b.Finish();
  RemoveDuplicates(&g);
  RemoveDead(&g);
  EXPECT_EQ(g.nodes.size(), 3u);
}

TEST(RemoveDuplicates, MindsWritesIntoAStateThatOverlaps) {
  GraphBuilder b;
  const Array whole = Counting({8});
  const int x = b.Input("x", "f32[6]"), left = b.State("left", whole.Slice(0, 0, 6));
  const int right = b.State("right", whole.Slice(0, 4, 8));
  const int before = Scale(b, right, 2);
  Accumulate(b, x, left);
  b.Output(before);
  b.Output(Scale(b, right, 2));
  Graph g = b.Finish();
  RemoveDuplicates(&g);
  EXPECT_NE(g.outputs[0].value, g.outputs[1].value);
}

TEST(RemoveDuplicates, KeepsCopiesThatAreChangedApart) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[2]");
  const int a = Scale(b, x, 1), c = Scale(b, x, 1);
  Accumulate(b, x, a);
  b.Output(a);
  b.Output(c);
  Executable e(b.Finish());
  const std::vector<Array> r = Replay(e, {Floats({2}, {1, 2})});
  EXPECT_EQ(Values(r[0]), (std::vector<float>{2, 4}));
  EXPECT_EQ(Values(r[1]), (std::vector<float>{1, 2}));
}

TEST(FoldKnown, RunsWhatDependsOnFrozenStateOnce) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[4]"), w = b.State("w", Counting({2, 4}), true);
  const int row = b.Reshape(b.Slice(w, 0, 1, 2), {4});
  b.Output(Add(b, x, Scale(b, Scale(b, row, 2), 3)));
  Executable e(b.Finish());
  EXPECT_EQ(Print(e.graph()),
            "input x: f32[4]\n"
            "frozen v5: f32[4]\n"
            "v6: f32[4] = testing.axpy(a=1.0, x=x, y=v5)\n"
            "output v6\n");
  ResetCounters();
  EXPECT_EQ(Values(Replay(e, {Floats({4}, {1, 1, 1, 1})})[0]),
            (std::vector<float>{25, 31, 37, 43}));
  EXPECT_EQ(CountersFor("testing.scale", "cpu_f32").calls, 0u);
}

TEST(FoldKnown, LeavesWhatMayChange) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[2]"), s = b.State("s", Floats({2}, {1, 2}));
  const int f = b.State("f", Floats({2}, {1, 2}), true);
  b.Output(Scale(b, s, 2));
  const int copy = Scale(b, f, 2);  // frozen, but the copy is changed
  Accumulate(b, x, copy);
  b.Output(copy);
  Executable e(b.Finish());
  for (int k = 0; k < 2; ++k) {
    EXPECT_EQ(Values(Replay(e, {Floats({2}, {1, 1})})[1]), (std::vector<float>{3, 5}));
  }
  EXPECT_EQ(e.graph().nodes.size(), 3u);
}

TEST(FoldKnown, PacksFrozenWeights) {
  for (const bool is_frozen : {true, false}) {
    GraphBuilder b;
    const Array weight = Floats({2}, {3, 5});
    const int x = b.Input("x", "f32[m, 2]"), w = b.State("w", weight, is_frozen);
    b.SetPlace("model.py:9");
    b.Output(b.Call("testing.weigh", {ValueArgument(x), ValueArgument(w)})[0], "y");
    Executable e(b.Finish());
    EXPECT_EQ(Values(Replay(e, {Counting({2, 2})})[0]), (std::vector<float>{0, 5, 6, 15}));
    const std::string text = Print(e.graph());
    EXPECT_EQ(text, is_frozen ? "input x: f32[m, 2]\n"
                                "frozen packed: f32[2, 2]\n"
                                "v2: f32[m, 2] = testing.weigh_packed(x, packed, n_weights=2)  "
                                "# model.py:9\n"
                                "output v2 as y\n"
                              : "input x: f32[m, 2]\n"
                                "state w: f32[2]\n"
                                "v2: f32[m, 2] = testing.weigh(x, w)  # model.py:9\n"
                                "output v2 as y\n");
  }
}

TEST(FoldKnown, FindsFreeNames) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[m, 2]"), w = b.State("w", Floats({2}, {3, 5}), true);
  const int packed = b.State("packed", Floats({2}, {1, 1}));
  const int y = b.Call("testing.weigh", {ValueArgument(x), ValueArgument(w)})[0];
  b.Output(b.Call("testing.weigh", {ValueArgument(y), ValueArgument(packed)})[0]);
  Executable e(b.Finish());
  EXPECT_EQ(Values(Replay(e, {Counting({1, 2})})[0]), (std::vector<float>{0, 5}));
  EXPECT_NE(Print(e.graph()).find("weigh_packed(x, packed_2, "), std::string::npos);
}

Graph WithDeadNode() {
  GraphBuilder b;
  const int x = b.Input("x", "f32[2]");
  Scale(b, x, 2);
  b.Output(x);
  return b.Finish();
}
constexpr char kDeadNode[] =
    "@@ -1,3 +1,2 @@\n input x: f32[2]\n-v1: f32[2] = testing.scale(x, s=2.0)\n output x\n";

TEST(Optimize, LogsTheGraphAndWhatEachPassChanges) {
  setenv("ANYOP_LOG", "graph", 1);
  static std::string logged;
  SetLogSink([](int, const char* text) { logged += std::string(text) + "|"; });
  Graph g = WithDeadNode();
  Optimize(&g);
  SetLogSink(nullptr);
  unsetenv("ANYOP_LOG");
  EXPECT_TRUE(logged.starts_with(
      "graph:\ninput x: f32[2]\nv1: f32[2] = testing.scale(x, s=2.0)\noutput x\n|"
      "graph, fuse: nothing changed|"
      "graph, fold what is known: nothing changed|"
      "graph, remove duplicates: nothing changed|"))
      << logged;
  EXPECT_NE(logged.find(std::string("|graph, remove dead:\n") + kDeadNode + "|"),
            std::string::npos);
}

TEST(Optimize, TellsAListenerOfEachPass) {
  std::vector<std::string> told;
  CompileOptions options;
  options.on_pass = [&](std::string_view pass, const std::string& diff) {
    told.push_back(std::string(pass) + ": " + diff);
  };
  Executable e(WithDeadNode(), options);
  ASSERT_GE(told.size(), 4u);
  EXPECT_EQ(told[1], "fold what is known: ");
  EXPECT_EQ(std::count(told.begin(), told.end(), std::string("remove dead: ") + kDeadNode), 1);
}

// Random programs of calls, changes in place and views of values, inputs and a state.
class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed) {}

  Graph Make(const Array& state) {
    GraphBuilder b;
    pool_ = {b.Input("x", "f32[n, 4]"), b.Input("y", "f32[n, 4]")};
    const int s = b.State("state", state);
    const Size n = b.Symbol("n");
    for (int k = 0; k < 24; ++k) {
      const int a = Pick(), c = Pick();
      switch (random_() % 7) {
        case 0:
        case 1:
          pool_.push_back(Scale(b, a, 1 + int(random_() % 3)));
          break;
        case 2:
        case 3:
          pool_.push_back(Add(b, a, c));
          break;
        case 4: {
          const int left = b.Slice(a, 1, 0, 2), right = b.Slice(c, 1, 2, 4);
          const int sum = Scale(b, Add(b, left, right), 0.5);  // f32[n, 2]
          const int flat = b.Reshape(sum, {n + n});
          pool_.push_back(
              b.Reshape(b.Call("testing.concat", {ValuesArgument({flat, flat})})[0], {n, Size(4)}));
          break;
        }
        case 5:
          if (a >= 2 && b.graph().Root(a) != b.graph().Root(c)) Accumulate(b, c, a);
          break;
        default:
          Accumulate(b, b.Reshape(b.Slice(a, 0, 0, 1), {4}), s);
          pool_.push_back(Add(b, a, c));
      }
    }
    for (int k = 0; k < 3; ++k) b.Output(Pick());
    return b.Finish();
  }

 private:
  int Pick() { return pool_[random_() % pool_.size()]; }
  std::mt19937 random_;
  std::vector<int> pool_;
};

TEST(Passes, ChangeNoResultOfRandomGraphs) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Array state = Array::Zeros({4}, DType::kF32), plain_state = Array::Zeros({4}, DType::kF32);
    CompileOptions plain;
    plain.optimize = false;
    plain.share_memory = false;
    Executable e(RandomGraph(seed).Make(state)), p(RandomGraph(seed).Make(plain_state), plain);
    for (const std::int64_t n : {3, 1}) {
      const Array x = Counting({n, 4}), y = Array::Full({n, 4}, DType::kF32, 0.5);
      const std::vector<Array> a = Replay(e, {x, y}), b = Replay(p, {x, y});
      for (std::size_t i = 0; i < a.size(); ++i) {
        ASSERT_EQ(Values(a[i]), Values(b[i])) << seed << "\n" << Print(e.graph());
      }
      ASSERT_EQ(Values(state), Values(plain_state)) << seed;
    }
  }
}

}  // namespace
}  // namespace anyop::passes_test
