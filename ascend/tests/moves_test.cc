// SPDX-License-Identifier: Apache-2.0
// Copies with gaps and padding, gathers, sorts and moves within a matrix, against plain loops.
#include <gtest/gtest.h>

#include <numeric>

#include "on_core.h"

namespace ascend_tests {
namespace {

constexpr std::size_t kMany = 8192;

std::vector<std::int16_t> Numbered() {
  std::vector<std::int16_t> values(kMany);
  std::iota(values.begin(), values.end(), std::int16_t{0});
  return values;
}
template <class F>
void OnCore(F body) {
  OnCores(1, [&] {
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 65536);
    body(buffer);
  });
}

TEST(DataCopy, MovesRowsWithGapsBothWays) {
  anyop_ascend_clear();
  Global<std::int16_t> x("x", Numbered());
  Global<std::int16_t> y("y", kMany, ANYOP_ASCEND_WRITE);
  OnCore([&](TBuf<>& buffer) {
    const auto t = buffer.Get<std::int16_t>();
    DataCopy(t, x.tensor(), DataCopyParams(5, 2, 3, 1));  // rows of 32 elements every 80
    SetFlag<HardEvent::MTE2_MTE3>(0);
    WaitFlag<HardEvent::MTE2_MTE3>(0);
    for (int r = 0; r < 5; ++r)
      for (int i = 0; i < 32; ++i) ASSERT_EQ(t.data()[r * 48 + i], r * 80 + i);
    DataCopy(y.tensor(), t, DataCopyParams(5, 2, 1, 4));
  });
  for (int r = 0; r < 5; ++r) {
    for (int i = 0; i < 32; ++i) ASSERT_EQ(y[r * 96 + i], r * 80 + i);
    for (int i = 32; i < 96; ++i) ASSERT_EQ(y[r * 96 + i], -1) << "a gap was written";
  }
  EXPECT_EQ(Findings().dump(), "[]");
}
TEST(DataCopyPad, CountsBytesAndPadsEachRow) {
  anyop_ascend_clear();
  Global<std::int16_t> x("x", Numbered());
  Global<std::int16_t> y("y", kMany, ANYOP_ASCEND_WRITE);
  for (const int elements : {1, 7, 16, 17, 50}) {
    OnCore([&](TBuf<>& buffer) {
      const auto t = buffer.Get<std::int16_t>();
      const auto bytes = static_cast<std::uint32_t>(elements * 2);
      const int row = (elements + 3 + 2 + 15) / 16 * 16 + 16;  // a gap of 32 bytes
      DataCopyPad(t, x.tensor(), DataCopyExtParams(4, bytes, 6, 1, 0),
                  DataCopyPadExtParams<std::int16_t>(true, 3, 2, 77));
      for (int r = 0; r < 4; ++r) {
        for (int i = 0; i < 3; ++i) ASSERT_EQ(t.data()[r * row + i], 77);
        for (int i = 0; i < elements; ++i)
          ASSERT_EQ(t.data()[r * row + 3 + i], r * (elements + 3) + i);
        for (int i = 0; i < 2; ++i) ASSERT_EQ(t.data()[r * row + 3 + elements + i], 77);
      }
      PipeBarrier<PIPE_ALL>();
      const int whole = (elements + 15) / 16 * 16;
      for (int i = 0; i < 4 * whole; ++i) t.SetValue(i, i);
      SetFlag<HardEvent::S_MTE3>(0);
      WaitFlag<HardEvent::S_MTE3>(0);
      DataCopyPad(y.tensor(), t, DataCopyExtParams(4, bytes, 0, 10, 0));
      SetFlag<HardEvent::MTE3_S>(0);
      WaitFlag<HardEvent::MTE3_S>(0);
      for (int r = 0; r < 4; ++r)
        for (int i = 0; i < elements; ++i)
          ASSERT_EQ(y[r * (elements + 5) + i], r * whole + i) << elements;
    });
  }
  EXPECT_EQ(Findings().dump(), "[]");
}
TEST(DataCopy, AddsAtomically) {
  anyop_ascend_clear();
  Global<float> x("x", std::vector<float>(64, 2.0f));
  Global<float> y("y", 64, ANYOP_ASCEND_READ | ANYOP_ASCEND_WRITE);
  std::fill_n(y.data(), 64, 10.0f);
  OnCores(5, [&] {
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 256);
    const auto t = buffer.Get<float>();
    DataCopy(t, x.tensor(), 64);
    SetFlag<HardEvent::MTE2_MTE3>(0);
    WaitFlag<HardEvent::MTE2_MTE3>(0);
    SetAtomicAdd<half>();
    SetAtomicType<float>();
    DataCopy(y.tensor(), t, 64);
    SetAtomicNone();
  });
  for (int i = 0; i < 64; ++i) EXPECT_EQ(y[i], 20.0f);
  EXPECT_EQ(Findings().dump(), "[]");
}

