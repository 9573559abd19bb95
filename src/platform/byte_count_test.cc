// SPDX-License-Identifier: Apache-2.0
#include "platform/byte_count.h"

#include <gtest/gtest.h>

#include <array>

namespace anyop::byte_count_test {
namespace {

TEST(ByteCount, StaysTooMany) {
  EXPECT_EQ(AddBytes(1, 2), 3);
  EXPECT_EQ(AddBytes(kTooManyBytes - 1, 1), kTooManyBytes);
  EXPECT_EQ(AddBytes(kTooManyBytes, 1), kTooManyBytes);
  EXPECT_EQ(AddBytes(kTooManyBytes, kTooManyBytes), kTooManyBytes);
  EXPECT_EQ(MultiplyBytes(6, 7), 42);
  EXPECT_EQ(MultiplyBytes(1ll << 32, 1ll << 31), kTooManyBytes);
  EXPECT_EQ(MultiplyBytes(kTooManyBytes, 2), kTooManyBytes);
}

TEST(ByteCount, OfATensorIsTooManyWhereItsStridesAre) {
  const std::int64_t many = 1ll << 40;
  EXPECT_EQ(TensorBytes(4, {}), 4);
  EXPECT_EQ(TensorBytes(4, std::array{2l, 3l}), 24);
  EXPECT_EQ(TensorBytes(4, std::array{many, 0l}), 0);
  EXPECT_EQ(TensorBytes(4, std::array{many, many}), kTooManyBytes);
  EXPECT_EQ(TensorBytes(4, std::array{0l, many, many}), kTooManyBytes);
  EXPECT_EQ(TensorBytes(4, std::array{many, many, 0l}), kTooManyBytes);
}

TEST(ByteCount, AlignsUpToTheLastMultiple) {
  EXPECT_EQ(AlignBytes(0, 64), 0);
  EXPECT_EQ(AlignBytes(1, 64), 64);
  EXPECT_EQ(AlignBytes(64, 64), 64);
  const std::int64_t last = kTooManyBytes / 64 * 64;
  EXPECT_EQ(AlignBytes(last, 64), last);
  EXPECT_EQ(AlignBytes(last - 1, 64), last);
  EXPECT_EQ(AlignBytes(last + 1, 64), kTooManyBytes);
  EXPECT_EQ(AlignBytes(kTooManyBytes, 64), kTooManyBytes);
}

}  // namespace
}  // namespace anyop::byte_count_test
