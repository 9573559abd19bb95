// SPDX-License-Identifier: Apache-2.0
#include "platform/ceilings.h"

#include <gtest/gtest.h>

#include "platform/cpu.h"
#include "platform/threads.h"

namespace anyop::ceilings_test {
namespace {

TEST(Ceilings, AreWithinReason) {
#ifdef ANYOP_EMULATED
  GTEST_SKIP() << "an emulated machine is slower than any that the bounds are for";
#endif
  const Ceilings& c = MachineCeilings();
  for (const Bandwidth& b : c.bandwidths) {
    SCOPED_TRACE(b.level + " with " + std::to_string(b.threads));
    EXPECT_GT(b.read_gbs, 0.2);
    EXPECT_LT(b.read_gbs, 2000.0 * b.threads);
    EXPECT_GT(b.copy_gbs, 0.2);
    EXPECT_LT(b.copy_gbs, 2000.0 * b.threads);
  }
  for (const Rate& r : c.rates) {
    EXPECT_GT(r.gops, 1) << r.name;
    EXPECT_LT(r.gops, 8000.0 * r.threads) << r.name;
  }
  EXPECT_LT(c.seconds, 30);
}

TEST(Ceilings, CoverOneThreadAndAll) {
  const Ceilings& c = MachineCeilings();
  for (const int threads : {1, NumThreads()}) {
    EXPECT_NE(c.bandwidth("L1", threads), nullptr);
    EXPECT_NE(c.bandwidth("DRAM", threads), nullptr);
    EXPECT_NE(c.rate("f32 fma", threads), nullptr);
    EXPECT_EQ(c.rate("bf16 dot", threads) != nullptr, HasFeature("avx512_bf16"));
  }
  EXPECT_EQ(c.rate("f32 fma", 999), nullptr);
}

TEST(Ceilings, DotInstructionsDoMoreWorkThanMultiplyAdds) {
  const Ceilings& c = MachineCeilings();
  const Rate* dot = c.rate("int8 dot", 1);
  if (!dot) GTEST_SKIP() << "no int8 dot instruction";
  EXPECT_GT(dot->gops, 1.5 * c.rate("f32 fma", 1)->gops);
}

TEST(Ceilings, TheFirstCacheIsFasterThanMemory) {
#ifdef ANYOP_EMULATED
  GTEST_SKIP() << "an emulated machine shows nothing of caches";
#endif
  const Ceilings& c = MachineCeilings();
  EXPECT_GT(c.bandwidth("L1", 1)->read_gbs, c.bandwidth("DRAM", 1)->read_gbs);
}

}  // namespace
}  // namespace anyop::ceilings_test
