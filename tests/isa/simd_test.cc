// SPDX-License-Identifier: Apache-2.0
// The vector layer against dtype.h and libm in double. Built once per instruction set.
#include "anyop/simd.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <limits>
#include <vector>

#define ANYOP_STRING2(x) #x
#define ANYOP_STRING(x) ANYOP_STRING2(x)

namespace anyop {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float FromBits(std::uint32_t u) { return std::bit_cast<float>(u); }
std::uint32_t Bits32(float f) { return std::bit_cast<std::uint32_t>(f); }

// Lane 0 of f applied to x in every lane; all lanes must agree.
template <class F>
float Lane(F f, float x) {
  float out[kLanes];
  Store(out, f(Set(x)));
  for (float o : out) EXPECT_EQ(Bits32(o), Bits32(out[0]));
  return out[0];
}

// Distance from `exact` in units of the f32 spacing there (2^-149 at least).
double UlpError(float got, double exact) {
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) == std::isnan(got) ? 0 : 1e9;
  if (std::fabs(exact) >= 0x1.ffffffp127) return std::isinf(got) ? 0 : 1e9;
  const int exponent = exact == 0 ? -126 : std::max(std::ilogb(exact), -126);
  return std::fabs(double(got) - exact) / std::ldexp(1.0, exponent - 23);
}

