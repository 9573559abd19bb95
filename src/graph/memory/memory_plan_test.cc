// SPDX-License-Identifier: Apache-2.0
#include "graph/memory/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <random>

#include "anyop/error.h"
#include "graph/memory/skyline.h"

namespace anyop::memory_plan_test {
namespace {

// The buffers of a decoder layer after layer: hidden state, norm, qkv, attention, gate and up, ...
std::vector<Lifetime> Decoder(int layers, std::int64_t rows) {
  std::vector<Lifetime> buffers;
  int step = 0;
  const auto add = [&](std::int64_t width, int first, int last) {
    buffers.push_back({rows * width * 2, first, last});
  };
  for (int layer = 0; layer < layers; ++layer) {
    const int s = step;
    add(576, s, s + 6);       // residual
    add(576, s, s + 1);       // norm
    add(960, s + 1, s + 3);   // qkv
    add(576, s + 2, s + 3);   // rotated
    add(4096, s + 3, s + 3);  // workspace
    add(576, s + 3, s + 4);   // attention
    add(576, s + 4, s + 5);   // projected
    add(576, s + 5, s + 6);   // norm
    add(3072, s + 6, s + 7);  // gate and up
    add(1536, s + 7, s + 8);  // activation
    add(576, s + 8, s + 9);   // down
    step += 9;
  }
  return buffers;
}

std::vector<Lifetime> Random(int n, int steps, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Lifetime> buffers;
  for (int i = 0; i < n; ++i) {
    const int first = int(random() % unsigned(steps));
    const int length = 1 + int(random() % 12);
    buffers.push_back({std::int64_t(1 + random() % 100000), first, first + length});
  }
  return buffers;
}

double Ratio(const MemoryPlan& plan) { return double(plan.peak_bytes) / double(plan.bound_bytes); }

TEST(MemoryPlan, OfNothingIsEmpty) {
  const MemoryPlan plan = PlanMemory({});
  EXPECT_EQ(plan.peak_bytes, 0);
  EXPECT_TRUE(plan.offsets.empty());
}

TEST(MemoryPlan, SharesMemoryOfBuffersThatNeverMeet) {
  const std::vector<Lifetime> buffers = {{1000, 0, 1}, {1000, 2, 3}, {64, 1, 2}};
  const MemoryPlan plan = PlanMemory(buffers);
  EXPECT_EQ(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.peak_bytes, 1024 + 64);
  EXPECT_EQ(plan.bound_bytes, plan.peak_bytes);
}

TEST(MemoryPlan, TakesBuffersOfNoBytes) {
  const std::vector<Lifetime> buffers = {{0, 0, 3}, {10, 1, 1}};
  EXPECT_EQ(CheckMemoryPlan(buffers, PlanMemory(buffers)), "");
}

TEST(MemoryPlan, RefusesBuffersThatTogetherAreBeyondSixtyThreeBits) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t bytes : {most, most - 63, most - 62, most / 2 + 1}) {
    const Lifetime b[] = {{bytes, 0, 1}, {bytes, 1, 2}};
    try {
      PlanMemory(b);
      ADD_FAILURE() << bytes;
    } catch (const Error& e) {
      EXPECT_EQ(e.code, ANYOP_OUT_OF_MEMORY);
      EXPECT_EQ(
          std::string(e.what()),
          "graph: the values take 2^63 bytes or more together, but no memory is as large. Try "
          "smaller inputs.");
    }
  }
  const Lifetime b[] = {{most / 4, 0, 1}, {most / 4, 1, 2}, {most / 4, 2, 3}};
  const MemoryPlan plan = PlanMemory(b);
  EXPECT_EQ(plan.peak_bytes, plan.bound_bytes);
  EXPECT_EQ(CheckMemoryPlan(b, plan), "");
}

TEST(MemoryPlan, IsWithinTwoPercentOfTheBoundForDecoders) {
  for (const int layers : {1, 2, 30}) {
    for (const std::int64_t rows : {1, 7, 512}) {
      const std::vector<Lifetime> buffers = Decoder(layers, rows);
      const MemoryPlan plan = PlanMemory(buffers);
      EXPECT_EQ(CheckMemoryPlan(buffers, plan), "");
      EXPECT_LE(Ratio(plan), 1.02) << layers << " layers, " << rows << " rows";
    }
  }
}

TEST(MemoryPlan, IsNearTheBoundForHardSets) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const std::vector<Lifetime> buffers = Random(300, 60, seed);
    const MemoryPlan plan = PlanMemory(buffers);
    EXPECT_EQ(CheckMemoryPlan(buffers, plan), "");
    EXPECT_LE(Ratio(plan), 1.05) << "seed " << seed;
    EXPECT_GE(Ratio(plan), 1.0);
  }
}

// A square of so many units and steps, cut at a random place along a random side, n - 1 times.
std::vector<Lifetime> CutSquare(int n, unsigned seed, int side = 64) {
  std::mt19937 random(seed);
  std::vector<Lifetime> parts = {{side * kArenaAlignment, 0, side - 1}};
  while (int(parts.size()) < n) {
    Lifetime& part = parts[random() % parts.size()];
    Lifetime rest = part;
    const std::int64_t units = part.bytes / kArenaAlignment;
    const int steps = part.last - part.first + 1;
    if (units > 1 && random() % 2) {
      part.bytes = std::int64_t(1 + random() % std::uint64_t(units - 1)) * kArenaAlignment;
      rest.bytes -= part.bytes;
    } else if (steps > 1) {
      rest.first += 1 + int(random() % unsigned(steps - 1));
      part.last = rest.first - 1;
    } else {
      continue;
    }
    parts.push_back(rest);
  }
  return parts;
}

