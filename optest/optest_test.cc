// SPDX-License-Identifier: Apache-2.0
// Tests of the tests: a right operator passes, and each kind of defect is caught.
#include "optest/optest.h"

#include <gtest/gtest-spi.h>

#include <cmath>
#include <string>
#include <vector>

#include "optest/compare.h"
#include "optest/memory.h"
#include "runtime/registry/registry.h"

namespace anyop::optest::optest_test {
namespace {

void LoadBroken() {
  Load(LibraryFolder() + "../tests/anyop_optest_testing.so");
  LoadReferences(LibraryFolder() + "../tests/anyop_optest_testing_reference.so");
}

OpTest TestOf(std::string_view op) {
  return {.op = op,
          .tolerance = Elementwise(2),
          .row_invariant = true,
          .sizes = {"rows = 3, d = 2000"}};
}

// The failures of one check of a broken operator.
std::vector<std::string> ReportsOf(std::string_view op, void (*check)(const OpTest&)) {
  LoadBroken();
  const std::string name = "broken." + std::string(op);
  const OpTest test = TestOf(name);
  testing::TestPartResultArray results;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    check(test);
  }
  std::vector<std::string> reports;
  for (int i = 0; i < results.size(); ++i) {
    const testing::TestPartResult& result = results.GetTestPartResult(i);
    if (!result.failed()) continue;
    const std::string text = result.message();
    reports.push_back(text.substr(text.starts_with("Failed\n") ? 7 : 0));
  }
  return reports;
}

// The same as one text; "" if it passes.
std::string FailuresOf(std::string_view op, void (*check)(const OpTest&)) {
  std::string text;
  for (const std::string& report : ReportsOf(op, check)) text += report;
  return text;
}

bool Contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// The operator has neither a kernel nor a reference: the runtime's composition is compared with
// optest's own.
TEST(Compositions, ViewsAreSeenAndWrittenThrough) {
  LoadBroken();
  CheckAll({.op = "broken.views", .tolerance = Elementwise(2)});
  Call call("broken.views");
  call.Set("x", Array(DType::kF32, {2, 4}, {1, 2, 0, 0, 3, 4, 0, 0}));
  call.Set("into", Array(DType::kF32, {2, 4}, {9, 9, 1, 1, 9, 9, 1, 1}));
  const Array y(DType::kF64, {2, 2}, {4, 16, 9, 25});
  EXPECT_EQ(call.Exact().at("y"), y);
  EXPECT_EQ(call.Run().at("into"), Array(DType::kF32, {2, 4}, {9, 9, 2, 3, 9, 9, 4, 5}));
}

TEST(Optest, PassesARightOperator) {
  LoadBroken();
  CheckAll(TestOf("broken.good"));
  EXPECT_GT(ReadTally().ran.at("broken.good cpu_bf16"), 20);
}

// The failures of CheckValues with a tolerance, of calls with this seed.
std::string FailuresWith(std::string_view op, const Tolerance& tolerance) {
  static const Tolerance* given;
  given = &tolerance;
  return FailuresOf(op, [](const OpTest& test) {
    CheckValues({.op = test.op, .tolerance = *given, .sizes = {"rows = 3, d = 2000"}});
  });
}

// Nothing bounds a difference by itself, or by the difference of absolute values.
TEST(Tolerance, SurvivesADifferenceThatIsNearlyNothing) {
  for (const auto* op : {"cross", "centred"}) {
    EXPECT_EQ(FailuresWith(op, Usual()), "") << op;
    EXPECT_NE(FailuresWith(op, Relative(64)), "") << op;
    EXPECT_NE(FailuresWith(op, Sum("d")), "") << op;
  }
  EXPECT_EQ(FailuresWith("cross", Conditioned(2)), "");
}

TEST(Tolerance, KnowsTheLargestOfARow) {
  LoadBroken();
  Call call("broken.good");
  call.Set("x", Array(DType::kF32, {2, 2}, {1, -3, 0, 0.5})).Set("factor", 2.0);
  const LazyTerms terms(call);
  EXPECT_EQ(terms.row("y", 0), 6);
  EXPECT_EQ(terms.row("y", 1), 6);
  EXPECT_EQ(terms.row("y", 2), 1);
}

TEST(Tolerance, StillSeesAFactorThatIsWrong) {
  EXPECT_TRUE(Contains(FailuresWith("cross_off", Usual()), "elements are wrong"));
  EXPECT_TRUE(Contains(FailuresWith("centred_off", Usual()), "elements are wrong"));
  EXPECT_TRUE(Contains(FailuresWith("cross_off", Conditioned(2)), "elements are wrong"));
  EXPECT_TRUE(Contains(FailuresWith("centred_off", OfRow(1, 0)), "elements are wrong"));
}

TEST(Optest, PassesPartsThatShareNothing) {
  EXPECT_EQ(FailuresOf("slot_scratch", CheckThreadInvariance), "");
  EXPECT_EQ(FailuresOf("atomic_count", CheckThreadInvariance), "");
}

// What a part left in its slot may be read when the region is over.
TEST(Optest, PassesASumOfWhatAllPartsHaveLeft) {
  for (const auto check : {CheckValues, CheckThreadInvariance}) {
    EXPECT_EQ(FailuresOf("sums_at_end", check), "");
  }
}

TEST(Optest, LetsAPartThatReadsWhatAnotherOneLeftFailThereAlone) {
  for (const auto* op : {"stale_scratch", "stale_count"}) {
    EXPECT_EQ(FailuresOf(op, CheckValues), "");
  }
}

struct Told {
  const char *op, *text;
};
constexpr Told kTold[] = {
    {"writes_next",
     "it writes outside of result y, f32[17]: element 1 after its end (byte 1) has changed. Its "
     "loops must stay within the tensor."},
    {"writes_before",
     "it writes outside of result y, f32[17]: element 2 before its beginning (byte 5) has changed. "
     "Its loops must stay within the tensor."},
    {"writes_pages_beyond",
     "it writes outside of result y, f32[17]: element 100000 after its end (byte 399997) has "
     "changed. Its loops must stay within the tensor."},
    {"reads_next",
     "it reads outside of argument x, f32[17]: element 1 after its end (byte 1) is read. Its loops "
     "must stay within the tensor."},
    {"reads_before",
     "it reads outside of argument x, f32[17]: element 1 before its beginning (byte 4) is read. "
     "Its loops must stay within the tensor."},
    {"writes_pages_beyond_workspace",
     "it writes outside of its workspace of 16 bytes: byte 10000 after its end has changed. Try a "
     ".workspace that says how much it takes."},
    {"doubles",
     "y[0] is 7.35449314, but must be 3.67724657 (1.54e+07 ulp of f32; allowed 2); 17 of 17 "
     "elements are wrong, most of all y[4]\n"
     "  allowed: 2 ulp in f32, 0.51 ulp in narrower floats, + 2^-126"},
};

TEST(Optest, TellsOneDefectOnceForAllKernelsAndCalls) {
  for (const Told& told : kTold) {
    const std::vector<std::string> reports = ReportsOf(told.op, CheckValues);
    EXPECT_EQ(reports.size(), 1) << told.op;
    const std::string& report = reports[0];
    const std::size_t what = report.find("\n  cpu_any f32_17, ");
    EXPECT_EQ(report.substr(0, what), told.text);
    EXPECT_TRUE(Contains(report, " more calls, and in cpu_small\n  broken.")) << report;
    EXPECT_TRUE(Contains(report, "\n  run this call alone with --call=")) << report;
  }
}

TEST(Optest, LeavesAKernelsDefectToTheTestThatNamesTheKernel) {
  for (const auto* op : {"writes_next", "doubles", "fails", "writes_input"}) {
    EXPECT_EQ(FailuresOf(op, CheckDispatch), "") << op;
    EXPECT_EQ(FailuresOf(op, CheckThreadInvariance), "") << op;
  }
}

struct Case {
  const char* op;
  void (*check)(const OpTest&);
  const char* text;
  const char* or_text = text;  // which is as good
};
class Catches : public testing::TestWithParam<Case> {};

TEST_P(Catches, TheDefect) {
  const Case& c = GetParam();
  const std::string failures = FailuresOf(c.op, c.check);
  EXPECT_TRUE(Contains(failures, c.text) || Contains(failures, c.or_text))
      << failures.substr(0, 2000);
  EXPECT_TRUE(Contains(failures, "--call=")) << failures.substr(0, 2000);
}

constexpr Case kCases[] = {
    {"truncates", CheckValues, "ulp of bf16; allowed 0.51)"},
    {"writes_after_row", CheckValues, "it writes between the rows of result y, "},
    {"writes_far_beyond", CheckValues, "after its end (byte "},
    {"skips_last", CheckValues, "the element is not written"},
    {"writes_input", CheckValues, "it writes into argument x, f32["},
    {"wrong_tail", CheckValues, "elements are wrong"},
    {"sees_next_row", CheckRowInvariance, "in row 0 in the batch and alone"},
    {"sees_threads", CheckThreadInvariance, "with 1 thread and with 2"},
    {"one_scratch", CheckThreadInvariance, "where another part of the region runs in the middle"},
    {"few_rows", CheckThreadInvariance, "y["},
    {"static_memory", CheckThreadInvariance, "of y), as threads may do: both write the same"},
    {"row_before", CheckThreadInvariance, "the last part first"},
    // On a busy machine threads may meet it before parts that interrupt one another do.
    {"stale_scratch", CheckThreadInvariance,
     "in the middle of one (after access 1 of workspace), as threads may do",
     "with 4 that begin together"},
    {"stale_count", CheckThreadInvariance,
     "No part of a region may depend on what another one has left in memory"},
    {"plain_largest", CheckThreadInvariance,
     "of y), as threads may do: both write the same memory"},
    {"swallows_nan", CheckExtremeValues, "is 0, but must be nan"},
    {"sees_workspace", CheckValues, "depends on what was there before"},
    {"overflows_workspace", CheckValues, "it writes outside of its workspace of "},
    {"reads_after_writing", CheckValues, "results over inputs"},
    {"reads_beyond_row", CheckValues, "elements are wrong"},
    {"assumes_dense", CheckValues, "strided and misaligned memory"},
    {"fails", CheckValues, "it fails: on purpose"},
    {"forgets_stride_0", CheckValues, "inputs with stride 0"},
    {"needs_both", CheckValues, "some results declined"},
    {"wrong_factor", CheckGradient, ", but differences of the operator give "},
    {"wrong_element", CheckGradient, "dx[1, 0] is "},
    {"forgets_row", CheckGradient, "dweight[0] is "},
    {"sees_absence", CheckGradient, "but differences of the operator give "},
    {"sees_declined", CheckGradient, "with another result declined, dx[0"},
    {"too_strict", CheckGradient,
     "the gradient refuses what its operator takes: broken.too_strict"},
    {"other_dtype", CheckGradient, "dx is f32["},
    {"lacks_dtype", CheckPromises,
     "the signature promises this call: broken.lacks_dtype: no kernel"},
    {"lacks_dtype", CheckDispatch, "broken.lacks_dtype: no kernel takes this call"},
    {"far_writes_behind", CheckDevices, "byte 1 after the end of y is written"},
    {"far_writes_before", CheckDevices, "before the beginning of y is written"},
    {"far_leaves_the_last", CheckDevices, "the element is not written"},
    {"far_ignores_strides", CheckDevices, "elements are wrong"},
};
INSTANTIATE_TEST_SUITE_P(Optest, Catches, testing::ValuesIn(kCases), [](const auto& info) {
  return std::string(info.param.op) + "_" + std::to_string(info.index);
});

// Each of its calls, and not those few that kernels of the host get there.
TEST(Optest, GivesAKernelOfADeviceEveryCall) {
  EXPECT_EQ(FailuresOf("far_right", CheckDevices), "");
  EXPECT_GT(ReadTally().ran.at("broken.far_right far_double on far:0"), 20);
}

TEST(Optest, LetsOnlyTheDefectsOwnCheckFail) {
  EXPECT_EQ(FailuresOf("sees_next_row", CheckThreadInvariance), "");
  EXPECT_EQ(FailuresOf("sees_threads", CheckValues), "");
  EXPECT_EQ(FailuresOf("one_scratch", CheckValues), "");
  EXPECT_EQ(FailuresOf("swallows_nan", CheckValues), "");
  EXPECT_EQ(FailuresOf("truncates", CheckWrongCalls), "");
}

TEST(Optest, TakesWhatATestCallsUnsupported) {
  const auto failures = [](const char* unsupported, void (*check)(const OpTest&)) {
    static const char* condition;
    static void (*run)(const OpTest&);
    condition = unsupported, run = check;
    return FailuresOf("lacks_dtype", [](const OpTest& test) {
      OpTest narrow = test;
      narrow.unsupported = condition;
      run(narrow);
    });
  };
  for (const auto check : {CheckPromises, CheckDispatch}) {
    EXPECT_EQ(failures("T == bf16", check), "");
    EXPECT_NE(failures("T == f32", check), "");
  }
  EXPECT_TRUE(Contains(failures("T in f32 | bf16", CheckDispatch), "it is supported"));
}

TEST(Optest, PassesARightGradient) {
  LoadBroken();
  const int before = ReadTally().directions;
  CheckGradient(TestOf("broken.square"));
  EXPECT_GT(ReadTally().directions, before + 20);
}

TEST(Optest, FailsWhereNoGradientIsCompared) {
  const auto failures = FailuresOf("square", [](const OpTest& test) {
    OpTest integers = test;
    integers.prepare = [](Call& call) {
      call.Set("x", Array(DType::kI32, {1, 3})).Remove("weight");
    };
    CheckGradient(integers);
  });
  EXPECT_TRUE(Contains(failures, "no gradient was compared")) << failures;
}

TEST(Optest, FailsWhenNothingIsCompared) {
  const auto failures = FailuresOf("good", [](const OpTest& test) {
    OpTest empty = test;
    empty.prepare = [](Call& call) { call.Set("x", Array(DType::kF32, {0, 3})).Remove("weight"); };
    CheckValues(empty);
  });
  EXPECT_TRUE(Contains(failures, "nothing was compared")) << failures;
}

TEST(Optest, FailsWhereAKernelTakesNoCall) {
  const auto failures = FailuresOf("good", [](const OpTest& test) {
    OpTest narrow = test;
    narrow.prepare = [](Call& call) { call.Set("x", Array(DType::kF32, {1, 3})).Remove("weight"); };
    CheckValues(narrow);
  });
  EXPECT_TRUE(Contains(failures, "broken.good cpu_bf16 took none of the calls")) << failures;
}

TEST(OptestCall, RunsByHand) {
  LoadBroken();
  Call call("broken.good");
  call.Set("x", Array(DType::kF32, {2, 2}, {1, 2, 3, 4})).Set("factor", 0.5);
  call.Set("weight", Array(DType::kF32, {2}, {1, 10}));
  const Array expected(DType::kF32, {2, 2}, {0.5, 10, 1.5, 20});
  EXPECT_EQ(call.Run()["y"], expected);
  EXPECT_EQ(call.Run("cpu_f32")["y"], expected);
  EXPECT_EQ(call.RunEveryKernel().at("cpu_f32")["y"], expected);
  EXPECT_EQ(call.Exact()["y"], Array(DType::kF64, {2, 2}, {0.5, 10, 1.5, 20}));
  EXPECT_EQ(call.size("rows(x) * d"), 4);
}

TEST(OptestCall, SeesWhatARefusedCallWrote) {
  LoadBroken();
  Call call("broken.writes_and_refuses");
  call.Set("x", Array(DType::kF32, {3}, {1})).Set("writes", false);
  EXPECT_EQ(call.Refusal(), "broken.writes_and_refuses: x is never right.");
  EXPECT_NONFATAL_FAILURE(
      Call(call).Set("writes", true).Refusal(),
      "it writes into `mut` argument x, f32[3]: element [1] has changed. A call that is "
      "refused writes nothing.");
}

TEST(OptestCall, GivesTheTextOfARefusal) {
  LoadBroken();
  Call call("broken.good");
  call.Set("x", Array(DType::kF32, {2, 2}, {1}));
  call.Set("weight", Array(DType::kF32, {3}, {1}));
  EXPECT_EQ(call.Refusal(),
            "broken.good: weight is f32[3], but must be f32[2] because x is f32[2, 2].");
  EXPECT_NONFATAL_FAILURE(Call(call).Set("weight", Array(DType::kF32, {2})).Refusal(),
                          "the call is not refused");
}

}  // namespace
}  // namespace anyop::optest::optest_test