TEST(Gather, TakesElementsAtByteOffsetsAndScatterPutsThemBack) {
  anyop_ascend_clear();
  Configure(false, 0, "ascend310p");  // A2 has no Scatter
  OnCore([&](TBuf<>& buffer) {
    const auto a = buffer.GetWithOffset<std::int16_t>(512, 0);
    const auto d = buffer.GetWithOffset<std::int16_t>(512, 1024);
    const auto back = buffer.GetWithOffset<std::int16_t>(512, 2048);
    const auto offsets = buffer.GetWithOffset<std::uint32_t>(512, 4096);
    Duplicate(back, 0, 512);
    ArithProgression<std::int16_t>(a, 100, 1, 512);
    std::uint32_t state = 3;
    std::vector<std::uint32_t> places(512);
    std::iota(places.begin(), places.end(), 0u);
    for (std::uint32_t i = 512; i > 1; --i) std::swap(places[i - 1], places[Drawn(state) % i]);
    for (int i = 0; i < 500; ++i) offsets.SetValue(i, places[i] * 2);
    Gather(d, a, offsets, 0, 500);
    Scatter(back, d, offsets, 0, 500);
    PipeBarrier<PIPE_V>();
    for (int i = 0; i < 500; ++i) ASSERT_EQ(d.data()[i], 100 + static_cast<int>(places[i]));
    for (int i = 0; i < 500; ++i) ASSERT_EQ(back.data()[places[i]], a.data()[places[i]]);
  });
  Configure(false, 0);
  EXPECT_EQ(Findings().dump(), "[]");
}
TEST(Gatherb, TakesBlocksAtByteOffsets) {
  anyop_ascend_clear();
  constexpr std::uint32_t kBlocks[] = {5, 0, 63, 5, 17, 2, 1, 40, 9, 8, 7, 6, 33, 32, 31, 30};
  OnCore([&](TBuf<>& buffer) {
    const auto a = buffer.GetWithOffset<std::int16_t>(1024, 0);
    const auto d = buffer.GetWithOffset<std::int16_t>(1024, 2048);
    const auto offsets = buffer.GetWithOffset<std::uint32_t>(16, 8192);
    ArithProgression<std::int16_t>(a, 0, 1, 1024);
    Duplicate(d, -1, 1024);
    for (int i = 0; i < 16; ++i) offsets.SetValue(i, kBlocks[i] * 32);
    SetFlag<HardEvent::S_V>(0);
    WaitFlag<HardEvent::S_V>(0);
    Gatherb(d, a, offsets, 2, {2, 20});
    PipeBarrier<PIPE_V>();
    for (int i = 0; i < 16; ++i) {
      const std::int16_t* block = d.data() + (i / 8 * 20 + i % 8 * 2) * 16;
      for (int k = 0; k < 16; ++k)
        ASSERT_EQ(block[k], static_cast<std::int16_t>(kBlocks[i] * 16 + k)) << i;
      for (int k = 16; k < 32; ++k) ASSERT_EQ(block[k], -1) << "a gap was written";
    }
    EXPECT_EQ(Findings().dump(), "[]");
    offsets.SetValue(3, 16);  // half a block
    Gatherb(d, a, offsets, 1, {1, 8});
    EXPECT_EQ(Findings()[0]["kind"], "gather-offset");
    anyop_ascend_clear();
    offsets.SetValue(3, 65536);
    Gatherb(d, a, offsets, 1, {1, 8});
    EXPECT_EQ(Findings()[0]["kind"], "ub-out-of-bounds");
    anyop_ascend_clear();
    Gatherb(d, a, buffer.GetWithOffset<std::uint32_t>(8, 16384), 1, {1, 8});
    EXPECT_EQ(Findings()[0]["kind"], "undefined-read");
  });
}
TEST(GatherMask, CompactsByPatternsAndByBits) {
  anyop_ascend_clear();
  OnCore([&](TBuf<>& buffer) {
    const auto a = buffer.GetWithOffset<float>(256, 0), d = buffer.GetWithOffset<float>(256, 1024);
    const auto bits = buffer.GetWithOffset<std::uint32_t>(64, 2048);
    ArithProgression<float>(a, 0, 1, 256);
    PipeBarrier<PIPE_V>();
    const auto takes = [](int pattern, int i) {
      if (pattern <= 2) return i % 2 == pattern - 1;
      return pattern == 7 || i % 4 == pattern - 3;
    };
    for (std::uint8_t pattern = 1; pattern <= 7; ++pattern) {
      std::uint64_t taken = 0;
      GatherMask(d, a, pattern, true, 50, {1, 2, 16, 0}, taken);
      PipeBarrier<PIPE_V>();
      std::vector<float> want;
      for (int r = 0; r < 2; ++r)
        for (int i = 0; i < 50; ++i)
          if (takes(pattern, i)) want.push_back(static_cast<float>(r * 128 + i));
      ASSERT_EQ(taken, want.size());
      ASSERT_EQ(std::vector<float>(d.data(), d.data() + taken), want);
    }
    for (int i = 0; i < 8; ++i) bits.SetValue(i, 0xF0000001u);
    std::uint64_t taken = 0;
    GatherMask(d, a, bits, false, 0, {1, 2, 8, 0}, taken);
    ASSERT_EQ(taken, 20u);
    const float want[] = {0, 28, 29, 30, 31, 32, 60};
    for (int i = 0; i < 7; ++i) ASSERT_EQ(d.data()[i], want[i]);
  });
  EXPECT_EQ(Findings().dump(), "[]");
}
TEST(Brcb, FillsBlocksAndTransposeAndBroadcastMoveElements) {
  anyop_ascend_clear();
  OnCore([&](TBuf<>& buffer) {
    const auto a = buffer.GetWithOffset<half>(256, 0), d = buffer.GetWithOffset<half>(512, 1024);
    ArithProgression<half>(a, 0, 1, 256);
    PipeBarrier<PIPE_V>();
    Brcb(d, a, 2, {1, 8});
    PipeBarrier<PIPE_V>();
    for (int i = 0; i < 256; ++i) ASSERT_EQ(d.data()[i], half(i / 16));
    Transpose(d, a);
    PipeBarrier<PIPE_V>();
    for (int i = 0; i < 256; ++i) ASSERT_EQ(d.data()[i], a.data()[i % 16 * 16 + i / 16]);
    const std::uint32_t to[] = {16, 16}, column[] = {16, 1}, row[] = {1, 16};
    Broadcast<half, 2, 1>(d, a, to, column);
    PipeBarrier<PIPE_V>();
    for (int i = 0; i < 256; ++i) ASSERT_EQ(d.data()[i], half(i / 16));
    Duplicate(d, half(0), 256);
    BroadCast<half, 2, 0>(d, a, to, row);
    PipeBarrier<PIPE_V>();
    for (int i = 0; i < 256; ++i) ASSERT_EQ(d.data()[i], half(i % 16));
  });
  EXPECT_EQ(Findings().dump(), "[]");
}

