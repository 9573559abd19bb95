// SPDX-License-Identifier: Apache-2.0
// The table of far, function by function, and what a host may do in which order.
#include <sys/wait.h>

#include <limits>
#include <thread>

#include "far_testing.h"

namespace far_testing {
namespace {

TEST(Far, SaysWhatItIs) {
  const anyop_device& t = Table();
  EXPECT_STREQ(t.word, "far");
  EXPECT_EQ(t.dlpack_type, 12);
  EXPECT_EQ(t.host_can_read, 0);
  EXPECT_STREQ(t.runs, "cpu");
  EXPECT_EQ(t.count(), 2);
  anyop_device_properties p = {};
  p.size = sizeof p;
  Must(t.properties(1, &p));
  EXPECT_STREQ(p.name, "far");
  EXPECT_EQ(p.total_bytes, kMemoryBytes);
  EXPECT_LE(p.free_bytes, kMemoryBytes);
  EXPECT_EQ(Error(ANYOP_INVALID_ARGUMENT, t.properties(2, &p)),
            "there is no device 2, but devices 0 and 1.");
}

TEST(Far, WritesNoMorePropertiesThanTheHostKnows) {
  anyop_device_properties p = {};
  p.size = offsetof(anyop_device_properties, name);
  Must(Table().properties(0, &p));
  EXPECT_EQ(p.total_bytes, kMemoryBytes);
  EXPECT_EQ(p.name, nullptr);
}

// x + 50: each step adds 1/2 twice, through a workspace, on the other stream than the step before.
void ChainOverTwoStreams(int device) {
  constexpr std::int64_t n = 1000;
  const Stream streams[] = {Stream(device), Stream(device)};
  std::vector<float> in(n);
  for (std::int64_t i = 0; i < n; ++i) in[std::size_t(i)] = float(i);
  float *x = streams[0].New<float>(n), *half = streams[0].New<float>(n);
  streams[0].Write(x, in);
  streams[0].Fill(half, n, 0.5f);
  for (int i = 0; i < 50; ++i) {
    const Stream& s = streams[i % 2];
    if (i > 0) Order(streams[(i + 1) % 2], s, device);
    float *workspace = s.New<float>(n), *y = s.New<float>(n);
    SubmitAdd(s, x, half, workspace, n);
    SubmitAdd(s, workspace, half, y, n);
    s.Release(workspace);
    s.Release(x);
    x = y;
  }
  const std::vector<float> out = streams[1].Read(x, n);
  for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(out[i], in[i] + 50);
  streams[1].Release(x);
  streams[1].Release(half);
}

TEST(Far, RunsAChainOverTwoStreams) {
  ChainOverTwoStreams(0);
  ChainOverTwoStreams(1);
}

TEST(Far, RunsChainsOfManyThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) threads.emplace_back([i] { ChainOverTwoStreams(i % 2); });
  for (std::thread& t : threads) t.join();
  for (const int device : {0, 1}) {
    Must(Table().synchronize(device, nullptr));
    EXPECT_EQ(Counts(device).allocations, 0u);
  }
}

TEST(Far, KeepsTheOrderOfAStreamThatManyThreadsUse) {
  const Stream s;
  float *sum = s.New<float>(1), *one = s.New<float>(1);
  s.Fill(sum, 1, 0.0f);
  s.Fill(one, 1, 1.0f);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) SubmitAdd(s, sum, one, sum, 1);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(s.Read(sum, 1), std::vector<float>{200});
  s.Release(sum), s.Release(one);
}

TEST(Far, FillsFreshMemoryWithWhatShows) {
  const Stream s;
  std::int32_t* const x = s.New<std::int32_t>(5);
  EXPECT_EQ(s.Read(x, 5), std::vector<std::int32_t>(5, -1));
  s.Fill(x, 5, 7);
  s.Fill(x + 1, 2, 9);
  EXPECT_EQ(s.Read(x, 5), (std::vector<std::int32_t>{7, 9, 9, 7, 7}));
  s.Release(x);
}

