// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/dispatch.h"

#include "platform/log.h"
#include "runtime/plan/probe.h"
#include "runtime/testing/testing.h"

namespace anyop::dispatch_test {
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

// What `anyop tune` records of an operator of the testing library.
std::vector<TunedChoice> Measured(const std::string& op) { return MeasurePairs(*Find(op)); }

TunedChoice OfSpin(double slow_ns, double fast_ns) {
  const Operator& op = *Find("testing.spin");
  return {op.name,    TunedVersion(op), op.contract->hash, "",
          "cpu_slow", "cpu_fast",       slow_ns,           fast_ns};
}

// These choices instead of the file's, while it lives.
struct Tuned {
  explicit Tuned(const std::vector<TunedChoice>& choices) {
    UseTuned(std::make_unique<const TunedTable>(choices, "a/file.txt"));
  }
  ~Tuned() { UseTuned(std::make_unique<const TunedTable>()); }
};

// An array of a size that no call had before: calls of known sizes have their plans.
Array Fresh() {
  static std::int64_t size = 100;
  return Array::Zeros({++size}, DType::kF32);
}

TEST(Dispatch, TakesTheFirstOfTwoThatWantToBeMeasuredUnlessTuned) {
  const Tuned tuned({});
  const Array x = Fresh();
  EXPECT_EQ(Values(Call("testing.spin", x)), std::vector<float>{100});
  const std::string text = Call("testing.spin", x).explain();
  EXPECT_NE(text.find("  cpu_slow: taken\n  cpu_fast: cpu_slow comes first; "), text.npos) << text;
}

TEST(Dispatch, TakesTheFasterKernelAsTuned) {
  const Tuned tuned({OfSpin(3400, 12)});
  ResetCounters();
  const Array x = Fresh();
  EXPECT_EQ(Values(Call("testing.spin", x)), std::vector<float>{1});
  EXPECT_EQ(CountersFor("testing.spin", "cpu_fast").calls, 1u);
  const std::string text = Call("testing.spin", x).explain();
  EXPECT_NE(text.find("  cpu_slow: cpu_fast was faster when `anyop tune` measured both (12 ns "
                      "against 3.4 us)\n  cpu_fast: taken, measured 12 ns\n"),
            text.npos)
      << text;
  Scope scope;
  scope.batch_invariant();
  EXPECT_EQ(Values(Call("testing.spin", x)), std::vector<float>{100});  // the first, whatever
  EXPECT_NE(Call("testing.spin", x).explain().find("cpu_fast: cpu_slow comes first\n"), text.npos);
}

TEST(Dispatch, TakesTheFirstKernelIfItWasFaster) {
  const Tuned tuned({OfSpin(12, 3400)});
  EXPECT_EQ(Values(Call("testing.spin", Fresh())), std::vector<float>{100});
}

TEST(Dispatch, APolicyThatPinsAKernelIsAboveWhatIsTuned) {
  const Tuned tuned(Measured("testing.spin"));
  const Array x = Fresh();
  EXPECT_EQ(Values(Call("testing.spin", x)), std::vector<float>{1});
  Scope scope;
  scope.policy("testing.spin=cpu_slow");
  EXPECT_EQ(Values(Call("testing.spin", x)), std::vector<float>{100});
}

TEST(Dispatch, WarnsOnceOfAChoiceThatIsStaleAndTakesTheFirst) {
  static std::string logged;
  logged.clear();
  SetLogSink([](int level, const char* text) { logged += std::to_string(level) + text + "|"; });
  TunedChoice of_other_version = Measured("testing.spin").at(0),
              of_other_contract = of_other_version;
  of_other_version.version = "0.1";
  of_other_contract.contract = "0";
  const std::string start = "2a tuned choice for testing.spin in a/file.txt is not used: ";
  {
    const Tuned tuned({of_other_version});
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(Values(Call("testing.spin", Fresh())), std::vector<float>{100});
    }
    EXPECT_EQ(logged, start +
                          "it is of version '0.1' of testing, and '0.0.0' is loaded. "
                          "Try `anyop tune`.|");
  }
  logged.clear();
  const Tuned tuned({of_other_contract});
  EXPECT_EQ(Values(Call("testing.spin", Fresh())), std::vector<float>{100});
  EXPECT_EQ(logged, start + "it is of another signature of the operator. Try `anyop tune`.|");
  SetLogSink(nullptr);
}

TEST(Probe, MeasuresTwoKernelsThatWantIt) {
  EXPECT_TRUE(HasPairs(*Find("testing.spin")));
  const std::vector<TunedChoice> choices = Measured("testing.spin");
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].first, "cpu_slow");
  EXPECT_EQ(choices[0].second, "cpu_fast");
  EXPECT_TRUE(choices[0].second_is_faster());
  EXPECT_GT(choices[0].second_ns, 0);
}

TEST(Probe, MeasuresKernelsWhoseWorkIsInIntegers) {
  const std::vector<TunedChoice> choices = Measured("testing.spin_rows");
  ASSERT_FALSE(choices.empty());
  for (const TunedChoice& c : choices) EXPECT_TRUE(c.second_is_faster()) << c.call;
}

TEST(Probe, LeavesKernelsAloneThatDoNotWantIt) {
  EXPECT_FALSE(HasPairs(*Find("testing.axpy")));
  EXPECT_TRUE(Measured("testing.axpy").empty());
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

TEST(Composition, RunsWhereThereIsNoKernel) {
  ResetCounters();
  const Array x = Floats({2}, {1, 2}), r = Floats({2}, {10, 20});
  const std::vector<Array> got = Call("testing.scaled_sum", x, r, 2.0);
  EXPECT_EQ(Values(got[0]), (std::vector<float>{11, 22}));
  EXPECT_EQ(Values(got[1]), (std::vector<float>{22, 44}));
  EXPECT_EQ(CountersFor("testing.scaled_sum", "means").calls, 1u);
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
}  // namespace anyop::dispatch_test
