// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/plan_cache.h"

#include <atomic>
#include <thread>
#include <utility>

#include "anyop/op.h"
#include "runtime/testing/testing.h"

namespace anyop::plan_cache_test {
namespace {

Array Rows(std::int64_t rows) { return Array::Full({rows, 4}, DType::kF32, 1); }

TEST(PlanCache, KeepsPlansUpToItsCapacity) {
  Operator& op = *Find("testing.scale");
  op.plans->Clear();
  PlanCache::SetCapacity(4);
  for (int i = 1; i <= 10; ++i) (void)Call(&op, Rows(i), 1.0).run();
  EXPECT_EQ(op.plans->size(), 4u);
  op.plans->ResetCounts();
  (void)Call(&op, Rows(7), 1.0).run();  // the oldest that is left
  (void)Call(&op, Rows(6), 1.0).run();  // gone
  EXPECT_EQ(op.plans->hits(), 1u);
  EXPECT_EQ(op.plans->misses(), 1u);
  (void)Call(&op, Rows(7), 1.0).run();  // was used later than 8
  EXPECT_EQ(op.plans->hits(), 2u);
  (void)Call(&op, Rows(8), 1.0).run();
  EXPECT_EQ(op.plans->misses(), 2u);
  PlanCache::SetCapacity(256);
}

TEST(PlanCache, NeverLooksAtAddresses) {
  Operator& op = *Find("testing.scale");
  (void)Call(&op, Rows(3), 1.0).run();
  op.plans->ResetCounts();
  const Array kept = Rows(3);
  (void)Call(&op, Rows(3), 1.0).run();
  EXPECT_EQ(op.plans->hits() + op.plans->misses(), 0u);  // this thread's last plan
}

TEST(PlanCache, TellsApartWhatPlansDependOn) {
  Operator& op = *Find("testing.axpy");
  const Array f32 = Array::Zeros({16}, DType::kF32), f64 = Array::Zeros({16}, DType::kF64);
  const Array gaps = Array::Zeros({4, 8}, DType::kF32).Slice(1, 0, 4), dense = Rows(4);
  op.plans->Clear();
  op.plans->ResetCounts();
  (void)Call(&op, 1.0, f32, f32).run();
  (void)Call(&op, 1.0, f64, f64).run();
  (void)Call(&op, 1.0, dense, dense).run();
  (void)Call(&op, 1.0, gaps, dense).run();
  {
    Scope scope;
    scope.strict();
    (void)Call(&op, 1.0, gaps, dense).run();
    scope.policy("testing.axpy=cpu_f32");
    (void)Call(&op, 1.0, gaps, dense).run();
  }
  EXPECT_EQ(op.plans->misses(), 6u);
  (void)Call(&op, 2.0, gaps, dense).run();  // `a` is in no condition
  EXPECT_EQ(op.plans->misses(), 6u);
}

TEST(PlanCache, TakesKeysOfAnyLength) {
  std::vector<Array> parts;
  for (int i = 0; i < 100; ++i) parts.push_back(Counting({2}));
  const Array y = Call("testing.concat", parts);
  EXPECT_EQ(y.size(), 200);
  parts.pop_back();
  EXPECT_EQ(Array(Call("testing.concat", parts)).size(), 198);
  EXPECT_EQ(Array(Call("testing.concat", parts)).size(), 198);
}

TEST(PlanCache, IsSafeFromManyThreads) {
  PlanCache::SetCapacity(3);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  ResetCounters();
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const std::int64_t rows = 1 + (i * 7 + t) % 11;
        const Array y = Call("testing.scale", Rows(rows), 2.0);
        if (y.dim(0) != rows || y.data<float>()[y.size() - 1] != 2) ++wrong;
      }
    });
  }
  while (CountersFor("testing.scale", "cpu_f32").calls < 4000) std::this_thread::yield();
  for (std::thread& t : threads) t.join();
  PlanCache::SetCapacity(256);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(CountersFor("testing.scale", "cpu_f32").calls, 8000u);  // of ended threads too
}