template <class T>
void SortOf(int rows) {
  anyop_ascend_clear();
  OnCore([&](TBuf<>& buffer) {
    const int n = rows * 32;
    const auto scores = buffer.GetWithOffset<T>(n, 0), out = buffer.GetWithOffset<T>(n, 4096);
    const auto indices = buffer.GetWithOffset<std::uint32_t>(n, 8192);
    const auto places = buffer.GetWithOffset<std::uint32_t>(n, 12288);
    const auto sorted = buffer.GetWithOffset<T>(n * 8 / sizeof(T), 16384);
    const auto work = buffer.GetWithOffset<T>(n * 8 / sizeof(T), 32768);
    std::uint32_t state = 5;
    std::vector<std::uint32_t> order(n);
    std::iota(order.begin(), order.end(), 0u);
    for (int i = 0; i < n; ++i) scores.SetValue(i, static_cast<T>(Drawn(state) % 40));
    for (int i = 0; i < n; ++i) indices.SetValue(i, i);
    LocalTensor<T> ready;
    Concat(ready, scores, work, rows * 2);
    Sort<T, true>(sorted, ready, indices, work, rows);
    PipeBarrier<PIPE_V>();
    Extract(out, places, sorted, rows);
    PipeBarrier<PIPE_V>();
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return scores.data()[a] > scores.data()[b];
    });
    for (int i = 0; i < n; ++i) {
      ASSERT_EQ(places.data()[i], order[i]);
      ASSERT_EQ(out.data()[i], scores.data()[order[i]]);
    }
    Sort32(sorted, scores, indices, rows);
    PipeBarrier<PIPE_V>();
    const auto part = [&](int i) { return sorted[i * 32 * 8 / sizeof(T)]; };
    const std::uint16_t lengths[] = {32, 32, 32, 32};
    MrgSort(work, MrgSortSrcList<T>(part(0), part(1), part(2), part(3)),
            MrgSort4Info(lengths, false, 15, 1));
    PipeBarrier<PIPE_V>();
    Extract(out, places, work, 4);
    PipeBarrier<PIPE_V>();
    for (int i = 0; i < 128; ++i) ASSERT_EQ(out.data()[i], scores.data()[order[i]]);
  });
  EXPECT_EQ(Findings().dump(), "[]");
}
TEST(Sort, OrdersPairsByScoreAndKeepsTheOrderOfEqualOnes) {
  SortOf<float>(4);
  SortOf<half>(4);
}

