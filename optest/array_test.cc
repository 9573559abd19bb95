// SPDX-License-Identifier: Apache-2.0
#include "optest/array.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "optest/memory.h"

namespace anyop::optest::array_test {
namespace {

TEST(Array, RoundsOnceToEveryFloat) {
  // Every 16-bit value, and the values around the midpoint above it.
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    for (int bits = 0; bits < 0x7c00; ++bits) {
      Array a(dtype, {1});
      a.data<std::uint16_t>()[0] = std::uint16_t(bits);
      const double low = a.Get(0), ulp = Ulp(dtype, low * (1 + 1e-9));
      const double high = low + ulp;
      ASSERT_EQ(RoundTo(dtype, low), low);
      ASSERT_EQ(RoundTo(dtype, low + 0.4999999999 * ulp), low) << bits;
      ASSERT_EQ(RoundTo(dtype, low + 0.5 * ulp), bits % 2 ? RoundTo(dtype, high) : low) << bits;
      ASSERT_EQ(RoundTo(dtype, -(low + 0.5000000001 * ulp)), -RoundTo(dtype, high)) << bits;
    }
  }
}

TEST(Array, OverflowsAsTheFormatsDo) {
  EXPECT_EQ(RoundTo(DType::kF16, 65519.99), 65504);
  EXPECT_EQ(RoundTo(DType::kF16, 65520), HUGE_VAL);
  EXPECT_EQ(RoundTo(DType::kBF16, -3.4e38), -HUGE_VAL);
  EXPECT_EQ(RoundTo(DType::kF8E4M3, 1e6), 448);
  EXPECT_EQ(RoundTo(DType::kF8E5M2, -1e6), -57344);
  EXPECT_EQ(RoundTo(DType::kI8, 200), 127);
  EXPECT_TRUE(std::isnan(RoundTo(DType::kBF16, NAN)));
}

TEST(Array, KnowsTheSpacingOfFloats) {
  EXPECT_EQ(Ulp(DType::kF32, 1), 0x1p-23);
  EXPECT_EQ(Ulp(DType::kBF16, 1.5), 0x1p-7);
  EXPECT_EQ(Ulp(DType::kBF16, 0.99), 0x1p-8);
  EXPECT_EQ(Ulp(DType::kF16, 0), 0x1p-24);
  EXPECT_EQ(Ulp(DType::kF8E4M3, 448), 32);
  EXPECT_EQ(Ulp(DType::kF16, HUGE_VAL), 32);
}

TEST(Array, KeepsWholeNumbersBeyond53Bits) {
  Array a(DType::kI64, {1});
  a.SetInt(0, (std::int64_t(1) << 62) + 1);
  EXPECT_EQ(a.GetInt(0), (std::int64_t(1) << 62) + 1);
}

TEST(Memory, HoldsTheValuesInEveryLayout) {
  Array a(DType::kBF16, {2, 3, 5});
  for (std::int64_t i = 0; i < a.size(); ++i) a.Set(i, double(i));
  for (int layout = 0; layout < kLayouts; ++layout) {
    Memory m(a, Layout(layout));
    EXPECT_EQ(m.Read(), a) << kLayoutNames[layout];
    EXPECT_EQ(m.FindTrespass(true).where, "") << kLayoutNames[layout];
    const Tensor& t = static_cast<const Tensor&>(m.tensor());
    EXPECT_EQ(float(*t.at<BF16>(1, 2, 4)), 29) << kLayoutNames[layout];
    EXPECT_EQ(t.stride(-1), 1) << kLayoutNames[layout];
  }
}

TEST(Memory, ExpandsDimensionsWhoseSlicesAreAlike) {
  Array a(DType::kF32, {4, 3, 2},
          {1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(RepeatedDims(a), (std::vector<bool>{false, false}));
  a.Repeat(0);
  EXPECT_EQ(RepeatedDims(a), (std::vector<bool>{true, false}));
  EXPECT_EQ(a.Get({3, 2, 1}), 6);
  Memory m(a, Layout::kExpanded);
  const Tensor& t = static_cast<const Tensor&>(m.tensor());
  EXPECT_EQ(t.stride(0), 0);
  EXPECT_EQ(t.stride(1), 2);
  EXPECT_EQ(m.Read(), a);
  a.Repeat(1);
  EXPECT_EQ(RepeatedDims(a), (std::vector<bool>{true, true}));
  EXPECT_EQ(Memory(a, Layout::kExpanded).Read(), a);
}

TEST(Memory, FindsWhatWasWritten) {
  for (const Layout layout : {Layout::kDense, Layout::kGapped, Layout::kMisaligned}) {
    Memory m(Array(DType::kF32, {2, 3}), layout);
    const Tensor& t = static_cast<const Tensor&>(m.tensor());
    *t.at<float>(1, 2) = 7;
    EXPECT_EQ(m.FindTrespass(false).where, "");
    EXPECT_EQ(m.FindTrespass(true).where, "element [1, 2]");
    t.base<float>()[-2] = 7;
    EXPECT_EQ(m.FindTrespass(false).where, "element 2 before its beginning (byte 5)");
    EXPECT_EQ(m.FindTrespass(false).kind, Trespass::kWrite);
  }
  Memory after(Array(DType::kU8, {4}), Layout::kPageEnd);
  static_cast<unsigned char*>(after.tensor().data)[-1] = 0;
  EXPECT_EQ(after.FindTrespass(false).where, "byte 1 before its beginning");
  Memory gap(Array(DType::kU8, {2, 4}), Layout::kGapped);
  static_cast<unsigned char*>(gap.tensor().data)[4] = 0;
  EXPECT_EQ(gap.FindTrespass(false).where, "byte 5 from its beginning");
}

TEST(Memory, FindsWhatWasReadOutside) {
  const Memory end(Array(DType::kF32, {3}), Layout::kPageEnd),
      begin(Array(DType::kF32, {3}), Layout::kDense);
  static_cast<void>(static_cast<const volatile float*>(end.tensor().data)[3] > 0);
  EXPECT_EQ(end.FindTrespass(false).where, "element 1 after its end (byte 1)");
  EXPECT_EQ(end.FindTrespass(false).kind, Trespass::kRead);
  static_cast<void>(static_cast<const volatile float*>(begin.tensor().data)[-3] > 0);
  EXPECT_EQ(begin.FindTrespass(false).where, "element 3 before its beginning (byte 12)");
}

}  // namespace
}  // namespace anyop::optest::array_test
