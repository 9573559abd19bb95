// SPDX-License-Identifier: Apache-2.0
#include "defects.h"

#include <cstdlib>
#include <stdexcept>

namespace ascend_tests {
namespace {

void CountTooLarge(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y, 256);
  HERE Duplicate(b.At(0, 64), 1.0f, is_broken ? 65 : 64);
}
void SliceTooFar(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y, 256);
  HERE Duplicate(b.At(0, 64)[is_broken ? 64 : 32], 1.0f, 32);
}
void SetBehindTheEnd(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y, 256);
  HERE b.At(0, 64).SetValue(is_broken ? 64 : 63, 1.0f);
}
void SetBeforeTheBegin(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y, 256);
  HERE b.At(8, 8).SetValue(is_broken ? -1 : 0, 1.0f);
}
void GetTooMuch(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y, 256);
  HERE b.buffer.Get<float>(is_broken ? 65 : 64);
}
void OffsetInElements(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y, 512);
  HERE b.buffer.GetWithOffset<float>(64, is_broken ? 512 : 256);
}
void RepeatsTooFar(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y, 1024);
  auto t = b.At(0, 256);
  Duplicate(t, 1.0f, 256);
  PipeBarrier<PIPE_V>();
  HERE Adds(t, t, 1.0f, 64, is_broken ? 5 : 4, {1, 1, 8, 8});
}
void StridesTooFar(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y, 1024);
  HERE Duplicate(b.At(0, 256), 1.0f, 64, is_broken ? 3 : 2, 1, 16);
}
void CopyTooLarge(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y, 256);
  HERE DataCopy(b.At(0, 64), b.x, is_broken ? 72 : 64);
}
void GetOfNothing(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  if (!is_broken) t.SetValue(5, 1.0f);
  HERE t.GetValue(5);
}
void CopyOutOfNothing(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  Duplicate(t, 1.0f, is_broken ? 63 : 64);
  Order<HardEvent::V_MTE3>();
  HERE DataCopy(b.y, t, 64);
}
void SumOfNothing(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64), u = b.At(64, 64), v = b.At(128, 64);
  Duplicate(t, 1.0f, 64);
  Duplicate(u, 1.0f, is_broken ? 32 : 64);
  PipeBarrier<PIPE_V>();
  THERE Add(v, t, u, 64);
  Order<HardEvent::V_MTE3>();
  HERE DataCopy(b.y, v, 64);
}
// What is named is the first instruction that took bytes of nobody, whatever came between.
void NothingThroughAChain(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64), u = b.At(64, 64), v = b.At(128, 64), work = b.At(192, 64);
  Duplicate(t, 1.0f, is_broken ? 32 : 64);
  PipeBarrier<PIPE_V>();
  THERE Muls(u, t, 2.0f, 64, 1, {1, 1, 8, 8});
  PipeBarrier<PIPE_V>();
  DataCopy(v, u, 64);
  PipeBarrier<PIPE_V>();
  Cast(u.ReinterpretCast<std::int32_t>(), v, RoundMode::CAST_RINT, 64);
  PipeBarrier<PIPE_V>();
  Cast(v, u.ReinterpretCast<std::int32_t>(), RoundMode::CAST_NONE, 64);
  PipeBarrier<PIPE_V>();
  ReduceSum(v, v, work, 64);
  PipeBarrier<PIPE_V>();
  WholeReduceSum(u, v, 1, 1, 1, 1, 8);
  Order<HardEvent::V_S>();
  HERE u.GetValue(0);
}
void PaddingIsUsed(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  const bool pads = !is_broken;
  THERE DataCopyPad(t, b.x, {1, 20, 0, 0, 0}, DataCopyPadExtParams<float>{pads, 0, 3, 0});
  Order<HardEvent::MTE2_MTE3>();
  HERE DataCopy(b.y, t, 8);
}
void DropsTheRest(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  HERE DataCopy(b.At(0, 64), b.x, is_broken ? 61 : 64);
}
void CopiesTooManyRows(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y, 131072);
  const auto rows = static_cast<std::uint16_t>(is_broken ? 4096 : 4095);
  HERE DataCopyPad(b.At(0, 32768), b.x, {rows, 4, 0, 0, 0}, {false, 0, 0, 0.0f});
}
void OperandMisaligned(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  HERE Duplicate(b.At(0, 64)[is_broken ? 4 : 8], 1.0f, 8);
}
void CopyMisaligned(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  HERE DataCopy(b.At(0, 64)[is_broken ? 2 : 0], b.x, 8);
}
void MaskTooLarge(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  HERE Duplicate(b.At(0, 256), 1.0f, is_broken ? 128 : 64, 2, 1, 8);
}
void RepeatsOutOfRange(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y, 131072);
  auto t = b.buffer.Get<float>();
  Duplicate(t, 1.0f, 64 * 256);
  PipeBarrier<PIPE_V>();
  HERE WholeReduceSum(t[64 * 256], t, 64, is_broken ? 256 : 255, 1, 1, 8);
}
void RepeatsAreCut(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y, 65536 * 2);
  auto t = b.buffer.Get<float>();
  HERE Duplicate(t, 1.0f, 64, is_broken ? 256 : 255, 1, 8);
}
void NothingRepeats(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  Duplicate(t, 1.0f, 64);
  PipeBarrier<PIPE_V>();
  HERE Adds(t, t, 1.0f, 64, is_broken ? 0 : 1, {1, 1, 8, 8});
}
void MaskOfNoElement(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  Duplicate(t, 1.0f, 64);
  PipeBarrier<PIPE_V>();
  HERE Adds(t, t, 1.0f, std::uint64_t{is_broken ? 0u : 1u}, 1, {1, 1, 8, 8});
}
void MaskOfNoBit(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  Duplicate(t, 1.0f, 64);
  PipeBarrier<PIPE_V>();
  std::uint64_t mask[2] = {is_broken ? 0u : 1u, 1};  // the second word is of 16-bit elements
  HERE Adds(t, t, 1.0f, mask, 1, {1, 1, 8, 8});
}
void NoGroupIsReduced(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  Duplicate(t, 1.0f, 64);
  PipeBarrier<PIPE_V>();
  HERE WholeReduceSum(b.At(64, 8), t, 64, is_broken ? 0 : 1, 1, 1, 8);
}
void PartialOverlap(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 256);
  Duplicate(t, 1.0f, 256);
  PipeBarrier<PIPE_V>();
  HERE Adds(t[is_broken ? 8 : 128], t, 1.0f, 128);
}
void NoRoomLeft(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  TBuf<> second;
  HERE b.pipe.InitBuffer(second, is_broken ? 190 * 1024 : 128 * 1024);
}
void NothingBehindIt(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  LocalTensor<float> t;
  if (!is_broken) t = b.At(0, 64);
  HERE Duplicate(t, 1.0f, 64);
}
void CompareFillsNoRepeat(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  Duplicate(t, 1.0f, 64);
  PipeBarrier<PIPE_V>();
  auto bits = b.At(64, 64).ReinterpretCast<std::uint8_t>();
  HERE CompareScalar(bits, t, 0.0f, CMPMODE::GT, is_broken ? 40 : 64);
}
void CastOfNoPair(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  Duplicate(t, 1.0f, 64);
  PipeBarrier<PIPE_V>();
  auto u = b.At(64, 64);
  if (is_broken) {
    HERE Cast(u.ReinterpretCast<std::int8_t>(), t, RoundMode::CAST_RINT, 64);
  } else {
    Cast(u.ReinterpretCast<half>(), t, RoundMode::CAST_RINT, 64);
  }
}
void GatherTooFar(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y, 768);
  auto t = b.At(0, 64), u = b.At(64, 64);
  auto offsets = b.At(128, 64).ReinterpretCast<std::int32_t>();
  Duplicate(t, 1.0f, 64);
  ArithProgression<std::int32_t>(offsets, 0, 4, 64);
  PipeBarrier<PIPE_V>();
  HERE Gather(u, t, offsets.ReinterpretCast<std::uint32_t>(), is_broken ? 1024 : 0, 64);
}
void GatherBetweenElements(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64), u = b.At(64, 64);
  auto offsets = b.At(128, 64).ReinterpretCast<std::int32_t>();
  Duplicate(t, 1.0f, 64);
  ArithProgression<std::int32_t>(offsets, 0, is_broken ? 2 : 4, 32);
  PipeBarrier<PIPE_V>();
  HERE Gather(u, t, offsets.ReinterpretCast<std::uint32_t>(), 0, 32);
}
void PatternUnknown(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  Duplicate(t, 1.0f, 64);
  PipeBarrier<PIPE_V>();
  std::uint64_t taken = 0;
  const std::uint8_t pattern = is_broken ? 8 : 7;
  HERE GatherMask(b.At(64, 64), t, pattern, true, 64, {1, 1, 8, 0}, taken);
}
void PaddingTooLong(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  const std::uint8_t left = is_broken ? 9 : 8;
  HERE DataCopyPad(b.At(0, 64), b.x, {1, 32, 0, 0, 0}, {true, left, 0, 0.0f});
}
void WritesAnInput(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  Duplicate(t, 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  HERE DataCopy(is_broken ? b.x : b.y, t, 64);
}
void ReadsBehindTheEnd(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  HERE DataCopy(b.At(0, 64), b.x[is_broken ? kElements - 56 : kElements - 64], 64);
}
void WritesBehindTheEnd(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  Duplicate(t, 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  HERE DataCopy(b.y[is_broken ? kElements - 56 : kElements - 64], t, 64);
}
void AddressOfNothing(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  GlobalTensor<float> z;
  static float other[64];
  z.SetGlobalBuffer(is_broken ? other : b.x.GetPhyAddr(), 64);
  HERE DataCopy(b.At(0, 64), z, 64);
}
void CountBelowZero(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  HERE Duplicate(b.At(0, 64), 1.0f, is_broken ? -1 : 1);
}
void AssertFails(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  HERE ASSERT(!is_broken);
}
void PlainPointerTooFar(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  HERE Duplicate(b.At(0, 64), 1.0f, 64);
  const volatile float* values = reinterpret_cast<float*>(x);
  (void)values[is_broken ? kElements + 8 : 0];
}
void PlainPointerToNothing(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  HERE Duplicate(b.At(0, 64), 1.0f, 64);
  const volatile std::uint8_t* values = is_broken ? nullptr : x;
  (void)values[16];
}
void DividesByZero(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  HERE Duplicate(b.At(0, 64), 1.0f, 64);
  volatile int divisor = is_broken ? 0 : 1;
  volatile int result = 7 / divisor;
  (void)result;
}
int Deep(int depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  return depth ? Deep(depth - 1) + frame[0] : frame[0];
}
void StackOverflows(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  HERE Duplicate(b.At(0, 64), 1.0f, 64);
  volatile int result = Deep(is_broken ? 1000 : 10);
  (void)result;
}
void NeverEnds(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  for (int i = 0; is_broken || i < 10; i = (i + 1) % 100) {
    HERE Duplicate(b.At(0, 64), 1.0f, 64);
    PipeBarrier<PIPE_V>();
  }
}
void NothingButBarriers(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  for (int i = 0; is_broken || i < 10; i = (i + 1) % 100) {
    HERE PipeBarrier<PIPE_ALL>();
  }
}
void NothingButFlags(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  for (int i = 0; is_broken || i < 10; i = (i + 1) % 100) {
    HERE SetFlag<HardEvent::V_S>(0);
    WaitFlag<HardEvent::V_S>(0);
  }
}
void Throws(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  HERE Duplicate(b.At(0, 64), 1.0f, 64);
  if (is_broken) throw std::runtime_error("no such row");
}
void Aborts(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  HERE Duplicate(b.At(0, 64), 1.0f, 64);
  if (is_broken) std::abort();
}
void Traps(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  HERE Duplicate(b.At(0, 64), 1.0f, 64);
  if (is_broken) __builtin_trap();
}

}  // namespace

std::vector<Defect> AccessDefects() {
  return {
      {"CountTooLarge", CountTooLarge, "ub-out-of-bounds"},
      {"SliceTooFar", SliceTooFar, "ub-out-of-bounds"},
      {"SetBehindTheEnd", SetBehindTheEnd, "ub-out-of-bounds"},
      {"SetBeforeTheBegin", SetBeforeTheBegin, "ub-out-of-bounds"},
      {"GetTooMuch", GetTooMuch, "ub-out-of-bounds"},
      {"OffsetInElements", OffsetInElements, "ub-out-of-bounds"},
      {"RepeatsTooFar", RepeatsTooFar, "ub-out-of-bounds"},
      {"StridesTooFar", StridesTooFar, "ub-out-of-bounds"},
      {"CopyTooLarge", CopyTooLarge, "ub-out-of-bounds"},
      {"GetOfNothing", GetOfNothing, "undefined-read"},
      {"CopyOutOfNothing", CopyOutOfNothing, "undefined-read"},
      {"SumOfNothing", SumOfNothing, "undefined-read", 1, false, true},
      {"NothingThroughAChain", NothingThroughAChain, "undefined-read", 1, false, true},
      {"PaddingIsUsed", PaddingIsUsed, "undefined-read", 1, false, true},
      {"DropsTheRest", DropsTheRest, "copy-size"},
      {"CopiesTooManyRows", CopiesTooManyRows, "copy-size"},
      {"OperandMisaligned", OperandMisaligned, "ub-misaligned"},
      {"CopyMisaligned", CopyMisaligned, "ub-misaligned"},
      {"MaskTooLarge", MaskTooLarge, "mask"},
      {"RepeatsOutOfRange", RepeatsOutOfRange, "repeat"},
      {"RepeatsAreCut", RepeatsAreCut, "repeat"},
      {"NothingRepeats", NothingRepeats, "no-repeat"},
      {"MaskOfNoElement", MaskOfNoElement, "no-repeat"},
      {"MaskOfNoBit", MaskOfNoBit, "no-repeat"},
      {"NoGroupIsReduced", NoGroupIsReduced, "no-repeat"},
      {"PartialOverlap", PartialOverlap, "overlap"},
      {"NoRoomLeft", NoRoomLeft, "ub-overflow"},
      {"NothingBehindIt", NothingBehindIt, "unallocated-tensor"},
      {"CompareFillsNoRepeat", CompareFillsNoRepeat, "compare-count"},
      {"CastOfNoPair", CastOfNoPair, "cast-pair"},
      {"GatherTooFar", GatherTooFar, "ub-out-of-bounds"},
      {"GatherBetweenElements", GatherBetweenElements, "gather-offset"},
      {"PatternUnknown", PatternUnknown, "gather-pattern"},
      {"PaddingTooLong", PaddingTooLong, "pad"},
      {"WritesAnInput", WritesAnInput, "gm-write-to-input"},
      {"ReadsBehindTheEnd", ReadsBehindTheEnd, "gm-over-read"},
      {"WritesBehindTheEnd", WritesBehindTheEnd, "gm-out-of-bounds"},
      {"AddressOfNothing", AddressOfNothing, "gm-unknown-address"},
      {"CountBelowZero", CountBelowZero, "count"},
      {"AssertFails", AssertFails, "assert"},
      {"PlainPointerTooFar", PlainPointerTooFar, "gm-out-of-bounds"},
      {"PlainPointerToNothing", PlainPointerToNothing, "fault"},
      {"DividesByZero", DividesByZero, "fault"},
      {"StackOverflows", StackOverflows, "stack-overflow"},
      {"NeverEnds", NeverEnds, "endless"},
      {"NothingButBarriers", NothingButBarriers, "endless"},
      {"NothingButFlags", NothingButFlags, "endless"},
      {"Throws", Throws, "crash"},
      {"Aborts", Aborts, "crash"},
      {"Traps", Traps, "crash"},
  };
}

}  // namespace ascend_tests
