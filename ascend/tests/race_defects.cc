// SPDX-License-Identifier: Apache-2.0
#include "defects.h"

namespace ascend_tests {
namespace {

void CopyThenCompute(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  THERE DataCopy(t, b.x, 64);
  if (!is_broken) Order<HardEvent::MTE2_V>();
  HERE Adds(t, t, 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  DataCopy(b.y, t, 64);
}
void ComputeThenCopyOut(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  THERE Duplicate(t, 1.0f, 64);
  if (!is_broken) Order<HardEvent::V_MTE3>();
  HERE DataCopy(b.y, t, 64);
}
void CopyInThenOut(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  THERE DataCopy(t, b.x, 64);
  if (!is_broken) Order<HardEvent::MTE2_MTE3>();
  HERE DataCopy(b.y, t, 64);
}
void CopyOverWhatIsRead(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64), u = b.At(64, 64);
  DataCopy(t, b.x, 64);
  Order<HardEvent::MTE2_V>();
  THERE Adds(u, t, 1.0f, 64);
  if (!is_broken) Order<HardEvent::V_MTE2>(1);
  HERE DataCopy(t, b.x[64], 64);
}
void ComputeOverWhatIsCopiedOut(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  Duplicate(t, 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  THERE DataCopy(b.y, t, 64);
  if (!is_broken) Order<HardEvent::MTE3_V>();
  HERE Duplicate(t, 2.0f, 64);
}
void CopyInOverWhatIsCopiedOut(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  DataCopy(t, b.x, 64);
  Order<HardEvent::MTE2_MTE3>();
  THERE DataCopy(b.y, t, 64);
  if (!is_broken) Order<HardEvent::MTE3_MTE2>();
  HERE DataCopy(t, b.x[64], 64);
}
void FlagOfOtherPipes(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  THERE DataCopy(t, b.x, 64);
  if (is_broken)
    Order<HardEvent::MTE2_MTE3>();
  else
    Order<HardEvent::MTE2_V>();
  HERE Adds(t, t, 1.0f, 64);
}
void FlagBeforeTheCopy(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  if (is_broken) Order<HardEvent::MTE2_V>();
  THERE DataCopy(t, b.x, 64);
  if (!is_broken) Order<HardEvent::MTE2_V>();
  HERE Adds(t, t, 1.0f, 64);
}
void OneByteOverlaps(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.buffer.Get<std::uint8_t>();
  THERE DataCopy(t.ReinterpretCast<float>(), b.x, 8);
  HERE Duplicate(t[is_broken ? 0 : 32].ReinterpretCast<std::int16_t>(), std::int16_t{1}, 8);
}
void TwoCopiesToOnePlace(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  THERE DataCopy(t, b.x, 64);
  if (!is_broken) PipeBarrier<PIPE_MTE2>();
  HERE DataCopy(t, b.x[64], 64);
}
void NoBarrierBetweenVectors(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  THERE Duplicate(t, 1.0f, 64);
  if (!is_broken) PipeBarrier<PIPE_V>();
  HERE Adds(t, t, 1.0f, 64);
}
void ScalarReadsVector(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  THERE Duplicate(t, 1.0f, 64);
  if (!is_broken) Order<HardEvent::V_S>();
  HERE t.GetValue(3);
}
void VectorReadsScalar(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 8);
  for (int i = 0; i < 8; ++i) {
    THERE t.SetValue(i, 1.0f);
  }
  if (!is_broken) Order<HardEvent::S_V>();
  HERE Adds(t, t, 1.0f, 8);
}
void ScalarReadsCopy(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  THERE DataCopy(t, b.x, 64);
  if (!is_broken) Order<HardEvent::MTE2_S>();
  HERE t.GetValue(0);
}
void CopyOutReadsScalar(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 8);
  for (int i = 0; i < 8; ++i) {
    THERE t.SetValue(i, 1.0f);
  }
  if (!is_broken) Order<HardEvent::S_MTE3>();
  HERE DataCopy(b.y, t, 8);
}
void CopyInReadsWhatIsCopiedOut(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64), u = b.At(64, 64);
  Duplicate(t, 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  THERE DataCopy(b.y, t, 64);
  if (!is_broken) Order<HardEvent::MTE3_MTE2>();
  HERE DataCopy(u, b.y, 64);
}
void SecondRoundOverwrites(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64), u = b.At(64, 64);
  for (int i = 0; i < 3; ++i) {
    if (!is_broken && i) WaitFlag<HardEvent::V_MTE2>(2);
    HERE DataCopy(t, b.x[i * 64], 64);
    Order<HardEvent::MTE2_V>();
    THERE Muls(u, t, 2.0f, 64);
    if (!is_broken && i < 2) SetFlag<HardEvent::V_MTE2>(2);
  }
}
// What the scalar unit waits for is complete before it issues the next instruction.
void WaitsInTheScalarUnit(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  THERE Duplicate(t, 1.0f, 64);
  if (!is_broken) Order<HardEvent::V_S>();
  HERE DataCopy(b.y, t, 64);
}

}  // namespace

std::vector<Defect> RaceDefects() {
  return {
      {"CopyThenCompute", CopyThenCompute, "race", 1, false, true},
      {"ComputeThenCopyOut", ComputeThenCopyOut, "race", 1, false, true},
      {"CopyInThenOut", CopyInThenOut, "race", 1, false, true},
      {"CopyOverWhatIsRead", CopyOverWhatIsRead, "race", 1, false, true},
      {"ComputeOverWhatIsCopiedOut", ComputeOverWhatIsCopiedOut, "race", 1, false, true},
      {"CopyInOverWhatIsCopiedOut", CopyInOverWhatIsCopiedOut, "race", 1, false, true},
      {"FlagOfOtherPipes", FlagOfOtherPipes, "race", 1, false, true},
      {"FlagBeforeTheCopy", FlagBeforeTheCopy, "race", 1, false, true},
      {"OneByteOverlaps", OneByteOverlaps, "race", 1, false, true},
      {"TwoCopiesToOnePlace", TwoCopiesToOnePlace, "race", 1, false, true},
      {"NoBarrierBetweenVectors", NoBarrierBetweenVectors, "race", 1, true, true},
      {"ScalarReadsVector", ScalarReadsVector, "race", 1, true, true},
      {"VectorReadsScalar", VectorReadsScalar, "race", 1, true, true},
      {"ScalarReadsCopy", ScalarReadsCopy, "race", 1, true, true},
      {"CopyOutReadsScalar", CopyOutReadsScalar, "race", 1, true, true},
      {"CopyInReadsWhatIsCopiedOut", CopyInReadsWhatIsCopiedOut, "gm-race", 1, false, true},
      {"SecondRoundOverwrites", SecondRoundOverwrites, "race", 1, false, true},
      {"WaitsInTheScalarUnit", WaitsInTheScalarUnit, "race", 1, false, true},
  };
}

}  // namespace ascend_tests
