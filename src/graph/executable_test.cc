// SPDX-License-Identifier: Apache-2.0
#include "graph/executable.h"

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "graph/specialise/specialisation.h"
#include "graph/testing.h"

namespace {
std::atomic<long> allocations{0};
}  // namespace

// Not inlined: GCC would see malloc answered by delete, and warn.
[[gnu::noinline]] void* operator new(std::size_t n) {
  ++allocations;
  if (void* p = std::malloc(n)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(n);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace anyop::executable_test {
namespace {

// h = x + y, then `depth` times h = s*h + x.
Graph Chain(int depth) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[n, 8]"), y = b.Input("y", "f32[n, 8]");
  const int s = b.Scalar("s", ParamKind::kFloat);
  int h = b.Call("testing.axpy", {FloatArgument(1), ValueArgument(x), ValueArgument(y)})[0];
  for (int i = 0; i < depth; ++i) {
    h = b.Call("testing.scale", {ValueArgument(h), ValueArgument(s)})[0];
    h = b.Call("testing.axpy", {FloatArgument(1), ValueArgument(h), ValueArgument(x)})[0];
  }
  b.Output(h);
  return b.Finish();
}
Array ChainByCalls(int depth, const Array& x, const Array& y, double s) {
  Array h = Call("testing.axpy", 1, x, y);
  for (int i = 0; i < depth; ++i) {
    h = Array(Call("testing.scale", h, s));
    h = Array(Call("testing.axpy", 1, h, x));
  }
  return h;
}

TEST(Executable, ComputesWhatSingleCallsDo) {
  Executable e(Chain(5));
  for (const std::int64_t n : {1, 3, 0, 64}) {
    for (const double s : {2.0, 0.5}) {
      const Array x = Counting({n, 8}), y = Array::Full({n, 8}, DType::kF32, 3);
      const std::vector<Array> r = Replay(e, {x, y, s});
      ASSERT_EQ(r.size(), 1u);
      EXPECT_EQ(Values(r[0]), Values(ChainByCalls(5, x, y, s))) << n;
    }
  }
}

TEST(Executable, TimesEachNode) {
  Executable e(Chain(3));
  const Array x = Counting({4, 8}), y = Array::Empty({4, 8}, DType::kF32);
  const anyop_value inputs[] = {Argument(x).value(), Argument(x).value(), Argument(2.0).value()};
  const DLTensor* outputs[] = {&y.tensor()};
  const auto s = e.Prepare(inputs);
  std::vector<double> ns(e.graph().nodes.size(), -1);
  e.ReplayTimed(*s, inputs, outputs, ns);
  EXPECT_EQ(Values(y), Values(ChainByCalls(3, x, x, 2.0)));
  for (const double t : ns) EXPECT_GT(t, 0);
}

TEST(Executable, TakesMemoryOfArgumentsThatDie) {
  Executable e(Chain(5));
  const Array x = Counting({4, 8});
  const anyop_value inputs[] = {Argument(x).value(), Argument(x).value(), Argument(1.0).value()};
  const auto s = e.Prepare(inputs);
  EXPECT_EQ(ReportOf(*s).arena_bytes, 4 * 8 * 4);  // one buffer for the whole chain
  EXPECT_EQ(CheckMemoryPlan(s->buffers, s->memory), "");
}

TEST(Executable, KeepsArgumentsThatAreUsedAgain) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[n]");
  const int a = b.Call("testing.scale", {ValueArgument(x), FloatArgument(2)})[0];
  const int c = b.Call("testing.scale", {ValueArgument(a), FloatArgument(3)})[0];
  const int d = b.Call("testing.scale", {ValueArgument(c), FloatArgument(5)})[0];
  b.Output(b.Call("testing.axpy", {FloatArgument(1), ValueArgument(a), ValueArgument(d)})[0]);
  Executable e(b.Finish());
  EXPECT_EQ(Values(Replay(e, {Floats({3}, {1, 2, 3})})[0]), (std::vector<float>{32, 64, 96}));
}

// Half of a value may be no place for a result: the other half is in use.
TEST(Executable, TakesNoMemoryOfPartsOfAValue) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[8]");
  const int a = b.Call("testing.scale", {ValueArgument(x), FloatArgument(1)})[0];
  const int low = b.Slice(a, 0, 0, 4), high = b.Slice(a, 0, 4, 8);
  const int c = b.Call("testing.scale", {ValueArgument(low), FloatArgument(10)})[0];
  b.Output(b.Call("testing.axpy", {FloatArgument(1), ValueArgument(c), ValueArgument(high)})[0]);
  Executable e(b.Finish());
  EXPECT_EQ(Values(Replay(e, {Counting({8})})[0]), (std::vector<float>{4, 15, 26, 37}));
}

TEST(Executable, TakesNoMemoryThatItStillReads) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[2, 2]");
  const int a = b.Call("testing.scale", {ValueArgument(x), FloatArgument(1)})[0];
  const int turned = b.Transpose(a, 0, 1);
  const int sum =
      b.Call("testing.axpy", {FloatArgument(1), ValueArgument(a), ValueArgument(turned)})[0];
  const int tail = b.Slice(b.Reshape(sum, {4}), 0, 1, 4);  // dies here, but is no whole value
  const int c = b.Call("testing.scale", {ValueArgument(tail), FloatArgument(10)})[0];
  b.Output(b.Call("testing.scale", {ValueArgument(c), FloatArgument(1)})[0]);
  Executable e(b.Finish());
  EXPECT_EQ(Values(Replay(e, {Counting({2, 2})})[0]), (std::vector<float>{30, 30, 60}));
}