TEST(PlanCache, KeepsAPlanThatACallIsAboutToRun) {
  PlanCache::SetCapacity(1);
  Operator& op = *Find("testing.scale");
  const Array x = Rows(2), y = Rows(2);
  anyop_value frame[] = {Argument(x).value(), Argument(3.0).value(), Argument(y).value()};
  const HeldPlan plan = GetPlan(op, frame);
  for (int i = 3; i < 200; ++i) (void)Call(&op, Rows(i), 1.0).run();  // as a host's allocator may
  anyop::Run(op, *plan, frame);
  EXPECT_EQ(y.data<float>()[7], 3);
  PlanCache::SetCapacity(256);
}

// What GetPlan holds ends with the call: calls within calls, of the same plan and of others.
TEST(PlanCache, KeepsAPlanNoLongerThanItsCalls) {
  PlanCache::SetCapacity(1);
  Operator& op = *Find("testing.scale");
  const Array x = Rows(2), none;
  anyop_value frame[] = {Argument(x).value(), Argument(3.0).value(), Argument(none).value()};
  Plan* plan = nullptr;
  {
    const HeldPlan outer = GetPlan(op, frame);
    plan = outer.get();
    Acquire(plan);  // of this test, which looks at it to the end
    {
      const HeldPlan inner = GetPlan(op, frame);
      EXPECT_EQ(inner.get(), plan);
      for (int i = 3; i < 5; ++i) (void)Call(&op, Rows(i), 1.0).run();
    }
    EXPECT_EQ(plan->references, 2);  // the test's and the outer call's, neither cache nor slot
    for (int i = 3; i < 5; ++i) {
      const HeldPlan anew = GetPlan(op, frame);  // made again, as the cache has lost it
      EXPECT_NE(anew.get(), plan);
      (void)Call(&op, Rows(i), 1.0).run();
    }
    EXPECT_EQ(plan->references, 2);
  }
  EXPECT_EQ(plan->references, 1);
  Release(plan);
  PlanCache::SetCapacity(256);
}

TEST(PlanCache, CountsTheCallsOfAPlanThatIsTheLastOneAgain) {
  Operator& op = *Find("testing.scale");
  const Array x = Rows(2), none;
  anyop_value frame[] = {Argument(x).value(), Argument(3.0).value(), Argument(none).value()};
  const HeldPlan* outer = new HeldPlan(FindPlan(op, frame));
  Plan* const plan = outer->get();
  Acquire(plan);
  (void)Call(&op, Rows(3), 1.0).run();
  {
    const HeldPlan inner = GetPlan(op, frame);  // found in the cache
    EXPECT_EQ(inner.get(), plan);
    EXPECT_EQ(SlotFor(op).holds, 2);
  }
  (void)Call(&op, Rows(3), 1.0).run();
  op.plans->Clear();
  EXPECT_EQ(plan->references, 2);
  delete outer;
  EXPECT_EQ(plan->references, 1);
  Release(plan);
}

// A kernel that calls its own operator with other shapes, as a function of Python may.
void CallItself(const Context&, const Tensor& x, const Tensor& y) {
  static bool is_within = false;
  if (!std::exchange(is_within, true)) {
    for (int i = 3; i < 200; ++i) (void)Call("reentrant.copy", Rows(i)).run();
    is_within = false;
  }
  std::copy_n(x.base<const float>(), x.size(), y.base<float>());
}
constexpr Kernel kCallItself{.name = "cpu", .run = Bind<&CallItself>()};
constexpr const Kernel* kKernels[] = {&kCallItself};
constexpr Op kCopy{.signature = "copy(x: dense f32[n, m]) -> (y: f32[n, m])", .kernels = kKernels};

TEST(PlanCache, KeepsAPlanWhoseKernelCallsItsOperator) {
  PlanCache::SetCapacity(1);
  static const anyop_op* const ops[] = {reinterpret_cast<const anyop_op*>(&kCopy)};
  anyop_library_info info{};
  info.size = sizeof info;
  info.abi_version = ANYOP_ABI_VERSION;
  info.name = "reentrant";
  info.version = "1";
  info.n_ops = 1;
  info.ops = ops;
  Define(info, "a test");
  // Both lie scattered, so that copies are made before the kernel and brought back after it.
  const Array x = Counting({4, 2}).Transpose(0, 1), y = Array::Zeros({4, 2}, DType::kF32);
  Call("reentrant.copy", x).into(y.Transpose(0, 1));
  EXPECT_EQ(Values(y), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
  PlanCache::SetCapacity(256);
}

}  // namespace
}  // namespace anyop::plan_cache_test
