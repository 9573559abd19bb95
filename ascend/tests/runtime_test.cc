// SPDX-License-Identifier: Apache-2.0
// The C interface, and what findings say.
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

#include "on_core.h"

namespace ascend_tests {
namespace {

void FillHalf(GM_ADDR y, std::uint32_t elements, float value) {
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 4096);
  GlobalTensor<float> to;
  to.SetGlobalBuffer(reinterpret_cast<float*>(y), elements);
  Duplicate(buffer.Get<float>(), value, static_cast<std::int32_t>(elements));
  SetFlag<HardEvent::V_MTE3>(0);
  WaitFlag<HardEvent::V_MTE3>(0);
  DataCopy(to, buffer.Get<float>(), elements);
}
struct ByValue {
  std::int64_t a;
  float b;
};
void AllLetters(GM_ADDR, bool, std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t,
                std::uint32_t, std::int64_t, std::uint64_t, half, bfloat16_t, float, double,
                ByValue) {}
void Nothing() {}

TEST(KernelTable, NamesKernelsAndTheirParameters) {
  using AscendC::anyop_launching::Exported;
  constexpr anyop_ascend_kernel kEntry = Exported<&AllLetters>::Entry("all_letters");
  EXPECT_STREQ(kEntry.parameters, "pbcCsSiIqQhefdt");
  EXPECT_EQ(kEntry.bytes[0], 8u);
  EXPECT_EQ(kEntry.bytes[14], sizeof(ByValue));
  EXPECT_STREQ(Exported<&Nothing>::Entry("nothing").parameters, "");
}
TEST(Launch, PassesParametersByAddress) {
  anyop_ascend_clear();
  Global<float> y("y", 64, ANYOP_ASCEND_WRITE | ANYOP_ASCEND_WHOLE);
  const anyop_ascend_kernel kernel = AscendC::anyop_launching::Exported<&FillHalf>::Entry("fill");
  GM_ADDR address = y.address();
  std::uint32_t elements = 64;
  float value = 2.5f;
  void* const arguments[] = {&address, &elements, &value};
  EXPECT_EQ(anyop_ascend_launch(&kernel, 1, arguments), 0);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(y[i], 2.5f);
  EXPECT_EQ(Findings().dump(), "[]");
  EXPECT_EQ(anyop_ascend_launch(&kernel, 0, arguments), 1);
  EXPECT_STREQ(anyop_ascend_error(),
               "fill: 0 blocks, but a launch has 1 to 65535. Try another number of blocks");
  EXPECT_EQ(anyop_ascend_launch(&kernel, 65536, arguments), 1);
}
TEST(Launch, TakesAsManyBlocksAsThereCanBe) {
  anyop_ascend_clear();
  int calls = 0;
  OnCores(65535, [&] {
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 32);
    Duplicate(buffer.Get<float>(), 1.0f, 8);
    ++calls;
  });
  EXPECT_EQ(calls, 65535);
  OnCores(65535, [] { SyncAll(); });
  EXPECT_EQ(Findings()[0]["kind"], "deadlock");
}
TEST(Launch, SaysWhatWouldEndAWaitForEver) {
  Global<std::int32_t> sync("sync", 1024, ANYOP_ASCEND_READ | ANYOP_ASCEND_WRITE);
  const auto said_of = [&](const auto& kernel) {
    anyop_ascend_clear();
    OnCores(2, kernel);
    const auto found = Findings();
    EXPECT_EQ(found.size(), 1u) << found.dump(1);
    const std::string text = found[0]["text"];
    return text.substr(0, text.find(" for ever")) + ": " + std::string(found[0]["insert"]);
  };
  EXPECT_EQ(said_of([] {
              if (GetBlockIdx() == 0) SyncAll();
            }),
            "1 block waits: SyncAll on every path to a return, or a launch with fewer blocks");
  EXPECT_EQ(said_of([] {
              SyncAll();
              if (GetBlockIdx() == 0) CrossCoreWaitFlag(3);
            }),
            "1 block waits: CrossCoreSetFlag of flag 3 in every block, once for each wait");
  EXPECT_EQ(said_of([&] {
              LocalTensor<std::int32_t> local(TPosition::VECCALC, 0, 64);
              auto tensor = sync.tensor();
              IBWait(tensor, local, 1 - static_cast<int>(GetBlockIdx()), 5);
            }),
            "2 blocks wait: IBSet(block 1, event 5) in that block");
}
TEST(Launch, DrawsTheOrderOfBlocksFromTheSeed) {
  std::vector<std::int64_t> orders[3];
  for (int i = 0; i < 3; ++i) {
    Configure(false, i < 2 ? 5 : 6);
    OnCores(16, [&] { orders[i].push_back(GetBlockIdx()); });
  }
  Configure(false, 0);
  EXPECT_EQ(orders[0], orders[1]);
  EXPECT_NE(orders[0], orders[2]);
}
TEST(Launch, EndsALoopWithoutInstructions) {
  anyop_ascend_clear();
  OnCores(1, [] {
    volatile bool goes_on = true;
    while (goes_on) {
    }
  });
  ASSERT_EQ(Findings().size(), 1u);
  EXPECT_EQ(Findings()[0]["kind"], "endless");
  anyop_ascend_clear();
}
TEST(Launch, KnowsAnEarlierWriteBesideALaterOne) {
  anyop_ascend_clear();
  Global<float> y("y", 64, ANYOP_ASCEND_READ | ANYOP_ASCEND_WRITE);
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Configure(false, seed);
    OnCores(2, [&] {
      const auto me = GetBlockIdx();
      const auto to = y.tensor();
      if (!me) to.SetValue(0, 1.0f);
      DataCacheCleanAndInvalid<float, CacheLine::ENTIRE_DATA_CACHE>(to);
      SyncAll();
      if (!me)
        to.SetValue(1, 2.0f);  // another element of the same 32 bytes
      else
        to.GetValue(0);
      DataCacheCleanAndInvalid<float, CacheLine::ENTIRE_DATA_CACHE>(to);
    });
  }
  Configure(false, 0);
  EXPECT_EQ(Findings().dump(), "[]");
}
TEST(Configure, RefusesWhatItDoesNotKnow) {
  anyop_ascend_options options{};
  EXPECT_EQ(anyop_ascend_configure(&options), 1);
  EXPECT_STREQ(anyop_ascend_error(),
               "anyop_ascend_configure: options of 0 bytes, but this runtime's have 40. Compile "
               "against its kernel_table.h");
  options.bytes = sizeof options;
  options.soc = "ascend1";
  EXPECT_EQ(anyop_ascend_configure(&options), 1);
  EXPECT_STREQ(anyop_ascend_error(),
               "anyop_ascend_configure: there is no SoC 'ascend1', but [\"ascend910b\", "
               "\"ascend910_93\", \"ascend310p\"]");
  options.soc = nullptr;
  EXPECT_EQ(anyop_ascend_configure(&options), 0);
}
TEST(Soc, DecidesSizesAndInstructions) {
  anyop_ascend_clear();
  const auto fill = [] {
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 250 * 1024);
  };
  OnCores(1, fill);
  EXPECT_EQ(Findings()[0]["kind"], "ub-overflow");
  anyop_ascend_clear();
  Configure(false, 0, "ascend310p");
  OnCores(1, fill);
  EXPECT_EQ(Findings().dump(), "[]");
  OnCores(2, [] { CrossCoreSetFlag<0, PIPE_MTE3>(0); });
  EXPECT_EQ(Findings()[0]["kind"], "not-on-soc");
  EXPECT_EQ(Findings()[0]["level"], "error");
  EXPECT_EQ(Findings()[0]["text"],
            "ascend310p has no CrossCoreSetFlag. Try --soc if the kernel is for another chip");
  Configure(false, 0);
  anyop_ascend_clear();
}
TEST(Soc, HasASeparateMemoryForEachPosition) {
  anyop_ascend_clear();
  OnCores(1, [] {
    TPipe pipe;
    TBuf<TPosition::A1> a;
    TBuf<TPosition::CO1> c;
    TBuf<TPosition::VECCALC> v;
    TBuf<TPosition::GM> g;
    pipe.InitBuffer(a, 512 * 1024);
    pipe.InitBuffer(c, 128 * 1024);
    pipe.InitBuffer(v, 190 * 1024);
    pipe.InitBuffer(g, 256 * 1024);
  });
  EXPECT_EQ(Findings().dump(), "[]");
}
TEST(Outputs, ThatAreNotWrittenAreFound) {
  anyop_ascend_clear();
  Global<float> y("y", 128, ANYOP_ASCEND_WRITE | ANYOP_ASCEND_WHOLE);
  anyop_ascend_start("fill", &FillHalf, 1)(y.address(), 96, 1.0f);
  const auto found = Findings();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["kind"], "output-unwritten");
  EXPECT_EQ(found[0]["text"],
            "128 of the 512 bytes of output 'y' are never written; the first is byte 384");
  GlobalTensor<float> rest = y.tensor();
  OnCores(1, [&] {  // a plain pointer counts as well
    for (int i = 96; i < 128; ++i) *rest.GetPhyAddr(i) = 0;
  });
  EXPECT_EQ(Findings().dump(), "[]");
}
TEST(Outputs, ThatAreReadBeforeTheyAreWrittenAreUndefined) {
  anyop_ascend_clear();
  Global<float> y("y", 64, ANYOP_ASCEND_WRITE);
  Global<float> z("z", 64, ANYOP_ASCEND_WRITE);
  OnCores(1, [&] {
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 256);
    DataCopy(buffer.Get<float>(), y.tensor(), 64);
    SetFlag<HardEvent::MTE2_MTE3>(0);
    WaitFlag<HardEvent::MTE2_MTE3>(0);
    DataCopy(z.tensor(), buffer.Get<float>(), 64);
  });
  ASSERT_EQ(Findings().size(), 1u);
  EXPECT_EQ(Findings()[0]["kind"], "undefined-read");
}
TEST(Outputs, ThatAreAddedToBeforeTheyAreWrittenAreUndefined) {
  for (const bool fills : {false, true}) {
    anyop_ascend_clear();
    Global<float> y("y", 64, ANYOP_ASCEND_WRITE | ANYOP_ASCEND_WHOLE);
    int line = 0;
    OnCores(2, [&] {
      TPipe pipe;
      TBuf<> buffer;
      pipe.InitBuffer(buffer, 256);
      const auto t = buffer.Get<float>();
      Duplicate(t, fills ? 0.0f : 1.0f, 64);
      SetFlag<HardEvent::V_MTE3>(0);
      WaitFlag<HardEvent::V_MTE3>(0);
      if (fills && GetBlockIdx() == 0) DataCopy(y.tensor(), t, 64);
      SyncAll();
      SetAtomicAdd<float>();
      line = __LINE__ + 1;
      DataCopy(y.tensor(), t, 64);
      SetAtomicNone();
    });
    if (fills) {
      EXPECT_EQ(Findings().dump(), "[]");
      continue;
    }
    ASSERT_EQ(Findings().size(), 1u) << Findings().dump(1);
    EXPECT_EQ(Findings()[0]["kind"], "undefined-read");
    EXPECT_EQ(Findings()[0]["line"], line);
    EXPECT_EQ(Findings()[0]["text"],
              "the atomic copy adds to byte 0 of 'y', which nothing has written. Try to fill 'y' "
              "with zeros first, and SyncAll");
  }
}
TEST(Launch, SaysWhatAKernelThrows) {
  anyop_ascend_clear();
  const anyop_ascend_kernel kernel{"throws", "", nullptr,
                                   [](std::uint32_t blocks, void* const*) {
                                     OnCores(blocks,
                                             [] { throw std::runtime_error("no such row"); });
                                   },
                                   nullptr};
  EXPECT_EQ(anyop_ascend_launch(&kernel, 2, nullptr), 1);
  ASSERT_EQ(Findings().size(), 1u);
  EXPECT_EQ(Findings()[0]["kind"], "crash");
  EXPECT_EQ(Findings()[0]["text"],
            "an exception leaves the kernel (no such row). A device has none");
  anyop_ascend_clear();
}
TEST(Findings, AreJsonWhateverNamesHold) {
  anyop_ascend_clear();
  Global<float> y("\"quoted\\ \n name", 64, ANYOP_ASCEND_READ);
  anyop_ascend_start("fill", &FillHalf, 1)(y.address(), 64, 1.0f);
  const auto found = Findings();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["kind"], "gm-write-to-input");
  EXPECT_EQ(found[0]["text"], "writes to '\"quoted\\ \n name', which is an input");
}
TEST(Findings, SayWhatToInsertAndCount) {
  anyop_ascend_clear();
  Global<float> x("x", std::vector<float>(64, 1.0f));
  int line = 0;
  OnCores(3, [&] {
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 256);
    const auto t = buffer.Get<float>();
    line = __LINE__ + 1;
    DataCopy(t, x.tensor(), 64);
    Adds(t, t, 1.0f, 64);
  });
  const auto found = Findings();
  ASSERT_EQ(found.size(), 1u);
  const auto there = std::to_string(line), here = std::to_string(line + 1);
  EXPECT_EQ(found[0]["text"], "runtime_test.cc:" + here +
                                  " reads UB[0] on pipe V before the write on pipe MTE2 at "
                                  "runtime_test.cc:" +
                                  there + " is known to be complete");
  EXPECT_EQ(found[0]["insert"], "SetFlag<HardEvent::MTE2_V>(id) after runtime_test.cc:" + there +
                                    " and WaitFlag<HardEvent::MTE2_V>(id) before "
                                    "runtime_test.cc:" +
                                    here);
  EXPECT_EQ(found[0]["level"], "error");
  EXPECT_GE(found[0]["count"], 3);
  EXPECT_EQ(found[0]["there_line"], line);
}
TEST(Findings, AboutPartsThatOverlapSaySoBeforeTheyAdviseToWait) {
  anyop_ascend_clear();
  Global<float> y("y", 96, ANYOP_ASCEND_WRITE);
  int line = 0;
  OnCores(2, [&] {
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 256);
    Duplicate(buffer.Get<float>(), 1.0f, 64);
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    line = __LINE__ + 1;
    DataCopy(y.tensor()[GetBlockIdx() * 32], buffer.Get<float>(), 64);
  });
  const auto found = Findings();
  ASSERT_EQ(found.size(), 1u);
  const auto place = "runtime_test.cc:" + std::to_string(line);
  EXPECT_EQ(found[0]["text"],
            "block 1 writes byte 128 of 'y' at " + place +
                ", and nothing orders this after the write by block 0 at " + place +
                ": their parts overlap. If that is not meant, look at offsets and lengths");
  EXPECT_EQ(found[0]["insert"], "SetAtomicAdd before " + place + ", where blocks add up");
}
TEST(Memory, OfNothingIsAPageAndReleasesTwice) {
  void* nothing = anyop_ascend_allocate(0);
  ASSERT_NE(nothing, nullptr);
  anyop_ascend_release(nothing);
  anyop_ascend_release(nothing);
  anyop_ascend_release(nullptr);
  EXPECT_EQ(anyop_ascend_allocate(~0ull), nullptr);
  EXPECT_EQ(anyop_ascend_allocate(1ull << 60), nullptr);
}
TEST(Programs, ThatDeclareNothingRunWithoutChecksOfGlobalMemory) {
  anyop_ascend_clear();
  std::vector<float> y(64);
  anyop_ascend_start("fill", &FillHalf, 1)(reinterpret_cast<GM_ADDR>(y.data()), 64, 4.0f);
  EXPECT_EQ(y[63], 4.0f);
  EXPECT_EQ(Findings().dump(), "[]");
}

}  // namespace
}  // namespace ascend_tests
