// SPDX-License-Identifier: Apache-2.0
// Streams and events as a program in C++ has them (anyop/stream.h).
#include "anyop/stream.h"

#include <optional>

#include "runtime/testing/on_far.h"

namespace anyop::stream_test {
namespace {

anyop_stream DefaultStream(int number = 0) {
  return DeviceKindOf(Far(number).dl()).table.default_stream(number);
}
// What work of this thread goes to.
void* Current(int number = 0) { return Stream::Current(Far(number)).native(); }

TEST(Streams, AreCurrentUntilTheEndOfTheirScope) {
  const Stream a(Far()), b(Far());
  EXPECT_EQ(Current(), DefaultStream());
  {
    const StreamScope on_a(a);
    EXPECT_EQ(Current(), a.native());
    {
      const StreamScope on_b(b);
      EXPECT_EQ(Current(), b.native());
    }
    EXPECT_EQ(Current(), a.native());
  }
  EXPECT_EQ(Current(), DefaultStream());
}

TEST(Streams, AreCurrentForTheirOwnDeviceAlone) {
  const Stream one(Far(1));
  EXPECT_EQ(one.device(), Far(1));
  const StreamScope scope(one);
  EXPECT_EQ(Current(0), DefaultStream(0));
  EXPECT_EQ(Current(1), one.native());
  EXPECT_NE(DefaultStream(0), DefaultStream(1));
  for (const int number : {0, 1}) {
    const Array x = Counting({4}).On(Far(number));
    EXPECT_EQ(FromFar(Call("testing.scale", x, 2.0)), (std::vector<float>{0, 2, 4, 6}));
  }
  const Stream zero(Far());
  const StreamScope inner(zero);
  EXPECT_EQ(Current(1), one.native());
}

TEST(Streams, AreCurrentForTheirThreadAlone) {
  const Stream a(Far());
  const StreamScope scope(a);
  std::thread([] { EXPECT_EQ(Current(), DefaultStream()); }).join();
}

TEST(Streams, GoWithTheLastThatHoldsThem) {
  WatchedFar far;
  Array x;
  {
    std::optional<Stream> s(Far());
    const Stream copy = *s;
    s.reset();
    EXPECT_EQ(far.streams, 1);
    const StreamScope scope(copy);
    x = Array::Empty({4}, DType::kF32, Far());  // is given back there
    const Stream current = Stream::Current(Far());
    EXPECT_EQ(current.native(), copy.native());
  }
  EXPECT_EQ(far.streams, 1);
  x = {};
  EXPECT_EQ(far.streams, 0);
  { const Stream first = Stream::Current(Far()); }  // is nobody's
  EXPECT_EQ(far.streams, 0);
}

TEST(Streams, OfAFrameworkAreUsedAndLeft) {
  WatchedFar far;
  anyop_stream native = nullptr;
  ASSERT_EQ(far.table.create_stream(1, &native), ANYOP_OK);
  {
    const Stream wrapped = Stream::Wrap(Far(1), native);
    EXPECT_EQ(wrapped.native(), native);
    EXPECT_EQ(wrapped.device(), Far(1));
    const StreamScope scope(wrapped);
    EXPECT_EQ(Current(1), native);
    const Array x = Counting({4}).On(Far(1));
    Held held(wrapped);
    const Array y = Call("testing.scale", x, 2.0);
    const Event after = wrapped.Record();
    EXPECT_FALSE(after.is_complete());
    held.LetGo();
    EXPECT_EQ(FromFar(y), (std::vector<float>{0, 2, 4, 6}));
  }
  EXPECT_EQ(far.streams, 1);
  EXPECT_EQ(far.table.destroy_stream(native), ANYOP_OK);
}

TEST(Streams, AreNothingOfTheHost) {
  const std::string none = "the host has no streams: its calls wait.";
  EXPECT_EQ(ErrorOf([] { Stream{Device()}; }), none);
  EXPECT_EQ(ErrorOf([] { Stream::Wrap(Device(), nullptr); }), none);
  EXPECT_EQ(ErrorOf([] { Stream::Current(Device()); }), none);
  EXPECT_EQ(ErrorOf([] {
              Stream{Device(DLDevice{7, 1})};
            }),
            "device type 7: no loaded library has this device. Try anyop.load of the device's "
            "library.");
  Synchronize(Device());
}

// ---- A framework that owns the device.

struct Framework {
  static inline anyop_stream stream = nullptr;
  static inline std::vector<std::uint64_t> asked;  // bytes of memory
  static inline int released = 0;

