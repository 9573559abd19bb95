// SPDX-License-Identifier: Apache-2.0
// The device library that authors begin with (examples/device), as a program uses it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "anyop/runtime.h"
#include "runtime/registry/registry.h"
#include "runtime/run/call.h"

namespace anyop::toy_device_test {
namespace {

std::string PathOf(const char* library) { return LibraryFolder() + "../tests/" + library; }

class ToyDevice : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    LoadBuiltIn();
    Load(PathOf("libtoy.so"));
  }
};

template <class F>
std::string ErrorOf(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

std::vector<float> Values(const Array& a) {
  const Array here = a.On(Device()).Clone();
  return {here.data<float>(), here.data<float>() + here.size()};
}

// A program that asks for a device first. In a process of its own, since the variable is read once.
TEST(ToyDeviceDeathTest, IsThereOnceTheEnvironmentNamesItsLibrary) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("ANYOP_LOAD", PathOf("libtoy.so").c_str(), 1);
  EXPECT_EXIT(std::exit(Device("toy").name() == "toy:0" ? 0 : 1), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(std::exit(Devices().size() == 1 ? 0 : 1), ::testing::ExitedWithCode(0), "");
  unsetenv("ANYOP_LOAD");
}

TEST_F(ToyDevice, IsFoundByItsName) {
  const std::vector<DeviceInfo> devices = Devices();
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].device.name(), "toy:0");
  EXPECT_EQ(devices[0].model, "a toy");
  EXPECT_EQ(Device("toy"), Device("toy:0"));
  EXPECT_EQ(ErrorOf([] { Device("toy:1"); }),
            "there is no device 'toy:1': this machine has 1 of them.");
  Load(PathOf("libtoy.so"));  // again, which changes nothing
  EXPECT_EQ(Devices().size(), 1u);
}

TEST_F(ToyDevice, RunsItsOwnKernel) {
  const Array x = Array::Full({2, 3}, DType::kF32, 1.5, Device("toy"));
  const Array y = Array::Full({3}, DType::kF32, 2, Device("toy"));
  EXPECT_NE(std::string(Call("add", x, y).explain()).find("toy_rows"), std::string::npos);
  const Array z = Call("add", x, y);
  EXPECT_EQ(z.device(), Device("toy"));
  EXPECT_EQ(Values(z), std::vector<float>(6, 3.5));
}

TEST_F(ToyDevice, RunsTheHostsKernels) {
  const Array x = Array::Full({4, 8}, DType::kF32, 3, Device("toy"));
  EXPECT_EQ(Values(Call("rms_norm", x, Named{"eps", 0.0})), std::vector<float>(32, 1.0f));
}

TEST_F(ToyDevice, KeepsTheOrderOfStreams) {
  const Stream streams[] = {Stream(Device("toy")), Stream(Device("toy"))};
  const Array one = Array::Full({1000}, DType::kF32, 1, Device("toy"));
  // An array is given back on the stream that it was made for, which does not know who else reads.
  std::vector<Array> x = {Array::Zeros({1000}, DType::kF32, Device("toy"))};
  Event last = Stream::Current(Device("toy")).Record();
  for (int i = 0; i < 50; ++i) {
    const StreamScope scope(streams[i % 2]);
    streams[i % 2].Wait(last);
    x.push_back(Call("add", x.back(), one));
    last = streams[i % 2].Record();
  }
  last.Synchronize();
  EXPECT_TRUE(last.is_complete());
  EXPECT_EQ(Values(x.back()), std::vector<float>(1000, 50.0f));
}