TEST(Far, KnowsTheAllocationAroundAnAddress) {
  const Stream s(1);
  auto* const memory = s.New<char>(100);
  anyop_allocation found = {};
  found.size = sizeof found;
  for (const int offset : {0, 1, 99}) {
    found.begin = nullptr, found.bytes = 0;
    Must(Table().allocation(memory + offset, &found));
    EXPECT_EQ(found.begin, memory);
    EXPECT_EQ(found.bytes, 100u);
    EXPECT_EQ(found.device, 1);
  }
  const std::string none = "the address lies in no allocation.";
  EXPECT_EQ(Error(ANYOP_INVALID_ARGUMENT, Table().allocation(memory + 100, &found)), none);
  EXPECT_EQ(Error(ANYOP_INVALID_ARGUMENT, Table().allocation(memory - 1, &found)), none);
  EXPECT_EQ(Error(ANYOP_INVALID_ARGUMENT, Table().allocation(&found, &found)), none);
  s.Release(memory);
  EXPECT_EQ(Error(ANYOP_INVALID_ARGUMENT, Table().allocation(memory, &found)), none);
  anyop_allocation small = {};
  small.size = offsetof(anyop_allocation, begin);  // a host that knows no more
  auto* const other = s.New<char>(1);
  Must(Table().allocation(other, &small));
  EXPECT_EQ(small.begin, nullptr);
  s.Release(other);
}

TEST(Far, CopiesBetweenDevices) {
  const Stream s(0), t(1);
  std::int32_t *const x = s.New<std::int32_t>(2), *const y = t.New<std::int32_t>(2);
  s.Write(x, {3, 4});
  Order(s, t);
  Must(Table().copy(t, 1, y, 0, x, 2 * sizeof *x));
  EXPECT_EQ(t.Read(y, 2), (std::vector<std::int32_t>{3, 4}));
  s.Release(x);
  t.Release(y);
}

TEST(Far, CompletesAnEventWhenItsStreamGetsThere) {
  const anyop_device& t = Table();
  const Stream s;
  anyop_event event;
  Must(t.create_event(0, &event));
  const auto is_complete = [&] {
    std::int32_t answer = -1;
    Must(t.query_event(event, &answer));
    return answer == 1;
  };
  EXPECT_TRUE(is_complete()) << "as it was never recorded";
  for (int round = 0; round < 2; ++round) {
    Hold(s);
    Must(t.record_event(event, s));
    EXPECT_FALSE(is_complete());
    LetGo(s);
    Must(t.synchronize_event(event));
    EXPECT_TRUE(is_complete());
  }
  Must(t.destroy_event(event));
}

TEST(Far, WaitsForAnEventThatWasDestroyed) {
  const Stream before, after;
  float *const x = before.New<float>(1), *const y = before.New<float>(1);
  before.Wait();
  Hold(before);
  before.Fill(x, 1, 1.0f);
  Order(before, after);  // destroys the event
  SubmitAdd(after, x, x, y, 1);
  LetGo(before);
  EXPECT_EQ(after.Read(y, 1), std::vector<float>{2});
  after.Release(x), after.Release(y);
}