TEST(Executable, ChecksIndicesAgainOnceTheyAreWritten) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[1, 2]"), slots = b.Input("slots", "i64[1]");
  const int more = b.Input("more", "i64[1]"), s = b.State("s", Array::Zeros({4, 2}, DType::kF32));
  b.Call("testing.scatter", {ValueArgument(x), ValueArgument(slots), ValueArgument(s)});
  b.Call("testing.add_index", {ValueArgument(more), ValueArgument(slots)});
  b.Call("testing.scatter", {ValueArgument(x), ValueArgument(slots), ValueArgument(s)});
  Executable e(b.Finish());
  EXPECT_EQ(ErrorOf([&] { Replay(e, {Counting({1, 2}), Ints({1}), Ints({2})}); }), "");
  EXPECT_NE(ErrorOf([&] { Replay(e, {Counting({1, 2}), Ints({1}), Ints({3})}); }), "");
}

TEST(Executable, ChangesStateInPlace) {
  GraphBuilder b;
  const Array sum = Array::Zeros({4}, DType::kF32);
  const int x = b.Input("x", "f32[4]"), s = b.State("sum", sum);
  const int before = b.Call("testing.scale", {ValueArgument(s), FloatArgument(1)})[0];
  b.Call("testing.accumulate", {ValueArgument(x), ValueArgument(s)});
  const int after = b.Call("testing.scale", {ValueArgument(s), FloatArgument(1)})[0];
  b.Output(before);
  b.Output(after);
  Executable e(b.Finish());
  std::vector<Array> r = Replay(e, {Counting({4})});
  EXPECT_EQ(Values(r[0]), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(Values(r[1]), (std::vector<float>{0, 1, 2, 3}));
  r = Replay(e, {Counting({4})});
  EXPECT_EQ(Values(r[0]), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(Values(sum), (std::vector<float>{0, 2, 4, 6}));
}

TEST(Executable, WritesResultsIntoValues) {
  GraphBuilder b;
  const Array cell = Array::Zeros({2, 4}, DType::kF32);
  const int x = b.Input("x", "f32[4]"), s = b.State("cell", cell);
  const int row = b.Reshape(b.Slice(s, 0, 1, 2), {4});
  GraphBuilder::CallOptions options;
  options.into = {row};
  EXPECT_EQ(b.Call(*Find("testing.scale"), {ValueArgument(x), FloatArgument(3)}, options)[0], row);
  Executable e(b.Finish());
  Replay(e, {Counting({4})});
  EXPECT_EQ(Values(cell), (std::vector<float>{0, 0, 0, 0, 0, 3, 6, 9}));
}

TEST(Executable, ReturnsInputsStatesAndViews) {
  GraphBuilder b;
  const Array w = Counting({2, 2});
  const int x = b.Input("x", "f32[n, 2]"), s = b.State("w", w);
  b.Output(x);
  b.Output(s, "weights");
  b.Output(b.Transpose(x, 0, 1));
  const int y = b.Call("testing.scale", {ValueArgument(x), FloatArgument(2)})[0];
  b.Output(y);
  b.Output(y);
  b.Output(b.Slice(y, 0, 1, 2));
  Executable e(b.Finish());
  const std::vector<Array> r = Replay(e, {Counting({3, 2})});
  EXPECT_EQ(Values(r[0]), Values(Counting({3, 2})));
  EXPECT_EQ(Values(r[1]), Values(w));
  EXPECT_EQ(Values(r[2]), (std::vector<float>{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(Values(r[3]), (std::vector<float>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(Values(r[4]), Values(r[3]));
  EXPECT_EQ(Values(r[5]), (std::vector<float>{4, 6}));
}

TEST(Executable, CopiesInputsThatAreNotContiguous) {
  Executable e(Chain(1));
  const Array x = Counting({8, 3}).Transpose(0, 1), y = Counting({3, 16}).Slice(1, 4, 12);
  EXPECT_EQ(Values(Replay(e, {x, y, 2.0})[0]), Values(ChainByCalls(1, x, y, 2)));
  Scope scope;
  scope.strict();
  EXPECT_EQ(ErrorOf([&] {
              Replay(e, {x, y, 2.0});
            }),
            "graph: x is not contiguous or misaligned and would be copied, which strict mode "
            "refuses. Try a contiguous tensor.");
}

TEST(Executable, BindsSizesThatOnlyResultsHave) {
  GraphBuilder b;
  const int y = b.Call("testing.every_other", {ValueArgument(b.Input("x", "f32[n]"))})[0];
  const Size half = b.graph().value(y).shape[0];  // ceil(n / 2), no polynomial
  b.Output(b.Call("testing.scale", {ValueArgument(y), SizeArgument(half)})[0]);
  Executable e(b.Finish());
  EXPECT_EQ(Values(Replay(e, {Counting({5})})[0]), (std::vector<float>{0, 6, 12}));
  EXPECT_EQ(Values(Replay(e, {Counting({8})})[0]), (std::vector<float>{0, 8, 16, 24}));
}

TEST(Executable, BindsNumbersAndSizes) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[2*n + 1]");
  const int k = b.Scalar("k", ParamKind::kInt);
  const Size size = Size::Symbol(b.graph().value(k).symbol);
  const int part = b.Slice(x, 0, size, size + b.Symbol("n"));
  b.Output(b.Call("testing.uses_workspace", {ValueArgument(part), SizeArgument(size)})[0]);
  b.Output(part, "part");
  Executable e(b.Finish());
  for (const int at : {0, 2, 3}) {
    const std::vector<Array> r = Replay(e, {Counting({7}), at});
    EXPECT_EQ(r[0].data<float>()[0], float(3 * at));
    EXPECT_EQ(r[1].data<float>()[0], float(at));
    EXPECT_EQ(r[1].size(), 3);
  }
  EXPECT_EQ(ErrorOf([&] {
              Replay(e, {Counting({8}), 1});
            }),
            "graph: x is f32[8], but must be f32[2*n + 1].");
  EXPECT_NE(ErrorOf([&] { Replay(e, {Counting({7}), 6}); }), "");
}

TEST(Executable, ChecksNumbersInEachReplay) {
  Executable e(Chain(1));
  const Array x = Counting({2, 8});
  Replay(e, {x, x, 1.0});
  const std::string text = ErrorOf([&] { Replay(e, {x, x, 1e31}); });
  EXPECT_EQ(text,
            "testing.scale: s < 1e30 must hold, but s is 1e+31.\n"
            "  in v4 = testing.scale(v3, s)");
  EXPECT_EQ(ErrorOf([&] { Replay(e, {x, x, 1e31}); }), text);
}

TEST(Executable, ChecksIndicesInEachReplay) {
  GraphBuilder b;
  const Array cache = Array::Zeros({4, 2}, DType::kF32);
  const int x = b.Input("x", "f32[t, 2]"), slots = b.Input("slots", "i64[t]");
  const int s = b.State("cache", cache);
  b.SetPlace("model.py:7");
  b.Call("testing.scatter", {ValueArgument(x), ValueArgument(slots), ValueArgument(s)});
  b.Call("testing.scatter", {ValueArgument(x), ValueArgument(slots), ValueArgument(s)});
  Executable e(b.Finish());
  Replay(e, {Counting({2, 2}), Ints({3, 0})});
  EXPECT_EQ(Values(cache), (std::vector<float>{2, 3, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(ErrorOf([&] {
              Replay(e, {Counting({2, 2}), Ints({1, 4})});
            }),
            "testing.scatter: slots[1] is 4, but must be less than 4 (s).\n"
            "  in testing.scatter(x, slots, cache), at model.py:7");
  const Array inputs[] = {Counting({2, 2}), Ints({3, 0})};
  const anyop_value values[] = {Argument(inputs[0]).value(), Argument(inputs[1]).value()};
  EXPECT_EQ(ReportOf(*e.Prepare(values)).kernels_checked, 1);  // the second need not look again
}

TEST(Executable, GivesKernelsTheirWorkspace) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[n, 16]");
  const int t = b.Call("testing.uses_workspace", {ValueArgument(x)})[0];
  b.Output(b.Call("testing.scale", {ValueArgument(t), FloatArgument(1)})[0]);
  Executable e(b.Finish());
  EXPECT_EQ(Values(Replay(e, {Counting({2, 16})})[0]), (std::vector<float>{48, 128, 0}));
}

TEST(Executable, RunsCompositionsAndLists) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[n]"), y = b.Input("y", "f32[n]");
  const std::vector<int> r =
      b.Call("testing.scaled_sum", {ValueArgument(x), ValueArgument(y), FloatArgument(2)});
  b.Output(b.Call("testing.concat", {ValuesArgument(r)})[0]);
  Executable e(b.Finish());
  EXPECT_EQ(Values(Replay(e, {Floats({2}, {1, 2}), Floats({2}, {10, 20})})[0]),
            (std::vector<float>{11, 22, 22, 44}));
}

TEST(Executable, DeclinesResults) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[n]");
  GraphBuilder::CallOptions options;
  options.declined = 1;
  const std::vector<int> r = b.Call(*Find("testing.extremes"), {ValueArgument(x)}, options);
  EXPECT_EQ(r[0], -1);
  b.Output(r[1]);
  Executable e(b.Finish());
  EXPECT_EQ(Values(Replay(e, {Floats({3}, {1, 5, 2})})[0]), std::vector<float>{5});
}

TEST(Executable, NamesTheNodeThatFails) {
  GraphBuilder b;
  b.SetPlace("model.py:3");
  const int what = b.Scalar("what", ParamKind::kInt);
  b.Output(b.Call("testing.throwing", {ValueArgument(what)})[0]);
  Executable e(b.Finish());
  ResetCounters();
  Replay(e, {0});
  int code = 0;
  for (int k = 0; k < 2; ++k) {
    EXPECT_EQ(ErrorOf([&] { Replay(e, {2}); }, &code),
              "testing.throwing: what is 2.\n  in v1 = testing.throwing(what=what), at model.py:3");
    EXPECT_EQ(code, ANYOP_INVALID_ARGUMENT);
  }
  ErrorOf([&] { Replay(e, {1}); }, &code);
  EXPECT_EQ(code, ANYOP_OUT_OF_MEMORY);
  Replay(e, {0});
  EXPECT_EQ(CountersFor("testing.throwing", "cpu_f32").calls, 5u);
}

TEST(Executable, RefusesWrongInputs) {
  Executable e(Chain(1));
  const Array x = Counting({2, 8});
  EXPECT_EQ(ErrorOf([&] {
              Replay(e, {x, Counting({3, 8}), 1.0});
            }),
            "graph: y is f32[3, 8], but must be f32[n, 8], and n is 2 because x is f32[2, 8].");
  EXPECT_EQ(ErrorOf([&] {
              Replay(e, {Counting({2, 7}), x, 1.0});
            }),
            "graph: x is f32[2, 7], but must be f32[n, 8].");
  EXPECT_EQ(ErrorOf([&] { Replay(e, {x, x}); }), "graph: 2 arguments are given, but there are 3.");
  EXPECT_EQ(ErrorOf([&] { Replay(e, {x, x, x}); }), "graph: s is f32[2, 8], but must be float.");
  EXPECT_EQ(ErrorOf([&] { Replay(e, {x, 3, 1.0}); }), "graph: y is 3, but must be f32[n, 8].");
  EXPECT_EQ(ErrorOf([&] {
              Replay(e, {Array::Zeros({2, 8}, DType::kF64), x, 1.0});
            }),
            "graph: x is f64[2, 8], but must be f32[n, 8]. Try a cast to f32.");
}

TEST(Executable, RefusesSymbolsThatNoInputBinds) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[n*m]");
  b.Output(x);
  EXPECT_EQ(ErrorOf([&] { Executable e(b.Finish()); }),
            "graph: no input says what n is. Try an input that has it as a size.");
}

TEST(Executable, RefusesMemoryThatMeetsWhatIsWritten) {
  GraphBuilder b;
  const Array state = Array::Zeros({4}, DType::kF32), weight = Array::Zeros({4}, DType::kF32);
  const int x = b.Input("x", "f32[4]"), s = b.State("s", state), w = b.State("w", weight);
  b.Call("testing.accumulate", {ValueArgument(x), ValueArgument(s)});
  b.Output(b.Call("testing.axpy", {FloatArgument(1), ValueArgument(w), ValueArgument(x)})[0], "y");
  Executable e(b.Finish());
  const auto replay = [&](const Array& in, const Array& out) {
    const anyop_value inputs[] = {Argument(in).value()};
    const DLTensor* const outputs[] = {&out.tensor()};
    e.Replay(*e.Prepare(inputs), inputs, outputs);
  };
  const Array x4 = Counting({4}), y4 = Counting({4}), both = Counting({6});
  EXPECT_EQ(ErrorOf([&] { replay(x4, y4); }), "");
  EXPECT_EQ(ErrorOf([&] { replay(state, y4); }),
            "graph: x overlaps the state s in memory, but must be apart, because one of them is "
            "written. Try a tensor of its own.");
  EXPECT_EQ(ErrorOf([&] { replay(weight, y4); }), "");
  EXPECT_EQ(ErrorOf([&] { replay(x4, weight); }),
            "graph: output y overlaps the state w in memory, but must be apart, because one of "
            "them is written. Try a tensor of its own.");
  EXPECT_EQ(ErrorOf([&] { replay(both.Slice(0, 0, 4), both.Slice(0, 2, 6)); }),
            "graph: output y overlaps x in memory, but must be apart, because it is written. Try a "
            "tensor of its own.");
  EXPECT_EQ(ErrorOf([&] { replay(x4, Counting({5})); }),
            "graph: output y is f32[5], but must be f32[4] in CPU memory.");
  EXPECT_EQ(ErrorOf([&] { replay(x4, Array::Zeros({4}, DType::kF64)); }),
            "graph: output y is f64[4], but must be f32[4] in CPU memory. Try a tensor of f32.");
}

TEST(Executable, RefusesStatesThatOverlapInANode) {
  GraphBuilder b;
  const Array all = Counting({6});
  const int x = b.State("x", all.Slice(0, 0, 4)), s = b.State("s", all.Slice(0, 2, 6));
  b.Call("testing.accumulate", {ValueArgument(x), ValueArgument(s)});
  Executable e(b.Finish());
  for (int k = 0; k < 2; ++k) {
    EXPECT_EQ(ErrorOf([&] { Replay(e, {}); }),
              "testing.accumulate: into overlaps x in memory, but must be apart, because it is "
              "written. Try a tensor of its own.\n  in testing.accumulate(x, s)");
  }
  EXPECT_EQ(Values(all), Values(Counting({6})));
}

TEST(Executable, KeepsAFewSpecialisations) {
  CompileOptions options;
  options.specialisations = 2;
  Executable e(Chain(1), options);
  const auto prepare = [&](std::int64_t n) {
    const Array x = Counting({n, 8});
    const anyop_value inputs[] = {Argument(x).value(), Argument(x).value(), Argument(1.0).value()};
    return e.Prepare(inputs);
  };
  const auto one = prepare(1);
  EXPECT_EQ(prepare(1), one);
  prepare(2);
  EXPECT_EQ(prepare(1), one);
  prepare(3);  // 2 goes
  EXPECT_EQ(prepare(1), one);
  prepare(2);
  prepare(3);
  EXPECT_NE(prepare(1), one);
}

TEST(Executable, PlansAnewUnderAnotherPolicy) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[16]");
  b.Output(b.Call("testing.axpy", {FloatArgument(1), ValueArgument(x), ValueArgument(x)})[0]);
  Executable e(b.Finish());
  ResetCounters();
  Replay(e, {Counting({16})});
  EXPECT_EQ(CountersFor("testing.axpy", "cpu_wide_f32").calls, 1u);
  Scope scope;
  scope.policy("testing.axpy=cpu_f32");
  Replay(e, {Counting({16})});
  EXPECT_EQ(CountersFor("testing.axpy", "cpu_f32").calls, 1u);
}

TEST(Executable, AllocatesNothingOnceItRuns) {
  Executable e(Chain(20));
  const Array x = Counting({4, 8}), y = Counting({4, 8});
  const Array other = Counting({4, 8});
  const Array out = Array::Empty({4, 8}, DType::kF32);
  const auto replay = [&](const Array& first) {
    const anyop_value inputs[] = {Argument(first).value(), Argument(y).value(),
                                  Argument(2.0).value()};
    const DLTensor* const outputs[] = {&out.tensor()};
    e.Replay(*e.Prepare(inputs), inputs, outputs);
  };
  replay(x);
  replay(other);
  const long before = allocations;
  for (int k = 0; k < 100; ++k) replay(k % 2 ? x : other);
  EXPECT_EQ(allocations - before, 0);
}

TEST(Executable, ReplaysInSeveralThreadsAtOnce) {
  Executable e(Chain(10));
  std::atomic<int> wrong{0};
  const auto work = [&](int seed) {
    for (int k = 0; k < 200; ++k) {
      const std::int64_t n = 1 + (seed * 7 + k) % 5;
      const Array x = Array::Full({n, 8}, DType::kF32, seed + k), y = Counting({n, 8});
      const Array r = Replay(e, {x, y, 0.5})[0];
      wrong += Values(r) != Values(ChainByCalls(10, x, y, 0.5));
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back(work, t);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Executable, RunsThroughObservers) {
  Executable e(Chain(1));
  const Array x = Counting({1, 8});
  const std::vector<float> expected = Values(Replay(e, {x, x, 2.0})[0]);
  Operator& op = *Find("testing.scale");
  static std::atomic<int> seen;
  seen = 0;
  const Entry saved = op.entry.load();
  op.entry = [](Operator& o, Plan& plan, anyop_value* frame) {
    ++seen;
    RunPlan(o, plan, frame);
  };
  EXPECT_EQ(Values(Replay(e, {x, x, 2.0})[0]), expected);
  op.entry = saved;
  EXPECT_EQ(seen, 1);
}

}  // namespace
}  // namespace anyop::executable_test
