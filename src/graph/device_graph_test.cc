// SPDX-License-Identifier: Apache-2.0
// Graphs whose inputs lie on the far device: a replay is put on the current stream and not waited
// for.
#include "anyop/graph.h"
#include "runtime/testing/on_far.h"

namespace anyop::device_graph_test {
namespace {

CompiledGraph Chain() {
  GraphRecorder r("chain");
  const GraphTensor x = r.Input("x", "f32[n, 4]"), s = r.Input("s", "float");
  GraphTensor y = r.Call("testing.axpy", 1.0, x, x)[0];
  const GraphTensor z = r.Call("testing.scale", y, NamedOperand("s", s))[0];
  const std::vector<GraphTensor> sum = r.Call("testing.scaled_sum", z, y, 3.0);
  r.Output(sum[1], "y");
  r.Output(r.Transpose(sum[0], 0, 1), "flipped");
  return r.Compile();
}

TEST(DeviceGraph, GivesWhatTheHostGives) {
  const CompiledGraph g = Chain();
  for (const std::int64_t n : {3, 1, 5}) {
    const Array x = Counting({n, 4});
    const std::vector<Array> wanted = g(x, 2.0), got = g(OnFar(x), 2.0);
    ASSERT_EQ(got.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(got[i].device(), Far());
      EXPECT_EQ(FromFar(got[i]), Values(wanted[i]));
    }
  }
}

TEST(DeviceGraph, IsReplayedWhileItsLastReplayRuns) {
  const CompiledGraph g = Chain();
  const Stream a(Far()), b(Far());
  std::vector<Array> xs, results;
  for (int i = 0; i < 20; ++i) xs.push_back(Array::Full({64, 4}, DType::kF32, i));
  for (int i = 0; i < 20; ++i) {
    const StreamScope scope(i % 2 ? a : b);
    results.push_back(g(OnFar(xs[std::size_t(i)]), 2.0)[0]);
  }
  for (int i = 0; i < 20; ++i) {
    const StreamScope scope(i % 2 ? a : b);
    EXPECT_EQ(FromFar(results[std::size_t(i)]), Values(g(xs[std::size_t(i)], 2.0)[0]));
  }
}

TEST(DeviceGraph, WritesStateThatLiesThere) {
  const Array cache = OnFar(Array::Zeros({3, 4}, DType::kF32)), slots = OnFar(Ints({2, 0}));
  GraphRecorder r("write");
  const GraphTensor x = r.Input("x", "f32[2, 4]");
  r.Call("testing.scatter", x, slots, cache);
  r.Output(r.Call("testing.scale", x, 2.0)[0], "y");
  const CompiledGraph g = r.Compile();
  EXPECT_EQ(FromFar(g(OnFar(Counting({2, 4})))[0]),
            (std::vector<float>{0, 2, 4, 6, 8, 10, 12, 14}));
  EXPECT_EQ(FromFar(cache), (std::vector<float>{4, 5, 6, 7, 0, 0, 0, 0, 0, 1, 2, 3}));
  EXPECT_EQ(ErrorOf([&] {
              g(Counting({2, 4}));
            }),
            "testing.scatter: slots is on far:0, but x is on cpu. Try a copy on the same device.\n"
            "  in testing.scatter(x, slots, cache)");
  const std::string refused = ErrorOf([&] { g.Save("/nowhere"); });
  EXPECT_NE(refused.find(" is on far:0, but a saved graph holds memory of the host. Try the graph "
                         "with arrays on the CPU."),
            std::string::npos)
      << refused;
}

TEST(DeviceGraph, CopiesInputsThatAreNotContiguous) {
  const CompiledGraph g = Chain();
  const Array x = Counting({4, 3});
  EXPECT_EQ(FromFar(g(OnFar(x).Transpose(0, 1), 2.0)[0]), Values(g(x.Transpose(0, 1), 2.0)[0]));
}

TEST(DeviceGraph, RefusesInputsOfTwoPlacesAndOutputsElsewhere) {
  GraphRecorder r("two");
  const GraphTensor x = r.Input("x", "f32[n]"), y = r.Input("y", "f32[n]");
  r.Output(r.Call("testing.axpy", 1.0, x, y)[0]);
  const CompiledGraph g = r.Compile();
  const Array a = Counting({4});
  EXPECT_EQ(ErrorOf([&] { g(OnFar(a), a); }),
            "graph: y is on cpu, but x is on far:0. Try a copy on the same device.");
  const Array out = Array::Zeros({4}, DType::kF32);
  EXPECT_EQ(ErrorOf([&] {
              const Array there = OnFar(a);
              g.RunInto(std::vector<Argument>{there, there}, std::vector<Array>{out});
            }),
            "graph: output v2 is f32[4], but must be f32[4] on far:0.");
  EXPECT_EQ(ErrorOf([&] {
              const Array there = OnFar(a);
              g.RunInto(std::vector<Argument>{there, there}, std::vector<Array>{out.On(Far(1))});
            }),
            "graph: output v2 is f32[4], but must be f32[4] on far:0.");
}

TEST(DeviceGraph, TakesPlannedInputsFromTheHost) {
  GraphRecorder r("planned");
  const GraphTensor x = r.Input("x", "f32[6]"), starts = r.Input("starts", "i64[4]");
  const GraphTensor y = r.Call("testing.scale", x, 2.0)[0];
  r.Output(r.Call("testing.planned_sum", y, r.Slice(starts, 0, 0, 3))[0], "sums");
  const CompiledGraph g = r.Compile();
  const Array a = Counting({6}), there = OnFar(a);
  for (const std::int64_t middle : {2, 1, 5}) {
    Array where = Ints({0, middle, 6, 9});
    const std::vector<float> wanted = Values(g(a, where)[0]);
    const Array got = g(there, where)[0];
    where.data<std::int64_t>()[1] = 0;  // it has been read
    EXPECT_EQ(got.device(), Far());
    EXPECT_EQ(FromFar(got), wanted);
  }
  EXPECT_EQ(ErrorOf([&] {
              g(there, OnFar(Ints({0, 2, 6, 9})));
            }),
            "graph: starts is on far:0, but must be on cpu, because a call takes it as planned: "
            "the host reads it before the work begins. Try a copy on the CPU.");
  EXPECT_EQ(ErrorOf([&] {
              g(there, Ints({0, 9, 2, 9, 6, 9, 9, 9}).Reshape({4, 2}).Slice(1, 0, 1));
            }).find("graph: starts"),
            0u);
}

TEST(DeviceGraph, ReturnsAPlannedInputOnTheDevice) {
  GraphRecorder r("planned");
  const GraphTensor x = r.Input("x", "f32[6]"), starts = r.Input("starts", "i64[4]");
  r.Output(r.Call("testing.planned_sum", x, starts)[0], "sums");
  r.Output(starts, "starts");
  const CompiledGraph g = r.Compile();
  Array where = Ints({0, 2, 3, 6});
  const std::vector<Array> got = g(OnFar(Counting({6})), where);
  where.data<std::int64_t>()[1] = 0;  // it has been read
  EXPECT_EQ(FromFar(got[0]), Values(g(Counting({6}), Ints({0, 2, 3, 6}))[0]));
  EXPECT_EQ(got[1].device(), Far());
  const Array here = got[1].On(Device());
  EXPECT_EQ(std::vector<std::int64_t>(here.data<std::int64_t>(), here.data<std::int64_t>() + 4),
            (std::vector<std::int64_t>{0, 2, 3, 6}));
}

TEST(DeviceGraph, RunsOnTheDeviceOfItsInputs) {
  const CompiledGraph g = Chain();
  const Array x = Counting({3, 4});
  const std::vector<float> wanted = Values(g(x, 2.0)[0]);
  for (const Device place : {Far(0), Far(1), Device(), Far(1), Far(0)}) {
    const Array got = g(x.On(place), 2.0)[0];
    EXPECT_EQ(got.device(), place);
    EXPECT_EQ(FromFar(got), wanted);
  }
}

TEST(DeviceGraph, RunsWhereItsOwnArraysLie) {
  const Array weight = OnFar(Counting({2, 4}));
  GraphRecorder r("own");
  const GraphTensor s = r.Input("s", "float");
  r.Output(r.Call("testing.scale", weight, NamedOperand("s", s))[0]);
  const CompiledGraph g = r.Compile();
  for (const double by : {2.0, 3.0}) {
    const Array got = g(by)[0];
    EXPECT_EQ(got.device(), Far());
    EXPECT_EQ(FromFar(got), Values(Array(Call("testing.scale", Counting({2, 4}), by))));
  }
}

// Weights that nobody changes are packed when a graph is compiled, on the host alone.
TEST(DeviceGraph, LeavesItsFrozenArraysWhereTheyLie) {
  const Array w = Counting({4}), x = Counting({2, 4});
  const auto run = [&](const Array& weight, const Array& input) {
    GraphRecorder r("frozen");
    const GraphTensor in = r.Input("x", "f32[2, 4]"), own = r.State("w", weight, true);
    const GraphTensor twice = r.Call("testing.scale", own, 2.0)[0];
    r.Output(r.Call("testing.weigh", in, twice)[0]);
    return FromFar(r.Compile()(input)[0]);
  };
  EXPECT_EQ(run(OnFar(w), OnFar(x)), run(w, x));
}

TEST(DeviceGraph, GivesInputsAndOneValueTwice) {
  GraphRecorder r("twice");
  const GraphTensor x = r.Input("x", "f32[n, 4]");
  const GraphTensor y = r.Call("testing.scale", x, 2.0)[0];
  for (const GraphTensor& t : {x, y, y, r.Slice(y, 1, 1, 3)}) r.Output(t);
  const CompiledGraph g = r.Compile();
  const Array a = Counting({3, 4});
  const std::vector<Array> wanted = g(a), got = g(OnFar(a));
  ASSERT_EQ(got.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(got[i].device(), Far());
    EXPECT_EQ(FromFar(got[i]), Values(wanted[i]));
  }
}

// Which on the host is cut by rows.
TEST(DeviceGraph, RunsLargeCallsOneAfterTheOther) {
  GraphRecorder r("large");
  const GraphTensor x = r.Input("x", "f32[n, 64]");
  const GraphTensor y = r.Call("testing.axpy", 1.0, x, x)[0];
  const GraphTensor z = r.Call("testing.scale", y, 2.0)[0];
  r.Output(r.Call("testing.axpy", 1.0, z, x)[0]);
  const CompiledGraph g = r.Compile();
  const Array a = Counting({2048, 64});
  EXPECT_EQ(FromFar(g(OnFar(a))[0]), Values(g(a)[0]));
}

TEST(DeviceGraph, GivesItsMemoryBackInTheOrderOfItsStream) {
  const CompiledGraph g = Chain();
  const Array x = OnFar(Counting({64, 4})), wanted = g(x, 2.0)[0];
  const Stream mine(Far());
  WatchedFar far;
  {
    const StreamScope scope(mine);
    Held held(mine);
    const std::vector<Array> got = g(x, 2.0);
    EXPECT_EQ(far.allocations - far.releases, 2);  // the outputs
    EXPECT_EQ(far.waits, 0);
    held.LetGo();
    EXPECT_EQ(FromFar(got[0]), FromFar(wanted));
  }
  static int left;
  far.table.allocate = [](int32_t number, anyop_stream s, std::uint64_t bytes, void** memory) {
    if (left-- == 0) return int(ANYOP_OUT_OF_MEMORY);
    return ++WatchedFar::allocations, WatchedFar::real.allocate(number, s, bytes, memory);
  };
  far.table.error_text = [] { return "there is no room."; };
  int code = ANYOP_OK;
  for (const int fails : {0, 1, 2}) {
    left = fails;
    EXPECT_EQ(ErrorOf([&] { g(x, 2.0); }, &code), "") << "asked again, there is room";
    left = fails;
    far.table.synchronize = [](int32_t, anyop_stream) { return left = 0, 0; };
    EXPECT_NE(ErrorOf([&] { g(x, 2.0); }, &code).find("far:0: there is no room."),
              std::string::npos);
    EXPECT_EQ(code, ANYOP_OUT_OF_MEMORY);
    far.table.synchronize = WatchedFar::real.synchronize;
    EXPECT_EQ(far.releases, far.allocations);
  }
  left = -1;
  EXPECT_EQ(FromFar(g(x, 2.0)[0]), FromFar(wanted));
}

// Of numbers alone: nothing says where it runs but the graph.
TEST(DeviceGraph, ComputesThereWhatHasNoTensor) {
  for (const char* type : {"f32[n, 4]", "f32[3, 4]"}) {  // the second one is computed only once
    GraphRecorder r("ramp");
    const GraphTensor x = r.Input("x", type);
    const GraphTensor ramp = type[4] == 'n' ? r.Call("testing.ramp", GraphSize("n"), 4)[0]
                                            : r.Call("testing.ramp", 3, 4)[0];
    r.Output(r.Call("testing.axpy", 1.0, x, ramp)[0], "sum");
    r.Output(ramp, "ramp");
    const CompiledGraph g = r.Compile();
    const Array x_here = Counting({3, 4});
    const std::vector<Array> wanted = g(x_here);
    const Stream side(Far());
    for (int i = 0; i < 4; ++i) {
      const StreamScope scope(i % 2 ? side : Stream::Current(Far()));
      const std::vector<Array> got = g(OnFar(x_here));
      for (std::size_t k = 0; k < 2; ++k) {
        EXPECT_EQ(got[k].device(), Far());
        EXPECT_EQ(FromFar(got[k]), Values(wanted[k])) << type;
      }
    }
  }
}

TEST(DeviceGraph, RefusesACallOfAnotherPlacesStateAlone) {
  for (const Array& w : {Counting({4}), Counting({4}).On(Far(1))}) {
    GraphRecorder r("elsewhere");
    const GraphTensor x = r.Input("x", "f32[4]");
    const GraphTensor scaled = r.Call("testing.scale", r.State("w", w), 2.0)[0];
    r.Output(r.Call("testing.scale", x, 3.0)[0], "y");
    r.Output(scaled, "z");
    const CompiledGraph g = r.Compile();
    EXPECT_EQ(ErrorOf([&] { g(OnFar(Counting({4}))); }),
              "testing.scale: y is on far:0, but x is on " + w.device().name() +
                  ". Try a copy on the same device.\n  in v2 = testing.scale(w, s=2.0)");
  }
}

// It is nobody's node that went wrong.
TEST(DeviceGraph, TellsTheLateErrorOfOtherWorkBeforeItsFirstNode) {
  const CompiledGraph g = Chain();
  const Array x = OnFar(Counting({3, 4})), zeros = OnFar(Array::Zeros({4, 2}, DType::kF32));
  g(x, 2.0);
  const Stream stream(Far());
  const StreamScope scope(stream);
  const Array rows = OnFar(Counting({2, 2})), slots = OnFar(Ints({0, 4}));
  std::string error = ErrorOf([&] { Call("testing.scatter", rows, slots, zeros).run(); });
  for (int i = 0; i < 1000 && error.empty(); ++i) error = ErrorOf([&] { g(x, 2.0); });
  EXPECT_TRUE(error.starts_with("testing.scatter: slots[1] is 4")) << error;
  EXPECT_TRUE(error.ends_with("whose results are not to be used.")) << error;
}

TEST(DeviceGraph, TellsALateErrorWithTheNextReplay) {
  GraphRecorder r("late");
  const GraphTensor x = r.Input("x", "f32[2, 2]"), slots = r.Input("slots", "i64[2]");
  const GraphTensor cache = r.Input("cache", "f32[4, 2]");
  r.Call("testing.scatter", x, slots, cache);
  r.Output(r.Call("testing.scale", x, 2.0)[0]);
  const CompiledGraph g = r.Compile();
  const Array there = OnFar(Counting({2, 2})), zeros = OnFar(Array::Zeros({4, 2}, DType::kF32));
  std::string error = ErrorOf([&] { g(there, OnFar(Ints({0, 4})), zeros); });
  if (error.empty()) error = ErrorOf([] { Synchronize(Far()); });
  EXPECT_NE(error.find("testing.scatter: slots[1] is 4, but must be less than 4 (s). This is of "
                       "earlier work on far:0"),
            std::string::npos)
      << error;
  EXPECT_EQ(FromFar(zeros), std::vector<float>(8, 0));
}

}  // namespace
}  // namespace anyop::device_graph_test