// Every element of 16 blocks, for each width: transposed twice it is where it was.
template <class T>
void TransposeBlocks(bool by_addresses) {
  constexpr int kElements = 32 / sizeof(T), kRepeats = 2;
  anyop_ascend_clear();
  OnCore([&](TBuf<>& buffer) {
    const auto from = buffer.GetWithOffset<T>(2048 / sizeof(T), 0);
    const auto to = buffer.GetWithOffset<T>(2048 / sizeof(T), 4096);
    Duplicate(from, T(0), 2048 / sizeof(T));
    Duplicate(to, T(0), 2048 / sizeof(T));
    for (int i = 0; i < kRepeats * 16 * kElements; ++i) from.data()[i] = static_cast<T>(i % 127);
    LocalTensor<T> src[16], dst[16];
    std::uint64_t src_addresses[16], dst_addresses[16];
    for (int b = 0; b < 16; ++b) {
      src[b] = from[b * kElements];
      dst[b] = to[b * kElements];
      src_addresses[b] = reinterpret_cast<std::uint64_t>(src[b].GetPhyAddr());
      dst_addresses[b] = reinterpret_cast<std::uint64_t>(dst[b].GetPhyAddr());
    }
    for (const bool high : {false, true}) {
      const TransDataTo5HDParams params(high, !high, kRepeats, 16, 16);
      PipeBarrier<PIPE_V>();
      if (by_addresses) {
        TransDataTo5HD<T>(dst_addresses, src_addresses, params);
      } else {
        TransDataTo5HD<T>(dst, src, params);
      }
      for (int r = 0; r < kRepeats; ++r) {
        const T* x = from.data() + r * 16 * kElements;
        const T* y = to.data() + r * 16 * kElements;
        for (int i = 0; i < 16; ++i) {
          for (int j = 0; j < 16; ++j) {  // what C0 = 16 is: column j of 16 channels
            if (sizeof(T) == 1) {
              ASSERT_EQ(y[i * 32 + 16 * high + j], x[j * 32 + 16 * !high + i]) << i << ", " << j;
            } else if (i < kElements) {
              ASSERT_EQ(y[i * 16 + j], x[j * kElements + i]) << i << ", " << j;
            }
          }
        }
      }
    }
  });
  EXPECT_EQ(Findings().dump(), "[]");
}
TEST(TransDataTo5HD, PutsChannelsBehindEachOther) {
  for (const bool by_addresses : {false, true}) {
    TransposeBlocks<std::int8_t>(by_addresses);
    TransposeBlocks<half>(by_addresses);
    TransposeBlocks<float>(by_addresses);
  }
}
TEST(TransDataTo5HD, FindsABlockOutsideOfItsBufferAndOneThatNobodyWrote) {
  anyop_ascend_clear();
  OnCore([](TBuf<>& buffer) {
    const auto t = buffer.Get<half>();
    Duplicate(t, half(1), 15 * 16);
    PipeBarrier<PIPE_V>();
    LocalTensor<half> src[16], dst[16];
    for (int b = 0; b < 16; ++b) {
      src[b] = t[b * 16];
      dst[b] = t[1024 + b * 16];
    }
    TransDataTo5HD<half>(dst, src, TransDataTo5HDParams());
    dst[3].GetValue(15);
    dst[5] = t[32768];
    TransDataTo5HD<half>(dst, src, TransDataTo5HDParams());
  });
  std::vector<std::string> kinds;
  for (const auto& finding : Findings()) kinds.push_back(finding["kind"]);
  EXPECT_EQ(kinds, (std::vector<std::string>{"undefined-read", "ub-out-of-bounds"}));
  anyop_ascend_clear();
}
TEST(InitGlobalMemory, FillsBeforeTheFirstBufferAndNowhereElse) {
  for (const std::uint32_t elements : {1u, 7u, 8192u, 20001u}) {
    anyop_ascend_clear();
    Global<half> y("y", 3 * elements, ANYOP_ASCEND_WRITE | ANYOP_ASCEND_WHOLE);
    OnCores(3, [&] {
      TPipe pipe;
      auto mine = y.tensor()[GetBlockIdx() * elements];
      InitGlobalMemory(mine, elements, half(GetBlockIdx() + 1));
    });
    for (std::uint32_t i = 0; i < 3 * elements; ++i) ASSERT_EQ(y[i], half(i / elements + 1)) << i;
    EXPECT_EQ(Findings().dump(), "[]");
  }
  Global<half> y("y", 16, ANYOP_ASCEND_WRITE);
  OnCore([&](TBuf<>&) {
    auto all = y.tensor();
    InitGlobalMemory(all, 16, half(1));
  });
  ASSERT_EQ(Findings().size(), 1u);
  EXPECT_EQ(Findings()[0]["text"],
            "InitGlobalMemory takes local memory itself, where 65536 bytes are given out. Try to "
            "call it before InitBuffer");
  anyop_ascend_clear();
}
TEST(Proposals, AreSortedAndMergedOnTheInferenceProductAndNotedElsewhere) {
  anyop_ascend_clear();
  const auto run = [](TBuf<>& buffer) {
    const auto scores = buffer.GetWithOffset<half>(32, 0), out = buffer.GetWithOffset<half>(32, 64);
    const auto all = buffer.GetWithOffset<half>(256, 1024);
    const auto sorted = buffer.GetWithOffset<half>(256, 2048);
    const auto merged = buffer.GetWithOffset<half>(256, 3072);
    Duplicate(all, half(0), 256);
    for (int i = 0; i < 32; ++i) scores.SetValue(i, half(i * 7 % 32));
    ProposalConcat(all, scores, 2, 4);
    RpSort16(sorted, all, 2);
    const std::uint16_t lengths[] = {16, 16, 0, 0};
    MrgSort4(merged, MrgSortSrcList<half>(sorted, sorted[128], sorted, sorted),
             MrgSort4Info(lengths, false, 3, 1));
    ProposalExtract(out, merged, 2, 4);
    PipeBarrier<PIPE_V>();
    for (int i = 0; i < 32; ++i) ASSERT_EQ(out.data()[i], half(31 - i));
  };
  Configure(false, 0, "ascend310p");
  OnCore(run);
  EXPECT_EQ(Findings().dump(), "[]");
  Configure(false, 0);
  OnCore(run);
  EXPECT_EQ(Findings().size(), 4u);
  for (const auto& finding : Findings()) EXPECT_EQ(finding["kind"], "not-on-soc");
}

}  // namespace
}  // namespace ascend_tests