  static constexpr DeviceHost kHost = {
      [](DLDevice device) { return device.device_id == 0 ? stream : DefaultStream(1); },
      [](DLDevice device, std::uint64_t bytes, void** owner) {
        asked.push_back(bytes);
        WatchedFar::real.allocate(device.device_id, stream, bytes, owner);
        return *owner;
      },
      [](void* owner) { ++released, WatchedFar::real.release(0, stream, owner); }};
};

// As where a kernel calls for the tensors of another host, which names its own stream.
TEST(Frameworks, AreLeftWhereAScopeOpensInTheirCall) {
  const Array x = OnFar(Counting({1, 64}));
  const Stream theirs(Far()), ours(Far());
  const Array wanted = Call("testing.uses_workspace", x, 3);
  WatchedFar far;
  Framework::stream = theirs.native(), Framework::asked.clear();
  {
    const CallingDeviceHost calling(&Framework::kHost);
    Array y;
    {
      const StreamScope scope(ours);
      EXPECT_EQ(Current(), ours.native());
      y = Call("testing.uses_workspace", x, 3);
      const CallingDeviceHost again(&Framework::kHost);
      EXPECT_EQ(Current(), theirs.native());
    }
    EXPECT_EQ(Current(), theirs.native());
    ours.Synchronize();
    EXPECT_EQ(FromFar(y), FromFar(wanted));
  }
  EXPECT_TRUE(Framework::asked.empty());
  EXPECT_EQ(far.streams, 0);
}

TEST(Frameworks, SayWhereCallsGoAndGiveThemMemory) {
  const Array x = OnFar(Counting({1, 64}));
  const Stream theirs(Far()), ours(Far());
  const Array wanted = Call("testing.uses_workspace", x, 3);
  WatchedFar far;
  Framework::stream = theirs.native(), Framework::asked.clear(), Framework::released = 0;
  {
    const StreamScope scope(ours);  // from before the framework's call: says nothing in it
    const CallingDeviceHost calling(&Framework::kHost);
    EXPECT_EQ(Current(), theirs.native());
    Held held(theirs);
    const Array y = Call("testing.uses_workspace", x, 3);
    EXPECT_EQ(Framework::asked, (std::vector<std::uint64_t>{12, 512}));  // y, and the workspace
    EXPECT_EQ(Framework::released, 1);
    EXPECT_FALSE(theirs.Record().is_complete());
    held.LetGo();
    EXPECT_EQ(FromFar(y), FromFar(wanted));
  }
  EXPECT_EQ(Framework::released, 2);
  EXPECT_EQ(far.allocations, 0);
  EXPECT_EQ(far.streams, 0);
  EXPECT_EQ(Current(), DefaultStream());
}

// ---- Events.

TEST(Events, AreCompleteWhenTheirStreamGetsThere) {
  const Stream s(Far());
  const Event before = s.Record();
  before.Synchronize();
  EXPECT_TRUE(before.is_complete());
  Held held(s);
  const Event after = s.Record();
  EXPECT_FALSE(after.is_complete());
  EXPECT_TRUE(before.is_complete());  // each is a point of its own
  held.LetGo();
  after.Synchronize();
  EXPECT_TRUE(after.is_complete());
}

TEST(Events, ThatWereNeverRecordedAreComplete) {
  const Event none;
  const Stream s(Far());
  EXPECT_TRUE(none.is_complete());
  none.Synchronize();
  s.Wait(none);
  s.Synchronize();
  EXPECT_EQ(ErrorOf([&] { ElapsedMs(none, s.Record()); }),
            "an event was never recorded, so that no time lies between.");
  EXPECT_EQ(ErrorOf([&] { ElapsedMs(s.Record(), none); }),
            "an event was never recorded, so that no time lies between.");
}

TEST(Events, TellTheTimeFromTheFirstToTheSecond) {
  const Stream s(Far());
  const Event first = s.Record();
  first.Synchronize();
  std::optional<Held> held(s);
  const Event second = s.Record();
  EXPECT_EQ(ErrorOf([&] { ElapsedMs(first, second); }),
            "far:0: an event was not recorded, or its stream has not reached it.");
  held.reset();
  second.Synchronize();
  EXPECT_GT(ElapsedMs(first, second), 0);
  EXPECT_LT(ElapsedMs(first, second), 60'000);
  EXPECT_EQ(ElapsedMs(second, first), -ElapsedMs(first, second));
}

TEST(Events, GoWithTheLastThatHoldsThem) {
  WatchedFar far;
  const Stream s(Far());
  {
    const Event e = s.Record();
    const Event copy = e;
    EXPECT_EQ(far.events, 1);
    s.Wait(copy);
  }
  EXPECT_EQ(far.events, 0);
  s.Synchronize();
}

// ---- Waiting.

// Of a wrong index, in the order of the current stream.
void MakeLateError(std::int64_t index) {
  const Array cache = OnFar(Array::Zeros({4, 2}, DType::kF32));
  const Array rows = OnFar(Counting({1, 2})), slots = OnFar(Ints({index}));
  Call("testing.scatter", rows, slots, cache).into();
}
std::string LateError(int index) {
  return "testing.scatter: slots[0] is " + std::to_string(index) +
         ", but must be less than 4 (s). This is of earlier work on far:0, whose results are not "
         "to be used.";
}

TEST(Synchronize, OfAStreamTellsItsOwnErrorOnce) {
  const Stream a(Far()), b(Far());
  for (const auto& [stream, index] : {std::pair{&a, 5}, {&b, 6}}) {
    const StreamScope scope(*stream);
    MakeLateError(index);
    Finish(*stream);
  }
  EXPECT_EQ(ErrorOf([&] { b.Synchronize(); }), LateError(6));
  EXPECT_EQ(ErrorOf([&] { b.Synchronize(); }), "");
  EXPECT_EQ(ErrorOf([&] { a.Synchronize(); }), LateError(5));
}

TEST(Synchronize, OfADeviceWaitsForAllItsStreamsAndTellsTheirErrors) {
  const Stream a(Far()), b(Far());
  {
    const StreamScope scope(a);
    MakeLateError(7);
  }
  const Event last = b.Record();
  EXPECT_EQ(ErrorOf([] { Synchronize(Far(1)); }), "");
  EXPECT_EQ(ErrorOf([] { Synchronize(Far()); }), LateError(7));
  EXPECT_TRUE(last.is_complete());
  EXPECT_EQ(ErrorOf([] { Synchronize(Far()); }), "");
}

// Whether f waits for the work on the stream: the host lets it go when it begins to wait.
template <class F>
bool Waits(const Stream& stream, const void* for_stream, F&& f) {
  WatchedFar far;
  static Held* held;
  static const void* waited;
  Held until(stream);
  held = &until, waited = &far;
  far.table.synchronize = [](int32_t number, anyop_stream s) {
    held->LetGo();
    return waited = s, WatchedFar::real.synchronize(number, s);
  };
  const Event last = stream.Record();
  f();
  const bool is_complete = last.is_complete();
  until.LetGo();
  last.Synchronize();
  return is_complete && waited == for_stream;
}

TEST(Synchronize, ReturnsWhenTheWorkIsDone) {
  const Stream s(Far());
  EXPECT_TRUE(Waits(s, s.native(), [&] { s.Synchronize(); }));
  EXPECT_TRUE(Waits(s, nullptr, [] { Synchronize(Far()); }));
}

// ---- Devices.

TEST(Devices, AreListedWithWhatTheirLibrarySays) {
  Far();
  const std::vector<DeviceInfo> all = Devices();
  ASSERT_EQ(all.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(all[i].device, Far(int(i)));
    EXPECT_EQ(all[i].model, "far");
    EXPECT_EQ(all[i].library, FarPath());
    EXPECT_GE(all[i].total_bytes, all[i].free_bytes);
    EXPECT_GT(all[i].free_bytes, 0u);
    EXPECT_GT(all[i].cores, 0);
  }
  const Array x = Array::Empty({1 << 20}, DType::kF32, Far(1));
  EXPECT_LE(Devices()[1].free_bytes + (1 << 22), all[1].free_bytes);
  EXPECT_EQ(Devices()[0].free_bytes, all[0].free_bytes);
}

TEST(Devices, OfWhichThereAreNoneTellWhy) {
  WatchedFar far;
  far.table.count = [] { return 0; };
  far.table.error_text = [] { return "the driver is not there."; };
  EXPECT_EQ(ErrorOf([] { Device("far:0"); }),
            "there is no device 'far:0': this machine has 0 of them: the driver is not there.");
  EXPECT_EQ(Devices().size(), 0u);
}

TEST(Devices, ThatFailGiveTheirReasonAndACodeOfTheBoundary) {
  WatchedFar far;
  static int given;
  static const char* why;
  far.table.create_stream = [](int32_t, anyop_stream*) { return given; };
  far.table.error_text = [] { return why; };
  const auto code_of = [](int of_library, const char* reason, const char* text) {
    given = of_library, why = reason;
    int code = ANYOP_OK;
    EXPECT_EQ(ErrorOf([] { Stream{Far(1)}; }, &code), text);
    return code;
  };
  EXPECT_EQ(code_of(ANYOP_OUT_OF_MEMORY, "there is no room.", "far:1: there is no room."),
            ANYOP_OUT_OF_MEMORY);
  const char* const no_reason = "far:1: the device's library gives no reason.";
  for (const int wrong : {-1, ANYOP_INTERNAL + 1}) {
    EXPECT_EQ(code_of(wrong, nullptr, no_reason), ANYOP_INTERNAL);
    EXPECT_EQ(code_of(wrong, "", no_reason), ANYOP_INTERNAL);
  }
  far.table.late_error = [](int32_t, anyop_stream, int32_t, char*, std::uint64_t) { return given; };
  for (const int wrong : {-1, ANYOP_INTERNAL + 1}) {
    given = wrong;
    int code = ANYOP_OK;
    EXPECT_NE(ErrorOf([] { Synchronize(Far()); }, &code), "");
    EXPECT_EQ(code, ANYOP_INTERNAL);
  }
  far.table.late_error = far.real.late_error;
}

}  // namespace
}  // namespace anyop::stream_test
