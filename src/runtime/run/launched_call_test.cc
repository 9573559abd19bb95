// SPDX-License-Identifier: Apache-2.0
// Calls of kernels that start their work themselves, as those of CUDA do. Here far is a device with
// such kernels: testing.launched tells what it was given.
#include "runtime/registry/registry.h"
#include "runtime/testing/on_far.h"

namespace anyop::launched_call_test {
namespace {

std::string Show(const void* p) { return std::to_string(reinterpret_cast<std::uintptr_t>(p)); }

constexpr std::uint32_t kFailed = 0;  // what `failed` points to

class LaunchedCall : public ::testing::Test {
 protected:
  LaunchedCall() {
    activated.clear(), checks.clear();
    far.table.activate = [](int32_t number) { return activated.push_back(number), 0; };
    far.table.failed = [](anyop_stream) { return &kFailed; };
    far.table.check_indices = [](anyop_stream s, const anyop_index_check* check) {
      checks.push_back(Show(s) + (check->is_offsets ? " offsets " : " below ") +
                       std::to_string(check->limit) + " of " + Show(check->indices->data) + ": " +
                       check->name + "[1] is 9" + check->must);
      return 0;
    };
  }
  // The plan that a call has depends on this and on the sizes.
  static void Stop(bool stops) { Find("testing.launched")->kernels[0].stops = stops; }
  // What the kernel was given: see testing/devices.cc.
  static std::string Told(const Array& x, const Array& ids) {
    return ErrorOf([&] { Array(Call("testing.launched", x, ids, true)); });
  }
  static inline std::vector<int> activated;
  static inline std::vector<std::string> checks;
  WatchedFar far;
};

TEST_F(LaunchedCall, IsGivenItsStreamItsDeviceAndMemoryThere) {
  for (const int number : {0, 1}) {
    const Stream mine(Far(number));
    const StreamScope scope(mine);
    const Array x = Counting({6}).On(Far(number));
    static std::vector<void*> given;
    given.clear();
    far.table.allocate = [](int32_t n, anyop_stream s, std::uint64_t bytes, void** memory) {
      const int code = WatchedFar::real.allocate(n, s, bytes, memory);
      return given.push_back(*memory), code;
    };
    const std::string told = Told(x, Array());
    ASSERT_EQ(given.size(), 2u);  // the result, and the workspace
    EXPECT_EQ(told, "testing.launched: stream " + Show(mine.native()) + ", device " +
                        std::to_string(number) + ", failed 0, workspace " + Show(given[1]) +
                        ", x " + Show(x.data()) + ", ids 0, y " + Show(given[0]) + ", ran 100");
    EXPECT_EQ(activated, std::vector<int>{number});
    activated.clear();
  }
}

TEST_F(LaunchedCall, IsCountedWhenItIsStarted) {
  const Array x = OnFar(Counting({6}));
  ResetCounters();
  far.waits = 0;
  for (int i = 0; i < 3; ++i) Array(Call("testing.launched", x, Array(), false));
  std::vector<std::string> rows;
  for (const CounterRow& r : Counters()) {
    rows.push_back(r.op + " " + r.kernel + " on " + r.device + ": " + std::to_string(r.calls) +
                   ", " + std::to_string(r.copies));
  }
  EXPECT_EQ(rows, std::vector<std::string>{"testing.launched far_launched on far:0: 3, 0"});
  EXPECT_EQ(far.submits, 0);
  EXPECT_EQ(far.waits, 0);
  EXPECT_EQ(activated, std::vector<int>(3, 0));
}

TEST_F(LaunchedCall, IsNoneWhereNothingIsWritten) {
  const Array x = OnFar(Array::Empty({0}, DType::kF32));
  EXPECT_EQ(Told(x, Array()), "");
  EXPECT_EQ(activated, std::vector<int>());
}

TEST_F(LaunchedCall, OfADeviceThatNeedsNoActivation) {
  const Array x = OnFar(Counting({6}));
  far.table.activate = nullptr, far.table.submit = nullptr;
  EXPECT_TRUE(Told(x, Array()).starts_with("testing.launched: stream "));
}

TEST_F(LaunchedCall, OfAHostsKernelIsATaskAllTheSame) {
  const Array x = OnFar(Counting({6}));
  const Array y = Call("testing.scale", x, 2.0);
  EXPECT_EQ(far.submits, 1);
  EXPECT_EQ(activated, std::vector<int>());
  EXPECT_EQ(FromFar(y), (std::vector<float>{0, 2, 4, 6, 8, 10}));
}

// ---- Indices.

TEST_F(LaunchedCall, LooksAtIndicesThereWhereTheKernelStops) {
  Stop(true);
  const Array x = OnFar(Counting({7})), ids = OnFar(Ints({0, 9}));
  const Stream mine(Far());
  const StreamScope scope(mine);
  Synchronize(Far());
  far.waits = 0;
  const std::string told = Told(x, ids);
  EXPECT_EQ(checks, std::vector<std::string>{
                        Show(mine.native()) + " below 7 of " + Show(ids.data()) +
                        ": testing.launched: ids[1] is 9, but must be less than 7 (n)."});
  EXPECT_NE(told.find(", failed " + Show(&kFailed) + ","), std::string::npos) << told;
  EXPECT_NE(told.find(", ids " + Show(ids.data()) + ","), std::string::npos) << told;
  EXPECT_EQ(far.waits, 0);
  EXPECT_EQ(far.to_host, 0);
}

TEST_F(LaunchedCall, LooksAtIndicesOnTheHostWhereTheKernelOrTheDeviceCannot) {
  const std::string wrong = "testing.launched: ids[1] is 9, but must be less than 8 (n).";
  const Array x = OnFar(Counting({8})), bad = OnFar(Ints({0, 9})), good = OnFar(Ints({0, 7}));
  Stop(false);
  for (int round = 0; round < 2; ++round) {
    far.waits = far.to_host = 0;
    EXPECT_EQ(Told(x, bad), wrong);
    EXPECT_TRUE(Told(x, good).starts_with("testing.launched: stream "));
    EXPECT_EQ(far.waits, 2);
    EXPECT_EQ(far.to_host, 2);
  }
  Stop(true);
  const Array longer = OnFar(Counting({9}));
  const anyop_device all = far.table;
  far.table.failed = nullptr;
  EXPECT_EQ(Told(longer, bad), "testing.launched: ids[1] is 9, but must be less than 9 (n).");
  far.table = all;
  far.table.check_indices = nullptr;
  EXPECT_EQ(Told(longer, bad), "testing.launched: ids[1] is 9, but must be less than 9 (n).");
  EXPECT_EQ(checks.size(), 0u);
}

TEST_F(LaunchedCall, LooksAtNoIndicesThatAreTrusted) {
  Stop(true);
  const Array x = OnFar(Counting({10})), bad = OnFar(Ints({0, 99}));
  far.to_host = 0;
  Scope scope;
  scope.data_checks(DataChecks::kTrusted);
  EXPECT_TRUE(Told(x, bad).starts_with("testing.launched: stream "));
  EXPECT_EQ(checks.size(), 0u);
  EXPECT_EQ(far.to_host, 0);
}

TEST_F(LaunchedCall, LooksAtOffsetsThereAndAtPlannedTensorsHere) {
  Find("testing.launched_bounded")->kernels[0].stops = true;
  const Array x = OnFar(Counting({6})), starts = OnFar(Ints({0, 9, 6}));
  const auto error = [&](const Array& order) {
    return ErrorOf([&] { Array(Call("testing.launched_bounded", x, starts, order)); });
  };
  EXPECT_EQ(error(Ints({0, 2, 6})), "");
  EXPECT_EQ(checks,
            std::vector<std::string>{
                Show(Stream::Current(Far()).native()) + " offsets 6 of " + Show(starts.data()) +
                ": testing.launched_bounded: starts[1] is 9, but must be at most 6 (n)."});
  EXPECT_EQ(error(Ints({0, 2, 7})),
            "testing.launched_bounded: order[2] is 7, but must be at most 6 (n).");
  EXPECT_EQ(checks.size(), 1u);
}

// The device can look at indices, but not at what an operator's own check asks.
TEST_F(LaunchedCall, HasAllDataCheckedOnTheHostWhereAnOperatorHasACheckOfItsOwn) {
  Find("testing.launched_checked")->kernels[0].stops = true;
  const Array x = OnFar(Counting({8})), good = OnFar(Ints({0, 7}));
  const Array bad = OnFar(Ints({0, 9})), five = OnFar(Ints({5, 0}));
  const auto error = [&](const Array& ids) {
    return ErrorOf([&] { Array(Call("testing.launched_checked", ids, x)); });
  };
  far.waits = far.to_host = 0;
  EXPECT_EQ(error(good), "");
  EXPECT_EQ(far.waits, 1);
  EXPECT_EQ(far.to_host, 1);
  EXPECT_EQ(error(bad), "testing.launched_checked: ids[1] is 9, but must be less than 8 (n).");
  EXPECT_EQ(error(five), "testing.launched_checked: ids[0] is 5.");
  EXPECT_EQ(checks.size(), 0u);
}

// ---- Copies by the device.

TEST_F(LaunchedCall, HasTensorsWithGapsCopiedByTheDevice) {
  static std::vector<std::string> asked;
  asked.clear();
  far.table.pack = [](anyop_stream s, const DLTensor* from, void* to) {
    asked.push_back("pack " + Show(s) + " " + Show(from->data) + " + " +
                    std::to_string(from->byte_offset) + " by " + std::to_string(*from->strides));
    const float item = 3;
    return WatchedFar::real.fill(s, to, std::uint64_t(*from->shape), &item, sizeof item);
  };
  far.table.unpack = [](anyop_stream s, const void* from, const DLTensor* to) {
    asked.push_back("unpack " + Show(s) + " by " + std::to_string(*to->strides));
    return WatchedFar::real.copy(s, to->device.device_id, to->data, 0, from, sizeof(float));
  };
  const Array all = OnFar(Counting({4, 4})), out = OnFar(Array::Zeros({4, 2}, DType::kF32));
  std::int64_t n = 4, by = 4, to_by = 2;
  DLTensor x = all.tensor(), y = out.tensor();
  x.ndim = y.ndim = 1, x.shape = y.shape = &n, x.strides = &by, y.strides = &to_by;
  x.byte_offset = 4;
  const std::string stream = Show(Stream::Current(Far()).native());
  far.submits = 0;
  Call("testing.even_or_means", x).into(Array::Wrap(y, {}));
  EXPECT_EQ(asked,
            (std::vector<std::string>{"pack " + stream + " " + Show(all.data()) + " + 4 by 4",
                                      "unpack " + stream + " by 2"}));
  EXPECT_EQ(FromFar(out)[0], 3);
}

TEST_F(LaunchedCall, RefusesTensorsWithGapsThatTheDeviceCannotCopy) {
  far.table.submit = nullptr;
  const Array x = OnFar(Counting({3, 4}));
  const std::string end =
      " on far:0 has strides [1, 4], but the library of far copies contiguous memory alone. Try a "
      "contiguous tensor.";
  EXPECT_EQ(ErrorOf([&] { x.Transpose(0, 1).Clone(); }), "f32[4, 3]" + end);
  const std::string gaps =
      "f32[3] on far:0 with strides [2], but the library of far copies contiguous memory alone. "
      "Try "
      "a contiguous tensor.";
  const Array x1 = Column(OnFar(Counting({3, 2})), 0);
  EXPECT_EQ(Told(x1, Array()), "testing.launched: x is " + gaps);
  Scope scope;
  scope.strict();
  EXPECT_EQ(Told(x1, Array()),
            "testing.launched: x is f32[3] with strides [2] and would be copied, which strict mode "
            "refuses. Try a contiguous tensor.");
}

// Everything between its first element and its last is brought to the host.
TEST_F(LaunchedCall, BringsTensorsWithGapsToTheHostWithoutTheDevicesHelp) {
  far.table.submit = nullptr;
  const Array x = Counting({3, 4});
  const Array far_x = OnFar(x);
  EXPECT_EQ(Values(far_x.Transpose(0, 1).On(Device())), Values(x.Transpose(0, 1).Clone()));
  EXPECT_EQ(Values(far_x.Slice(1, 1, 3).On(Device())), Values(x.Slice(1, 1, 3).Clone()));
}

TEST_F(LaunchedCall, LooksAtTheIndicesOfACompositionToo) {
  Array x = OnFar(Counting({2, 2})), cache = OnFar(Array::Zeros({4, 2}, DType::kF32));
  far.table.submit = nullptr;
  const std::string error = ErrorOf([&] {
    Call("testing.scatter_below", x, OnFar(Ints({0, 9})), cache, 2).into();
  });
  EXPECT_EQ(error.find("testing.scatter: slots[1] is 9"), 0u) << error;
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_NE(
      checks[0].find("testing.scatter_below: slots[1] is 9, but must be less than 2 (k, k is 2)."),
      std::string::npos)
      << checks[0];
}

// ---- Features.

TEST(Features, OfADeviceDecideOnItsKernels) {
  WatchedFar far;
  const auto kernel = [](std::int64_t n) {
    return FromFar(Call("testing.featured", OnFar(Array::Zeros({n}, DType::kF32))))[0];
  };
  EXPECT_EQ(kernel(1), 2);
  EXPECT_NE(Call("testing.featured", OnFar(Counting({1})))
                .explain()
                .find("far_fast: declined: far has no fast"),
            std::string::npos);
  static const char* features;
  far.table.properties = [](int32_t number, anyop_device_properties* to) {
    const int code = WatchedFar::real.properties(number, to);
    return to->features = number == 0 ? features : "", code;
  };
  features = "slow , fast , other";
  EXPECT_EQ(kernel(2), 1);
  features = "slow,faster";
  EXPECT_EQ(kernel(3), 2);
  features = nullptr;
  EXPECT_EQ(kernel(4), 2);
  features = "fast";
  const Array other = Array::Zeros({5}, DType::kF32, Far(1));
  EXPECT_EQ(FromFar(Call("testing.featured", other)), std::vector<float>{2});
}

// testing.featured says which kernel ran: 1 for far's own, 2 for the host's.
TEST(Policy, ThatPinsAKernelIsAboutTheDevicesThatRunIt) {
  WatchedFar far;
  far.table.properties = [](int32_t number, anyop_device_properties* to) {
    const int code = WatchedFar::real.properties(number, to);
    return to->features = "fast", code;
  };
  const Array x = Array::Zeros({11}, DType::kF32), y = OnFar(x);
  using Kernels = std::vector<float>;
  const auto ran = [&](const char* text) {
    Scope scope;
    scope.policy(text);
    const Array on_host = Call("testing.featured", x);
    return Kernels{FromFar(Call("testing.featured", y))[0], Values(on_host)[0]};
  };
  EXPECT_EQ(ran(""), (Kernels{1, 2}));
  EXPECT_EQ(ran("testing.featured=far_fast"), (Kernels{1, 2}));
  EXPECT_EQ(ran("testing.featured=cpu_f32"), (Kernels{2, 2}));
  EXPECT_EQ(ran("testing.featured=cpu_f32,testing.featured=far"), (Kernels{1, 2}));
  Scope outer;
  outer.policy("testing.featured=far_fast");
  EXPECT_EQ(ran("testing.featured=cpu_f32"), (Kernels{1, 2}));
}

}  // namespace
}  // namespace anyop::launched_call_test
