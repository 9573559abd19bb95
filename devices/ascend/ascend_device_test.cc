// SPDX-License-Identifier: Apache-2.0
// The virtual NPU: what it adds to what every virtual device does (devices/far/far_test.cc), and
// programs on it.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "anyop/device.h"
#include "anyop/graph.h"
#include "anyop/runtime.h"

namespace anyop::ascend_device_test {
namespace {

std::string Path() {  // in the folder of libraries beside that of the test programs
  std::array<char, 4096> program{};
  const ssize_t n = readlink("/proc/self/exe", program.data(), program.size());
  const std::string path(program.data(), std::size_t(n));
  return path.substr(0, path.rfind('/')) + "/../lib/anyop_ascend_device.so";
}

const anyop_device& Table() {
  static const anyop_device* const table = [] {
    setenv("ANYOP_ASCEND_MEMORY_BYTES", "67108864", 0);
    void* const library = dlopen(Path().c_str(), RTLD_NOW);
    if (!library) throw std::runtime_error(dlerror());
    return reinterpret_cast<anyop_device_library_fn>(dlsym(library, "anyop_device_library"))()
        ->device;
  }();
  return *table;
}
void Must(int code) { ASSERT_EQ(code, ANYOP_OK) << Table().error_text(); }

anyop_device_properties Properties(int device) {
  anyop_device_properties p = {};
  p.size = sizeof p;
  Must(Table().properties(device, &p));
  return p;
}

template <class F>
std::string ErrorOf(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// ---- The table.

char* Allocate(std::uint64_t bytes) {
  void* memory = nullptr;
  Must(Table().allocate(0, Table().default_stream(0), bytes, &memory));
  return static_cast<char*>(memory);
}
void ReleaseAndWait(void* memory) {
  Must(Table().release(0, Table().default_stream(0), memory));
  Must(Table().synchronize(0, nullptr));
}

// Reads or writes `bytes` bytes from `at` on, on the device.
struct Touch {
  char* at;
  std::uint64_t bytes;
  const char* write;   // null: reads
  std::uint64_t* sum;  // of what is read
};
void RunTouch(const Touch& touch) {
  const auto task = [](void* block, char*, std::uint64_t) {
    const Touch& t = *static_cast<Touch*>(block);
    for (std::uint64_t i = 0; i < t.bytes; ++i) {
      if (t.write) t.at[i] = *t.write;
      if (t.sum) *t.sum += std::uint8_t(t.at[i]);
    }
    return int{ANYOP_OK};
  };
  const std::uint32_t addresses[] = {0};
  const anyop_launch launch = {sizeof launch, 1,        "touch in cpu_test", task, &touch,
                               sizeof touch,  addresses};
  Must(Table().submit(Table().default_stream(0), &launch));
  Must(Table().synchronize(0, nullptr));
}

TEST(AscendDevice, LooksLikeACard) {
  const anyop_device& t = Table();
  EXPECT_STREQ(t.word, "ascend");
  EXPECT_EQ(t.dlpack_type, 12);
  EXPECT_STREQ(t.runs, "cpu");
  EXPECT_EQ(t.count(), 2);
  const anyop_device_properties p = Properties(1);
  EXPECT_STREQ(p.name, "Ascend 910B (virtual)");
  EXPECT_EQ(p.cores, 40);
  EXPECT_EQ(p.total_bytes, 67108864u);
  EXPECT_STREQ(p.features, "");
}

TEST(AscendDevice, LetsItsCodeReadBehindAnAllocation) {
  for (const std::uint64_t bytes : {1, 20, 64, 4096, 4096 - 64}) {
    char* const x = Allocate(bytes);
    std::uint64_t sum = 0;
    RunTouch({x, bytes + 64, nullptr, &sum});
    EXPECT_EQ(sum, 255 * (bytes + 64));  // fresh memory, and what is behind it
    ReleaseAndWait(x);
  }
}

TEST(AscendDevice, RefusesCopiesOfWhatLiesBehind) {
  char* const x = Allocate(64);
  char here[65] = {};
  EXPECT_EQ(Table().copy(Table().default_stream(0), ANYOP_AT_HOST, here, 0, x, 65),
            ANYOP_INVALID_ARGUMENT);
  EXPECT_TRUE(
      std::string(Table().error_text()).ends_with(" has 64 bytes behind it, but must have 65."));
  ReleaseAndWait(x);
}

class AscendDeviceDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(AscendDeviceDeathTest, KeepsTheHostFromItsMemory) {
  EXPECT_DEATH(*static_cast<volatile char*>(Allocate(64)) = 1,
               "ascend:0: the host touched device memory at offset 0x[0-9a-f]+");
}

void WriteTo(std::uint64_t end) {
  char* const x = Allocate(64);
  const char one = 1;
  RunTouch({x, end, &one, nullptr});
  ReleaseAndWait(x);
}

TEST_F(AscendDeviceDeathTest, FindsWritesBehindAnAllocation) {
  WriteTo(64);
  EXPECT_DEATH(WriteTo(65),
               "ascend:0: something was written behind the memory at offset 0x[0-9a-f]+ \\(64 b");
  EXPECT_DEATH(WriteTo(129), "ascend:0: a kernel touched memory that is not allocated at offset");
}

// ---- The environment. Each in a process of its own, since it is read once.

void Say(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  std::_Exit(0);
}

void TellProperties(const char* variable, const char* value) {
  setenv(variable, value, 1);
  const anyop_device_properties p = Properties(Table().count() - 1);
  Say(std::to_string(Table().count()) + " " + p.name + " " + std::to_string(p.cores) + " " +
      std::to_string(p.total_bytes));
}

TEST_F(AscendDeviceDeathTest, TakesItsSizeFromTheEnvironment) {
  const auto told = [](const char* variable, const char* value, const char* regex) {
    EXPECT_EXIT(TellProperties(variable, value), ::testing::ExitedWithCode(0), regex);
  };
  told("ANYOP_ASCEND_SOC", "ascend310p", "^2 Ascend 310P \\(virtual\\) 8 67108864");
  told("ANYOP_ASCEND_SOC", "ascend910_93", "^2 Ascend 910_93 \\(virtual\\) 48 ");
  told("ANYOP_ASCEND_DEVICES", "16", "^16 Ascend 910B ");
  told("ANYOP_ASCEND_DEVICES", "1", "^1 Ascend 910B ");
  told("ANYOP_ASCEND_MEMORY_BYTES", "1048576", "^2 .* 1048576");
}

// Half of 500 pieces of work wait 50 us on average.
void TimeWork() {
  setenv("ANYOP_ASCEND", "delay", 1);
  const auto begin = std::chrono::steady_clock::now();
  char* const x = Allocate(64);
  const char item = 1;
  for (int i = 0; i < 500; ++i) Must(Table().fill(Table().default_stream(0), x, 64, &item, 1));
  ReleaseAndWait(x);
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
  Say(spent.count() > 9 ? "late" : "took " + std::to_string(spent.count()) + " ms");
}

TEST_F(AscendDeviceDeathTest, BeginsItsWorkLateWhereTheEnvironmentSaysSo) {
  EXPECT_EXIT(TimeWork(), ::testing::ExitedWithCode(0), "^late");
}

void TellWhyThereIsNone(const char* variable, const char* value) {
  setenv(variable, value, 1);
  Table();
  Load(Path());
  if (!Devices().empty()) Say("there are devices");
  Say(ErrorOf([] { Device("ascend"); }));
}

TEST_F(AscendDeviceDeathTest, SaysWhatIsWrongInTheEnvironment) {
  const auto told = [](const char* variable, const char* value, const std::string& must) {
    EXPECT_EXIT(TellWhyThereIsNone(variable, value), ::testing::ExitedWithCode(0),
                std::string("^there is no device 'ascend:0': this machine has 0 of them: ") +
                    variable + " is '" + value + "', but must be " + must + "\\.\n$");
  };
  told("ANYOP_ASCEND", "delay,late", "empty, or of the words delay and trace");
  told("ANYOP_ASCEND_SOC", "ascend910", "ascend910b \\| ascend910_93 \\| ascend310p");
  told("ANYOP_ASCEND_DEVICES", "0", "an integer from 1 to 16");
  told("ANYOP_ASCEND_DEVICES", "17", "an integer from 1 to 16");
  told("ANYOP_ASCEND_MEMORY_BYTES", "1G", "an integer from 1048576 to 1099511627776");
}

// ---- Programs.

class ProgramsOnAscend : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Table();
    Load(Path());
  }
};

// Numbers that no two kernels round alike by luck.
Array Drawn(std::initializer_list<std::int64_t> sizes, std::uint32_t seed) {
  Array x = Array::Zeros(sizes, DType::kF32);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    seed = seed * 1664525 + 1013904223;
    x.data<float>()[i] = float(std::int32_t(seed)) / float(1u << 28);
  }
  return x;
}