// n bytes that end where the next page may not be touched.
class GuardedBytes {
 public:
  explicit GuardedBytes(std::size_t n) : n_(n) {
    pages_ = static_cast<char*>(
        mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(pages_ + 4096, 4096, PROT_NONE);
  }
  ~GuardedBytes() { munmap(pages_, 8192); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(pages_ + 4096 - n_);
  }

 private:
  std::size_t n_;
  char* pages_;
};

template <class T>
class Simd16 : public testing::Test {};
using Storage16 = testing::Types<BF16, F16>;
TYPED_TEST_SUITE(Simd16, Storage16);

TYPED_TEST(Simd16, LoadsEveryValueAsDTypeDoes) {
  for (std::uint32_t u = 0; u < 65536; u += kLanes) {
    TypeParam in[kLanes];
    float out[kLanes];
    for (int i = 0; i < kLanes; ++i) in[i].bits = std::uint16_t(u + i);
    Store(out, Load(in));
    for (int i = 0; i < kLanes; ++i) ASSERT_EQ(Bits32(out[i]), Bits32(float(in[i]))) << u + i;
  }
}

// Every rounding decision lies at a value, half way to the next, or one f32 beside these.
TYPED_TEST(Simd16, StoresEveryRoundingDecisionAsDTypeDoes) {
  constexpr int kDropped = std::is_same_v<TypeParam, BF16> ? 16 : 13;
  std::vector<float> x;
  for (std::uint64_t u = 0; u < 1ull << 32; u += 1u << (kDropped - 1)) {
    for (int d = -1; d <= 1; ++d) x.push_back(FromBits(std::uint32_t(u + d)));
  }
  x.resize(x.size() / kLanes * kLanes);
  for (std::size_t k = 0; k < x.size(); k += kLanes) {
    TypeParam out[kLanes];
    Store(out, Load(&x[k]));
    for (int i = 0; i < kLanes; ++i) {
      ASSERT_EQ(out[i].bits, TypeParam(x[k + i]).bits) << std::hexfloat << x[k + i];
    }
  }
}

TYPED_TEST(Simd16, RoundsSubnormalsAsDTypeDoes) {
  for (std::uint32_t u = 0; u < 0x39000000u; u += 977) {
    for (std::uint32_t sign : {0u, 0x80000000u}) {
      const float x = FromBits(u | sign);
      TypeParam out[kLanes];
      Store(out, Set(x));
      ASSERT_EQ(out[0].bits, TypeParam(x).bits) << std::hexfloat << x;
    }
  }
}

template <class T>
class SimdStorage : public testing::Test {};
using Storage = testing::Types<float, BF16, F16>;
TYPED_TEST_SUITE(SimdStorage, Storage);

TYPED_TEST(SimdStorage, LoadNReadsTheFirstLanesAndNothingBeyond) {
  for (int n = 0; n <= kLanes; ++n) {
    GuardedBytes memory(n * sizeof(TypeParam));
    TypeParam* p = memory.template as<TypeParam>();
    for (int i = 0; i < n; ++i) p[i] = TypeParam(float(i + 1));
    float out[kLanes];
    Store(out, LoadN(p, n));
    for (int i = 0; i < kLanes; ++i) EXPECT_EQ(out[i], i < n ? float(i + 1) : 0.0f) << n;
  }
}

TYPED_TEST(SimdStorage, StoreNWritesTheFirstLanesAndNothingBeyond) {
  float in[kLanes];
  for (int i = 0; i < kLanes; ++i) in[i] = float(i + 1);
  for (int n = 0; n <= kLanes; ++n) {
    GuardedBytes memory(n * sizeof(TypeParam));
    StoreN(memory.template as<TypeParam>(), Load(in), n);
    TypeParam out[kLanes + 1];
    for (TypeParam& o : out) o = TypeParam(-7.0f);
    StoreN(out, Load(in), n);
    for (int i = 0; i <= kLanes; ++i) EXPECT_EQ(float(out[i]), i < n ? float(i + 1) : -7.0f) << n;
  }
}

TYPED_TEST(SimdStorage, LoadsAndStoresAtAnyAlignment) {
  alignas(64) TypeParam in[2 * kLanes], out[2 * kLanes];
  for (int i = 0; i < 2 * kLanes; ++i) in[i] = TypeParam(float(i));
  for (int shift = 0; shift < kLanes; ++shift) {
    Store(out + shift, Load(in + kLanes - shift));
    for (int i = 0; i < kLanes; ++i) EXPECT_EQ(float(out[shift + i]), float(kLanes - shift + i));
  }
}

TEST(Simd, ExpIsWithinOneAndAQuarterUlp) {
  double worst = 0;
  for (std::uint64_t u = 0; u < 1ull << 32; u += 1021) {
    const float x = FromBits(std::uint32_t(u));
    const double error = UlpError(Lane(Exp, x), std::exp(double(x)));
    ASSERT_LE(error, 1.25) << std::hexfloat << x;
    worst = std::max(worst, error);
  }
  EXPECT_GT(worst, 0.5);
}

TEST(Simd, ExpOfADifferenceIsWithinOneAndAQuarterUlp) {
  for (float scale : {1.0f, 0.1f, -1.7f}) {
    for (float m : {-256.0f, -3.25f, 0.0f, 100.000030517578125f, 256.0f}) {
      for (float d = 0; d > -110; d -= 0.0137f) {
        const float x = (m + d) / scale;
        const double exact = double(x) * scale - m;
        if (exact > 0) continue;
        F32 e[1] = {Set(x)};
        ExpBelowAll(e, Set(scale), Set(m));
        float out[kLanes];
        Store(out, e[0]);
        ASSERT_LE(UlpError(out[0], std::exp(exact)), 1.25) << scale << " " << exact;
      }
    }
  }
  for (float x : {-kInf, -3e38f, -1000.0f, kNan}) {
    F32 e[1] = {Set(x)};
    ExpBelowAll(e, Set(1), Set(2));
    EXPECT_LE(UlpError(Lane([&](F32) { return e[0]; }, 0), std::exp(double(x))), 0) << x;
  }
}

TEST(Simd, ExpReachesSubnormalsZeroAndInfinity) {
  for (float x = -104.5f; x < -86; x += 0.001f) {
    ASSERT_LE(UlpError(Lane(Exp, x), std::exp(double(x))), 1.0) << x;
  }
  EXPECT_EQ(Lane(Exp, 0.0f), 1.0f);
  EXPECT_EQ(Lane(Exp, -0.0f), 1.0f);
  EXPECT_EQ(Lane(Exp, -103.97f), 0x1p-149f);
  EXPECT_EQ(Lane(Exp, -104.0f), 0.0f);
  EXPECT_EQ(Lane(Exp, -kInf), 0.0f);
  EXPECT_EQ(Lane(Exp, 88.73f), kInf);
  EXPECT_EQ(Lane(Exp, kInf), kInf);
  EXPECT_TRUE(std::isnan(Lane(Exp, kNan)));
  EXPECT_TRUE(std::isnan(Lane(Exp, -kNan)));
}

TEST(Simd, SigmoidIsWithinThreeUlpDownToMinus87) {
  for (std::uint64_t u = 0; u < 1ull << 32; u += 1021) {
    const float x = FromBits(std::uint32_t(u));
    const double exact = 1 / (1 + std::exp(-double(x))), got = Lane(Sigmoid, x);
    if (x < -87) {
      ASSERT_LE(std::fabs(got - exact), 0x1p-126) << x;
    } else {
      ASSERT_LE(UlpError(float(got), exact), 3) << std::hexfloat << x;
    }
  }
  EXPECT_EQ(Lane(Sigmoid, -kInf), 0.0f);
  EXPECT_EQ(Lane(Sigmoid, kInf), 1.0f);
}

TEST(Simd, ReciprocalIsWithinOneAndAHalfUlp) {
  for (std::uint32_t u = 0x01000000u; u < 0x7e800000u; u += 1021) {
    for (float x : {FromBits(u), -FromBits(u)}) {
      ASSERT_LE(UlpError(Lane(Reciprocal, x), 1 / double(x)), 1.5) << std::hexfloat << x;
    }
  }
  for (float x : {0x1p126f, 0x1p127f, -0x1.8p126f, 0x1.fffffep127f}) {
    EXPECT_NEAR(Lane(Reciprocal, x), 1 / x, 0x1p-126) << x;
  }
  EXPECT_EQ(Lane(Reciprocal, kInf), 0.0f);
  EXPECT_EQ(Lane(Reciprocal, -kInf), 0.0f);
  EXPECT_TRUE(std::isnan(Lane(Reciprocal, kNan)));
}

TEST(Simd, ScalesByAnyPowerOfTwoWithOneRounding) {
  for (int n = -252; n <= 254; ++n) {
    const auto scale = [n](F32 a) { return ScaleByPowerOf2(a, Set(float(n))); };
    EXPECT_EQ(Lane(scale, 1.25f), std::ldexp(1.25f, n)) << n;
    EXPECT_EQ(Lane(scale, -0x1.fffffep0f), std::ldexp(-0x1.fffffep0f, n)) << n;
  }
}

TEST(Simd, RoundsHalfToEven) {
  const auto round = [](F32 a) { return Round(a); };
  for (float x : {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 2.4999998f, 1e6f + 0.5f, -4194303.5f}) {
    EXPECT_EQ(Lane(round, x), std::nearbyint(x)) << x;
  }
}

TEST(Simd, MaxAndMinGiveTheSecondOperandForNaN) {
  const auto max = [](float a, float b) { return Lane([b](F32 x) { return Max(x, Set(b)); }, a); };
  const auto min = [](float a, float b) { return Lane([b](F32 x) { return Min(x, Set(b)); }, a); };
  EXPECT_EQ(max(1, 2), 2);
  EXPECT_EQ(max(2, 1), 2);
  EXPECT_EQ(min(1, 2), 1);
  EXPECT_EQ(min(2, 1), 1);
  EXPECT_EQ(max(kNan, 1), 1);
  EXPECT_EQ(min(kNan, 1), 1);
  EXPECT_TRUE(std::isnan(max(1, kNan)));
  EXPECT_TRUE(std::isnan(min(1, kNan)));
}

TEST(Simd, ComparesLikeScalars) {
  constexpr std::uint32_t kAll = (1ull << kLanes) - 1;
  for (float a : {-kInf, -1.0f, -0.0f, 0.0f, 1.0f, kInf, kNan}) {
    for (float b : {-kInf, -1.0f, -0.0f, 0.0f, 1.0f, kInf, kNan}) {
      EXPECT_EQ(Bits(Set(a) < Set(b)), a < b ? kAll : 0);
      EXPECT_EQ(Bits(Set(a) <= Set(b)), a <= b ? kAll : 0);
      EXPECT_EQ(Bits(Set(a) > Set(b)), a > b ? kAll : 0);
      EXPECT_EQ(Bits(Set(a) >= Set(b)), a >= b ? kAll : 0);
      EXPECT_EQ(Bits(Set(a) == Set(b)), a == b ? kAll : 0);
      EXPECT_EQ(Bits(Set(a) != Set(b)), a != b ? kAll : 0);
    }
    EXPECT_EQ(Bits(IsNan(Set(a))), std::isnan(a) ? kAll : 0);
  }
}

TEST(Simd, SelectsLaneByLane) {
  float x[kLanes], y[kLanes];
  for (int i = 0; i < kLanes; ++i) x[i] = float(i);
  for (int cut = 0; cut <= kLanes; ++cut) {
    const Mask m = Load(x) < Set(float(cut));
    EXPECT_EQ(Bits(m), (1ull << cut) - 1);
    Store(y, Select(m, Set(1), Set(-1)));
    for (int i = 0; i < kLanes; ++i) EXPECT_EQ(y[i], i < cut ? 1 : -1);
  }
}

TEST(Simd, KeepsTheFirstLanes) {
  for (int n = 0; n <= kLanes; ++n) {
    EXPECT_EQ(Bits(FirstLanes(n)), (1ull << n) - 1);
    float y[kLanes];
    Store(y, KeepFirst(Set(1), n, Set(-1)));
    for (int i = 0; i < kLanes; ++i) EXPECT_EQ(y[i], i < n ? 1 : -1);
  }
}

TEST(Simd, ComputesLikeScalars) {
  for (float a : {0.1f, -3.7f, 1e-40f, 5e37f}) {
    for (float b : {0.3f, -2.9f, 1e-38f, 7.5f}) {
      EXPECT_EQ(Lane([b](F32 x) { return x + Set(b); }, a), a + b);
      EXPECT_EQ(Lane([b](F32 x) { return x - Set(b); }, a), a - b);
      EXPECT_EQ(Lane([b](F32 x) { return x * Set(b); }, a), a * b);
      EXPECT_EQ(Lane([b](F32 x) { return x / Set(b); }, a), a / b);
    }
    EXPECT_EQ(Lane([](F32 x) { return Sqrt(Abs(x)); }, a), std::sqrt(std::fabs(a)));
  }
  EXPECT_EQ(Lane([](F32 x) { return Fma(x, Set(3), Set(4)); }, 2), 10);
  const auto square_less_1 = [](F32 x) { return FmaExact(x, x, Set(-1)); };
  EXPECT_EQ(Lane(square_less_1, 1 + 0x1p-23f), 0x1p-22f + 0x1p-46f);
}

TEST(Simd, ReducesOverAllLanes) {
  for (int k = 0; k < kLanes; ++k) {
    float x[kLanes];
    for (int i = 0; i < kLanes; ++i) x[i] = float(1 << i);
    EXPECT_EQ(ReduceAdd(Load(x)), float((1 << kLanes) - 1));
    x[k] = 1e6f;
    EXPECT_EQ(ReduceMax(Load(x)), 1e6f);
    x[k] = -1e6f;
    EXPECT_EQ(ReduceMin(Load(x)), -1e6f);
  }
}

TEST(Simd, LoopsVisitEveryElementOnce) {
  for (int n = 0; n <= 9 * kLanes + 1; ++n) {
    std::vector<int> seen(n, 0), seen_in_blocks(n, 0);
    ForLanes(n, [&](std::int64_t i, auto count) {
      for (int k = 0; k < count; ++k) ++seen[i + k];
    });
    ForBlocks<4>(n, [&](std::int64_t i, auto count, auto block) {
      for (int b = 0; b < block; ++b) {
        for (int k = 0; k < count; ++k) ++seen_in_blocks[i + b * kLanes + k];
      }
    });
    EXPECT_EQ(seen, std::vector<int>(n, 1));
    EXPECT_EQ(seen_in_blocks, std::vector<int>(n, 1));
  }
}

TYPED_TEST(SimdStorage, BlocksAreVectorsOneAfterTheOther) {
  for (int n = 0; n <= 9 * kLanes + 1; ++n) {
    std::vector<TypeParam> x(n), y(n);
    for (int i = 0; i < n; ++i) x[i] = TypeParam(std::ldexp(float(i % 61 - 30), i % 40 - 20));
    ForBlocks<4>(n, [&](std::int64_t i, auto count, auto block) {
      F32 v[block];
      LoadAll(v, &x[i], count);
      StoreAll(&y[i], v, count);
    });
    EXPECT_EQ(std::memcmp(x.data(), y.data(), n * sizeof(TypeParam)), 0) << n;
    ForBlocks<4>(n, [&](std::int64_t i, auto count, auto block) {
      F32 v[block];
      LoadBlock(v, &x[i], count);
      for (int k = 0; k < block; ++k) v[k] = Zero() - v[k];
      StoreBlock(&y[i], v, count);
    });
    for (int i = 0; i < n; ++i) ASSERT_EQ(float(y[i]), -float(x[i])) << n;
  }
}

// What one rounding to T hides: 0.01 ulp of T.
template <class T>
constexpr double kHidden = std::is_same_v<T, BF16> ? 0x1p-14 : 0x1p-17;

TYPED_TEST(Simd16, ExpAndSigmoidAreExactEnoughToBeRoundedOnce) {
  for (double x = -87; x < 88; x += 0.00037) {
    F32 e[1] = {Set(float(x))}, s[1] = {Set(float(x))};
    float out[kLanes];
    ExpAll<TypeParam>(e);
    Store(out, e[0]);
    const double exact = std::exp(double(float(x))), sigma = 1 / (1 + 1 / exact);
    ASSERT_NEAR(out[0], exact, kHidden<TypeParam> * exact) << x;
    SigmoidAll<TypeParam>(s);
    Store(out, s[0]);
    ASSERT_NEAR(out[0], sigma, kHidden<TypeParam> * sigma) << x;
  }
  for (float x : {-1e30f, -kInf, 1e30f, kInf, kNan}) {
    const auto exp = [](F32 v) {
      F32 e[1] = {v};
      ExpAll<TypeParam>(e);
      return e[0];
    };
    EXPECT_LE(UlpError(Lane(exp, x), std::exp(double(x))), 0) << x;
  }
}

TYPED_TEST(Simd16, BlocksAreRoundedAsDTypeDoes) {
  for (std::uint64_t u = 0; u < 1ull << 32; u += 10007) {
    const float a = FromBits(std::uint32_t(u)), b = FromBits(std::uint32_t(u * 31));
    TypeParam out[2 * kLanes];
    const F32 v[2] = {Set(a), Set(b)};
    StoreBlock(out, v, kFull);
    const int second = std::is_same_v<TypeParam, BF16> ? 1 : kLanes;
    ASSERT_EQ(out[0].bits, TypeParam(a).bits) << std::hexfloat << a;
    ASSERT_EQ(out[second].bits, TypeParam(b).bits) << std::hexfloat << b;
  }
}

TEST(Simd, HasTheLanesOfItsInstructionSet) {
  const std::string isa = ANYOP_STRING(ANYOP_ISA);
  EXPECT_EQ(kLanes, isa.starts_with("avx512") ? 16 : isa == "avx2" ? 8 : 4);
}

}  // namespace
}  // namespace anyop