TEST_F(ToyDevice, TellsALateErrorOnce) {
  const Stream stream{Device("toy")};
  const StreamScope scope(stream);
  const Array weight = Array::Zeros({4, 2}, DType::kF32, Device("toy"));
  const Array ids = Array::Full({3}, DType::kI64, 9, Device("toy"));
  const Array rows = Call("embedding", ids, weight);
  EXPECT_EQ(
      ErrorOf([&] { stream.Synchronize(); }),
      "embedding: ids[0] is 9, but must be less than 4 (v). This is of earlier work on toy:0, "
      "whose results are not to be used.");
  EXPECT_EQ(ErrorOf([&] { stream.Synchronize(); }), "");
}

// far_test.cc says the same of far.
TEST_F(ToyDevice, TellsALateErrorThatAnEventCarriesOnce) {
  const Stream first{Device("toy")}, second{Device("toy")};
  const Array weight = Array::Zeros({4, 2}, DType::kF32, Device("toy"));
  const Array ids = Array::Full({3}, DType::kI64, 9, Device("toy"));
  Synchronize(Device("toy"));  // they were made on another stream
  Event end;
  {
    const StreamScope scope(first);
    const Array rows = Call("embedding", ids, weight);
    end = first.Record();
    second.Wait(end);
  }
  const Event behind = second.Record();
  while (!behind.is_complete()) std::this_thread::yield();
  const std::string text = "embedding: ids[0] is 9, but must be less than 4 (v).";
  EXPECT_EQ(ErrorOf([&] { end.Synchronize(); }), "toy:0: " + text);
  EXPECT_EQ(ErrorOf([&] { end.Synchronize(); }), "");
  EXPECT_EQ(ErrorOf([&] { first.Synchronize(); }), "");
  EXPECT_EQ(ErrorOf([&] { second.Synchronize(); }),
            text + " This is of earlier work on toy:0, whose results are not to be used.");
  EXPECT_EQ(ErrorOf([&] { behind.Synchronize(); }), "toy:0: " + text);
  EXPECT_EQ(ErrorOf([&] { Synchronize(Device("toy")); }), "");
}

TEST_F(ToyDevice, GivesBackThePlansOfLaunchesBehindALateError) {
  const Stream stream{Device("toy")};
  const StreamScope scope(stream);
  const Array x = Array::Full({4, 8}, DType::kF32, 3, Device("toy"));
  const auto norm = [&] { const Array y = Call("rms_norm", x); };
  norm();
  stream.Synchronize();
  const Plan& plan = *SlotFor(*Find("rms_norm")).last;
  const int before = plan.references;
  const Array weight = Array::Zeros({4, 2}, DType::kF32, Device("toy"));
  const Array ids = Array::Full({3}, DType::kI64, 9, Device("toy"));
  // The stream is busy while the rest is put on it.
  const Array large = Array::Zeros({1 << 24}, DType::kF32, Device("toy"));
  const Array rows = Call("embedding", ids, weight);
  std::string error;
  for (int i = 0; i < 5; ++i) error += ErrorOf(norm);
  const Event end = stream.Record();
  while (!end.is_complete()) std::this_thread::yield();
  EXPECT_EQ(plan.references, before);
  error += ErrorOf([&] { stream.Synchronize(); });
  EXPECT_NE(error.find("ids[0] is 9"), std::string::npos) << error;
}

TEST_F(ToyDevice, ServesManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 20; ++i) {
        const Stream stream{Device("toy")};
        const StreamScope scope(stream);
        const Array x = Array::Full({100}, DType::kF32, t, Device("toy"));
        EXPECT_EQ(Values(Call("add", x, x)), std::vector<float>(100, 2.0f * float(t)));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  Synchronize(Device("toy"));
}

TEST_F(ToyDevice, ExcludesAnotherDeviceWithTensorsOfItsType) {
  EXPECT_EQ(ErrorOf([] { Load(PathOf("anyop_far.so")); }),
            PathOf("anyop_far.so") +
                ": its device 'far' has tensors of DLPack type 12, that 'toy' of " +
                PathOf("libtoy.so") +
                " has already. A process has one of them. Try a process of its own.");
}

}  // namespace
}  // namespace anyop::toy_device_test
