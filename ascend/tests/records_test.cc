// SPDX-License-Identifier: Apache-2.0
// What is remembered of accesses and of data, where a simpler memory would be wrong.
#include <gtest/gtest.h>

#include "on_core.h"

namespace ascend_tests {
namespace {

TEST(Records, OfCompleteWritesDoNotHideInLaterOnesOfTheSameBytes) {
  anyop_ascend_clear();
  Global<half> y("y", 64, ANYOP_ASCEND_WRITE);
  OnCores(1, [&] {
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 1024);
    const auto t = buffer.Get<half>();
    std::uint64_t low[] = {0xFF, 0}, high[] = {0xFF00, 0};  // halves of 32 bytes
    Duplicate(t, half(1), low, 1, 1, 8);
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    PipeBarrier<PIPE_V>();
    Duplicate(t, half(2), high, 1, 1, 8);
    DataCopyPad(y.tensor(), t, DataCopyExtParams(1, 16, 0, 0, 0));
  });
  EXPECT_EQ(Findings().dump(), "[]");
}
TEST(Records, OfAWholeCellTakeThePlaceOfThoseOfItsParts) {
  anyop_ascend_clear();
  Global<float> x("x", std::vector<float>(128, 1.0f));
  OnCores(1, [&] {
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 512);
    const auto t = buffer.Get<float>();
    Duplicate(t, 1.0f, 16);
    SetFlag<HardEvent::V_MTE2>(0);
    WaitFlag<HardEvent::V_MTE2>(0);
    DataCopy(t, x.tensor(), 128);
    Adds(t, t, 1.0f, 128);  // not ordered after the copy
  });
  ASSERT_EQ(Findings().size(), 1u);
  EXPECT_EQ(Findings()[0]["kind"], "race");
}
TEST(Data, BehindTheEndOfAnArgumentAreUndefined) {
  anyop_ascend_clear();
  Global<float> x("x", std::vector<float>(60, 1.0f));
  Global<float> y("y", 64, ANYOP_ASCEND_WRITE);
  int line = 0;
  OnCores(1, [&] {
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 256);
    const auto t = buffer.Get<float>();
    Duplicate(t, 5.0f, 64);
    SetFlag<HardEvent::V_MTE2>(0);
    WaitFlag<HardEvent::V_MTE2>(0);
    line = __LINE__ + 1;
    DataCopy(t, x.tensor(), 64);
    SetFlag<HardEvent::MTE2_MTE3>(0);
    WaitFlag<HardEvent::MTE2_MTE3>(0);
    DataCopy(y.tensor(), t, 64);
  });
  const auto found = Findings();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]["kind"], "gm-over-read");
  EXPECT_EQ(found[0]["level"], "note");
  EXPECT_EQ(found[1]["kind"], "undefined-read");
  EXPECT_EQ(found[1]["text"],
            "a copy to global memory uses UB[240], which depends on bytes that nothing has "
            "written: it began at records_test.cc:" +
                std::to_string(line));
  EXPECT_EQ(y[59], 1.0f);
  EXPECT_TRUE(std::isnan(y[60]));
}
TEST(Data, OfAnEarlierBlockAreUndefined) {
  anyop_ascend_clear();
  OnCores(1, [] { LocalTensor<float>(TPosition::VECCALC, 0, 64).SetValue(0, 1.0f); });
  EXPECT_EQ(Findings().dump(), "[]");
  OnCores(1, [] { LocalTensor<float>(TPosition::VECCALC, 0, 64).GetValue(0); });
  ASSERT_EQ(Findings().size(), 1u);
  EXPECT_EQ(Findings()[0]["kind"], "undefined-read");
}
TEST(Data, OfACompareAndAReductionCarryWhatIsUndefined) {
  anyop_ascend_clear();
  OnCores(1, [] {
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 4096);
    const auto t = buffer.GetWithOffset<float>(128, 0), sums = buffer.GetWithOffset<float>(8, 512);
    const auto bits = buffer.GetWithOffset<std::uint8_t>(32, 1024);
    Duplicate(t, 1.0f, 100);  // the second repeat has 28 undefined elements
    PipeBarrier<PIPE_V>();
    WholeReduceSum(sums, t, 64, 2, 1, 1, 8);
    CompareScalar(bits, t, 0.0f, CMPMODE::GT, 128);
    EXPECT_EQ(sums.GetValue(0), 64.0f);
    EXPECT_EQ(bits.GetValue(11), 0xFF);
    EXPECT_EQ(Findings().dump(), "[]");
    sums.GetValue(1);
    bits.GetValue(13);
  });
  EXPECT_EQ(Findings().size(), 2u);
  for (const auto& found : Findings()) EXPECT_EQ(found["kind"], "undefined-read");
}

}  // namespace
}  // namespace ascend_tests
