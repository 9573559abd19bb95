// SPDX-License-Identifier: Apache-2.0
// Calls of tensors on the host that a device runs on copies, because a policy pins a kernel of it.
#include "runtime/testing/on_far.h"

namespace anyop::call_by_copies_test {
namespace {

class CallByCopies : public ::testing::Test {
 protected:
  CallByCopies() {
    far.table.takes_host_calls = 1;
    ResetCounters();
  }
  // What was counted for the operator, as "<kernel> on <device>: <calls>, <copies>".
  static std::vector<std::string> Counted(const std::string& op) {
    std::vector<std::string> rows;
    for (const CounterRow& r : Counters()) {
      if (r.op != op) continue;
      rows.push_back(r.kernel + " on " + r.device + ": " + std::to_string(r.calls) + ", " +
                     std::to_string(r.copies));
    }
    return rows;
  }
  static void Write(const char* op, std::vector<anyop_value> frame) {
    const HeldPlan plan = GetPlan(*Find(op), frame.data());
    anyop::Run(*Find(op), *plan, frame.data());
  }
  static constexpr const char* kOp = "testing.far_or_means";

  WatchedFar far;
};

TEST_F(CallByCopies, RunsThePinnedKernelAndCountsTheCopies) {
  Scope scope;
  scope.policy("testing.far_or_means=far_copy");
  const Array y = Call(kOp, Counting({4}));
  EXPECT_TRUE(y.device().is_host());
  EXPECT_EQ(Values(y), Values(Counting({4})));
  EXPECT_EQ(Counted(kOp), (std::vector<std::string>{"far_copy on far:0: 1, 2"}));
  EXPECT_EQ(far.allocations, far.releases);
  EXPECT_EQ(far.streams, 0);
}

TEST_F(CallByCopies, PacksWhatHasGaps) {
  Scope scope;
  scope.policy("testing.far_or_means=far_copy");
  const Array matrix = Counting({3, 2});
  EXPECT_EQ(Values(Array(Call(kOp, Column(matrix, 1)))), (std::vector<float>{1, 3, 5}));
  const Array rows = Array::Full({4, 2}, DType::kF32, -1);
  const Array to = Column(rows, 0);
  const Array x = Counting({4});
  Write(kOp, {TensorValue(&x.tensor()), TensorValue(&to.tensor())});
  EXPECT_EQ(Values(rows), (std::vector<float>{0, -1, 1, -1, 2, -1, 3, -1}));
}

TEST_F(CallByCopies, StaysOnTheHostWhereNoPolicyOrAnotherOneAsks) {
  Array(Call(kOp, Counting({4})));
  Scope scope;
  scope.policy("testing.featured=far_fast,testing.featured=cpu_f32");
  Array(Call("testing.featured", Counting({1})));
  far.table.takes_host_calls = 0;
  scope.policy("testing.far_or_means=far_copy");
  Array(Call(kOp, Counting({4})));
  EXPECT_EQ(far.submits, 0);
}

TEST_F(CallByCopies, ExplainsWhereACallRuns) {
  Scope scope;
  scope.policy("testing.far_or_means=far_copy");
  const Array x = Counting({4});
  anyop_value frame[] = {TensorValue(&x.tensor()), {}};
  const std::string text = Explain(*Find(kOp), frame).text();
  EXPECT_NE(text.find("far_copy: taken"), std::string::npos) << text;
  EXPECT_NE(text.find("runs on far:0, on copies: the policy pins a kernel of it."),
            std::string::npos)
      << text;
}

// Of the call itself, and nothing is written.
TEST_F(CallByCopies, FailsWithWhatTheKernelSays) {
  Scope scope;
  scope.policy("testing.launched=far_launched");
  const Array y = Array::Full({2}, DType::kF32, 7);
  int code = ANYOP_OK;
  const Array x = Counting({2});
  anyop_value tells{.tag = ANYOP_BOOL, .index = 0, .count = 0, .i = 1};
  const std::string error = ErrorOf(
      [&] {
        Write("testing.launched", {TensorValue(&x.tensor()), {}, tells, TensorValue(&y.tensor())});
      },
      &code);
  EXPECT_TRUE(error.starts_with("testing.launched: stream 0, device ")) << error;
  EXPECT_EQ(error.find("earlier work"), std::string::npos) << error;
  EXPECT_EQ(code, ANYOP_INVALID_ARGUMENT);
  EXPECT_EQ(Values(y), (std::vector<float>{7, 7}));
  EXPECT_NO_THROW(Stream::Current(Far()).Synchronize());
}

}  // namespace
}  // namespace anyop::call_by_copies_test