void ExpectSameBits(const Array& there, const Array& here) {
  EXPECT_EQ(there.device(), Device("ascend"));
  const Array back = there.On(Device());
  ASSERT_EQ(back.bytes(), here.bytes());
  EXPECT_EQ(std::memcmp(back.data(), here.data(), std::size_t(here.bytes())), 0);
}

TEST_F(ProgramsOnAscend, NeedNoPathOfTheLibrary) {
  Load("anyop_ascend_device.so");
  EXPECT_EQ(Devices().size(), 2u);
  EXPECT_EQ(ErrorOf([] { Load("anyop_no_device.so"); }),
            "anyop_no_device.so: there is no such file, or it cannot be read.");
}

TEST_F(ProgramsOnAscend, AreFoundByName) {
  EXPECT_EQ(Device("ascend"), Device("ascend:0"));
  EXPECT_EQ(Device("ascend:1").name(), "ascend:1");
  EXPECT_EQ(ErrorOf([] { Device("ascend:2"); }),
            "there is no device 'ascend:2': this machine has 2 of them.");
  ASSERT_EQ(Devices().size(), 2u);
  EXPECT_EQ(Devices()[0].model, "Ascend 910B (virtual)");
}

// Of operators that have no kernel of the device's own.
TEST_F(ProgramsOnAscend, GiveTheHostsBits) {
  const Array x = Drawn({5, 67}, 1), y = Drawn({5, 67}, 2);
  const Device npu("ascend");
  ExpectSameBits(Call("mul", x.On(npu), y.On(npu)), Call("mul", x, y));
  ExpectSameBits(Call("softmax", x.On(npu)), Call("softmax", x));
}

TEST_F(ProgramsOnAscend, RunGraphs) {
  GraphRecorder r("step");
  const auto x = r.Input("x", "f32[n, 64]"), w = r.Input("w", "f32[64]");
  const auto y = r.Call("mul", x, w)[0];
  r.Output(r.Call("mul", y, x)[0], "product");
  const CompiledGraph g = r.Compile();
  for (const std::int64_t n : {1, 3, 3}) {
    const Array in = Drawn({n, 64}, std::uint32_t(n)), weight = Drawn({64}, 9);
    ExpectSameBits(g(in.On(Device("ascend")), weight.On(Device("ascend")))[0], g(in, weight)[0]);
  }
}

TEST_F(ProgramsOnAscend, TellLateErrors) {
  const Device npu("ascend");
  Array ids = Array::Zeros({2}, DType::kI64);
  ids.data<std::int64_t>()[1] = 9;
  const Array rows = Call("embedding", ids.On(npu), Drawn({4, 8}, 1).On(npu));
  EXPECT_EQ(ErrorOf([&] { rows.On(Device()); }).substr(0, 60),
            "embedding: ids[1] is 9, but must be less than 4 (v). This is");
}

}  // namespace
}  // namespace anyop::ascend_device_test
