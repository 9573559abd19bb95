// SPDX-License-Identifier: Apache-2.0
// Vector instructions against plain loops, on drawn masks, repeats, strides and counts.
#include <gtest/gtest.h>

#include "on_core.h"

namespace ascend_tests {
namespace {

constexpr int kBuffer = 24 * 1024;  // bytes of each operand

// Local tensors whose every byte is defined, with drawn values of -8 to 8.
template <class T>
LocalTensor<T> Filled(TBuf<>& buffer, TPipe& pipe, std::uint32_t& state) {
  pipe.InitBuffer(buffer, kBuffer);
  auto tensor = buffer.Get<T>();
  for (std::uint32_t i = 0; i < tensor.GetSize(); ++i)
    tensor.data()[i] = static_cast<T>(static_cast<int>(Drawn(state) % 17) - 8);
  anyop_ascend::Define(tensor.bytes(), kBuffer, true);
  return tensor;
}
template <class T>
std::vector<T> Copied(const LocalTensor<T>& tensor) {
  return {tensor.data(), tensor.data() + tensor.GetSize()};
}
// The element index of a lane of a repeat.
template <class T>
std::size_t Place(int repeat, int lane, int block_stride, int repeat_stride) {
  const int per_block = 32 / sizeof(T);
  return static_cast<std::size_t>((repeat * repeat_stride + lane / per_block * block_stride) *
                                  per_block) +
         lane % per_block;
}
template <class T>
bool Same(T a, T b) {
  return a == b || (a != a && b != b);
}

struct Drawing {
  std::uint64_t mask[2];
  std::uint8_t repeats;
  BinaryRepeatParams p;

