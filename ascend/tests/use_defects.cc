// SPDX-License-Identifier: Apache-2.0
// Kernels that use what is not there: bits of a mask, members of a struct, instructions, a stack.
#include "defects.h"

namespace ascend_tests {
namespace {

// 100 of 128 halves are defined: so are 100 bits of the mask, in 13 bytes.
LocalTensor<std::uint8_t> Compared(Bench& b, const LocalTensor<half>& a) {
  const auto mask = b.buffer.GetWithOffset<std::uint8_t>(32, 8192);
  Duplicate(a, half(1.0f), 100);
  PipeBarrier<PIPE_V>();
  THERE Compare(mask, a, a, CMPMODE::EQ, 128);
  PipeBarrier<PIPE_V>();
  return mask;
}
void Selected(Bench& b, const LocalTensor<std::uint8_t>& mask, const LocalTensor<half>& a,
              std::uint32_t count) {
  const auto chosen = b.buffer.GetWithOffset<half>(128, 4096);
  Duplicate(a, half(1.0f), 128);
  PipeBarrier<PIPE_V>();
  Select(chosen, mask, a, half(2.0f), SELMODE::VSEL_TENSOR_SCALAR_MODE, count);
  Order<HardEvent::V_S>();
  for (std::uint32_t i = 0; i < count; ++i) {
    HERE chosen.GetValue(i);
  }
}
void SelectsBeyondWhatWasCompared(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  const auto a = b.buffer.GetWithOffset<half>(128, 0);
  const auto mask = Compared(b, a);
  Selected(b, mask, a, is_broken ? 101 : 100);
}
void SelectsByTwoMasks(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  const auto a = b.buffer.GetWithOffset<half>(128, 0);
  const auto both = b.buffer.GetWithOffset<std::uint8_t>(32, 12288);
  const auto mask = Compared(b, a);
  Not(both.ReinterpretCast<std::uint16_t>(), mask.ReinterpretCast<std::uint16_t>(), 8);
  PipeBarrier<PIPE_V>();
  And(both.ReinterpretCast<std::uint16_t>(), both.ReinterpretCast<std::uint16_t>(),
      mask.ReinterpretCast<std::uint16_t>(), 8);
  PipeBarrier<PIPE_V>();
  Selected(b, both, a, is_broken ? 104 : 100);
}
// The lanes that a mask leaves out give no bits.
void ComparesFewerLanes(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  const auto a = b.buffer.GetWithOffset<half>(128, 0);
  const auto mask = b.buffer.GetWithOffset<std::uint8_t>(32, 8192);
  Duplicate(a, half(1.0f), 128);
  PipeBarrier<PIPE_V>();
  THERE Compare(mask, a, a, CMPMODE::EQ, std::uint64_t{is_broken ? 99u : 100u}, 1,
                BinaryRepeatParams(1, 1, 1, 8, 8, 8));
  PipeBarrier<PIPE_V>();
  Selected(b, mask, a, 100);
}

struct Right {
  float first, rest[kElements - 1];
};
struct Short {
  float first, rest[kElements - 2];
};
struct Long {
  float first, rest[kElements];
};
void ReadsAShorterStruct(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  if (is_broken) {
    HERE GET_TILING_DATA_WITH_STRUCT(Short, tiling, x);
  } else {
    GET_TILING_DATA_WITH_STRUCT(Right, tiling, x);
  }
}
void ReadsALongerStruct(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  if (is_broken) {
    HERE GET_TILING_DATA_WITH_STRUCT(Long, tiling, x);
  } else {
    GET_TILING_DATA_WITH_STRUCT(Right, tiling, x);
  }
}
void ReadsAMemberOfAnotherStruct(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  if (is_broken) {
    HERE GET_TILING_DATA_MEMBER(Long, first, first, x);
    (void)first;
  } else {
    GET_TILING_DATA_MEMBER(Right, first, first, x);
    (void)first;
  }
}

void UsesWhatTheSocLacks(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  const auto a = b.At(0, 64), to = b.At(64, 64);
  const auto offsets = b.buffer.GetWithOffset<std::uint32_t>(64, 1024);
  Duplicate(a, 1.0f, 64);
  Duplicate(offsets.ReinterpretCast<std::int32_t>(), 0, 64);
  PipeBarrier<PIPE_V>();
  if (is_broken) {
    HERE Scatter(to, a, offsets, 0, 64);
  } else {
    Gather(to, a, offsets, 0, 64);
  }
}
// Source, work and result may be one tensor; a work tensor of its own has to hold a pair for each
// repeat of 64 floats, and nobody else may touch it meanwhile.
void WorkIsTooSmall(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  const auto values = b.At(0, 1024);
  Duplicate(values, 1.0f, 1024);
  PipeBarrier<PIPE_V>();
  ReduceSum(values, values, values, 1024);
  PipeBarrier<PIPE_V>();
  HERE ReduceMax(values, values, b.At(is_broken ? 4072 : 4064, 24), 1024);
}
void WorkIsCopiedOut(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  const auto values = b.At(0, 256), work = b.At(1024, 64);
  Duplicate(values, 1.0f, 256);
  Duplicate(work, 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  THERE DataCopy(b.y, work, 64);
  PipeBarrier<PIPE_V>();
  if (!is_broken) Order<HardEvent::MTE3_V>();
  HERE ReduceMin(b.At(2048, 8), values, work, 256, true);
}
void MergesOverItsSources(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  const std::uint16_t lengths[4] = {32, 32, 0, 0};
  Duplicate(b.At(0, 128), 1.0f, 128);
  PipeBarrier<PIPE_V>();
  const MrgSortSrcList<float> lists(b.At(0, 64), b.At(64, 64), b.At(0, 64), b.At(0, 64));
  HERE MrgSort(b.At(is_broken ? 64 : 128, 128), lists, MrgSort4Info(lengths, false, 3, 1));
}
void SortsOverItsScores(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  const auto indices = b.At(64, 32).ReinterpretCast<std::uint32_t>();
  Duplicate(b.At(0, 128), 1.0f, 128);
  PipeBarrier<PIPE_V>();
  HERE Sort32(b.At(is_broken ? 0 : 128, 64), b.At(0, 32), indices, 1);
}
void StaysAtomic(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  Duplicate(b.At(0, 64), 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  HERE SetAtomicAdd<float>();
  DataCopy(b.y, b.At(0, 64), 64);
  if (!is_broken) SetAtomicNone();
}
void NobodyWaits(GM_ADDR, GM_ADDR, bool is_broken) {
  const GlobalTensor<std::int32_t> flags;
  const LocalTensor<std::int32_t> work;
  const auto me = static_cast<std::int32_t>(GetBlockIdx());
  if (me) IBWait(flags, work, me - 1, 0);
  const bool is_last = me + 1 == GetBlockNum();
  HERE if (!is_last || is_broken) IBSet(flags, work, me, 0);
}
// An array below the pages that catch a recursion.
[[gnu::noinline]] void FillALargeArray() {
  volatile char large[2 << 20];
  for (volatile char& c : large) c = 1;
}
void TakesALargeArray(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  HERE Duplicate(b.At(0, 64), 1.0f, 64);
  if (is_broken) FillALargeArray();
}

}  // namespace

std::vector<Defect> UseDefects() {
  return {
      {"SelectsBeyondWhatWasCompared", SelectsBeyondWhatWasCompared, "undefined-read", 1, false,
       true},
      {"SelectsByTwoMasks", SelectsByTwoMasks, "undefined-read", 1, false, true},
      {"ComparesFewerLanes", ComparesFewerLanes, "undefined-read", 1, false, true},
      {"ReadsAShorterStruct", ReadsAShorterStruct, "tiling-size"},
      {"ReadsALongerStruct", ReadsALongerStruct, "tiling-size"},
      {"ReadsAMemberOfAnotherStruct", ReadsAMemberOfAnotherStruct, "tiling-size"},
      {"UsesWhatTheSocLacks", UsesWhatTheSocLacks, "not-on-soc"},
      {"WorkIsTooSmall", WorkIsTooSmall, "ub-out-of-bounds"},
      {"WorkIsCopiedOut", WorkIsCopiedOut, "race", 1, false, true},
      {"MergesOverItsSources", MergesOverItsSources, "overlap"},
      {"SortsOverItsScores", SortsOverItsScores, "overlap"},
      {"StaysAtomic", StaysAtomic, "atomic-left"},
      {"NobodyWaits", NobodyWaits, "flag-leak", 3},
      {"TakesALargeArray", TakesALargeArray, "stack-overflow"},
  };
}

}  // namespace ascend_tests
