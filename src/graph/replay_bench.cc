// SPDX-License-Identifier: Apache-2.0
// What a graph costs beside its kernels, which do nothing here. Goals: 4 ns a node, 500 ns a region
// of two threads, 10 us a step of a decoder of 30 layers (80 us with two threads), 1 ms to plan
// 1,000 nodes for new sizes. --benchmark_format=json prints the same for programs.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "graph/builder/builder.h"
#include "graph/executable.h"
#include "runtime/registry/registry.h"
#include "runtime/run/call.h"

namespace anyop {
namespace {

constexpr int kNodes = 1000;

void LoadOnce() {
  static const bool loaded = [] {
    Load(LibraryFolder() + "../tests/anyop_testing.so");
    return true;
  }();
  benchmark::DoNotOptimize(loaded);
}

// Each node takes the result before it, which it may lie on: three tensors and two numbers.
Graph Chain(int nodes, const Array& weight) {
  GraphBuilder b;
  const int w = b.State("w", weight, true);
  int h = b.Input("x", "f32[n, 64]");
  for (int i = 0; i < nodes; ++i) {
    h = b.Call("testing.nop3", {ValueArgument(h), ValueArgument(w)})[0];
  }
  b.Output(h);
  return b.Finish();
}

struct ReadyChain {
  explicit ReadyChain(int nodes) : executable((LoadOnce(), Chain(nodes, w))) {}
  Array w = Array::Zeros({64}, DType::kF32), x = Array::Zeros({1, 64}, DType::kF32),
        y = Array::Zeros({1, 64}, DType::kF32);
  Executable executable;
  anyop_value inputs[1] = {Argument(x).value()};
  const DLTensor* outputs[1] = {&y.tensor()};
};

// Nanoseconds of each of n; what: "ns_per_node".
void CountPer(benchmark::State& state, const char* what, int n) {
  state.counters[what] =
      benchmark::Counter(double(n) * 1e-9, benchmark::Counter::kIsIterationInvariantRate |
                                               benchmark::Counter::kInvert);
}

void Replay1000Nodes(benchmark::State& state) {
  ReadyChain b(kNodes);
  const auto s = b.executable.Prepare(b.inputs);
  for (auto _ : state) b.executable.Replay(*s, b.inputs, b.outputs);
  CountPer(state, "ns_per_node", kNodes);
}
BENCHMARK(Replay1000Nodes);

// The same kernels, one call each.
void Call1000Times(benchmark::State& state) {
  LoadOnce();
  Operator& op = *Find("testing.nop3");
  const Array x = Array::Zeros({1, 64}, DType::kF32), w = Array::Zeros({64}, DType::kF32),
              y = Array::Zeros({1, 64}, DType::kF32);
  anyop_value frame[] = {Argument(x).value(), Argument(w).value(), Argument(1e-6).value(),
                         Argument(0.0).value(), Argument(y).value()};
  for (auto _ : state) {
    for (int i = 0; i < kNodes; ++i) Run(op, *GetPlan(op, frame), frame);
  }
  CountPer(state, "ns_per_node", kNodes);
}
BENCHMARK(Call1000Times);

// What a whole call costs beside its nodes.
void PrepareAndReplayOneNode(benchmark::State& state) {
  ReadyChain b(1);
  for (auto _ : state) b.executable.Replay(*b.executable.Prepare(b.inputs), b.inputs, b.outputs);
}
BENCHMARK(PrepareAndReplayOneNode);

// Sizes that were not seen: plans, layouts, memory. Odd and even rounds do not find each other's.
void Specialise1000Nodes(benchmark::State& state) {
  LoadOnce();
  const Array w = Array::Zeros({64}, DType::kF32);
  CompileOptions options;
  options.specialisations = 1;
  Executable executable(Chain(kNodes, w), options);
  const Array x[] = {Array::Zeros({1, 64}, DType::kF32), Array::Zeros({2, 64}, DType::kF32)};
  int k = 0;
  for (auto _ : state) {
    const anyop_value inputs[] = {Argument(x[k ^= 1]).value()};
    benchmark::DoNotOptimize(executable.Prepare(inputs));
  }
}
BENCHMARK(Specialise1000Nodes)->Unit(benchmark::kMicrosecond);

// Eight calls on 64 rows in one region, of 16 blocks or of a block for each of two threads: what is
// left of the latter beside its 16 calls is the barrier.
void ReplayRegion(benchmark::State& state) {
  LoadOnce();
  const Array w = Array::Zeros({64}, DType::kF32), x = Array::Zeros({64, 64}, DType::kF32),
              y = Array::Zeros({64, 64}, DType::kF32);
  CompileOptions options;
  options.regions = state.range(0) > 0;
  options.block_rows = 64 / std::max<std::int64_t>(state.range(1), 1);
  Scope scope;
  scope.threads(int(std::max<std::int64_t>(state.range(0), 1)));
  Executable executable(Chain(8, w), options);
  const anyop_value inputs[] = {Argument(x).value()};
  const DLTensor* outputs[] = {&y.tensor()};
  const auto s = executable.Prepare(inputs);
  for (auto _ : state) executable.Replay(*s, inputs, outputs);
}
BENCHMARK(ReplayRegion)
    ->ArgNames({"threads", "blocks"})
    ->Args({0, 1})
    ->ArgsProduct({{1, 2}, {2, 16}})
    ->UseRealTime();

// 30 layers of 5 calls that share their work and 5 that do not, and a head.
void ReplayDecodeStep(benchmark::State& state) {
  LoadOnce();
  const Array w = Array::Zeros({64}, DType::kF32), x = Array::Zeros({1, 64}, DType::kF32),
              y = Array::Zeros({1, 64}, DType::kF32);
  GraphBuilder b;
  const int weight = b.State("w", w, true);
  int h = b.Input("x", "f32[n, 64]");
  constexpr int kShared = 151;
  for (int i = 0; i < kShared; ++i) {
    h = b.Call("testing.nop_shared", {ValueArgument(h)})[0];
    h = b.Call("testing.nop3", {ValueArgument(h), ValueArgument(weight)})[0];
  }
  b.Output(h);
  Scope scope;
  scope.threads(int(state.range(0)));
  Executable executable(b.Finish());
  const anyop_value inputs[] = {Argument(x).value()};
  const DLTensor* outputs[] = {&y.tensor()};
  const auto s = executable.Prepare(inputs);
  for (auto _ : state) executable.Replay(*s, inputs, outputs);
  if (state.range(0) > 1) CountPer(state, "ns_per_region", kShared);
}
BENCHMARK(ReplayDecodeStep)
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

// Six calls on 64 MiB each, in one pass over memory or call by call.
void ReplayRows(benchmark::State& state) {
  LoadOnce();
  const Array x = Array::Full({32768, 512}, DType::kF32, 0.5), y = x.Clone();
  GraphBuilder b;
  const int in = b.Input("x", "f32[n, 512]");
  int h = in;
  for (int i = 0; i < 3; ++i) {
    h = b.Call("testing.times", {ValueArgument(h), FloatArgument(0.5)})[0];
    h = b.Call("testing.plus", {ValueArgument(h), ValueArgument(in)})[0];
  }
  b.Output(h);
  CompileOptions options;
  options.fuse = false;
  options.regions = state.range(0);
  Scope scope;
  scope.threads(int(state.range(1)));
  Executable executable(b.Finish(), options);
  const anyop_value inputs[] = {Argument(x).value()};
  const DLTensor* outputs[] = {&y.tensor()};
  const auto s = executable.Prepare(inputs);
  for (auto _ : state) executable.Replay(*s, inputs, outputs);
  state.counters["peak_bytes"] = double(ReportOf(*s).arena_bytes);
}
BENCHMARK(ReplayRows)
    ->ArgNames({"regions", "threads"})
    ->ArgsProduct({{0, 1}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

void Build1000Nodes(benchmark::State& state) {
  LoadOnce();
  const Array w = Array::Zeros({64}, DType::kF32);
  for (auto _ : state) benchmark::DoNotOptimize(Chain(kNodes, w));
}
BENCHMARK(Build1000Nodes)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace anyop

BENCHMARK_MAIN();
