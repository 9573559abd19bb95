// SPDX-License-Identifier: Apache-2.0
// 8-bit storage against dtype.h. Built once per instruction set.
#include "anyop/simd/bytes.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <limits>
#include <vector>

namespace anyop {
namespace {

std::uint32_t Bits32(float f) { return std::bit_cast<std::uint32_t>(f); }

template <class C>
class SimdBytes : public testing::Test {};
using Storage8 = testing::Types<std::int8_t, F8E4M3>;
TYPED_TEST_SUITE(SimdBytes, Storage8);

TYPED_TEST(SimdBytes, LoadsEveryValueAsDTypeDoes) {
  for (int u = 0; u < 256; u += kLanes) {
    TypeParam in[kLanes];
    float out[kLanes];
    for (int i = 0; i < kLanes; ++i) in[i] = std::bit_cast<TypeParam>(std::uint8_t(u + i));
    Store(out, LoadAny(in, kFull));
    for (int i = 0; i < kLanes; ++i) {
      const float want = float(in[i]);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(out[i])) << u + i;
      } else {
        ASSERT_EQ(Bits32(out[i]), Bits32(want)) << u + i;
      }
    }
  }
}

// Nothing beyond the count is read or written, and other lanes read 0.
TYPED_TEST(SimdBytes, TailsStayWithinTheirBytes) {
  char* pages = static_cast<char*>(
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(pages + 4096, 4096, PROT_NONE);
  for (int n = 0; n <= kLanes; ++n) {
    TypeParam* p = reinterpret_cast<TypeParam*>(pages + 4096 - n);
    pages[4096 - n - 1] = 77;
    StoreBytes(p, Set(-3.0f), n);
    EXPECT_EQ(pages[4096 - n - 1], 77);
    float out[kLanes];
    Store(out, LoadAny(p, n));
    for (int i = 0; i < kLanes; ++i) EXPECT_EQ(out[i], i < n ? -3.0f : 0.0f) << n << ", " << i;
  }
  munmap(pages, 8192);
}

TEST(SimdBytes, StoresWholeNumbersAsI8) {
  for (int first = -128; first < 128; first += kLanes) {
    float in[kLanes];
    std::int8_t out[kLanes];
    for (int i = 0; i < kLanes; ++i) in[i] = float(first + i);
    StoreBytes(out, Load(in), kFull);
    for (int i = 0; i < kLanes; ++i) EXPECT_EQ(out[i], first + i);
  }
}

// Every rounding decision lies at a value, half way to the next, or one f32 beside these.
TEST(SimdBytes, StoresEveryRoundingDecisionAsF8E4M3) {
  std::vector<float> x = {0.0f,  std::numeric_limits<float>::infinity(),  464.0f, 465.0f,
                          1e30f, std::numeric_limits<float>::quiet_NaN(), 1e-30f, 0x1p-149f};
  for (std::uint32_t u = 0; u < 0x7f800000u; u += 1u << 19) {
    for (int d = -1; d <= 1; ++d) x.push_back(std::bit_cast<float>(u + std::uint32_t(d)));
  }
  for (int m = 0; m < 64; ++m) {  // below 2^-6: steps of 2^-9
    for (const float d : {0.0f, 0x1p-30f, -0x1p-30f}) x.push_back(float(m) * 0x1p-10f + d);
  }
  for (std::size_t i = 0, n = x.size(); i < n; ++i) x.push_back(-x[i]);
  while (x.size() % kLanes) x.push_back(1.0f);
  for (std::size_t i = 0; i < x.size(); i += kLanes) {
    F8E4M3 out[kLanes];
    StoreBytes(out, Load(&x[i]), kFull);
    for (std::size_t k = 0; k < kLanes; ++k) {
      ASSERT_EQ(out[k].bits, F8E4M3(x[i + k]).bits) << x[i + k];
    }
  }
}

}  // namespace
}  // namespace anyop
