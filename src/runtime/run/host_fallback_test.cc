// SPDX-License-Identifier: Apache-2.0
// Calls that no kernel of their device takes, on copies on the host. Here far runs no kernels of
// the host, so that all calls are such calls.
#include "runtime/run/device_copy.h"
#include "runtime/testing/on_far.h"

namespace anyop::host_fallback_test {
namespace {

class HostFallback : public ::testing::Test {
 protected:
  HostFallback() {
    far.runs = {"far"};
    scope.fallback_to_host();
    ResetCounters();
  }
  // What was counted for the operator, as "<kernel> on <device>: <calls>, <fallbacks>, <copies>".
  static std::vector<std::string> Counted(const std::string& op) {
    std::vector<std::string> rows;
    for (const CounterRow& r : Counters()) {
      if (r.op != op) continue;
      rows.push_back(r.kernel + " on " + r.device + ": " + std::to_string(r.calls) + ", " +
                     std::to_string(r.fallbacks) + ", " + std::to_string(r.copies));
    }
    return rows;
  }
  // Tensors that were brought to the host and back, and how often the host waited, since `far` or
  // the last time.
  struct Traffic {
    int to_host, to_device, waits;
    bool operator==(const Traffic&) const = default;
  };
  Traffic Brought() {
    return {std::exchange(far.to_host, 0), std::exchange(far.to_device, 0),
            std::exchange(far.waits, 0)};
  }
  template <class T>
  static std::vector<T> Read(const Array& a) {
    const Array here = a.On(Device());
    return {here.data<T>(), here.data<T>() + here.size()};
  }

