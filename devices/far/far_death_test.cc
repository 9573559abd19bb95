// SPDX-License-Identifier: Apache-2.0
// What far ends a process for, and how a process may end.
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "far_testing.h"

namespace far_testing {
namespace {

class FarDeathTest : public ::testing::Test {
 protected:
  // The device has threads.
  void SetUp() override { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

float ReadOnTheHost() {
  const Stream s;
  const float* const x = s.New<float>(4);
  s.Wait();
  return *const_cast<const volatile float*>(x);
}

TEST_F(FarDeathTest, TheHostReadsDeviceMemory) {
  EXPECT_DEATH(ReadOnTheHost(), "far:0: the host touched device memory at offset 0x[0-9a-f]+");
}

// The workspace of a kernel that has not begun is released on another stream.
void ReleaseEarly() {
  const Stream s, other;
  float* const x = s.New<float>(4);
  s.Fill(x, 4, 1.0f);
  s.Wait();
  Hold(s);
  SubmitAdd(s, x, x, x, 4);
  other.Release(x);
  other.Wait();
  LetGo(s);
  s.Wait();
}

TEST_F(FarDeathTest, AKernelUsesMemoryThatWasReleased) {
  EXPECT_DEATH(ReleaseEarly(),
               "far:0: a kernel touched memory that is not allocated at offset 0x[0-9a-f]+");
}

void UseUnlistedAddress() {
  const Stream s;
  float* const x = s.New<float>(4);
  Must(s.Submit("add in cpu_test", &Add, AddBlock{x, x, x, 4}, {0, 16}));
  s.Wait();
}

TEST_F(FarDeathTest, AKernelUsesAnAddressThatNobodyTranslated) {
  EXPECT_DEATH(UseUnlistedAddress(),
               "far:0: a kernel used an address that its launch does not list, at offset 0x");
}

void Write(int first, int n) {
  const Stream s;
  float* const x = s.New<float>(5);
  s.Fill(x, 5, 1.0f);
  // From where it may begin; the addresses are checked, what kernels do with them is not.
  struct Block {
    float* x;
    std::int64_t first, n;
  };
  const auto write = [](void* block, char*, std::uint64_t) {
    const Block& b = *static_cast<const Block*>(block);
    for (std::int64_t i = 0; i < b.n; ++i) b.x[b.first + i] = 0;
    return int{ANYOP_OK};
  };
  Must(s.Submit("write in cpu_test", write, Block{x, first, n}, {0}));
  s.Release(x);
  s.Wait();
}

TEST_F(FarDeathTest, AKernelWritesBesideItsMemory) {
  Write(0, 5);
  EXPECT_DEATH(Write(5, 1),
               "far:0: something was written behind the memory at offset 0x[0-9a-f]+ \\(20 bytes");
  EXPECT_DEATH(Write(-1, 1),
               "far:0: something was written before the memory at offset 0x[0-9a-f]+ \\(20 bytes");
  EXPECT_DEATH(Write(16, 1), "far:0: a kernel touched memory that is not allocated at offset 0x");
}

void ReleaseBeforeItIsThere() {
  const Stream s, other;
  Hold(s);
  other.Release(s.New<float>(4));
  other.Wait();
}

TEST_F(FarDeathTest, AReleaseOvertakesItsAllocation) {
  EXPECT_DEATH(ReleaseBeforeItIsThere(),
               "far:0: the memory at offset 0x[0-9a-f]+ is released on a stream that did not wait "
               "for its allocation");
}

// What has no defect that a page could show gives old values.
TEST(FarMistakes, AnEventThatIsForgottenGivesOldValues) {
  const Stream before, after;
  float *const x = before.New<float>(1), *const y = after.New<float>(1);
  before.Fill(x, 1, 1.0f);
  before.Wait();
  Hold(before);
  before.Fill(x, 1, 7.0f);
  SubmitAdd(after, x, x, y, 1);
  EXPECT_EQ(after.Read(y, 1), std::vector<float>{2});
  LetGo(before);
  before.Wait();
  after.Release(x), after.Release(y);
}

TEST(FarMistakes, AResultThatIsReadEarlyIsOld) {
  const Stream s;
  float* const x = s.New<float>(1);
  std::vector<float> out(1, -7.0f);
  s.Fill(x, 1, 1.0f);
  Hold(s);
  s.StartRead(x, &out);
  EXPECT_EQ(out, std::vector<float>{-7});
  LetGo(s);
  s.Wait();
  EXPECT_EQ(out, std::vector<float>{1});
  s.Release(x);
}

// ---- Handlers of others.

void Earlier(int) {
  if (write(STDERR_FILENO, "the earlier handler\n", 20) != 20) return;
  _exit(7);
}

void ReadBehindAHandler() {
  signal(SIGSEGV, &Earlier);
  ReadOnTheHost();
}

void FaultElsewhere() {
  signal(SIGSEGV, &Earlier);
  Stream().Wait();
  *reinterpret_cast<volatile int*>(std::uintptr_t{64}) = 1;
}

TEST_F(FarDeathTest, TheHandlerThatWasThereRunsAfterwards) {
  EXPECT_EXIT(ReadBehindAHandler(), ::testing::ExitedWithCode(7),
              "far:0: the host touched device memory at offset 0x[0-9a-f]+\nthe earlier handler");
  EXPECT_EXIT(FaultElsewhere(), ::testing::ExitedWithCode(7), "^the earlier handler");
}

// ---- Exits.

int Sleep(void*, char*, std::uint64_t) {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return ANYOP_OK;
}

void ExitWithWorkUnderWay() {
  // Made before the device and so destroyed after its end, while copies into it are still queued.
  // Were it made later, a copy under way could write what exit() has destroyed.
  static std::vector<float> out(1 << 16);
  static const auto* const s = new Stream;
  static const auto* const waiting = new Stream;
  static const auto* const held = new Stream;
  float* const x = s->New<float>(1 << 16);
  s->Fill(x, 1 << 16, 1.0f);
  Hold(*held);
  Order(*held, *waiting);
  for (int i = 0; i < 1000; ++i) {
    Must(s->Submit("sleep in cpu_test", &Sleep, i, {}));
    s->StartRead(x, &out);
  }
  std::exit(0);
}

TEST_F(FarDeathTest, AProcessEndsWithWorkUnderWay) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EXIT(ExitWithWorkUnderWay(), ::testing::ExitedWithCode(0), "");
  }
}

}  // namespace
}  // namespace far_testing