TEST(MemoryPlan, IsNearTheBoundWhereAPlanWithoutAGapExists) {
  double sum = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const std::vector<Lifetime> buffers = CutSquare(150, seed);
    const MemoryPlan plan = PlanMemory(buffers);
    EXPECT_EQ(CheckMemoryPlan(buffers, plan), "");
    EXPECT_EQ(plan.bound_bytes, 64 * kArenaAlignment);
    sum += Ratio(plan);
  }
  EXPECT_LE(sum / 20, 1.015);
}

TEST(MemoryPlan, UndoesCutsThatAreOfDifferentSizes) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const MemoryPlan plan = PlanMemory(CutSquare(100, seed, 4096));
    EXPECT_EQ(plan.peak_bytes, plan.bound_bytes) << seed;
  }
}

// No two of these are a rectangle, so that only the search can find it.
TEST(MemoryPlan, FindsAPinwheel) {
  const std::int64_t u = kArenaAlignment;
  const std::vector<Lifetime> buffers = {
      {3 * u, 3, 6}, {4 * u, 0, 6}, {7 * u, 7, 9}, {3 * u, 3, 9}, {6 * u, 0, 2}};
  const MemoryPlan plan = PlanMemory(buffers);
  EXPECT_EQ(CheckMemoryPlan(buffers, plan), "");
  EXPECT_EQ(plan.peak_bytes, 10 * u);
}

TEST(MemoryPlan, SearchesAmongBuffersOfNoBytesToo) {
  std::vector<Lifetime> buffers = CutSquare(60, 3);
  for (int k = 0; k < 20; ++k) buffers.push_back({k % 2, 3 * k, 3 * k + 2});
  EXPECT_EQ(CheckMemoryPlan(buffers, PlanMemory(buffers)), "");
}

TEST(Glue, MakesWholesOfWhatIsARectangle) {
  const std::vector<Lifetime> buffers = {{64, 0, 1}, {128, 2, 5}, {64, 0, 1}, {64, 9, 9}};
  const GluedBuffers glued = Glue(buffers);
  ASSERT_EQ(glued.wholes.size(), 2u);
  EXPECT_EQ(glued.wholes[0].bytes, 128);
  EXPECT_EQ(glued.wholes[0].first, 0);
  EXPECT_EQ(glued.wholes[0].last, 5);
  std::vector<std::pair<int, std::int64_t>> parts;
  for (const GluedBuffers::Part& p : glued.parts[0]) parts.emplace_back(p.buffer, p.at);
  EXPECT_EQ(parts, (std::vector<std::pair<int, std::int64_t>>{{0, 0}, {2, 64}, {1, 0}}));
  EXPECT_EQ(glued.parts[1].size(), 1u);
}

TEST(MemoryPlan, IsTheSameEveryTime) {
  const std::vector<Lifetime> buffers = CutSquare(200, 1);
  EXPECT_EQ(PlanMemory(buffers).offsets, PlanMemory(buffers).offsets);
}

TEST(CheckMemoryPlan, FindsWhatIsWrong) {
  const std::vector<Lifetime> buffers = {{100, 0, 2}, {100, 2, 3}, {100, 3, 4}};
  const auto with = [&](std::vector<std::int64_t> offsets, std::int64_t peak) {
    return CheckMemoryPlan(buffers, {std::move(offsets), peak, 0});
  };
  EXPECT_EQ(with({0, 128, 0}, 256), "");
  EXPECT_EQ(with({0, 64, 0}, 256),
            "buffer 1 [64, 164) of steps 2 to 3 overlaps buffer 0 [0, 100) of steps 0 to 2");
  EXPECT_EQ(with({128, 64, 256}, 512),
            "buffer 1 [64, 164) of steps 2 to 3 overlaps buffer 0 [128, 228) of steps 0 to 2");
  EXPECT_NE(with({0, 128, 0}, 200), "");
  EXPECT_NE(with({0, 100, 0}, 256), "");
  EXPECT_NE(with({-64, 128, 0}, 256), "");
  EXPECT_NE(with({0, 128}, 256), "");
}

// Every pair, by definition: what both the planner and its checker must agree with.
TEST(CheckMemoryPlan, AgreesWithLookingAtEveryPair) {
  std::mt19937 random(7);
  int wrong = 0;
  for (int k = 0; k < 300; ++k) {
    const std::vector<Lifetime> buffers = Random(12, 6, unsigned(k));
    MemoryPlan plan = PlanMemory(buffers, 3);
    if (k % 2) plan.offsets[random() % 12] = std::int64_t(random() % 4000) * 64;
    plan.peak_bytes = 1 << 30;
    bool meets = false;
    for (std::size_t a = 0; a < buffers.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const bool together =
            buffers[a].first <= buffers[b].last && buffers[b].first <= buffers[a].last;
        const bool apart = plan.offsets[a] + buffers[a].bytes <= plan.offsets[b] ||
                           plan.offsets[b] + buffers[b].bytes <= plan.offsets[a];
        meets |= together && !apart;
      }
    }
    EXPECT_EQ(!CheckMemoryPlan(buffers, plan).empty(), meets) << k;
    wrong += meets;
  }
  EXPECT_GT(wrong, 20);
}

TEST(MemoryPlan, OfAThousandBuffersTakesAboutAMillisecond) {
  const std::vector<Lifetime> buffers = Decoder(90, 1);
  double best = 1e9;
  for (int k = 0; k < 20; ++k) {
    const auto start = std::chrono::steady_clock::now();
    PlanMemory(buffers, 0);
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, spent.count());
  }
  EXPECT_LT(best, 5) << "ms for " << buffers.size() << " buffers";
  RecordProperty("milliseconds", std::to_string(best));
}

}  // namespace
}  // namespace anyop::memory_plan_test
