// SPDX-License-Identifier: Apache-2.0
#include "platform/hash_bytes.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace anyop::hash_bytes_test {
namespace {

std::uint64_t Hash(const std::string& s) { return HashBytes(s.data(), s.size()); }

// Saved files hold these numbers; python/tests/test_saved_graph.py computes them on its own.
TEST(HashBytes, NeverChanges) {
  EXPECT_EQ(Hash(""), 0x84009a13b6293b9au);
  EXPECT_EQ(Hash("a"), 0xac99fc6b56f06914u);
  EXPECT_EQ(Hash("The quick brown fox jumps over the lazy dog."), 0xd4e05788a5967930u);
}

TEST(HashBytes, DiffersWhereOneBitDoes) {
  std::string text(200, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = char(i * 37);
  for (const std::size_t n : {1, 7, 8, 31, 32, 33, 64, 200}) {
    std::set<std::uint64_t> seen = {Hash(text.substr(0, n))};
    for (std::size_t bit = 0; bit < 8 * n; ++bit) {
      std::string flipped = text.substr(0, n);
      flipped[bit / 8] = char(flipped[bit / 8] ^ 1 << bit % 8);
      seen.insert(Hash(flipped));
    }
    EXPECT_EQ(seen.size(), 8 * n + 1);
  }
}

TEST(HashBytes, CountsZerosAtTheEnd) {
  std::set<std::uint64_t> seen;
  for (std::size_t n = 0; n < 100; ++n) seen.insert(Hash(std::string(n, '\0')));
  EXPECT_EQ(seen.size(), 100u);
}

}  // namespace
}  // namespace anyop::hash_bytes_test
