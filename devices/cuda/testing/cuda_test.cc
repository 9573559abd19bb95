// SPDX-License-Identifier: Apache-2.0
// The device library of NVIDIA's cards over a driver for tests (fake_driver.h), which needs
// no card: how it opens the driver, its memory, streams and events. Its kernels for operators are
// tested where there is a card (python/tests/gpu).
#include <numeric>
#include <thread>

#include "cuda_testing.h"

namespace cuda_test {
namespace {

// ---- Opening. The driver is looked for once, so that each is a process of its own.

class CudaDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

[[noreturn]] void TellCount() {
  const int count = TableAlone().count();
  std::fprintf(stderr, "%d: %s", count, TableAlone().error_text());
  std::_Exit(0);
}
#define EXPECT_COUNT(before, text) \
  EXPECT_EXIT(                     \
      {                            \
        before;                    \
        TellCount();               \
      },                           \
      ::testing::ExitedWithCode(0), text)

TEST_F(CudaDeathTest, ADriverThatIsNotThere) {
  if (access("/dev/nvidiactl", F_OK) == 0) GTEST_SKIP() << "this machine has one";
  EXPECT_COUNT(, "^0: the NVIDIA driver, libcuda.so.1, is not there\\.$");
}
TEST_F(CudaDeathTest, ADriverThatIsTooOld) {
  EXPECT_COUNT(Driver("old_driver"),
               "^0: the NVIDIA driver has no cuThreadExchangeStreamCaptureMode, which came with "
               "CUDA 11\\.4\\. Try a newer driver\\.$");
}
TEST_F(CudaDeathTest, ADriverWithoutACard) {
  EXPECT_COUNT(Driver().init_result = 100, "^0: the NVIDIA driver finds no card\\.$");
}
TEST_F(CudaDeathTest, ADriverThatCannotStart) {
  EXPECT_COUNT(Driver().init_result = 700,
               "^0: the NVIDIA driver cannot start: an illegal memory access was encountered\\.$");
}

[[noreturn]] void UseMemoryWithoutPools() {
  Driver().has_pools = 0;
  void* memory = nullptr;
  Table().allocate(0, Table().default_stream(0), 4, &memory);
  std::fprintf(stderr, "%s", Table().error_text());
  std::_Exit(0);
}
TEST_F(CudaDeathTest, ACardWithoutMemoryInTheOrderOfStreams) {
  EXPECT_EXIT(UseMemoryWithoutPools(), ::testing::ExitedWithCode(0),
              "^the card has no memory in the order of streams\\.$");
}

[[noreturn]] void UseWhatIsReleased() {
  const Stream s;
  int* const x = s.New<int>(4);
  s.Release(x);
  const int item = 1;
  Must(Table().fill(s, x, 4, &item, sizeof item));
  const int code = Table().synchronize(0, s);
  std::fprintf(stderr, "%d: %s\n", code, Table().error_text());
  for (int i = 0; i < 2; ++i) std::fprintf(stderr, "late: %s\n", LateError(s).c_str());
  std::_Exit(0);
}
TEST_F(CudaDeathTest, WorkAfterWhichACardAnswersNothing) {
  EXPECT_EXIT(UseWhatIsReleased(), ::testing::ExitedWithCode(0),
              "^[0-9]+: cuStreamSynchronize failed: an illegal memory access was encountered "
              "\\(CUDA_ERROR_ILLEGAL_ADDRESS\\)\\.\n"
              "late: earlier work on the card failed: an illegal memory access was encountered "
              "\\(CUDA_ERROR_ILLEGAL_ADDRESS\\)\\. The process cannot use the card any more\\.\n"
              "late: \n$");
}

// ---- Cards.

TEST(Cuda, SaysWhatACardIs) {
  EXPECT_EQ(Table().count(), 2);
  anyop_device_properties p{};
  p.size = sizeof p;
  Must(Table().properties(1, &p));
  EXPECT_STREQ(p.name, "Fake 1");
  EXPECT_STREQ(p.features, "sm_90,sm_89,sm_87,sm_86,sm_80,sm_75,sm_72,sm_70");
  EXPECT_EQ(p.cores, 3);
  EXPECT_EQ(p.total_bytes, Driver().pool_bytes);
  p.size = 8;  // of a caller that knows less
  p.total_bytes = 7;
  Must(Table().properties(1, &p));
  EXPECT_EQ(p.total_bytes, 7u);
  EXPECT_EQ(ErrorOf(ANYOP_INVALID_ARGUMENT, Table().properties(7, &p)),
            "there is no card 7, as the driver finds 2.");
}

TEST(Cuda, LeavesTheContextOfTheThreadAsItWas) {
  const Stream s(1);
  const Event e(1);
  int* const x = s.Brought<int>({1, 2});
  Must(Table().record_event(e, s));
  EXPECT_EQ(s.Read(x, 2), (std::vector<int>{1, 2}));
  s.Release(x);
  s.Wait();
  EXPECT_EQ(Driver().contexts_pushed, 0);
  std::thread([&] {  // has none
    EXPECT_EQ(s.Read(s.Brought<int>({3}), 1), std::vector<int>{3});
    Must(Table().activate(1));
  })
      .join();
  EXPECT_EQ(Driver().contexts_pushed, 0);
}

// ---- Memory.

TEST(Cuda, CopiesInTheOrderOfTheStream) {
  const Stream s;
  const Event e;
  std::vector<int> from = {1, 2, 3}, got(3);
  int* const x = s.New<int>(3);
  Must(Table().copy(s, 0, x, ANYOP_AT_HOST, from.data(), 12));
  Must(Table().copy(s, ANYOP_AT_HOST, got.data(), 0, x, 12));
  Must(Table().copy(s, 0, x, ANYOP_AT_HOST, from.data(), 0));
  Must(Table().record_event(e, s));
  EXPECT_FALSE(e.is_complete());
  EXPECT_EQ(got, std::vector<int>(3));
  Must(Table().synchronize_event(e));
  EXPECT_TRUE(e.is_complete());
  EXPECT_EQ(got, from);
  s.Release(x);
}

TEST(Cuda, CopiesFromCardToCard) {
  const Stream s(0), t(1);
  int* const x = s.Brought<int>({4, 5});
  int* const y = t.New<int>(2);
  Must(Table().copy(t, 1, y, 0, x, 8));
  EXPECT_EQ(t.Read(y, 2), (std::vector<int>{4, 5}));
  // The default stream is that of the card that is written to.
  const std::vector<int> from = {6, 7};
  const anyop_stream first = Table().default_stream(1);
  Must(Table().copy(first, 1, y, ANYOP_AT_HOST, from.data(), 8));
  Must(Table().synchronize(1, first));
  EXPECT_EQ(t.Read(y, 2), from);
  Must(Table().copy(first, 1, y, 0, x, 8));
  Must(Table().synchronize(1, first));
  EXPECT_EQ(t.Read(y, 2), (std::vector<int>{4, 5}));
  s.Release(x), t.Release(y);
}

TEST(Cuda, FillsOnTheDefaultStreamOfTheCardThatIsActive) {
  const Stream s(1);
  int* const x = s.Brought<int>({4, 5});
  std::thread([&] {
    Must(Table().activate(1));
    const int item = 6;
    const anyop_stream first = Table().default_stream(1);
    Must(Table().fill(first, x, 2, &item, sizeof item));
    Must(Table().synchronize(1, first));
  }).join();
  EXPECT_EQ(s.Read(x, 2), (std::vector<int>{6, 6}));
  s.Release(x);
}

TEST(Cuda, TellsHowMuchMemoryIsFree) {
  const Stream s;
  s.Wait();
  anyop_device_properties before{}, after{};
  before.size = after.size = sizeof before;
  Must(Table().properties(0, &before));
  char* const x = s.New<char>(1000);
  s.Wait();
  Must(Table().properties(0, &after));
  EXPECT_LE(after.free_bytes + 1000, before.free_bytes);
  EXPECT_EQ(after.total_bytes, before.total_bytes);
  s.Release(x);
}

template <class T>
void FillsWith(T item) {
  const Stream s;
  T* const x = s.New<T>(5);
  {
    const T gone = item;
    Must(Table().fill(s, x, 5, &gone, sizeof gone));
  }
  EXPECT_EQ(s.Read(x, 5), std::vector<T>(5, item)) << sizeof(T);
  Must(Table().fill(s, x, 0, &item, sizeof item));
  s.Release(x);
}
TEST(Cuda, FillsWithItemsOfAnySize) {
  FillsWith<std::uint8_t>(1);
  FillsWith<std::uint16_t>(0x0102);
  FillsWith<std::uint32_t>(0x01020304);
  FillsWith<std::uint64_t>(0x0102030405060708);
  FillsWith<std::array<std::uint8_t, 3>>({1, 2, 3});
  const Stream s;
  std::array<char, 65> item{};
  EXPECT_EQ(ErrorOf(ANYOP_UNSUPPORTED, Table().fill(s, nullptr, 1, item.data(), 65)),
            "items of 65 bytes, but fill takes 1 to 64.");
}

TEST(Cuda, PacksAndUnpacksStrides) {
  const Stream s;
  std::vector<std::int16_t> all(24);
  std::iota(all.begin(), all.end(), std::int16_t{0});
  auto* const x = s.Brought(all);
  auto* const packed = s.New<std::int16_t>(6);
  std::int64_t shape[] = {2, 3}, strides[] = {1, 8};  // the transpose of columns 1 and 2 of [3, 8]
  const DLTensor t = {x, {2, 0}, 2, {0, 16, 1}, shape, strides, 2};
  Must(Table().pack(s, &t, packed));
  EXPECT_EQ(s.Read(packed, 6), (std::vector<std::int16_t>{1, 9, 17, 2, 10, 18}));
  const std::int16_t item = -1;
  Must(Table().fill(s, packed, 6, &item, sizeof item));
  Must(Table().unpack(s, packed, &t));
  for (const int i : {1, 9, 17, 2, 10, 18}) all[std::size_t(i)] = -1;
  EXPECT_EQ(s.Read(x, 24), all);
  s.Release(x), s.Release(packed);
}

TEST(Cuda, WaitsForReleasesWhereThereIsNoRoom) {
  const Stream s, t;
  const std::size_t bytes = Driver().pool_bytes / 4 * 3;
  const std::uint64_t before = Driver().bytes_in_use;
  s.Release(s.New<char>(bytes));
  t.Release(t.New<char>(bytes));  // there is room once the stream has got to the release
  char* const x = s.New<char>(bytes);
  void* more = nullptr;
  EXPECT_EQ(ErrorOf(ANYOP_OUT_OF_MEMORY, Table().allocate(0, t, bytes, &more)),
            "out of memory: " + std::to_string(bytes) + " bytes were asked for.");
  s.Release(x);
  // What waits would end a capture.
  Driver().capturing = static_cast<anyop_stream>(t);
  EXPECT_NE(ErrorOf(ANYOP_OUT_OF_MEMORY, Table().allocate(0, t, bytes, &more)), "");
  Driver().capturing = nullptr;
  t.Release(t.New<char>(bytes));
  t.Wait();
  EXPECT_EQ(Driver().bytes_in_use, before);
}

// ---- Streams and events.

TEST(Cuda, OrdersStreamsByEvents) {
  const Stream a, b;
  const Event e;
  EXPECT_TRUE(e.is_complete());  // it was never recorded
  Must(Table().wait_event(e, b));
  int* const x = a.Brought<int>({1});
  const int two = 2, three = 3;
  Must(Table().fill(a, x, 1, &two, sizeof two));
  Must(Table().record_event(e, a));
  Must(Table().wait_event(e, b));  // means this record, not the next
  Must(Table().fill(a, x, 1, &three, sizeof three));
  Must(Table().record_event(e, a));
  EXPECT_EQ(b.Read(x, 1), std::vector<int>{2});
  EXPECT_FALSE(e.is_complete());
  Must(Table().synchronize(0, nullptr));  // every stream
  EXPECT_TRUE(e.is_complete());
  EXPECT_EQ(b.Read(x, 1), std::vector<int>{3});
  a.Release(x);
}

TEST(Cuda, TellsTheTimeBetweenEventsThatAreComplete) {
  const Stream s;
  const Event from, to;
  Must(Table().record_event(from, s));
  Must(Table().record_event(to, s));
  double ms = 0;
  EXPECT_EQ(ErrorOf(ANYOP_INTERNAL, Table().elapsed(from, to, &ms)),
            "cuEventElapsedTime failed: an error of the fake driver (CUDA_ERROR_NOT_READY).");
  s.Wait();
  Must(Table().elapsed(from, to, &ms));
  EXPECT_GT(ms, 0);
}

TEST(Cuda, LetsAnEventGoBeforeTheWorkThatWaitsForIt) {
  const Stream a, b;
  int* const x = a.Brought<int>({1});
  const int two = 2;
  Must(Table().fill(a, x, 1, &two, sizeof two));
  {
    const Event e;
    Must(Table().record_event(e, a));
    Must(Table().wait_event(e, b));
  }
  EXPECT_EQ(b.Read(x, 1), std::vector<int>{2});
  a.Release(x);
}

TEST(Cuda, GivesBackStreamsAndEvents) {
  const int streams = Driver().streams, events = Driver().events;
  {
    const Stream s;
    const Event e;
    EXPECT_EQ(Driver().streams, streams + 1);
    EXPECT_EQ(Driver().events, events + 1);
  }
  EXPECT_EQ(Driver().streams, streams);
  EXPECT_EQ(Driver().events, events);
  Must(Table().destroy_stream(Table().default_stream(0)));  // is everybody's, and stays
}

}  // namespace
}  // namespace cuda_test
