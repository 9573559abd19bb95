// SPDX-License-Identifier: Apache-2.0
// What a bound call costs beside the call itself; every iteration is one call. Goals: the look-up
// 30 ns, a bound call 15 ns more than the bare one.
#include <benchmark/benchmark.h>

#include <string>

#include "anyop/runtime.h"
#include "hosting/bound_call.h"
#include "runtime/registry/registry.h"
#include "runtime/run/call.h"

namespace anyop {
namespace {

constexpr const char* kText =
    "anyop.call/1 testing.nop3(x = f32, weight = f32, eps = 1e-06, weight_offset = 0.0) -> y";

void LoadOnce() {
  static const bool loaded = [] {
    Load(LibraryFolder() + "../tests/anyop_testing.so");
    return true;
  }();
  benchmark::DoNotOptimize(loaded);
}

struct Tensors {
  Array x = Array::Zeros({4, 64}, DType::kF32), w = Array::Zeros({64}, DType::kF32),
        y = Array::Zeros({4, 64}, DType::kF32);
  DLTensor inputs[2] = {x.tensor(), w.tensor()}, results[1] = {y.tensor()};
};

void LookUp(benchmark::State& state) {
  LoadOnce();
  const std::string text = kText;
  for (auto _ : state) benchmark::DoNotOptimize(&FindBoundCall(text));
}
BENCHMARK(LookUp);

void BareCall(benchmark::State& state) {
  LoadOnce();
  Operator& op = *Find("testing.nop3");
  const Tensors t;
  anyop_value frame[] = {Argument(t.inputs[0]).value(), Argument(t.inputs[1]).value(),
                         Argument(1e-6).value(), Argument(0.0).value(),
                         Argument(t.results[0]).value()};
  for (auto _ : state) Run(op, *GetPlan(op, frame), frame);
}
BENCHMARK(BareCall);

void BoundCallRun(benchmark::State& state) {
  LoadOnce();
  const BoundCall& call = FindBoundCall(kText);
  const Tensors t;
  for (auto _ : state) call.Run(t.inputs, t.results);
}
BENCHMARK(BoundCallRun);

void BoundCallInOtherScope(benchmark::State& state) {
  LoadOnce();
  const BoundCall& call = FindBoundCall(std::string(kText) + " in batch_invariant");
  const Tensors t;
  for (auto _ : state) call.Run(t.inputs, t.results);
}
BENCHMARK(BoundCallInOtherScope);

void LookUpAndRunFromC(benchmark::State& state) {
  LoadOnce();
  const std::string text = kText;
  const Tensors t;
  for (auto _ : state) {
    const anyop_call* call = nullptr;
    anyop_find_call(text.data(), text.size(), &call);
    anyop_run_call(call, t.inputs, 2, t.results, 1);
  }
}
BENCHMARK(LookUpAndRunFromC);

void InferUnknownRows(benchmark::State& state) {
  LoadOnce();
  const BoundCall& call = FindBoundCall(kText);
  Tensors t;
  std::int64_t rows[] = {-1, 64};
  t.inputs[0].shape = rows;
  ResultShape shape[1];
  for (auto _ : state) call.Infer(t.inputs, shape);
}
BENCHMARK(InferUnknownRows);

}  // namespace
}  // namespace anyop

BENCHMARK_MAIN();
