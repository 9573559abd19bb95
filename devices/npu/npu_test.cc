// SPDX-License-Identifier: Apache-2.0
// The functions that torch_npu links, called as it calls them, without it: what they add to the
// table that every virtual device has (devices/far/far_test.cc).
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "anyop/device.h"

namespace anyop::npu_test {
namespace {

constexpr int kOk = 0, kInvalid = 107000, kNoDevice = 107002, kUnsupported = 207000,
              kNoMemory = 207001;
enum Kind { kHostToHost, kHostToDevice, kDeviceToHost, kDeviceToDevice };

std::string Folder() {  // of libraries, beside that of the test programs
  std::array<char, 4096> program{};
  const ssize_t n = readlink("/proc/self/exe", program.data(), program.size());
  const std::string path(program.data(), std::size_t(n));
  return path.substr(0, path.rfind('/')) + "/../lib/";
}

void* Library() {
  static void* const library = [] {
    setenv("ANYOP_ASCEND_MEMORY_BYTES", "67108864", 0);
    void* opened = dlopen((Folder() + "anyop_npu.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!opened) throw std::runtime_error(dlerror());
    return opened;
  }();
  return library;
}

// Calls a function of the library by its name.
template <class R = int, class... A>
R Call(const char* name, A... arguments) {
  void* const found = dlsym(Library(), name);
  if (!found) throw std::runtime_error(std::string(name) + " is not there");
  return reinterpret_cast<R (*)(A...)>(found)(arguments...);
}

std::string TakeText() {
  const char* text = Call<const char*>("aclGetRecentErrMsg");
  return text ? text : "";
}
void Must(int code) { ASSERT_EQ(code, kOk) << TakeText(); }
std::string TextOf(int expected, int code) {
  EXPECT_EQ(code, expected);
  return TakeText();
}

// Each test has device 0, its default stream and no late error.
class NpuTest : public ::testing::Test {
 protected:
  void SetUp() override { Must(Call("aclrtSetDevice", 0)); }
  void TearDown() override {
    Must(Call("aclrtSynchronizeDevice"));
    TakeText();
  }
};

void* NewStream() {
  void* stream = nullptr;
  Must(Call("aclrtCreateStream", &stream));
  return stream;
}
void* NewEvent() {
  void* event = nullptr;
  Must(Call("aclrtCreateEventExWithFlag", &event, std::uint32_t{0}));
  return event;
}
char* New(std::size_t bytes) {
  void* memory = nullptr;
  Must(Call("aclrtMalloc", &memory, bytes, 0));
  return static_cast<char*>(memory);
}
void Copy(void* to, const void* from, std::size_t bytes, Kind kind, void* stream) {
  Must(Call("aclrtMemcpyAsync", to, bytes, from, bytes, int(kind), stream));
}
void Fill(void* to, std::size_t bytes, int value, void* stream) {
  Must(Call("aclrtMemsetAsync", to, bytes, std::int32_t(value), bytes, stream));
}
std::string Read(const void* from, std::size_t bytes, void* stream) {
  std::string to(bytes, '?');
  Copy(to.data(), from, bytes, kDeviceToHost, stream);
  Must(Call("aclrtSynchronizeStream", stream));
  return to;
}

// Keeps a stream from going on.
class Gate {
 public:
  explicit Gate(void* stream) {
    Must(Call("aclrtLaunchHostFunc", stream, &Gate::Wait, static_cast<void*>(this)));
  }
  ~Gate() { Open(); }
  void Open() { is_open_ = true; }

 private:
  static void Wait(void* gate) {
    while (!static_cast<Gate*>(gate)->is_open_) std::this_thread::yield();
  }
  std::atomic<bool> is_open_{false};
};

// ---- Devices.

TEST_F(NpuTest, EveryThreadChoosesItsDevice) {
  std::uint32_t count = 0;
  Must(Call("aclrtGetDeviceCount", &count));
  EXPECT_EQ(count, 2u);
  std::int32_t device = -1;
  Must(Call("aclrtSetDevice", 1));
  Must(Call("aclrtGetDevice", &device));
  EXPECT_EQ(device, 1);
  void* context = nullptr;
  Must(Call("aclrtGetCurrentContext", &context));
  std::thread([&] {
    EXPECT_EQ(Call("aclrtGetDevice", &device), kNoDevice);
    Must(Call("aclrtSetCurrentContext", context));
    Must(Call("aclrtGetDevice", &device));
    EXPECT_EQ(device, 1);
  }).join();
  EXPECT_EQ(TextOf(kInvalid, Call("aclrtSetDevice", 2)),
            "virtual NPU: aclrtSetDevice: there is no device 2, but 2 of them, from 0.");
  EXPECT_EQ(TakeText(), "");  // it was taken
}

TEST_F(NpuTest, TellsWhatItIs) {
  EXPECT_STREQ(Call<const char*>("aclrtGetSocName"), "Ascend910B3");
  std::int64_t value = -1;
  Must(Call("aclrtGetDeviceInfo", 0u, 201u, &value));
  EXPECT_EQ(value, 40);
  Must(Call("aclrtGetDeviceInfo", 0u, 101u, &value));
  EXPECT_EQ(value, 20);
  Must(Call("aclrtGetDeviceInfo", 0u, 999u, &value));
  EXPECT_EQ(value, 0);
  Must(Call("aclGetDeviceCapability", 0u, 1, &value));
  EXPECT_EQ(value, 40);
}

// ---- Memory.

TEST_F(NpuTest, MemoryIsCountedAndItsEndIsTold) {
  std::size_t before = 0, with = 0, total = 0;
  Must(Call("aclrtGetMemInfo", 0, &before, &total));
  EXPECT_EQ(total, 67108864u);
  char* memory = New(1 << 20);
  Must(Call("aclrtGetMemInfo", 0, &with, &total));
  EXPECT_GE(before - with, std::size_t{1} << 20);
  EXPECT_EQ(Read(memory, 2, nullptr), "\xff\xff");  // nobody wrote it
  Must(Call("aclrtFree", static_cast<void*>(memory)));
  Must(Call("aclrtGetMemInfo", 0, &with, &total));
  EXPECT_EQ(with, before);
  void* none = nullptr;
  const std::string text = TextOf(kNoMemory, Call("aclrtMalloc", &none, std::size_t{1} << 30, 0));
  EXPECT_TRUE(text.starts_with("virtual NPU: there is no room for 1073741824 bytes: ")) << text;
}

TEST_F(NpuTest, FreesWhatItGaveAndOnce) {
  char* memory = New(100);
  Must(Call("aclrtFree", static_cast<void*>(memory)));
  EXPECT_NE(TextOf(kInvalid, Call("aclrtFree", static_cast<void*>(memory))), "");
  int here = 0;
  EXPECT_EQ(TextOf(kInvalid, Call("aclrtFree", static_cast<void*>(&here))),
            "virtual NPU: aclrtFree: the memory is the host's.");
  EXPECT_EQ(TextOf(kInvalid, Call("aclrtFreeHost", static_cast<void*>(&here))),
            "virtual NPU: aclrtFreeHost: the memory is not what aclrtMallocHost gave.");
}

TEST_F(NpuTest, KnowsWhoseAnAddressIs) {
  std::array<std::int32_t, 4> found{};
  char* there = New(8);
  void* pinned = nullptr;
  Must(Call("aclrtMallocHost", &pinned, std::size_t{100}));
  Must(Call("aclrtPointerGetAttributes", static_cast<const void*>(there + 7), found.data()));
  EXPECT_EQ(found[1], 1);
  const void* inside = static_cast<char*>(pinned) + 99;
  Must(Call("aclrtPointerGetAttributes", inside, found.data()));
  EXPECT_EQ(found[1], 0);
  Must(Call("aclrtPointerGetAttributes", static_cast<const void*>(&found), found.data()));
  EXPECT_EQ(found[1], 2);
  Must(Call("aclrtFree", static_cast<void*>(there)));
  Must(Call("aclrtFreeHost", pinned));
}

TEST_F(NpuTest, CopiesSayWhatTheyAre) {
  char* there = New(8);
  std::string here = "abcdefgh";
  Copy(there, here.data(), 8, kHostToDevice, nullptr);
  EXPECT_EQ(Read(there, 8, nullptr), here);
  const auto copy = [&](void* to, std::size_t room, const void* from, int kind) {
    return Call("aclrtMemcpyAsync", to, room, from, std::size_t{8}, kind, (void*)nullptr);
  };
  EXPECT_EQ(TextOf(kInvalid, copy(there, 4, here.data(), kHostToDevice)),
            "virtual NPU: aclrtMemcpyAsync: 8 bytes are to be written where there is room for 4.");
  EXPECT_EQ(TextOf(kInvalid, copy(there, 8, here.data(), kDeviceToHost)),
            "virtual NPU: aclrtMemcpyAsync: copies of kind 2 are of other memory, but this one is "
            "from the host's to a device's.");
  EXPECT_NE(TextOf(kInvalid, copy(there + 4, 8, here.data(), kHostToDevice)), "");  // past its end
  EXPECT_EQ(Read(there, 8, nullptr), here);
  Must(Call("aclrtMemset", static_cast<void*>(there), std::size_t{8}, std::int32_t{'x'},
            std::size_t{8}));
  EXPECT_EQ(Read(there, 8, nullptr), "xxxxxxxx");
  Must(Call("aclrtFree", static_cast<void*>(there)));
}

using NpuDeathTest = NpuTest;

TEST_F(NpuDeathTest, HostThatReadsDeviceMemoryIsNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Call("aclrtSetDevice", 0);
        std::fprintf(stderr, "%d", *New(64));
      },
      "npu:0: the host touched device memory at offset 0x");
}

// ---- Streams and events.

TEST_F(NpuTest, StreamsWorkInOrderAndBesideEachOther) {
  void *first = NewStream(), *second = NewStream();
  char *a = New(4), *b = New(4);
  int status = -1;
  {
    Gate gate(first);
    Fill(a, 4, 'a', first);
    Fill(a, 4, 'A', first);
    Fill(b, 4, 'b', second);
    EXPECT_EQ(Read(b, 4, second), "bbbb");  // it does not wait for the other one
    Must(Call("aclrtStreamQuery", first, &status));
    EXPECT_EQ(status, 1);
  }
  EXPECT_EQ(Read(a, 4, first), "AAAA");
  Must(Call("aclrtStreamQuery", first, &status));
  EXPECT_EQ(status, 0);
  for (void* stream : {first, second}) Must(Call("aclrtDestroyStream", stream));
  EXPECT_NE(TextOf(kInvalid, Call("aclrtSynchronizeStream", first)), "");  // it is gone
  for (char* memory : {a, b}) Must(Call("aclrtFree", static_cast<void*>(memory)));
}

TEST_F(NpuTest, EventsOrderStreams) {
  void *first = NewStream(), *second = NewStream(), *event = NewEvent(), *end = NewEvent();
  char* memory = New(4);
  int status = -1;
  Fill(memory, 4, '0', nullptr);
  Must(Call("aclrtSynchronizeStream", static_cast<void*>(nullptr)));
  std::string seen(4, '?');
  {
    Gate gate(first);
    Fill(memory, 4, '1', first);
    Must(Call("aclrtRecordEvent", event, first));
    Must(Call("aclrtStreamWaitEvent", second, event));
    Copy(seen.data(), memory, 4, kDeviceToHost, second);
    Must(Call("aclrtRecordEvent", end, second));
    Must(Call("aclrtQueryEventStatus", end, &status));
    EXPECT_EQ(status, 0);
    Must(Call("aclrtQueryEventWaitStatus", end, &status));
    EXPECT_EQ(status, 1);
  }
  Must(Call("aclrtSynchronizeEvent", end));
  EXPECT_EQ(seen, "1111");
  Must(Call("aclrtQueryEventStatus", end, &status));
  EXPECT_EQ(status, 1);
  float ms = -1;
  Must(Call("aclrtEventElapsedTime", &ms, event, end));
  EXPECT_GE(ms, 0);
  for (void* one : {event, end}) Must(Call("aclrtDestroyEvent", one));
  for (void* stream : {first, second}) Must(Call("aclrtDestroyStream", stream));
  EXPECT_NE(TextOf(kInvalid, Call("aclrtRecordEvent", event, (void*)nullptr)), "");
  Must(Call("aclrtFree", static_cast<void*>(memory)));
}

// ---- Errors.

const anyop_device& Table() {
  return *Call<const anyop_device_info*>("anyop_device_library")->device;
}

int Fails(void*, char* message, std::uint64_t bytes) {
  if (message) std::snprintf(message, bytes, "aten::embedding: index out of range in self");
  return message ? ANYOP_INVALID_ARGUMENT : ANYOP_OK;
}

TEST_F(NpuTest, LateErrorIsToldOnceWhereSomebodyWaits) {
  void* stream = NewStream();
  const anyop_launch launch = {sizeof launch, 0, "aten::embedding", &Fails, "", 0, nullptr};
  ASSERT_EQ(Table().submit(stream, &launch), ANYOP_OK);
  EXPECT_EQ(TextOf(kInvalid, Call("aclrtSynchronizeStream", stream)),
            "virtual NPU: aten::embedding: index out of range in self");
  Must(Call("aclrtSynchronizeStream", stream));
  ASSERT_EQ(Table().submit(stream, &launch), ANYOP_OK);
  EXPECT_NE(TextOf(kInvalid, Call("aclrtSynchronizeDevice")), "");
  Must(Call("aclrtDestroyStream", stream));
}

constexpr char kLate[] = "virtual NPU: aten::embedding: index out of range in self";
constexpr char kBehind[] = ". What was put on the stream behind it has not run.";

void SubmitFailure(void* stream) {
  const anyop_launch launch = {sizeof launch, 0, "aten::embedding", &Fails, "", 0, nullptr};
  ASSERT_EQ(Table().submit(stream, &launch), ANYOP_OK);
}

int Counts(void*, char* message, std::uint64_t) {
  static std::atomic<int> count{0};
  return message ? (++count, ANYOP_OK) : count.load();
}
int Ran() { return Counts(nullptr, nullptr, 0); }
void SubmitCounted(void* stream) {
  const anyop_launch launch = {sizeof launch, 0, "counts", &Counts, "", 0, nullptr};
  ASSERT_EQ(Table().submit(stream, &launch), ANYOP_OK);
}

TEST_F(NpuTest, LateErrorThatWentAlongEventsIsToldByOneStreamAlone) {
  void *const first = NewStream(), *const second = NewStream(), *const event = NewEvent();
  for (const bool tells_first : {true, false}) {
    SubmitFailure(first);
    Must(Call("aclrtRecordEvent", event, first));
    Must(Call("aclrtStreamWaitEvent", second, event));
    const int before = Ran();
    SubmitCounted(second);
    while (Table().synchronize(0, second) != ANYOP_OK) {
    }
    const std::string text = kLate + std::string(tells_first ? "" : kBehind);
    EXPECT_EQ(TextOf(kInvalid, Call("aclrtSynchronizeStream", tells_first ? first : second)), text);
    Must(Call("aclrtSynchronizeStream", second));
    Must(Call("aclrtSynchronizeStream", first));
    Must(Call("aclrtSynchronizeEvent", event));
    Must(Call("aclrtSynchronizeDevice"));
    EXPECT_EQ(Ran(), before);
    SubmitCounted(second);  // runs, as the error was told
    Must(Call("aclrtSynchronizeStream", second));
    EXPECT_EQ(Ran(), before + 1);
  }
  Must(Call("aclrtDestroyEvent", event));
  Must(Call("aclrtDestroyStream", first));
  Must(Call("aclrtDestroyStream", second));
}

TEST_F(NpuTest, LateErrorThatWasToldIsNoErrorOfAStreamThatWaitsLater) {
  void *const first = NewStream(), *const second = NewStream(), *const event = NewEvent();
  Gate gate(second);
  SubmitFailure(first);
  Must(Call("aclrtRecordEvent", event, first));
  Must(Call("aclrtStreamWaitEvent", second, event));
  const int before = Ran();
  SubmitCounted(second);
  EXPECT_EQ(TextOf(kInvalid, Call("aclrtSynchronizeEvent", event)), kLate);
  SubmitCounted(second);
  gate.Open();
  Must(Call("aclrtSynchronizeStream", second));
  EXPECT_EQ(Ran(), before + 1);  // not what had waited for results that are not there
  Must(Call("aclrtDestroyEvent", event));
  Must(Call("aclrtDestroyStream", first));
  Must(Call("aclrtDestroyStream", second));
}

// torch_npu's own queue takes no work after a call that has failed there.
TEST_F(NpuTest, ErrorsOnTheThreadOfTheQueueAreOfTheirStream) {
  void* stream = NewStream();
  char* const memory = New(8);
  std::thread([&] {
    pthread_setname_np(pthread_self(), "acl_thread");
    Must(Call("aclrtSetDevice", 0));
    Must(Call("aclrtMemsetAsync", static_cast<void*>(memory), std::size_t{8}, std::int32_t{1},
              std::size_t{9}, stream));
    Must(Call("aclnnFlatQuantGetWorkspaceSize"));
  }).join();
  EXPECT_EQ(TextOf(507000, Call("aclrtSynchronizeStream", stream)),
            "virtual NPU: aclrtMemsetAsync: 9 bytes are to be written where there is room for 8.");
  Must(Call("aclrtSynchronizeStream", stream));
  std::thread([&] {
    pthread_setname_np(pthread_self(), "acl_thread");
    Must(Call("aclrtSetDevice", 0));
    Must(Call("aclnnFlatQuant", (void*)nullptr, std::uint64_t{0}, (void*)nullptr, stream));
  }).join();
  EXPECT_EQ(TextOf(507000, Call("aclrtSynchronizeStream", stream)),
            "virtual NPU: aclnnFlatQuant is not supported.");
  EXPECT_NE(Call("aclnnFlatQuantGetWorkspaceSize"), kOk);  // elsewhere it is of the call
  EXPECT_EQ(TakeText(), "virtual NPU: aclnnFlatQuant is not supported.");
  Must(Call("aclrtFree", static_cast<void*>(memory)));
  Must(Call("aclrtDestroyStream", stream));
}

TEST_F(NpuTest, WhatIsNotThereSaysItsName) {
  EXPECT_EQ(TextOf(kUnsupported, int(Call<long>("aclrtMallocPhysical"))),
            "virtual NPU: aclrtMallocPhysical is not supported.");
  // What is no code is nothing: a number of dimensions.
  EXPECT_EQ(Call<std::size_t>("aclGetTensorDescNumDims"), 0u);
  EXPECT_EQ(TakeText(), "virtual NPU: aclGetTensorDescNumDims is not supported.");
  const auto thrown = [](auto call) -> std::string {
    try {
      call();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "it has returned";
  };
  EXPECT_EQ(thrown([] { Call<void>("_ZN2ge10GEFinalizeEv"); }),
            "virtual NPU: ge::GEFinalize() is not supported.");
  // Where torch_npu begins to describe an operator, on the thread of the call.
  EXPECT_EQ(thrown([] { Call<void*>("aclCreateTensorDesc"); }),
            "virtual NPU: this call is made of an operator of CANN's first kind (aclop), which is "
            "not supported.");
}

// The loader finds a library by the name it was built with: torch_npu's asks for these.
TEST_F(NpuTest, LibrariesOfTheNamesThatTorchNpuLinksLeadHere) {
  for (const char* name : {"acl_op_compiler", "acl_tdt_channel", "ascendcl", "ge_runner", "graph",
                           "hccl", "atb", "fmk_parser", "ascend_protobuf"}) {
    const std::string path = Folder() + "npu/lib/lib" + name + ".so";
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    EXPECT_EQ(dlsym(library, "aclrtGetSocName"), dlsym(Library(), "aclrtGetSocName")) << name;
  }
}

}  // namespace
}  // namespace anyop::npu_test
