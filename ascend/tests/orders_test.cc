// SPDX-License-Identifier: Apache-2.0
// An event that is forgotten once, in one round of one block, is found in every order of blocks:
// what decides is the order that is missing, and not when something ran.
#include <gtest/gtest.h>

#include "on_core.h"

namespace ascend_tests {
namespace {

constexpr std::uint32_t kBlocks = 9, kRounds = 5, kSeeds = 24;

// The pair of a set and a wait that a kernel leaves out.
struct Forgotten {
  std::uint32_t event, round, block;
  bool Is(std::uint32_t e, std::uint32_t r) const {
    return e == event && r == round && GetBlockIdx() == block;
  }
};
template <HardEvent event>
void Set(bool does, int id) {
  if (does) SetFlag<event>(id);
}
template <HardEvent event>
void Wait(bool does, int id) {
  if (does) WaitFlag<event>(id);
}

// Two buffers in turn: copied in, computed, copied out.
void Pipeline(const GlobalTensor<float>& x, const GlobalTensor<float>& y, const Forgotten& f) {
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 1024);
  for (std::uint32_t r = 0; r < kRounds; ++r) {
    const int id = static_cast<int>(r % 2);
    const auto t = buffer.GetWithOffset<float>(64, r % 2 * 256);
    const auto at = (GetBlockIdx() * kRounds + r) * 64;
    if (r > 1) Wait<HardEvent::MTE3_MTE2>(!f.Is(2, r), id);
    DataCopy(t, x[at], 64);
    Set<HardEvent::MTE2_V>(!f.Is(0, r), id);
    Wait<HardEvent::MTE2_V>(!f.Is(0, r), id);
    Adds(t, t, 1.0f, 64);
    Set<HardEvent::V_MTE3>(!f.Is(1, r), id);
    Wait<HardEvent::V_MTE3>(!f.Is(1, r), id);
    DataCopy(y[at], t, 64);
    if (r + 2 < kRounds) Set<HardEvent::MTE3_MTE2>(!f.Is(2, r + 2), id);
  }
}

class Orders : public ::testing::Test {
 protected:
  // What a body finds in each order of the blocks.
  template <class F>
  void ExpectInAllOrders(const std::string& kind, const std::string& what, const F& body) {
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      anyop_ascend_clear();
      Global<float> x("x", std::vector<float>(kBlocks * kRounds * 64, 1.0f));
      Global<float> y("y", kBlocks * kRounds * 64, ANYOP_ASCEND_READ | ANYOP_ASCEND_WRITE);
      std::fill_n(y.data(), kBlocks * kRounds * 64, 0.0f);
      Configure(false, seed);
      OnCores(kBlocks, [&] { body(x.tensor(), y.tensor()); });
      const auto found = Findings();
      Configure(false, 0);
      if (kind.empty()) {
        ASSERT_EQ(found.dump(), "[]") << what << ", seed " << seed;
        continue;
      }
      ASSERT_FALSE(found.empty()) << what << ", seed " << seed;
      for (const auto& one : found) ASSERT_EQ(one["kind"], kind) << what << ", seed " << seed;
    }
    anyop_ascend_clear();
  }
};

TEST_F(Orders, OfBlocksHideNoForgottenEvent) {
  ExpectInAllOrders("", "nothing", [](const auto& x, const auto& y) { Pipeline(x, y, {9, 0, 0}); });
  for (const std::uint32_t block : {0u, 3u, kBlocks - 1}) {
    for (std::uint32_t event = 0; event < 3; ++event) {
      for (std::uint32_t round = event == 2 ? 2 : 0; round < kRounds; ++round) {
        const Forgotten forgotten{event, round, block};
        ExpectInAllOrders("race",
                          "event " + std::to_string(event) + ", round " + std::to_string(round),
                          [&](const auto& x, const auto& y) { Pipeline(x, y, forgotten); });
      }
    }
  }
}

void Copy(TBuf<>& buffer, const GlobalTensor<float>& from, const GlobalTensor<float>& to) {
  const auto t = buffer.Get<float>();
  DataCopy(t, from, 8);
  SetFlag<HardEvent::MTE2_MTE3>(0);
  WaitFlag<HardEvent::MTE2_MTE3>(0);
  DataCopy(to, t, 8);
}
// All blocks but the last one read y, or write a float of it each; the last one waits for them and
// writes over it. `forgotten`: the block whose event is left out.
void Collect(const GlobalTensor<float>& x, const GlobalTensor<float>& y, bool write,
             std::uint32_t forgotten) {
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 256);
  GlobalTensor<std::int32_t> flags;
  LocalTensor<std::int32_t> work;
  const auto me = static_cast<std::uint32_t>(GetBlockIdx());
  if (me + 1 == kBlocks) {
    for (std::uint32_t other = 0; other < me; ++other) {
      if (other != forgotten) IBWait(flags, work, static_cast<std::int32_t>(other), 0);
    }
    Copy(buffer, x, y);
    return;
  }
  if (write) {
    const auto t = buffer.Get<float>();
    Duplicate(t, 1.0f, 8);
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    DataCopyPad(y[me], t, DataCopyExtParams(1, 4, 0, 0, 0));
  } else {
    Copy(buffer, y, y[64 + me * 8]);
  }
  if (me != forgotten) IBSet(flags, work, static_cast<std::int32_t>(me), 0);
}
TEST_F(Orders, OfBlocksHideNoForgottenReaderOrWriter) {
  for (const bool write : {false, true}) {
    ExpectInAllOrders("", "nothing",
                      [&](const auto& x, const auto& y) { Collect(x, y, write, kBlocks); });
    for (std::uint32_t forgotten = 0; forgotten + 1 < kBlocks; ++forgotten) {
      ExpectInAllOrders("gm-block-race",
                        std::string(write ? "writer " : "reader ") + std::to_string(forgotten),
                        [&](const auto& x, const auto& y) { Collect(x, y, write, forgotten); });
    }
  }
}

}  // namespace
}  // namespace ascend_tests
