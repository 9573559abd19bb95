// SPDX-License-Identifier: Apache-2.0
// What a graph costs beside its kernels, which do nothing here; a replay is of 1,000 nodes. Goals:
// 4 ns a node, 1 ms to plan 1,000 nodes for new sizes.
#include <benchmark/benchmark.h>

#include "graph/builder.h"
#include "graph/executable.h"
#include "runtime/call.h"

namespace anyop {
namespace {

constexpr int kNodes = 1000;

void LoadOnce() {
  static const bool loaded = [] {
    Load(std::string(ANYOP_TESTING_DIR) + "/anyop_testing.so");
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

struct Bound {
  explicit Bound(int nodes) : executable((LoadOnce(), Chain(nodes, w))) {}
  Array w = Array::Zeros({64}, DType::kF32), x = Array::Zeros({1, 64}, DType::kF32),
        y = Array::Zeros({1, 64}, DType::kF32);
  Executable executable;
  anyop_value inputs[1] = {Argument(x).value()};
  const DLTensor* outputs[1] = {&y.tensor()};
};

void PerNode(benchmark::State& state, int nodes) {
  state.counters["ns_per_node"] =
      benchmark::Counter(double(nodes) * 1e-9, benchmark::Counter::kIsIterationInvariantRate |
                                                   benchmark::Counter::kInvert);
}

void Replay1000Nodes(benchmark::State& state) {
  Bound b(kNodes);
  const auto s = b.executable.Prepare(b.inputs);
  for (auto _ : state) b.executable.Replay(*s, b.inputs, b.outputs);
  PerNode(state, kNodes);
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
  PerNode(state, kNodes);
}
BENCHMARK(Call1000Times);

// What a whole call costs beside its nodes.
void PrepareAndReplayOneNode(benchmark::State& state) {
  Bound b(1);
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

void Build1000Nodes(benchmark::State& state) {
  LoadOnce();
  const Array w = Array::Zeros({64}, DType::kF32);
  for (auto _ : state) benchmark::DoNotOptimize(Chain(kNodes, w));
}
BENCHMARK(Build1000Nodes)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace anyop

BENCHMARK_MAIN();