  WatchedFar far;
  Scope scope;
};

TEST_F(HostFallback, GivesWhatTheHostGives) {
  const Array x = Counting({2, 3}), y = Array::Full({2, 3}, DType::kF32, 0.5);
  const Array far_x = OnFar(x), far_y = OnFar(y);
  Brought();
  const Array z = Call("testing.axpy", 2.0, far_x, far_y);
  EXPECT_EQ(Brought(), (Traffic{2, 1, 2}));  // one wait for both arguments, one for the result
  EXPECT_EQ(z.device(), Far());
  EXPECT_EQ(FromFar(z), Values(Array(Call("testing.axpy", 2.0, x, y))));
}

TEST_F(HostFallback, IsRefusedWhereItIsNotAskedForOrNothingMayBeSlow) {
  const Array x = OnFar(Counting({4}));
  EXPECT_EQ(FromFar(Call("testing.scale", x, 1.0)), Values(Counting({4})));
  scope.fallback_to_host(false);
  int code = ANYOP_OK;
  EXPECT_NE(
      ErrorOf([&] { Array(Call("testing.scale", x, 2.0)); }, &code)
          .find("\n  cpu_f32: declined: for device cpu\nIt is on far:0. Try "
                "anyop.fallback(\"cpu\"), in C++ Scope().fallback_to_host(), which runs it on "
                "the CPU, on copies."),
      std::string::npos);
  EXPECT_EQ(code, ANYOP_UNSUPPORTED);
  scope.fallback_to_host().strict();
  EXPECT_TRUE(ErrorOf([&] {
                Array(Call("testing.scale", x, 2.0));
              }).ends_with("\nstrict mode refuses copies to the host."));
}

TEST_F(HostFallback, IsNotTheCompositionOnTheHostWhereOnlyADeviceHasKernels) {
  scope.strict();
  EXPECT_EQ(Values(Array(Call("testing.far_or_means", Counting({4})))), Values(Counting({4})));
  EXPECT_EQ(Counted("testing.far_or_means"), (std::vector<std::string>{"means on cpu: 1, 0, 0"}));
}

TEST_F(HostFallback, IsCountedAsOneOfTheDeviceAndItsKernelAsOneOfTheHost) {
  const Array x = OnFar(Counting({4})), y = OnFar(Counting({4}));
  for (int i = 0; i < 2; ++i) Array(Call("testing.axpy", 1.0, x, y));
  EXPECT_EQ(Counted("testing.axpy"),
            (std::vector<std::string>{"cpu_f32 on cpu: 2, 0, 0", "means on far:0: 0, 2, 6"}));
}

TEST_F(HostFallback, OfACompositionGoesPartByPart) {
  const Array x = Counting({5});
  const Array far_x = OnFar(x);
  EXPECT_EQ(FromFar(Call("testing.even_or_means", far_x)), Values(x));
  EXPECT_EQ(Counted("testing.even_or_means"), std::vector<std::string>{"means on far:0: 1, 0, 0"});
  EXPECT_EQ(Counted("testing.scale"),
            (std::vector<std::string>{"cpu_f32 on cpu: 1, 0, 0", "means on far:0: 0, 1, 2"}));
}

TEST_F(HostFallback, WritesWhatItMayWriteAndNothingElse) {
  const Array x = OnFar(Counting({4})), into = OnFar(Array::Full({4}, DType::kF32, 10));
  Brought();
  Call("testing.accumulate", x, into).into();
  EXPECT_EQ(Brought(), (Traffic{2, 1, 2}));
  EXPECT_EQ(FromFar(into), (std::vector<float>{10, 11, 12, 13}));
  EXPECT_EQ(FromFar(x), (std::vector<float>{0, 1, 2, 3}));
}

TEST_F(HostFallback, LeavesWhatLiesBetweenTheRowsThatItWrites) {
  const Array cache = OnFar(Array::Full({4, 3}, DType::kF32, 9));
  const Array rows = OnFar(Counting({2, 2})), slots = OnFar(Ints({3, 0}));
  Call("testing.scatter", rows, slots, cache.Slice(1, 1, 3)).into();
  EXPECT_EQ(FromFar(cache), (std::vector<float>{9, 2, 3, 9, 9, 9, 9, 9, 9, 9, 0, 1}));
}

TEST_F(HostFallback, TakesAndGivesTensorsThatAreNotContiguous) {
  const Array x = Counting({3, 4}), out = OnFar(Array::Zeros({3, 4}, DType::kF32));
  Call("testing.scale", OnFar(x).Transpose(0, 1), 2.0).into(out.Transpose(0, 1));
  EXPECT_EQ(FromFar(out), Values(Array(Call("testing.scale", x, 2.0))));
  const Array wide = OnFar(Counting({2, 6}));
  EXPECT_EQ(FromFar(Call("testing.flatten", wide.Slice(1, 1, 3))),
            (std::vector<float>{1, 2, 7, 8}));
}

TEST_F(HostFallback, BringsAnArgumentThatIsGivenTwiceOnce) {
  const Array x = OnFar(Counting({4}));
  Brought();
  const Array y = Call("testing.axpy", 1.0, x, x);
  EXPECT_EQ(Brought(), (Traffic{1, 1, 2}));
  EXPECT_EQ(FromFar(y), (std::vector<float>{0, 2, 4, 6}));
}

TEST_F(HostFallback, GivesAResultThatLiesOnAnArgument) {
  const Array x = OnFar(Counting({4}));
  Brought();
  Call("testing.scale", x, 2.0).into(x);
  EXPECT_EQ(Brought(), (Traffic{1, 1, 2}));
  EXPECT_EQ(FromFar(x), (std::vector<float>{0, 2, 4, 6}));
  EXPECT_EQ(Counted("testing.scale")[1], "means on far:0: 0, 1, 1");
}

TEST_F(HostFallback, TellsTwoDTypesOfOneMemoryApart) {
  const Array x = OnFar(Floats({2}, {1, 2}));
  DLTensor bits = x.tensor();
  bits.dtype = ToDL(DType::kI32);
  const Array z = Call("testing.add_bits", x, bits);
  EXPECT_EQ(Read<std::int32_t>(z), (std::vector<std::int32_t>{0x3f800001, 0x40000002}));
}

TEST_F(HostFallback, TakesLists) {
  const Array a = OnFar(Counting({3})), b = OnFar(Floats({3}, {7, 8, 9}));
  Brought();
  const Array y = Call("testing.concat", std::vector<Array>{a, b, a});
  EXPECT_EQ(Brought(), (Traffic{2, 1, 2}));
  EXPECT_EQ(FromFar(y), (std::vector<float>{0, 1, 2, 7, 8, 9, 0, 1, 2}));
}

TEST_F(HostFallback, TakesPlannedTensorsAsTheyAre) {
  const Array x = OnFar(Counting({6})), starts = Ints({0, 2, 6});
  Brought();
  EXPECT_EQ(FromFar(Call("testing.planned_sum", x, starts)), (std::vector<float>{1, 14}));
  EXPECT_EQ(Brought(), (Traffic{2, 1, 3}));  // x, and what the test itself reads
}

TEST_F(HostFallback, TakesWhatIsEmptyAndWhatIsDeclined) {
  const Array x = OnFar(Counting({8})), at = OnFar(Ints({6})), by = OnFar(Ints({1}));
  const Array nothing = OnFar(Array::Empty({0}, DType::kF32));
  EXPECT_EQ(FromFar(Call("testing.picked", x, at, by, nothing)), std::vector<float>{7});
  EXPECT_EQ(FromFar(Call("testing.picked", x, at, by, Array())), std::vector<float>{7});
  const Array high = OnFar(Array::Zeros({1}, DType::kF32));
  Call("testing.extremes", x).into(Array(), high);
  EXPECT_EQ(FromFar(high), std::vector<float>{7});
  EXPECT_EQ(FromFar(Call("testing.scale", nothing, 2.0)), std::vector<float>());
}

TEST_F(HostFallback, LooksAtIndicesAsTheHostDoes) {
  const Array cache = OnFar(Array::Zeros({4, 2}, DType::kF32)), rows = OnFar(Counting({2, 2}));
  const auto scatter = [&](const Array& slots) {
    return ErrorOf([&] { Call("testing.scatter", rows, slots, cache).into(); });
  };
  EXPECT_EQ(scatter(OnFar(Ints({0, 4}))),
            "testing.scatter: slots[1] is 4, but must be less than 4 (s).");
  EXPECT_EQ(FromFar(cache), std::vector<float>(8, 0));
  EXPECT_EQ(scatter(OnFar(Ints({0, 3}))), "");
  EXPECT_EQ(FromFar(cache), (std::vector<float>{0, 1, 0, 0, 0, 0, 2, 3}));
}

TEST_F(HostFallback, IsInTheOrderOfTheCurrentStream) {
  const Stream mine(Far()), other = Stream::Current(Far());
  const StreamScope scope(mine);
  const Array x = OnFar(Counting({4}));
  Held held(other);  // which is not waited for
  Array y = Array::Full({4}, DType::kF32, 5, Far());
  Call("testing.accumulate", x, y).into();
  EXPECT_EQ(FromFar(y), (std::vector<float>{5, 6, 7, 8}));
}

// What the device cannot do is known before anything is written.
TEST_F(HostFallback, IsRefusedWhereAResultHasGapsThatTheDeviceCannotFill) {
  const Array x = OnFar(Counting({3})), y = OnFar(Counting({3}));
  const Array z = OnFar(Array::Zeros({3, 2}, DType::kF32));
  far.table.submit = nullptr;
  Brought();
  EXPECT_EQ(ErrorOf([&] { Call("testing.axpy", 1.0, x, y).into(Column(z, 0)); }),
            "testing.axpy: z is f32[3] on far:0 with strides [2], but the library of far copies "
            "contiguous memory alone. Try a contiguous tensor.");
  EXPECT_EQ(Brought(), (Traffic{0, 0, 0}));
}

// Else a call would be refused because the device has a kernel for it.
TEST_F(HostFallback, TakesGapsThatTheDeviceCannotCopyForAKernelOfItsOwn) {
  const Array x = Counting({7, 5}), y = OnFar(x);
  far.runs = {"far", "cpu"};
  far.table.submit = nullptr;
  far.table.pack = nullptr;
  EXPECT_EQ(FromFar(Call("testing.axpy", 1.0, y.Transpose(0, 1), y.Transpose(0, 1))),
            Values(Call("testing.axpy", 1.0, x.Transpose(0, 1), x.Transpose(0, 1))));
  scope.fallback_to_host(false);
  EXPECT_NE(ErrorOf([&] { (void)Call("testing.axpy", 1.0, y.Transpose(0, 1), y).run(); }), "");
}

// The host's memory is read until the copy is done.
TEST_F(HostFallback, WaitsForTheCopyToTheDeviceThatCannotBeFinished) {
  const Array z = OnFar(Array::Zeros({3, 2}, DType::kF32)).Slice(1, 0, 1);
  far.table.unpack = [](anyop_stream, const void*, const DLTensor*) { return int(ANYOP_INTERNAL); };
  const float values[] = {1, 2, 3};
  Brought();
  EXPECT_NE(ErrorOf([&] { CopyFromHost(values, z.tensor()); }), "");
  EXPECT_EQ(Brought(), (Traffic{0, 1, 1}));
}

TEST_F(HostFallback, IsNotTheCompositionOfAnOperatorThatHasNoKernelForTheDevice) {
  far.runs = {"far"};
  scope.fallback_to_host(false).strict();
  EXPECT_EQ(FromFar(Call("testing.host_or_means", OnFar(Counting({4})))), Values(Counting({4})));
  EXPECT_EQ(Counted("testing.host_or_means"),
            (std::vector<std::string>{"means on far:0: 1, 0, 0"}));
}

TEST_F(HostFallback, IsToldByExplain) {
  EXPECT_NE(Call("testing.axpy", 1.0, OnFar(Counting({4})), OnFar(Counting({4})))
                .explain()
                .find("runs on the CPU, on copies: no kernel of far:0 takes the call."),
            std::string::npos);
}

TEST_F(HostFallback, WaitsForTheCopiesUnderWayBeforeItFails) {
  const Stream stream = Stream::Current(Far());
  const Array x = OnFar(Counting({1000})), y = OnFar(Counting({1000}));
  static Held* held;
  Held until_the_host_waits(stream);
  held = &until_the_host_waits;
  Brought();
  far.table.copy = [](anyop_stream s, int32_t to, void* goal, int32_t from, const void* source,
                      std::uint64_t bytes) -> int {
    if (to == ANYOP_AT_HOST && ++WatchedFar::to_host == 2) return ANYOP_INTERNAL;
    return WatchedFar::real.copy(s, to, goal, from, source, bytes);
  };
  far.table.synchronize = [](int32_t number, anyop_stream s) {
    held->LetGo();
    return ++WatchedFar::waits, WatchedFar::real.synchronize(number, s);
  };
  EXPECT_NE(ErrorOf([&] { Array(Call("testing.axpy", 1.0, x, y)); }), "");
  EXPECT_EQ(far.waits, 1);  // else the first copy would come to memory that is gone
}

}  // namespace
}  // namespace anyop::host_fallback_test
