// SPDX-License-Identifier: Apache-2.0
// Bound calls with tensors of the far device, on a stream that the caller names.
#include "anyop/host.h"
#include "runtime/testing/on_far.h"

namespace anyop::device_bound_call_test {
namespace {

const anyop_call* CallNamed(std::string_view text) {
  TestingLibrary().SetUp();
  const anyop_call* call = nullptr;
  EXPECT_EQ(anyop_find_call(text.data(), text.size(), &call), ANYOP_OK) << anyop_error_text();
  return call;
}

TEST(DeviceBoundCall, RunsOnTheStreamThatItIsGiven) {
  const anyop_call* call = CallNamed("anyop.call/1 testing.scale(x = f32, s = 2.0) -> y");
  const Stream mine(Far());
  Array x, y;
  {
    const StreamScope scope(mine);
    x = OnFar(Counting({4}));
    y = Array::Empty({4}, DType::kF32, Far());
  }
  const DLTensor in = x.tensor(), out = y.tensor();
  ASSERT_EQ(anyop_run_call_on(call, mine.native(), &in, 1, &out, 1), ANYOP_OK)
      << anyop_error_text();
  const StreamScope scope(mine);
  EXPECT_EQ(FromFar(y), (std::vector<float>{0, 2, 4, 6}));
}

TEST(DeviceBoundCall, TellsALateErrorToALaterCallOnTheStream) {
  const anyop_call* call =
      CallNamed("anyop.call/1 testing.scatter(x = f32, slots = i64, cache = f32)");
  const Stream mine(Far());
  const StreamScope scope(mine);
  const Array x = OnFar(Counting({2, 2})), cache = OnFar(Array::Zeros({4, 2}, DType::kF32));
  const Array bad = OnFar(Ints({0, 4})), good = OnFar(Ints({0, 3}));
  const DLTensor wrong[] = {x.tensor(), bad.tensor(), cache.tensor()};
  const DLTensor right[] = {x.tensor(), good.tensor(), cache.tensor()};
  ASSERT_EQ(anyop_run_call_on(call, mine.native(), wrong, 3, nullptr, 0), ANYOP_OK);
  Finish(mine);
  EXPECT_EQ(anyop_run_call_on(call, mine.native(), right, 3, nullptr, 0), ANYOP_INVALID_ARGUMENT);
  EXPECT_STREQ(anyop_error_text(),
               "testing.scatter: slots[1] is 4, but must be less than 4 (s). This is of earlier "
               "work on far:0, whose results are not to be used.");
  EXPECT_EQ(anyop_run_call_on(call, mine.native(), right, 3, nullptr, 0), ANYOP_OK);
  EXPECT_EQ(FromFar(cache), (std::vector<float>{0, 1, 0, 0, 0, 0, 2, 3}));
}

TEST(DeviceBoundCall, RunsOnItsStreamWhereAPlannedTensorComesFirst) {
  const anyop_call* call =
      CallNamed("anyop.call/1 testing.planned_first(starts = i64, x = f32) -> y");
  const Stream mine(Far());
  Array x, y;
  {
    const StreamScope scope(mine);
    x = OnFar(Counting({6}));
    y = Array::Empty({2}, DType::kF32, Far());
  }
  const Array starts = Ints({0, 2, 6});
  const DLTensor in[] = {starts.tensor(), x.tensor()}, out = y.tensor();
  ASSERT_EQ(anyop_run_call_on(call, mine.native(), in, 2, &out, 1), ANYOP_OK) << anyop_error_text();
  const StreamScope scope(mine);
  EXPECT_EQ(FromFar(y), (std::vector<float>{1, 14}));
}

TEST(DeviceBoundCall, GoesToTheDevicesOwnStreamWhereNoneIsGiven) {
  const anyop_call* call = CallNamed("anyop.call/1 testing.scale(x = f32, s = 2.0) -> y");
  const Array x = OnFar(Counting({4})), y = OnFar(Array::Zeros({4}, DType::kF32));
  Synchronize(Far());
  const Stream mine(Far());
  const StreamScope scope(mine);
  Held held(mine);
  const DLTensor in = x.tensor(), out = y.tensor();
  ASSERT_EQ(anyop_run_call_on(call, nullptr, &in, 1, &out, 1), ANYOP_OK) << anyop_error_text();
  {
    const StreamScope own(Stream::Wrap(Far(), DeviceKindOf(Far().dl()).table.default_stream(0)));
    EXPECT_EQ(FromFar(y), (std::vector<float>{0, 2, 4, 6}));
  }
  held.LetGo();
}

TEST(DeviceBoundCall, TakesTensorsOfTheHostAsBefore) {
  const anyop_call* call = CallNamed("anyop.call/1 testing.scale(x = f32, s = 2.0) -> y");
  const Array x = Counting({4}), y = Array::Zeros({4}, DType::kF32);
  const DLTensor in = x.tensor(), out = y.tensor();
  ASSERT_EQ(anyop_run_call_on(call, nullptr, &in, 1, &out, 1), ANYOP_OK) << anyop_error_text();
  EXPECT_EQ(Values(y), (std::vector<float>{0, 2, 4, 6}));
}

}  // namespace
}  // namespace anyop::device_bound_call_test
