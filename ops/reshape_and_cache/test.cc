// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

namespace anyop::optest::reshape_and_cache_test {
namespace {

// Distinct slots, some none: of two rows in one slot either may win.
void MakeSlots(Call& call) {
  const std::int64_t slots = call.size("nb * bs");
  std::vector<std::int64_t> free(static_cast<std::size_t>(slots));
  std::iota(free.begin(), free.end(), 0);
  std::shuffle(free.begin(), free.end(), call.random());
  Array& mapping = call.array("slot_mapping");
  for (std::int64_t i = 0; i < mapping.size(); ++i) {
    const bool none = free.empty() || call.Draw(0, 4) == 0;
    mapping.SetInt(i, none ? -1 : free.back());
    if (!none) free.pop_back();
  }
}

const OpTest kReshapeAndCache{
    .op = "reshape_and_cache",
    .tolerance = Exact(),
    .sizes = {"t = 16, h = 3, dk = 64, dv = 64, nb = 3, bs = 16, s = 16",
              "t = 5, h = 2, dk = 24, dv = 40, nb = 3, bs = 7, s = 4"},
    .ranges = {{"k_scale", {0.01, 1}}, {"v_scale", {0.01, 1}}},
    .not_extreme = {{"key", "f8 saturates an infinity, which its reference leaves one"},
                    {"value", "f8 saturates an infinity, which its reference leaves one"}},
    .prepare = MakeSlots,
};
TEST(ReshapeAndCache, MatchesItsReference) { CheckAll(kReshapeAndCache); }

// One token of one head in slot `slot` of a cache of two blocks of 2.
Call OneToken(const Array& key, DType cache, std::int64_t slot) {
  Call call("reshape_and_cache");
  Array slots(DType::kI64, {1});
  slots.SetInt(0, slot);
  const std::int64_t width = key.dim(2);
  call.Set("key", key).Set("key_cache", Array(cache, {2, 2, 1, width}, {1}));
  call.Set("slot_mapping", slots);
  return call;
}

TEST(ReshapeAndCache, StoresARowInItsSlotAndLeavesTheRest) {
  Call call = OneToken(Array(DType::kF32, {1, 1, 2}, {5, 6}), DType::kF32, 2);
  EXPECT_EQ(call.Run()["key_cache"], Array(DType::kF32, {2, 2, 1, 2}, {1, 1, 1, 1, 5, 6, 1, 1}));
}

TEST(ReshapeAndCache, SkipsNegativeSlots) {
  Call call = OneToken(Array(DType::kF32, {1, 1, 2}, {5, 6}), DType::kF32, -1);
  EXPECT_EQ(call.Run()["key_cache"], Array(DType::kF32, {2, 2, 1, 2}, {1}));
}

TEST(ReshapeAndCache, RefusesASlotBeyondTheCache) {
  Call call = OneToken(Array(DType::kF32, {1, 1, 2}, {5, 6}), DType::kF32, 4);
  EXPECT_EQ(call.Refusal(),
            "reshape_and_cache: slot_mapping[0] is 4, but must be less than 4 (nb*bs, nb is 2, bs "
            "is 2).");
}

TEST(ReshapeAndCache, RefusesTwoRowsInOneSlotInCheckMode) {
  Call call("reshape_and_cache");
  call.Set("key", Array(DType::kF32, {5, 1, 1}, {1, 2, 3, 4, 5}));
  call.Set("key_cache", Array(DType::kF32, {2, 2, 1, 1}));
  call.Set("slot_mapping", Array(DType::kI64, {5}, {2, -1, 0, 2, -1}));
  EXPECT_NO_THROW(call.Run());
  const Checking checking;
  EXPECT_EQ(call.Refusal(),
            "reshape_and_cache: slot_mapping[3] is 2, but must differ from slot_mapping[0], "
            "because a slot holds one row.");
  call.Set("slot_mapping", Array(DType::kI64, {5}, {2, -1, 0, 1, -1}));
  EXPECT_EQ(call.Run()["key_cache"], Array(DType::kF32, {2, 2, 1, 1}, {3, 4, 1, 0}));
}

TEST(ReshapeAndCache, RoundsHalfToEvenAndSaturatesInI8) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Array key(DType::kF32, {1, 1, 8}, {0.5, 1.5, -2.5, 200, -200, infinity, -infinity, NAN});
  Call call = OneToken(key, DType::kI8, 0);
  const Array cache = call.Run()["key_cache"];
  const double expected[] = {0, 2, -2, 127, -128, 127, -128, 0};
  for (std::int64_t i = 0; i < 8; ++i) EXPECT_EQ(cache.Get(i), expected[i]) << i;
}

TEST(ReshapeAndCache, MultipliesByTheReciprocalOfTheScale) {
  Call call = OneToken(Array(DType::kBF16, {1, 1, 2}, {3, -1}), DType::kI8, 1);
  call.Set("k_scale", Array(DType::kF32, {1}, {0.5}));
  const Array cache = call.Run()["key_cache"];
  EXPECT_EQ(cache.Get(2), 6);
  EXPECT_EQ(cache.Get(3), -2);
}

TEST(ReshapeAndCache, SaturatesInF8) {
  Call call = OneToken(Array(DType::kF16, {1, 1, 2}, {1000, -7}), DType::kF8E4M3, 0);
  const Array cache = call.Run()["key_cache"];
  EXPECT_EQ(cache.Get(0), 448);
  EXPECT_EQ(cache.Get(1), -7);
}

TEST(ReshapeAndCache, CopiesTheBitsOfEqualDTypesWhateverTheScale) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kF8E4M3}) {
    // Quiet and signaling NaNs with payloads, -0, subnormals: whatever bytes.
    Array key(dtype, {1, 1, 256});
    for (std::int64_t i = 0; i < key.bytes(); ++i) {
      key.data<std::uint8_t>()[i] = std::uint8_t(i % 4 == 3 ? 0x7f | i << 7 : i * 37 + 129);
    }
    Call call = OneToken(key, dtype, 0);
    call.Set("k_scale", Array(DType::kF32, {1}, {0.5}));
    const Array cache = call.Run()["key_cache"];
    EXPECT_EQ(std::memcmp(cache.data<char>(), key.data<char>(), std::size_t(key.bytes())), 0)
        << Name(dtype);
  }
}

TEST(ReshapeAndCache, CutsRowsIntoPiecesOf32BytesInNZ) {
  // 2 heads of 24 in bf16 are 3 pieces of 16; slot 3 is block 1, offset 1.
  Array key(DType::kBF16, {1, 2, 24}), slots(DType::kI32, {1});
  for (std::int64_t i = 0; i < 48; ++i) key.Set(i, double(i + 1));
  slots.SetInt(0, 3);
  Call call("reshape_and_cache");
  call.Set("key", key).Set("key_cache", Array(DType::kBF16, {2, 3, 2, 16}));
  call.Set("slot_mapping", slots).Set("layout", "NZ");
  const Array cache = call.Run()["key_cache"];
  double sum = 0;
  for (std::int64_t i = 0; i < cache.size(); ++i) sum += cache.Get(i);
  EXPECT_EQ(sum, 48 * 49 / 2);
  for (std::int64_t x = 0; x < 48; ++x) {
    EXPECT_EQ(cache.Get({1, x / 16, 1, x % 16}), double(x + 1));
  }
}

}  // namespace
}  // namespace anyop::optest::reshape_and_cache_test
