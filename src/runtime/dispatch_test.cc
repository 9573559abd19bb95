// SPDX-License-Identifier: Apache-2.0
#include "runtime/dispatch.h"

#include "runtime/testing/testing.h"

namespace anyop {
namespace {

std::string ExplainAxpy(DType dtype, std::int64_t d) {
  const Array x = Array::Zeros({1, d}, dtype);
  return Call("testing.axpy", 1.0, x, x).explain();
}

TEST(Dispatch, GivesTheReasonForEveryKernel) {
  const std::string text = ExplainAxpy(DType::kF32, 100);
  EXPECT_NE(text.find("testing.axpy(a: 1"), text.npos) << text;
  EXPECT_NE(text.find("declined: not built for this machine\n"), text.npos) << text;
  EXPECT_NE(text.find("cpu_alien: declined: this machine has no no_such_feature"), text.npos);
  EXPECT_NE(text.find("cpu_wide_f32: declined: d % 16 == 0 is false, d is 100\n"), text.npos);
  EXPECT_NE(text.find("cpu_f32: taken\n"), text.npos);
  EXPECT_NE(text.find("cpu_f64: declined: T == f64 is false, T is f32\n"), text.npos);
}

TEST(Dispatch, TakesTheFirstKernelThatAccepts) {
  EXPECT_NE(ExplainAxpy(DType::kF32, 32)
                .find("cpu_wide_f32: taken\n  cpu_f32: cpu_wide_f32 comes "
                      "first\n"),
            std::string::npos);
  EXPECT_NE(ExplainAxpy(DType::kF64, 32).find("cpu_f64: taken"), std::string::npos);
}

TEST(Dispatch, DeclinesAKernelWhoseConditionIsUnknown) {
  const Array x = Array::Zeros({4}, DType::kF32);
  EXPECT_EQ(Values(Call("testing.maybe", x, x)), std::vector<float>{1});
  EXPECT_EQ(Values(Call("testing.maybe", x)), std::vector<float>{2});
}

TEST(Dispatch, CountsCallsPerKernel) {
  ResetCounters();
  const Array x = Array::Zeros({32}, DType::kF32), y = Array::Zeros({33}, DType::kF32);
  for (int i = 0; i < 3; ++i) (void)Call("testing.axpy", 1.0, x, x).run();
  (void)Call("testing.axpy", 1.0, y, y).run();
  EXPECT_EQ(CountersFor("testing.axpy", "cpu_wide_f32").calls, 3u);
  EXPECT_EQ(CountersFor("testing.axpy", "cpu_f32").calls, 1u);
  EXPECT_EQ(CountersFor("testing.axpy", "cpu_f64").calls, 0u);
}

TEST(Dispatch, ListsEveryReasonWhenNoKernelTakesTheCall) {
  int code = 0;
  const Array x = Array::Zeros({4}, DType::kF32);
  EXPECT_EQ(ErrorOf([&] { (void)Call("testing.small", x, 9).run(); }, &code),
            "testing.small: no kernel takes this call:\n  cpu_small: declined: k is above 8");
  EXPECT_EQ(code, ANYOP_UNSUPPORTED);
  EXPECT_EQ(Array(Call("testing.small", x, 8)).size(), 1);
}

TEST(Dispatch, PolicyPinsAKernel) {
  ResetCounters();
  const Array x = Array::Zeros({32}, DType::kF32);
  {
    Scope scope;
    scope.policy("testing.axpy=cpu_f32");
    (void)Call("testing.axpy", 1.0, x, x).run();
  }
  (void)Call("testing.axpy", 1.0, x, x).run();
  EXPECT_EQ(CountersFor("testing.axpy", "cpu_f32").calls, 1u);
  EXPECT_EQ(CountersFor("testing.axpy", "cpu_wide_f32").calls, 1u);
  Scope scope;
  scope.policy("testing.axpy=cpu_f64");
  const std::string text = ErrorOf([&] { (void)Call("testing.axpy", 1.0, x, x).run(); });
  EXPECT_NE(text.find("cpu_f32: declined: the policy takes cpu_f64"), text.npos) << text;
}

TEST(Dispatch, ADisabledOperatorRunsItsPortableKernels) {
  ResetCounters();
  Scope scope;
  scope.policy("none");
  const Array x = Array::Zeros({32}, DType::kF32);
  (void)Call("testing.axpy", 1.0, x, x).run();
  EXPECT_EQ(CountersFor("testing.axpy", "cpu_wide_f32").calls, 1u);  // states no .needs
}

TEST(Dispatch, MeasuresTwoKernelsThatWantIt) {
  const Array x = Array::Zeros({16}, DType::kF32);
  EXPECT_EQ(Values(Call("testing.spin", x)), std::vector<float>{1});
  const std::string text = Call("testing.spin", x).explain();
  EXPECT_NE(text.find("cpu_slow: cpu_fast was faster when both were measured, measured "),
            text.npos)
      << text;
  EXPECT_NE(text.find("cpu_fast: taken, measured "), text.npos) << text;
  Scope scope;
  scope.batch_invariant();
  EXPECT_EQ(Values(Call("testing.spin", x)), std::vector<float>{100});  // the first, unmeasured
}

TEST(Dispatch, MeasuresKernelsWhoseWorkIsInIntegers) {
  const Array x = Array::Zeros({16}, DType::kF32), starts = Array::Zeros({3}, DType::kI64);
  const Array times = Array::Zeros({2}, DType::kI32);
  EXPECT_EQ(Values(Call("testing.spin_rows", x, starts, times)), std::vector<float>{1});
}

TEST(Dispatch, GivesThreadsOnlyToLargeCalls) {
  Scope scope;
  scope.threads(2);
  const Array small = Array::Zeros({16}, DType::kF32), large = Array::Zeros({1 << 20}, DType::kF32);
  EXPECT_EQ(Array(Call("testing.count_threads", small)).data<std::int64_t>()[0], 1);
  EXPECT_EQ(Array(Call("testing.count_threads", large)).data<std::int64_t>()[0], 2);
  EXPECT_EQ(Array(Call("testing.count_threads", large)).data<std::int64_t>()[1], 0);
  scope.batch_invariant().threads(1);
  EXPECT_EQ(Array(Call("testing.count_threads", large)).data<std::int64_t>()[0], 1);
  EXPECT_EQ(Array(Call("testing.count_threads", large)).data<std::int64_t>()[1],
            ANYOP_FLAG_BATCH_INVARIANT);
}

TEST(Composition, RunsWhenNoKernelAccepts) {
  ResetCounters();
  const Array x = Floats({2}, {1, 2}), r = Floats({2}, {10, 20});
  const std::vector<Array> got = Call("testing.scaled_sum", x, r, 2.0);
  EXPECT_EQ(Values(got[0]), (std::vector<float>{11, 22}));
  EXPECT_EQ(Values(got[1]), (std::vector<float>{22, 44}));
  EXPECT_EQ(CountersFor("testing.scaled_sum", "means").fallbacks, 1u);
}

TEST(Composition, MayWriteOverItsInputs) {
  const Array x = Floats({2}, {1, 2}), r = Floats({2}, {10, 20});
  Call("testing.scaled_sum", x, r, 2.0).into(r, x);
  EXPECT_EQ(Values(r), (std::vector<float>{11, 22}));
  EXPECT_EQ(Values(x), (std::vector<float>{22, 44}));
}

TEST(Composition, WritesStridedResults) {
  const Array x = Counting({2, 2}), sum = Array::Zeros({2, 4}, DType::kF32).Slice(1, 1, 3);
  Call("testing.scaled_sum", x, x, 1.0).into(sum, Array::Zeros({2, 2}, DType::kF32));
  EXPECT_EQ(Values(sum), (std::vector<float>{0, 2, 4, 6}));
}

TEST(Composition, SkipsStatementsOfAbsentArguments) {
  const Array x = Floats({2}, {1, 2}), into = Array::Zeros({2}, DType::kF32);
  (void)Call("testing.add_twice", x, std::nullopt, into).run();
  EXPECT_EQ(Values(into), (std::vector<float>{1, 2}));
  (void)Call("testing.add_twice", x, x, into).run();
  EXPECT_EQ(Values(into), (std::vector<float>{3, 6}));
}

TEST(Explain, NotesCopiesAndErrors) {
  const Array x = Counting({2, 3}).Transpose(0, 1);
  EXPECT_NE(Call("testing.scale", x, 1.0)
                .explain()
                .find("x is copied first: no kernel takes strides [1, 3]."),
            std::string::npos);
  EXPECT_NE(Call("testing.scale", x, 1e31).explain().find("refused: testing.scale: s < 1e30"),
            std::string::npos);
}

}  // namespace
}  // namespace anyop
