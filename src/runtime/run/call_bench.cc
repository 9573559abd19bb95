// SPDX-License-Identifier: Apache-2.0
// What a call costs before its kernel; every iteration is one call. Goals: 3 tensors 25 ns,
// 17 parameters 60 ns, plan miss 1 us, a hit beyond the last plan 80 ns.
#include <benchmark/benchmark.h>

#include <memory>
#include <utility>
#include <vector>

#include "anyop/runtime.h"
#include "runtime/plan/plan_cache.h"
#include "runtime/registry/registry.h"
#include "runtime/run/call.h"

namespace anyop {
namespace {

void LoadOnce() {
  static const bool loaded = [] {
    Load(LibraryFolder() + "../tests/anyop_testing.so");
    return true;
  }();
  benchmark::DoNotOptimize(loaded);
}

anyop_value TensorValue(const Array& a) { return Argument(a).value(); }

struct Frame3 {
  Array x, w = Array::Zeros({64}, DType::kF32), y;
  anyop_value v[5];
  explicit Frame3(std::int64_t rows)
      : x(Array::Zeros({rows, 64}, DType::kF32)), y(Array::Zeros({rows, 64}, DType::kF32)) {
    v[0] = TensorValue(x);
    v[1] = TensorValue(w);
    v[2] = Argument(1e-6).value();
    v[3] = Argument(0.0).value();
    v[4] = TensorValue(y);
  }
};

struct Frame17 {
  Array q, cache = Array::Zeros({8, 16, 4, 64}, DType::kBF16),
           table = Array::Zeros({2, 4}, DType::kI32), lens = Array::Zeros({2}, DType::kI32),
           starts = Array::Zeros({3}, DType::kI32), y, lse = Array::Zeros({8, 0}, DType::kF32),
           values = Array::Zeros({8, 16, 4, 64}, DType::kBF16);
  anyop_value v[18];
  explicit Frame17(std::int64_t t)
      : q(Array::Zeros({t, 8, 64}, DType::kBF16)), y(Array::Zeros({t, 8, 64}, DType::kBF16)) {
    const Argument none(std::nullopt);
    const Argument all[] = {q,  cache, values, table, lens, starts, 0.125, true, -1,
                            -1, 0.0,   none,   none,  none, none,   false, y,    lse};
    for (int i = 0; i < 18; ++i) v[i] = all[i].value();
  }
};

void Do(Operator& op, anyop_value* frame) {
  const HeldPlan plan = GetPlan(op, frame);
  Run(op, *plan, frame);
}

void Cached3Tensors(benchmark::State& state) {
  LoadOnce();
  Operator& op = *Find("testing.nop3");
  Frame3 f(4);
  for (auto _ : state) Do(op, f.v);
}
BENCHMARK(Cached3Tensors);

void Cached3TensorsInPlace(benchmark::State& state) {
  LoadOnce();
  Operator& op = *Find("testing.nop3");
  Frame3 f(4);
  f.v[4] = f.v[0];
  for (auto _ : state) Do(op, f.v);
}
BENCHMARK(Cached3TensorsInPlace);

void Cached17Parameters(benchmark::State& state) {
  LoadOnce();
  Operator& op = *Find("testing.nop17");
  Frame17 f(4);
  for (auto _ : state) Do(op, f.v);
}
BENCHMARK(Cached17Parameters);

void CachedCallInto(benchmark::State& state) {
  LoadOnce();
  Operator* op = Find("testing.nop3");
  Frame3 f(4);
  for (auto _ : state) Call(op, f.x, f.w, 1e-6, 0.0).into(f.y);
}
BENCHMARK(CachedCallInto);

void HitBeyondTheLastPlan(benchmark::State& state) {
  LoadOnce();
  Operator& op = *Find("testing.nop3");
  Frame3 a(4), b(8);
  anyop_value *next = a.v, *other = b.v;
  for (auto _ : state) {
    benchmark::DoNotOptimize(GetPlan(op, next).get());
    std::swap(next, other);
  }
}
BENCHMARK(HitBeyondTheLastPlan);

template <class Frame>
void Misses(benchmark::State& state, const char* name) {
  LoadOnce();
  Operator& op = *Find(name);
  PlanCache::SetCapacity(16);
  std::vector<std::unique_ptr<Frame>> frames;
  for (int i = 1; i <= 64; ++i) frames.push_back(std::make_unique<Frame>(i));
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(GetPlan(op, frames[next]->v).get());
    next = (next + 1) % frames.size();
  }
  PlanCache::SetCapacity(256);
}
void Miss3Tensors(benchmark::State& state) { Misses<Frame3>(state, "testing.nop3"); }
BENCHMARK(Miss3Tensors);
void Miss17Parameters(benchmark::State& state) { Misses<Frame17>(state, "testing.nop17"); }
BENCHMARK(Miss17Parameters);

}  // namespace
}  // namespace anyop

BENCHMARK_MAIN();
