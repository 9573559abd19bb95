// SPDX-License-Identifier: Apache-2.0
// Calls on the far device (devices/far), whose memory the host cannot touch and whose work is late.
#include "runtime/device/device.h"

#include <chrono>
#include <string>
#include <thread>

#include "runtime/testing/on_far.h"

namespace anyop::device_test {
namespace {

TEST(Device, HasANameOnceItsLibraryIsLoaded) {
  EXPECT_EQ(Far(1).name(), "far:1");
  EXPECT_FALSE(Far().is_host());
  EXPECT_EQ(Device("cpu"), Device());
  EXPECT_EQ(ErrorOf([] { Device("nowhere:0"); }),
            "there is no device 'nowhere:0', but cpu, far. Try anyop.load of the device's library "
            "first.");
  EXPECT_EQ(ErrorOf([] { Device("far:7"); }),
            "there is no device 'far:7': this machine has 2 of them.");
  EXPECT_EQ(ErrorOf([] { Device("far:x"); }),
            "'far:x' names no device, which is a word and a number: 'far:0'.");
}

TEST(Device, BringsMemoryThereAndBack) {
  const Array x = Counting({3, 4});
  EXPECT_EQ(FromFar(OnFar(x)), Values(x));
  EXPECT_EQ(FromFar(OnFar(x.Transpose(0, 1))), Values(x.Transpose(0, 1)));
  EXPECT_EQ(FromFar(OnFar(x).Transpose(0, 1)), Values(x.Transpose(0, 1)));
  EXPECT_EQ(FromFar(OnFar(x).Slice(1, 1, 3).Clone()), Values(x.Slice(1, 1, 3)));
  EXPECT_EQ(FromFar(Array::Full({5}, DType::kF32, 2.5, Far())), std::vector<float>(5, 2.5f));
  EXPECT_EQ(FromFar(OnFar(Array::Empty({0, 4}, DType::kF32))), std::vector<float>());
  EXPECT_EQ(Values(OnFar(x).On(Far(1)).On(Device())), Values(x));
}

TEST(Device, RunsAKernelThere) {
  const Array x = Counting({2, 16}), y = Counting({2, 16});
  const Array z = Call("testing.axpy", 2.0, OnFar(x), OnFar(y));
  EXPECT_EQ(z.device(), Far());
  EXPECT_EQ(FromFar(z), Values(Array(Call("testing.axpy", 2.0, x, y))));
}

TEST(Device, RunsALongChainWithoutWaiting) {
  const Array one = OnFar(Array::Full({100}, DType::kF32, 1));
  Array x = OnFar(Array::Zeros({100}, DType::kF32));
  for (int i = 0; i < 200; ++i) x = Call("testing.axpy", 1.0, one, x);
  EXPECT_EQ(FromFar(x), std::vector<float>(100, 200));
}

TEST(Device, GivesKernelsTheirWorkspaceInTheOrderOfTheStream) {
  const Array x = Counting({4, 512});
  const Array wanted = Call("testing.whole", x.Reshape({2048}));
  std::vector<Array> results;
  for (int i = 0; i < 50; ++i) results.push_back(Call("testing.whole", OnFar(x.Reshape({2048}))));
  for (const Array& r : results) EXPECT_EQ(FromFar(r), Values(wanted));
}

TEST(Device, TakesListsWordsAndDeclinedResults) {
  const std::vector<Array> parts = {OnFar(Counting({3})), OnFar(Counting({3}))};
  EXPECT_EQ(FromFar(Call("testing.concat", parts)), (std::vector<float>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(FromFar(Call("testing.pick", OnFar(Counting({3})), "last")), std::vector<float>{2});
  Array high = Array::Empty({1}, DType::kF32, Far());
  Call("testing.extremes", OnFar(Counting({3}))).into(Array(), high);
  EXPECT_EQ(FromFar(high), std::vector<float>{2});
}

TEST(Device, CopiesWhatNoKernelTakesAsItLies) {
  const Array x = Counting({3, 4});
  const Array strided = OnFar(x).Transpose(0, 1);
  EXPECT_EQ(FromFar(Call("testing.scale", strided, 2.0)),
            Values(Array(Call("testing.scale", x.Transpose(0, 1), 2.0))));
  Array out = Array::Zeros({3, 4}, DType::kF32, Far());
  Call("testing.scale", strided, 2.0).into(out.Transpose(0, 1));
  EXPECT_EQ(FromFar(out), Values(Array(Call("testing.scale", x, 2.0))));
  const Array halves = OnFar(Counting({2, 2}));
  const std::vector<Array> parts = {Column(halves, 0), Column(halves, 1), Column(halves, 0)};
  ResetCounters();
  EXPECT_EQ(FromFar(Call("testing.concat", parts)), (std::vector<float>{0, 2, 1, 3, 0, 2}));
  EXPECT_EQ(CountersFor("testing.concat", "cpu_f32").copies, 3u);
  Scope scope;
  scope.strict();
  EXPECT_EQ(ErrorOf([&] { Array(Call("testing.scale", strided, 2.0)); }),
            "testing.scale: x is f32[4, 3] with strides [1, 4] and would be copied, which strict "
            "mode refuses. Try a contiguous tensor.");
}

TEST(Device, RunsACompositionPartByPart) {
  const Array x = Counting({2, 4}), r = Counting({2, 4});
  const std::vector<Array> wanted = Call("testing.scaled_sum", x, r, 3.0);
  const std::vector<Array> got = Call("testing.scaled_sum", OnFar(x), OnFar(r), 3.0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(FromFar(got[i]), Values(wanted[i]));
}

TEST(Device, RefusesTensorsOfTwoPlaces) {
  const Array x = Counting({4});
  EXPECT_EQ(ErrorOf([&] { Array(Call("testing.axpy", 1.0, OnFar(x), x)); }),
            "testing.axpy: y is on cpu, but x is on far:0. Try a copy on the same device.");
  EXPECT_EQ(ErrorOf([&] { Array(Call("testing.axpy", 1.0, OnFar(x), x.On(Far(1)))); }),
            "testing.axpy: y is on far:1, but x is on far:0. Try a copy on the same device.");
  const std::vector<Array> parts = {OnFar(x), x.On(Far(1))};
  EXPECT_EQ(
      ErrorOf([&] { Array(Call("testing.concat", parts)); }),
      "testing.concat: parts[1] is on far:1, but parts[0] is on far:0. Try a copy on the same "
      "device.");
  DLTensor elsewhere = x.tensor();
  elsewhere.device = {7, 0};
  EXPECT_EQ(ErrorOf([&] { Array(Call("testing.scale", elsewhere, 1.0)); }),
            "testing.scale: x is on device type 7, but no loaded library has this device. Try "
            "anyop.load of the device's library, or a copy on the CPU.");
}

// ---- What is found late.

Array Scatter(const Array& slots) {
  const Array cache = OnFar(Array::Zeros({4, 2}, DType::kF32));
  Call("testing.scatter", OnFar(Counting({2, 2})), OnFar(slots), cache).into();
  return cache;
}
const char* const kLate =
    "testing.scatter: slots[1] is 4, but must be less than 4 (s). This is of earlier work on "
    "far:0, whose results are not to be used.";

TEST(Device, LooksAtIndicesThereAndTellsOnce) {
  Array cache;
  EXPECT_EQ(ErrorOf([&] { cache = Scatter(Ints({0, 4})); }), "");  // it is only on its way
  EXPECT_EQ(ErrorOf([&] { cache.On(Device()); }), kLate);
  EXPECT_EQ(FromFar(cache), std::vector<float>(8, 0));  // nothing was written
  EXPECT_EQ(ErrorOf([] { Synchronize(Far()); }), "");
  EXPECT_EQ(FromFar(Scatter(Ints({0, 3}))), (std::vector<float>{0, 1, 0, 0, 0, 0, 2, 3}));
}

TEST(Device, TellsTheNextCallOfALateError) {
  const Array x = OnFar(Counting({4}));
  Array cache = Scatter(Ints({0, 4}));
  std::string error;
  for (int i = 0; i < 2000 && error.empty(); ++i) {
    error = ErrorOf([&] { Array(Call("testing.scale", x, 1.0)); });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(error, kLate);
  EXPECT_EQ(FromFar(Call("testing.scale", x, 2.0)), (std::vector<float>{0, 2, 4, 6}));
}

TEST(Device, LooksAtIndicesOnTheHostInStrictMode) {
  Scope scope;
  scope.strict();
  int code = 0;
  EXPECT_EQ(ErrorOf(
                [] {
                  Scatter(Ints({0, 4}));
                },
                &code),
            "testing.scatter: slots[1] is 4, but must be less than 4 (s).");
  EXPECT_EQ(code, ANYOP_INVALID_ARGUMENT);
  EXPECT_EQ(FromFar(Scatter(Ints({0, 3}))), (std::vector<float>{0, 1, 0, 0, 0, 0, 2, 3}));
}

TEST(Device, RunsAnOperatorsOwnCheckThereOrOnTheHost) {
  const Array bad = OnFar(Floats({2}, {1, -1}));
  Array y = Call("testing.not_negative", bad);
  EXPECT_NE(ErrorOf([&] { y.On(Device()); }).find("testing.not_negative: "), std::string::npos);
  Scope scope;
  scope.data_checks(DataChecks::kOnHost);
  EXPECT_NE(ErrorOf([&] { y = Call("testing.not_negative", bad); }), "");
  scope.data_checks(DataChecks::kTrusted);
  y = Call("testing.not_negative", bad);
  EXPECT_EQ(FromFar(y), (std::vector<float>{1, -1}));
}

TEST(Device, SaysLateWhatAKernelReports) {
  const Array y = Array::Zeros({1}, DType::kF32, Far());
  Call("testing.throwing", 1).into(y);  // a result says where a call without tensors runs
  const std::string error = ErrorOf([&] { y.On(Device()); });
  EXPECT_TRUE(error.starts_with("testing.throwing: ")) << error;
  EXPECT_NE(error.find("This is of earlier work on far:0"), std::string::npos) << error;
}

// ---- Streams.

TEST(Device, OrdersTwoStreamsByAnEvent) {
  const Stream a(Far()), b(Far());
  for (int round = 0; round < 20; ++round) {
    Array x, y;
    {
      const StreamScope on_a(a);
      x = OnFar(Array::Full({64}, DType::kF32, 1));
      for (int i = 0; i < 5; ++i) x = Call("testing.axpy", 1.0, x, x);
    }
    b.Wait(a.Record());
    const StreamScope on_b(b);
    y = Call("testing.scale", x, 2.0);
    EXPECT_EQ(FromFar(y), std::vector<float>(64, 64));
  }
}

TEST(Device, KeepsAStreamThatMemoryStillNeeds) {
  Array x;
  {
    const Stream s(Far());
    const StreamScope scope(s);
    x = OnFar(Counting({8}));
  }
  EXPECT_EQ(FromFar(Call("testing.scale", x, 1.0)), Values(Counting({8})));
}

TEST(Device, ServesThreadsWithStreamsOfTheirOwn) {
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> results(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &results] {
      const Stream mine(Far());
      const StreamScope scope(mine);
      Array x = OnFar(Array::Full({32}, DType::kF32, float(t)));
      for (int i = 0; i < 50; ++i) x = Call("testing.axpy", 0.0, x, x);
      results[std::size_t(t)] = FromFar(x);
    });
  }
  for (std::thread& t : threads) t.join();
  for (int t = 0; t < 4; ++t) EXPECT_EQ(results[std::size_t(t)], std::vector<float>(32, float(t)));
}

// ---- What no kernel of the device takes.

TEST(Device, NamesTheDeviceOfKernelsThatAreNotItsOwn) {
  Call("testing.scale", Counting({4}), 1.0).explain();
  const std::string text = Call("testing.scale", OnFar(Counting({4})), 1.0).explain();
  EXPECT_NE(text.find("cpu_f32: taken"), std::string::npos) << text;  // far runs the host's kernels
}

}  // namespace
}  // namespace anyop::device_test