  explicit Drawing(std::uint32_t& state, int lanes) {
    repeats = static_cast<std::uint8_t>(Drawn(state) % 6);
    for (auto& word : mask) word = std::uint64_t{Drawn(state)} << 40 ^ Drawn(state) * 65537ull;
    if (Drawn(state) % 2) mask[0] = mask[1] = ~0ull;
    if (lanes <= 64) mask[1] = 0;
    if (lanes < 64) mask[0] &= (1ull << lanes) - 1;
    const auto block = [&] { return static_cast<std::uint8_t>(1 + Drawn(state) % 3 / 2); };
    const auto repeat = [&] { return static_cast<std::uint8_t>(Drawn(state) % 2 ? 8 : 16); };
    p = {block(), block(), block(), repeat(), repeat(), repeat()};
  }
  bool Has(int lane) const { return mask[lane / 64] >> lane % 64 & 1; }
};

template <class T, class Expected, class Instruction>
void CheckBinary(std::uint32_t seed, Expected expected, Instruction instruction) {
  anyop_ascend_clear();
  OnCores(1, [&] {
    std::uint32_t state = seed;
    TPipe pipe;
    TBuf<> buffers[3];
    const auto d = Filled<T>(buffers[0], pipe, state), a = Filled<T>(buffers[1], pipe, state),
               b = Filled<T>(buffers[2], pipe, state);
    for (int round = 0; round < 20; ++round) {
      Drawing drawn(state, kLanes<T>);
      auto want = Copied(d);
      const BinaryRepeatParams& p = drawn.p;
      for (int r = 0; r < drawn.repeats; ++r) {
        for (int i = 0; i < kLanes<T>; ++i) {
          if (!drawn.Has(i)) continue;
          T& to = want[Place<T>(r, i, p.dstBlkStride, p.dstRepStride)];
          to = expected(to, a.data()[Place<T>(r, i, p.src0BlkStride, p.src0RepStride)],
                        b.data()[Place<T>(r, i, p.src1BlkStride, p.src1RepStride)]);
        }
      }
      instruction(d, a, b, drawn);
      PipeBarrier<PIPE_V>();
      for (std::size_t i = 0; i < want.size(); ++i)
        ASSERT_TRUE(Same(d.data()[i], want[i])) << "round " << round << ", element " << i;
    }
  });
  // Some rounds draw 0 repeats.
  for (const auto& finding : Findings()) EXPECT_EQ(finding["kind"], "no-repeat") << finding.dump(1);
}

template <class T>
class Vector : public ::testing::Test {};
// The C++ library of GCC 12 has no type information of _Float16 itself.
template <class T>
struct Of {
  using type = T;
};
using Types = ::testing::Types<Of<half>, Of<float>, Of<std::int16_t>, Of<std::int32_t>>;
TYPED_TEST_SUITE(Vector, Types);

TYPED_TEST(Vector, AddsByMaskRepeatAndStride) {
  using T = typename TypeParam::type;
  CheckBinary<T>(
      1, [](T, T a, T b) { return static_cast<T>(a + b); },
      [](auto d, auto a, auto b, Drawing& drawn) {
        Add(d, a, b, drawn.mask, drawn.repeats, drawn.p);
      });
}
TYPED_TEST(Vector, SubtractsMultipliesAndTakesExtremes) {
  using T = typename TypeParam::type;
  CheckBinary<T>(
      2, [](T, T a, T b) { return static_cast<T>(a - b); },
      [](auto d, auto a, auto b, Drawing& drawn) {
        Sub(d, a, b, drawn.mask, drawn.repeats, drawn.p);
      });
  CheckBinary<T>(
      3, [](T, T a, T b) { return static_cast<T>(a * b); },
      [](auto d, auto a, auto b, Drawing& drawn) {
        Mul(d, a, b, drawn.mask, drawn.repeats, drawn.p);
      });
  CheckBinary<T>(
      4, [](T, T a, T b) { return std::max(a, b); },
      [](auto d, auto a, auto b, Drawing& drawn) {
        Max(d, a, b, drawn.mask, drawn.repeats, drawn.p);
      });
}
TYPED_TEST(Vector, KeepsTheMaskForInstructionsThatSetNone) {
  using T = typename TypeParam::type;
  CheckBinary<T>(
      5, [](T, T a, T b) { return std::min(a, b); },
      [](auto d, auto a, auto b, Drawing& drawn) {
        SetVectorMask<T>(drawn.mask[1], drawn.mask[0]);
        Min<T, false>(d, a, b, MASK_PLACEHOLDER, drawn.repeats, drawn.p);
      });
}
TYPED_TEST(Vector, ScalesByOneSource) {
  using T = typename TypeParam::type;
  CheckBinary<T>(
      6, [](T, T a, T) { return static_cast<T>(a * T(3)); },
      [](auto d, auto a, auto, Drawing& drawn) {
        const BinaryRepeatParams& p = drawn.p;
        Muls(d, a, 3, drawn.mask, drawn.repeats,
             UnaryRepeatParams(p.dstBlkStride, p.src0BlkStride, p.dstRepStride, p.src0RepStride));
      });
  CheckBinary<T>(
      7, [](T, T a, T) { return a; },
      [](auto d, auto a, auto, Drawing& drawn) {
        const BinaryRepeatParams& p = drawn.p;
        Copy(d, a, drawn.mask, drawn.repeats,
             CopyRepeatParams(p.dstBlkStride, p.src0BlkStride, p.dstRepStride, p.src0RepStride));
      });
  CheckBinary<T>(
      8, [](T, T, T) { return T(5); },
      [](auto d, auto, auto, Drawing& drawn) {
        Duplicate(d, 5, drawn.mask, drawn.repeats, drawn.p.dstBlkStride, drawn.p.dstRepStride);
      });
}
TEST(MulAddDst, AccumulatesProductsInTheResult) {
  CheckBinary<float>(
      9, [](float d, float a, float b) { return d + a * b; },
      [](auto d, auto a, auto b, Drawing& drawn) {
        MulAddDst(d, a, b, drawn.mask, drawn.repeats, drawn.p);
      });
}
TEST(FusedMulAdd, MultipliesTheResultAndAdds) {
  CheckBinary<float>(
      10, [](float d, float a, float b) { return a * d + b; },
      [](auto d, auto a, auto b, Drawing& drawn) {
        FusedMulAdd(d, a, b, drawn.mask, drawn.repeats, drawn.p);
      });
  CheckBinary<half>(
      11,
      [](half d, half a, half b) {
        const half product = static_cast<half>(a * d), sum = static_cast<half>(product + b);
        return sum > half(0) ? sum : half(0);
      },
      [](auto d, auto a, auto b, Drawing& drawn) {
        FusedMulAddRelu(d, a, b, drawn.mask, drawn.repeats, drawn.p);
      });
}
TYPED_TEST(Vector, CountsWithoutRepeats) {
  using T = typename TypeParam::type;
  anyop_ascend_clear();
  OnCores(1, [&] {
    std::uint32_t state = 11;
    TPipe pipe;
    TBuf<> buffers[3];
    const auto d = Filled<T>(buffers[0], pipe, state), a = Filled<T>(buffers[1], pipe, state),
               b = Filled<T>(buffers[2], pipe, state);
    for (const int count : {1, 7, 16, 31, 64, 65, 128, 129, 1000, 3000}) {
      auto want = Copied(d);
      for (int i = 0; i < count; ++i) want[i] = static_cast<T>(a.data()[i] + b.data()[i]);
      Add(d, a, b, count);
      PipeBarrier<PIPE_V>();
      ASSERT_EQ(Copied(d), want) << count;
      for (int i = 0; i < count; ++i) want[i] = static_cast<T>(want[i] + T(2));
      Adds(d, d, 2, count);
      PipeBarrier<PIPE_V>();
      ASSERT_EQ(Copied(d), want) << count;
    }
  });
  EXPECT_EQ(Findings().dump(), "[]");
}
TYPED_TEST(Vector, CountsInCounterMode) {
  using T = typename TypeParam::type;
  anyop_ascend_clear();
  OnCores(1, [&] {
    std::uint32_t state = 12;
    TPipe pipe;
    TBuf<> buffers[2];
    const auto d = Filled<T>(buffers[0], pipe, state), a = Filled<T>(buffers[1], pipe, state);
    for (const int count : {1, 63, 64, 65, 200}) {
      auto want = Copied(d);
      for (int i = 0; i < count; ++i) {
        const auto at = Place<T>(i / kLanes<T>, i % kLanes<T>, 1, 16);
        want[at] = static_cast<T>(a.data()[at] + T(1));
      }
      SetMaskCount();
      SetVectorMask<T, MaskMode::COUNTER>(0, count);
      Adds<T, false>(d, a, 1, MASK_PLACEHOLDER, 1, {1, 1, 16, 16});
      SetMaskNorm();
      ResetMask();
      PipeBarrier<PIPE_V>();
      ASSERT_EQ(Copied(d), want) << count;
    }
  });
  EXPECT_EQ(Findings().dump(), "[]");
}
TEST(Cast, ReadsARepeatBeforeItWrites) {
  anyop_ascend_clear();
  std::vector<float> got;
  OnCores(1, [&] {
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 1024);
    auto h = buffer.Get<half>(64);
    auto f = buffer.Get<float>(64);
    ArithProgression<half>(h, 0, 1, 64);
    PipeBarrier<PIPE_V>();
    Cast(f, h, RoundMode::CAST_NONE, 64);  // one repeat: right in place
    got.assign(f.data(), f.data() + 64);
  });
  for (int i = 0; i < 64; ++i) EXPECT_EQ(got[i], i);
}
TEST(Operators, WriteAllElementsOfTheirResult) {
  anyop_ascend_clear();
  OnCores(1, [&] {
    std::uint32_t state = 13;
    TPipe pipe;
    TBuf<> buffers[3];
    const auto a = Filled<float>(buffers[1], pipe, state),
               b = Filled<float>(buffers[2], pipe, state);
    auto d = Filled<float>(buffers[0], pipe, state);
    d.SetSize(100);
    const unsigned char* before = d.bytes();
    d = a - b;
    EXPECT_EQ(d.bytes(), before);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(d.data()[i], a.data()[i] - b.data()[i]);
  });
}

// Sums and extremes over groups of lanes.
TYPED_TEST(Vector, ReducesWholeRepeatsAndBlocks) {
  using T = typename TypeParam::type;
  anyop_ascend_clear();
  OnCores(1, [&] {
    std::uint32_t state = 14;
    TPipe pipe;
    TBuf<> buffers[2];
    const auto d = Filled<T>(buffers[0], pipe, state), a = Filled<T>(buffers[1], pipe, state);
    const int repeats = 5, per_block = 32 / sizeof(T);
    for (const int mask : {1, 8, kLanes<T> / 2 + 1, kLanes<T>}) {
      WholeReduceSum(d, a, mask, repeats, 2, 1, 16);
      PipeBarrier<PIPE_V>();
      for (int r = 0; r < repeats; ++r) {
        T sum = T(0);
        for (int i = 0; i < mask; ++i) sum = static_cast<T>(sum + a.data()[Place<T>(r, i, 1, 16)]);
        EXPECT_EQ(d.data()[r * 2], sum) << mask << " " << r;
      }
      RepeatReduceSum(d[64], a, repeats, mask, 1, 1, 2, 16);
      PipeBarrier<PIPE_V>();
      for (int r = 0; r < repeats; ++r) EXPECT_EQ(d.data()[64 + r * 2], d.data()[r * 2]);
      WholeReduceMax(d, a, mask, repeats, 1, 1, 16, ReduceOrder::ORDER_ONLY_VALUE);
      BlockReduceMin(d[1024], a, repeats, mask, 1, 1, 16);
      BlockReduceSum(d[2048], a, repeats, mask, 1, 1, 16);
      PipeBarrier<PIPE_V>();
      for (int r = 0; r < repeats; ++r) {
        T most = a.data()[Place<T>(r, 0, 1, 16)];
        for (int i = 0; i < mask; ++i) most = std::max(most, a.data()[Place<T>(r, i, 1, 16)]);
        EXPECT_EQ(d.data()[r], most);
        for (int begin = 0; begin < mask; begin += per_block) {
          T least = a.data()[Place<T>(r, begin, 1, 16)], sum = T(0);
          for (int i = begin; i < std::min(mask, begin + per_block); ++i) {
            least = std::min(least, a.data()[Place<T>(r, i, 1, 16)]);
            sum = static_cast<T>(sum + a.data()[Place<T>(r, i, 1, 16)]);
          }
          EXPECT_EQ(d.data()[1024 + r * 8 + begin / per_block], least);
          EXPECT_EQ(d.data()[2048 + r * 8 + begin / per_block], sum);
        }
      }
    }
  });
  EXPECT_EQ(Findings().dump(), "[]");
}
TEST(Reduce, SumsACountAndNamesExtremes) {
  anyop_ascend_clear();
  OnCores(1, [&] {
    std::uint32_t state = 15;
    TPipe pipe;
    TBuf<> buffers[3];
    const auto d = Filled<float>(buffers[0], pipe, state),
               a = Filled<float>(buffers[1], pipe, state),
               work = Filled<float>(buffers[2], pipe, state);
    for (const int count : {1, 7, 64, 65, 1000, 4097}) {
      double sum = 0;
      int most = 0;
      for (int i = 0; i < count; ++i) {
        sum += a.data()[i];
        if (a.data()[i] > a.data()[most]) most = i;
      }
      ReduceSum(d, a, work, count);
      ReduceMax(d[8], a, work, count, true);
      PipeBarrier<PIPE_V>();
      EXPECT_EQ(d.data()[0], sum);
      EXPECT_EQ(d.data()[8], a.data()[most]);
      EXPECT_EQ(d.ReinterpretCast<std::uint32_t>().data()[9], static_cast<std::uint32_t>(most));
    }
    ReduceSum(d, a, work, 40, 5, 8);
    ReduceMin(d[8], a, work, 40, 5, 8, true);
    PipeBarrier<PIPE_V>();
    float sum = 0;
    int place = 0;
    for (int i = 0; i < 200; ++i) {
      const auto at = [&](int k) { return a.data()[k / 40 * 64 + k % 40]; };
      sum += at(i);
      if (at(i) < at(place)) place = i;
    }
    EXPECT_EQ(d.data()[0], sum);
    EXPECT_EQ(d.ReinterpretCast<std::uint32_t>().data()[9], static_cast<std::uint32_t>(place));
    PairReduceSum(d, a, 3, 64, 1, 1, 8);
    PipeBarrier<PIPE_V>();
    for (int i = 0; i < 96; ++i) EXPECT_EQ(d.data()[i], a.data()[2 * i] + a.data()[2 * i + 1]);
    WholeReduceMin(d, a, 40, 4, 1, 1, 8);
    PipeBarrier<PIPE_V>();
    for (int r = 0; r < 4; ++r) {
      int least = 0;
      for (int i = 0; i < 40; ++i)
        if (a.data()[r * 64 + i] < a.data()[r * 64 + least]) least = i;
      EXPECT_EQ(d.data()[r * 2], a.data()[r * 64 + least]);
      EXPECT_EQ(d.ReinterpretCast<std::uint32_t>().data()[r * 2 + 1], std::uint32_t(least));
    }
  });
  EXPECT_EQ(Findings().dump(), "[]");
}

TEST(Compare, GivesABitForEachElementAndSelectTakesIt) {
  anyop_ascend_clear();
  OnCores(1, [&] {
    std::uint32_t state = 16;
    TPipe pipe;
    TBuf<> buffers[4];
    const auto d = Filled<float>(buffers[0], pipe, state),
               a = Filled<float>(buffers[1], pipe, state),
               b = Filled<float>(buffers[2], pipe, state);
    const auto bits = Filled<std::uint8_t>(buffers[3], pipe, state);
    const int count = 320;
    const auto holds = [](float x, float y, CMPMODE mode) {
      const bool results[] = {x<y, x> y, x == y, x <= y, x >= y, x != y};
      return results[static_cast<int>(mode)];
    };
    for (int m = 0; m < 6; ++m) {
      const auto mode = static_cast<CMPMODE>(m);
      for (const bool is_scalar : {false, true}) {
        if (is_scalar)
          CompareScalar(bits, a, 1.0f, mode, count);
        else
          Compare(bits, a, b, mode, count);
        PipeBarrier<PIPE_V>();
        Select(d, bits, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, count);
        Select(d[1024], bits, a, -100.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, count);
        PipeBarrier<PIPE_V>();
        for (int i = 0; i < count; ++i) {
          const float x = a.data()[i], y = b.data()[i];
          const bool bit = holds(x, is_scalar ? 1.0f : y, mode);
          ASSERT_EQ(bits.data()[i / 8] >> i % 8 & 1, bit);
          ASSERT_EQ(d.data()[i], bit ? x : y);
          ASSERT_EQ(d.data()[1024 + i], bit ? x : -100.0f);
        }
      }
    }
  });
  EXPECT_EQ(Findings().dump(), "[]");
}

TEST(Functions, AreThoseOfTheStandardLibraryInFloat) {
  anyop_ascend_clear();
  OnCores(1, [&] {
    std::uint32_t state = 17;
    TPipe pipe;
    TBuf<> buffers[2];
    const auto d = Filled<float>(buffers[0], pipe, state),
               a = Filled<float>(buffers[1], pipe, state);
    const auto near = [&](const char* name, double (*f)(double)) {
      PipeBarrier<PIPE_V>();
      for (int i = 0; i < 100; ++i) {
        const double want = f(a.data()[i]);
        if (std::isfinite(want)) {
          EXPECT_NEAR(d.data()[i], want, 1e-6 * std::fabs(want)) << name;
        }
      }
    };
    Exp(d, a, 100), near("Exp", std::exp);
    Abs(d, a, 100), near("Abs", std::fabs);
    Tanh(d, a, 100u), near("Tanh", std::tanh);
    Sinh(d, a, 100u), near("Sinh", std::sinh);
    Cosh(d, a, 100u), near("Cosh", std::cosh);
    Asinh(d, a, 100u), near("Asinh", std::asinh);
    Atan(d, a, 100u), near("Atan", std::atan);
    Muls(a, a, 1.0f / 64, 100);
    PipeBarrier<PIPE_V>();
    Tan(d, a, 100u), near("Tan", std::tan);
    Asin(d, a, 100u), near("Asin", std::asin);
    Acos(d, a, 100u), near("Acos", std::acos);
    Atanh(d, a, 100u), near("Atanh", std::atanh);
    Erfc(d, a, 100u), near("Erfc", std::erfc);
    Muls(a, a, 8.0f, 100);  // eighths
    PipeBarrier<PIPE_V>();
    Ceil(d, a, 100u), near("Ceil", std::ceil);
    Floor(d, a, 100u), near("Floor", std::floor);
    Trunc(d, a, 100u), near("Trunc", std::trunc);
    Round(d, a, 100u), near("Round", std::round);
    Frac(d, a, 100u), near("Frac", [](double x) { return x - std::trunc(x); });
    Sign(d, a, 100u), near("Sign", [](double x) { return double((x > 0) - (x < 0)); });
    Muls(a, a, 8.0f, 100);
    PipeBarrier<PIPE_V>();
    Abs(a, a, 100);
    PipeBarrier<PIPE_V>();
    Sqrt(d, a, 100), near("Sqrt", std::sqrt);
    Ln(d, a, 100), near("Ln", std::log);
    Rsqrt(d, a, 100), near("Rsqrt", [](double x) { return 1 / std::sqrt(x); });
    Reciprocal(d, a, 100), near("Reciprocal", [](double x) { return 1 / x; });
    Sigmoid(d, a, 100u), near("Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); });
    Silu(d, a, 100u), near("Silu", [](double x) { return x / (1 + std::exp(-x)); });
    Log(d, a, 100u), near("Log", std::log);
    Log2(d, a, 100u), near("Log2", std::log2);
    Log10(d, a, 100u), near("Log10", std::log10);
    Acosh(d, a, 100u), near("Acosh", std::acosh);
  });
  EXPECT_EQ(Findings().dump(), "[]");
}

}  // namespace
}  // namespace ascend_tests