TEST(Far, TellsTheTimeBetweenEvents) {
  const anyop_device& t = Table();
  const Stream s;
  anyop_event from, to;
  Must(t.create_event(0, &from));
  Must(t.create_event(0, &to));
  Must(t.record_event(from, s));
  double ms = -1;
  EXPECT_EQ(Error(ANYOP_INVALID_ARGUMENT, t.elapsed(from, to, &ms)),
            "an event was not recorded, or its stream has not reached it.");
  Must(t.record_event(to, s));
  s.Wait();
  Must(t.elapsed(from, to, &ms));
  EXPECT_GE(ms, 0);
  EXPECT_LT(ms, 60'000);
  Must(t.destroy_event(from));
  Must(t.destroy_event(to));
}

TEST(Far, SynchronizesAllStreams) {
  const Stream s, t;
  std::vector<float> out(2, 0.0f);
  {
    const Stream ended;  // its work counts, too
    float* const x = ended.New<float>(2);
    ended.Fill(x, 2, 3.0f);
    ended.StartRead(x, &out);
    ended.Release(x);
  }
  Must(Table().synchronize(0, nullptr));
  EXPECT_EQ(out, std::vector<float>(2, 3.0f));
  EXPECT_EQ(Counts().allocations, 0u);
}

TEST(Far, TakesThreadsFromStreamsThatWereDestroyed) {
  Must(Table().synchronize(0, nullptr));
  const std::uint32_t before = Counts().threads;
  for (int i = 0; i < 300; ++i) Stream().Wait();
  // A stream ends only after it has answered, so that the next one may come too early for it.
  EXPECT_LE(Counts().threads, before + 3);
}

// ---- Late errors.

TEST(FarLateErrors, AreTakenOnceFromTheirStream) {
  const Stream s, other;
  std::int64_t* const index = s.New<std::int64_t>(4);
  s.Write(index, {1, 4, 2, 9});
  SubmitBelow(s, index, 4, 5);
  s.Wait();
  EXPECT_EQ(other.LateError(), "");
  EXPECT_EQ(s.LateError(ANYOP_INVALID_ARGUMENT), "take: ids: [3] is 9, but must be less than 5.");
  EXPECT_EQ(s.LateError(), "");
  s.Release(index);
}

TEST(FarLateErrors, KeepLaunchesFromRunningUntilTheyAreTaken) {
  const int before = n_dropped;
  const Stream s;
  std::int64_t* const index = s.New<std::int64_t>(1);
  float *const x = s.New<float>(1), *const y = s.New<float>(1), *const gone = s.New<float>(1);
  s.Fill(index, 1, std::int64_t{9});
  s.Fill(x, 1, 1.0f);
  SubmitBelow(s, index, 1, 5);
  SubmitAdd(s, x, x, x, 1);
  s.Wait();
  SubmitAdd(s, x, x, x, 1);  // is skipped, even if it is reached after the error was taken
  s.Fill(y, 1, 5.0f);        // all other work is done
  s.Release(gone);
  EXPECT_EQ(s.LateError(ANYOP_INVALID_ARGUMENT), "take: ids: [0] is 9, but must be less than 5.");
  EXPECT_EQ(s.Read(x, 1), std::vector<float>{1});
  EXPECT_EQ(n_dropped, before + 2);  // and each is told so, since it may hold something
  EXPECT_EQ(s.Read(y, 1), std::vector<float>{5});
  SubmitAdd(s, x, x, x, 1);
  EXPECT_EQ(s.Read(x, 1), std::vector<float>{2});
  s.Release(index), s.Release(x), s.Release(y);
}

std::string LateErrorOfAny(int device, int code) {
  char message[256] = "";
  EXPECT_EQ(Table().late_error(device, nullptr, 1, message, sizeof message), code);
  return message;
}

void MakeLateError(const Stream& s, std::int64_t number) {
  std::int64_t* const index = s.New<std::int64_t>(1);
  s.Fill(index, 1, number);
  SubmitBelow(s, index, 1, 5);
  s.Release(index);
  s.Wait();
}

TEST(FarLateErrors, OfADestroyedStreamStayWithTheDevice) {
  const Stream late;
  {
    const Stream first;
    MakeLateError(first, 6);
    MakeLateError(late, 7);
    const Stream last;
    Hold(last);
    LetGo(last);
    MakeLateError(last, 8);
  }
  Must(Table().synchronize(0, nullptr));
  EXPECT_EQ(LateErrorOfAny(1, ANYOP_OK), "");
  for (const char* number : {"6", "7", "8"}) {
    EXPECT_EQ(LateErrorOfAny(0, ANYOP_INVALID_ARGUMENT),
              std::string("take: ids: [0] is ") + number + ", but must be less than 5.");
  }
  EXPECT_EQ(LateErrorOfAny(0, ANYOP_OK), "");
  EXPECT_EQ(late.LateError(), "");
  EXPECT_EQ(Stream().LateError(), "") << "of a stream that takes another's place";
}

TEST(FarLateErrors, GoAlongEvents) {
  const Stream first, second, third;
  MakeLateError(first, 6);
  Order(first, second);
  Order(second, third);
  third.Wait();
  const std::string text = "take: ids: [0] is 6, but must be less than 5.";
  EXPECT_EQ(first.LateError(ANYOP_INVALID_ARGUMENT), text);
  EXPECT_EQ(third.LateError(ANYOP_INVALID_ARGUMENT), text);
  EXPECT_EQ(LateErrorOfAny(0, ANYOP_INVALID_ARGUMENT), text) << "which the second still has";
  EXPECT_EQ(LateErrorOfAny(0, ANYOP_OK), "");
  MakeLateError(first, 7);
  Order(first, second);
  second.Wait();
  EXPECT_NE(LateErrorOfAny(0, ANYOP_INVALID_ARGUMENT), "");
  EXPECT_EQ(LateErrorOfAny(0, ANYOP_OK), "") << "one error, although two streams had it";
  Order(first, second);
  second.Wait();
  EXPECT_EQ(second.LateError(), "") << "as it was told before the event";
}

TEST(FarLateErrors, AreToldToWhoWaitsForAnEvent) {
  const anyop_device& t = Table();
  const Stream s;
  anyop_event event;
  Must(t.create_event(0, &event));
  MakeLateError(s, 6);
  Must(t.record_event(event, s));
  s.Wait();
  std::int32_t is_complete = 0;
  Must(t.query_event(event, &is_complete));
  EXPECT_TRUE(is_complete);
  EXPECT_EQ(Error(ANYOP_INVALID_ARGUMENT, t.synchronize_event(event)),
            "take: ids: [0] is 6, but must be less than 5.");
  Must(t.synchronize_event(event));
  EXPECT_EQ(s.LateError(), "");
  Must(t.destroy_event(event));
}

TEST(FarLateErrors, AreCutToTheRoomThatThereIs) {
  const Stream s;
  MakeLateError(s, 6);
  char message[10];
  EXPECT_EQ(Table().late_error(0, s, 0, message, sizeof message), ANYOP_INVALID_ARGUMENT);
  EXPECT_STREQ(message, "take: ids");
}

// ---- What is refused.

TEST(FarRefusals, OfMemoryTellWhatThereIs) {
  const anyop_device& t = Table();
  const Stream s;
  Must(t.synchronize(0, nullptr));
  void* memory = nullptr;
  EXPECT_EQ(Error(ANYOP_OUT_OF_MEMORY, t.allocate(0, s, kMemoryBytes + 1, &memory)),
            "there is no room for 67108865 bytes: 67108864 of 67108864 bytes are free.");
  EXPECT_EQ(Error(ANYOP_OUT_OF_MEMORY, t.allocate(0, s, ~std::uint64_t{0}, &memory)),
            "there is no room for 18446744073709551615 bytes: 67108864 of 67108864 bytes are "
            "free.");
  char* const most = s.New<char>(kMemoryBytes * 3 / 4);
  EXPECT_NE(Error(ANYOP_OUT_OF_MEMORY, t.allocate(0, s, kMemoryBytes / 2, &memory))
                .find("there is no room for 33554432 bytes: 16777216 of 67108864 bytes are free, "
                      "the largest piece of them has 167"),
            std::string::npos)
      << t.error_text();
  s.Release(most);
  s.Wait();  // the host runs ahead of releases
  s.Release(s.New<char>(kMemoryBytes / 2));
}

TEST(FarRefusals, OfForeignAddressesNameLaunchAndByte) {
  const Stream s(0), t(1);
  float *const x = s.New<float>(4), *const there = t.New<float>(4);
  float here[4] = {};
  const auto error = [&](const float* a, const float* b) {
    return Error(ANYOP_INVALID_ARGUMENT,
                 s.Submit("add in cpu_test", &Add, AddBlock{a, b, x, 4}, {0, 8, 16}));
  };
  EXPECT_TRUE(error(here, x).starts_with("add in cpu_test, byte 0 of its block: the address 0x"));
  EXPECT_TRUE(error(x, here).ends_with(" is not in this device's memory."));
  EXPECT_TRUE(error(x, there).starts_with("add in cpu_test, byte 8 of its block: the address 0x"));
  EXPECT_TRUE(error(x, x + 5000).ends_with(" lies in memory that is not allocated."));
  EXPECT_EQ(
      Error(ANYOP_INVALID_ARGUMENT, s.Submit("add in cpu_test", &Add, AddBlock{x, x, x, 4}, {28})),
      "add in cpu_test, byte 28 of its block: the block has 32 bytes.");
  SubmitAdd(s, nullptr, nullptr, nullptr, 0);
  SubmitAdd(s, x + 4, x, x, 0);  // the end of it, as empty views have
  s.Wait();
  Hold(s);
  s.Release(x);
  EXPECT_TRUE(error(x, x).ends_with(" lies in memory that was released."));
  LetGo(s);
  t.Release(there);
}

TEST(FarRefusals, OfCopiesLookAtEveryByte) {
  const anyop_device& t = Table();
  const Stream s;
  float* const x = s.New<float>(4);
  float here[8] = {};
  const auto error = [&](int to_place, void* to, int from_place, const void* from, int n) {
    return Error(ANYOP_INVALID_ARGUMENT,
                 t.copy(s, to_place, to, from_place, from, std::uint64_t(n) * sizeof(float)));
  };
  EXPECT_TRUE(
      error(0, x, ANYOP_AT_HOST, here, 5).ends_with(" has 16 bytes behind it, but must have 20."));
  EXPECT_TRUE(error(ANYOP_AT_HOST, here, 0, x + 1, 4)
                  .ends_with(" has 12 bytes behind it, but must have 16."));
  EXPECT_EQ(error(ANYOP_AT_HOST, here, ANYOP_AT_HOST, x, 4),
            "an address of far:0 is given as one of the host's memory.");
  EXPECT_TRUE(error(0, x, 1, x, 4).ends_with(" is not in this device's memory."));
  EXPECT_EQ(error(0, x, 2, x, 4), "there is no device 2, but devices 0 and 1.");
  Must(t.copy(s, 0, x, ANYOP_AT_HOST, nullptr, 0));
  const float item = 1;
  EXPECT_TRUE(Error(ANYOP_INVALID_ARGUMENT, t.fill(s, x, 5, &item, sizeof item))
                  .ends_with(" has 16 bytes behind it, but must have 20."));
  EXPECT_EQ(Error(ANYOP_INVALID_ARGUMENT, t.fill(s, x, ~std::uint64_t{0}, &item, sizeof item)),
            "a fill has more bytes than there can be.");
  s.Release(x);
}

TEST(FarRefusals, OfReleases) {
  const anyop_device& t = Table();
  const Stream s, other_device(1);
  float* const x = s.New<float>(4);
  EXPECT_TRUE(Error(ANYOP_INVALID_ARGUMENT, t.release(0, s, x + 1))
                  .ends_with(" is not what `allocate` gave, or it was released before."));
  EXPECT_EQ(Error(ANYOP_INVALID_ARGUMENT, t.release(0, other_device, x)),
            "the stream is one of far:1, but must be of far:0.");
  Must(t.release(0, s, nullptr));
  Hold(s);
  s.Release(x);
  EXPECT_TRUE(Error(ANYOP_INVALID_ARGUMENT, t.release(0, s, x)).ends_with(" was released before."));
  LetGo(s);
}

TEST(FarRefusals, OfDeadHandles) {
  const anyop_device& t = Table();
  anyop_stream dead;
  Must(t.create_stream(0, &dead));
  Must(t.destroy_stream(dead));
  const std::string dead_stream = "the stream is none of far, or it was destroyed.";
  EXPECT_EQ(Error(ANYOP_INVALID_ARGUMENT, t.destroy_stream(dead)), dead_stream);
  EXPECT_EQ(Error(ANYOP_INVALID_ARGUMENT, t.synchronize(0, dead)), dead_stream);
  EXPECT_EQ(Error(ANYOP_INVALID_ARGUMENT, t.destroy_stream(nullptr)), "there is no stream.");
  EXPECT_EQ(Error(ANYOP_INVALID_ARGUMENT, t.destroy_stream(t.default_stream(1))),
            "the default stream cannot be destroyed.");
  anyop_event event;
  Must(t.create_event(0, &event));
  EXPECT_EQ(Error(ANYOP_INVALID_ARGUMENT, t.record_event(event, t.default_stream(1))),
            "an event of far:0 is recorded on a stream of far:1.");
  Must(t.destroy_event(event));
  EXPECT_EQ(Error(ANYOP_INVALID_ARGUMENT, t.synchronize_event(event)),
            "the event is none of far, or it was destroyed.");
  char message[100] = "";
  EXPECT_EQ(Error(ANYOP_INVALID_ARGUMENT, t.late_error(0, dead, 0, message, sizeof message)),
            dead_stream);
  EXPECT_STREQ(message, "") << "as no work has failed";
  EXPECT_EQ(t.default_stream(2), nullptr);
}

TEST(FarRefusals, OfWorkAfterAFork) {
  const Stream s;
  float* const x = s.New<float>(1);
  const pid_t child = fork();
  if (child == 0) {
    const int code = Table().synchronize(0, s);
    const bool is_clear =
        Table().error_text() == std::string(
                                    "the process was forked after it had used the device, and "
                                    "the device's threads are not in the child. Try the start "
                                    "method \"spawn\".");
    const bool can_end = Table().release(0, s, x) == ANYOP_OK &&
                         Table().destroy_stream(s) == ANYOP_OK &&
                         Table().default_stream(0) == nullptr;
    _exit(code == ANYOP_NOT_AVAILABLE && is_clear && can_end ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  s.Wait();
  s.Release(x);
}

}  // namespace
}  // namespace far_testing
