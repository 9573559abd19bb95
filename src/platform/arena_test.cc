// SPDX-License-Identifier: Apache-2.0
#include "platform/arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "platform/error.h"

namespace anyop::arena_test {
namespace {

std::uintptr_t Address(const Workspace& w) { return reinterpret_cast<std::uintptr_t>(w.data()); }

TEST(Arena, AlignsTo64Bytes) {
  const Workspace a(1), b(65), c(0), d(3 << 20);
  for (const Workspace* w : {&a, &b, &c, &d}) {
    EXPECT_NE(w->data(), nullptr);
    EXPECT_EQ(Address(*w) % 64, 0u);
  }
}

TEST(Arena, GivesTheSameMemoryToOneCallAfterAnother) {
  void* first = Workspace(1000).data();
  EXPECT_EQ(Workspace(2000).data(), first);
}

TEST(Arena, KeepsWhatOuterScopesHoldWhenInnerOnesGrow) {
  TrimArena();
  const Workspace outer(1000);
  std::memset(outer.data(), 0x5a, 1000);
  for (const std::size_t bytes : {100u, 1u << 20, 5u << 20, 40u << 20, 64u}) {
    const Workspace inner(bytes);
    std::memset(inner.data(), 0, bytes);
    const Workspace innermost(bytes);
    std::memset(innermost.data(), 1, bytes);
  }
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(static_cast<char*>(outer.data())[i], 0x5a) << i;
}

TEST(Arena, KeepsTheBlockOfAnEmptyOuterScope) {
  TrimArena();
  const Workspace outer(0);
  { const Workspace inner(64 << 20); }
  EXPECT_GT(ArenaBytes(), 0u);
}

TEST(Arena, SettlesOnOneBlockThatHoldsAll) {
  TrimArena();
  const auto nest = [] {
    const Workspace a(300 << 10), b(3 << 20), c(5 << 20);
    return a.data();
  };
  nest();
  void* settled = nest();
  const std::uint64_t bytes = ArenaBytes();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(nest(), settled);
  EXPECT_EQ(ArenaBytes(), bytes);
}

TEST(Arena, SaysSoWhenThereIsNoMemory) {
  for (const std::uint64_t bytes : {std::uint64_t(1) << 45, ~std::uint64_t(0)}) {
    try {
      const Workspace w(bytes);
      FAIL() << "got " << bytes << " bytes";
    } catch (const Error& e) {
      EXPECT_EQ(e.code, ANYOP_OUT_OF_MEMORY);
      EXPECT_EQ(std::string(e.what()), "no memory for a workspace of " + std::to_string(bytes) +
                                           " bytes. Try smaller tensors, or fewer threads.");
    }
  }
  const Workspace still_works(100);
  std::memset(still_works.data(), 0, 100);
}

TEST(Arena, GivesBackWhatNoScopeUses) {
  {
    const Workspace w(8 << 20);
    TrimArena();
    std::memset(w.data(), 0, 8 << 20);
    EXPECT_GE(ArenaBytes(), 8u << 20);
  }
  TrimArena();
  EXPECT_EQ(ArenaBytes(), 0u);
}

TEST(Arena, IsOnePerThread) {
  const Workspace mine(100);
  std::thread([&] {
    const Workspace theirs(100);
    EXPECT_NE(theirs.data(), mine.data());
  }).join();
}

}  // namespace
}  // namespace anyop::arena_test
