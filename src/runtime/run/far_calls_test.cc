// SPDX-License-Identifier: Apache-2.0
// Calls on the far device while a stream stands still: what must not have happened yet, has not.
#include <chrono>
#include <thread>

#include "runtime/device/device.h"
#include "runtime/run/call.h"
#include "runtime/testing/on_far.h"

namespace anyop::far_calls_test {
namespace {

Array Ones() { return OnFar(Array::Full({64}, DType::kF32, 1)); }

TEST(FarCalls, WaitOnTheirStreamForAnEvent) {
  const Stream a(Far()), b(Far());
  Held held(a);
  b.Wait(a.Record());
  const Event after = b.Record();
  for (int i = 0; i < 100 && !after.is_complete(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(after.is_complete());
  held.LetGo();
  after.Synchronize();
}

TEST(FarCalls, AreRefusedOnADeviceThatThereIsNot) {
  const Array x = OnFar(Counting({4}));
  for (const int number : {-1, 7, 1000000}) {
    DLTensor t = x.tensor();
    t.device.device_id = number;
    const std::string why =
        "there is no device 'far:" + std::to_string(number) + "': this machine has 2 of them.";
    EXPECT_EQ(ErrorOf([&] { Array::Wrap(t); }), why);
    Operator& op = *Find("testing.accumulate");
    anyop_value frame[] = {TensorValue(&t), TensorValue(&t)};
    EXPECT_EQ(ErrorOf([&] { GetPlan(op, frame); }), "testing.accumulate: x: " + why);
  }
}

TEST(FarCalls, GoToTheCurrentStream) {
  const Array x = Ones();
  const Stream mine(Far()), other = Stream::Current(Far());
  other.Synchronize();
  Held held(other);
  std::vector<float> got(64);
  Array y;
  {
    const StreamScope scope(mine);
    y = Call("testing.scale", x, 2.0);
    const anyop_device& table = DeviceKindOf(Far().dl()).table;
    table.copy(mine.native(), ANYOP_AT_HOST, got.data(), 0, y.data(), std::uint64_t(y.bytes()));
  }
  mine.Synchronize();
  EXPECT_EQ(got, std::vector<float>(64, 2));
}

TEST(FarCalls, ReturnBeforeTheirWorkBegins) {
  const Array x = Ones();
  const Stream stream = Stream::Current(Far());
  Held held(stream);
  const Array y = Call("testing.scale", x, 2.0);
  const Event after = stream.Record();
  EXPECT_FALSE(after.is_complete());
  held.LetGo();
  EXPECT_EQ(FromFar(y), std::vector<float>(64, 2));
}

TEST(FarCalls, HaveTheirWorkspaceUntilTheyAreDone) {
  const Array x = Ones().Reshape({1, 64});
  const Stream stream = Stream::Current(Far());
  Held held(stream);
  const Array y = Call("testing.uses_workspace", x, 3);
  held.LetGo();
  EXPECT_EQ(FromFar(y), Values(Array(Call("testing.uses_workspace", Counting({1, 64}), 3))));
}

TEST(FarCalls, AreReadOnceTheyAreThere) {
  const Array x = Ones();
  const Stream stream = Stream::Current(Far());
  Held held(stream);
  const Array y = Call("testing.scale", x, 2.0);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    held.LetGo();
  });
  const Array here = y.On(Device());
  const std::vector<float> got = Values(here);
  later.join();
  Synchronize(Far());
  EXPECT_EQ(got, std::vector<float>(64, 2));
}

Array Scale(const Array& x) { return Call("testing.scale", x, 2.0); }

// Far runs nothing that was put on a stream before its late error was taken.
TEST(FarCalls, GiveBackTheirPlansBehindALateError) {
  const Stream stream(Far());
  const StreamScope scope(stream);
  const Array x = Ones(), rows = OnFar(Counting({2, 2}));
  const Array bad = OnFar(Ints({0, 4})), cache = OnFar(Array::Zeros({4, 2}, DType::kF32));
  Scale(x);
  stream.Synchronize();
  const Plan& plan = *SlotFor(*Find("testing.scale")).last;
  const int before = plan.references;
  Held held(stream);
  (void)Call("testing.scatter", rows, bad, cache).run();
  for (int i = 0; i < 5; ++i) Scale(x);
  EXPECT_EQ(plan.references, before + 5);
  held.LetGo();
  Finish(stream);
  EXPECT_EQ(plan.references, before);
  EXPECT_NE(ErrorOf([&] { stream.Synchronize(); }), "");
}

TEST(FarCalls, AreCountedApartFromThoseOfTheHost) {
  const Array here = Array::Full({64}, DType::kF32, 1), x = Ones();
  Synchronize(Far());
  ResetCounters();
  Scale(here);
  for (int i = 0; i < 3; ++i) Scale(x);
  std::thread([&] { Scale(x); }).join();
  Scale(x.On(Far(1)));
  for (const int number : {0, 1}) Synchronize(Far(number));
  std::vector<std::string> rows;
  for (const CounterRow& r : Counters()) {
    if (r.op != "testing.scale") continue;
    rows.push_back(r.kernel + " on " + r.device + ": " + std::to_string(r.calls));
  }
  EXPECT_EQ(rows, (std::vector<std::string>{"cpu_f32 on cpu: 1", "cpu_f32 on far:0: 4",
                                            "cpu_f32 on far:1: 1"}));
  ResetCounters();
  for (const CounterRow& r : Counters()) EXPECT_NE(r.op, "testing.scale") << r.device;
}

}  // namespace
}  // namespace anyop::far_calls_test
