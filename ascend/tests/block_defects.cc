// SPDX-License-Identifier: Apache-2.0
#include "defects.h"

namespace ascend_tests {
namespace {

void TwoBlocksWriteOnePlace(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  Duplicate(t, 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  const std::int64_t begin = is_broken ? GetBlockIdx() * 32 : GetBlockIdx() * 64;
  HERE THERE DataCopy(b.y[begin], t, 64);
}
void NoSyncBetweenBlocks(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64), u = b.At(64, 64);
  Duplicate(t, 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  THERE DataCopy(b.y[GetBlockIdx() * 64], t, 64);
  if (!is_broken) SyncAll();
  HERE DataCopy(u, b.y[(GetBlockIdx() + 1) % GetBlockNum() * 64], 64);
}
void AddsWithoutAtomic(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64);
  Duplicate(t, 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  if (!is_broken) SetAtomicAdd<float>();
  HERE THERE DataCopy(b.y, t, 64);
  SetAtomicNone();
}
void ReturnsBeforeSyncAll(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  if (is_broken && GetBlockIdx() == 1) return;
  HERE SyncAll();
}
void WaitsForAnotherEvent(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  GlobalTensor<std::int32_t> flags;
  LocalTensor<std::int32_t> work;
  if (GetBlockIdx() == 0) {
    IBSet(flags, work, 0, 2);
  } else {
    HERE IBWait(flags, work, 0, is_broken ? 3 : 2);
    if (is_broken) return;
  }
}
void CrossCoreOfSome(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  if (!is_broken || GetBlockIdx() != 2) CrossCoreSetFlag<0, PIPE_MTE3>(4);
  HERE CrossCoreWaitFlag(4);
}
// Only what the pipe has issued is complete.
void CrossCoreOfAnotherPipe(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 64), u = b.At(64, 64);
  Duplicate(t, 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  THERE DataCopy(b.y[GetBlockIdx() * 64], t, 64);
  if (is_broken)
    CrossCoreSetFlag<0, PIPE_MTE2>(1);
  else
    CrossCoreSetFlag<0, PIPE_MTE3>(1);
  CrossCoreWaitFlag(1);
  HERE DataCopy(u, b.y[(GetBlockIdx() + 1) % GetBlockNum() * 64], 64);
}
void ChainOfBlocks(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  GlobalTensor<std::int32_t> flags;
  LocalTensor<std::int32_t> work;
  auto t = b.At(0, 64);
  const auto me = static_cast<std::int32_t>(GetBlockIdx());
  if (me && !is_broken) IBWait(flags, work, me - 1, 0);
  HERE DataCopy(t, b.y, 64);
  Order<HardEvent::MTE2_V>();
  Adds(t, t, 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  THERE DataCopy(b.y, t, 64);
  if (me + 1 < GetBlockNum() && !is_broken) IBSet(flags, work, me, 0);
}
template <class T>
void Clean(const GlobalTensor<T>& tensor) {
  DataCacheCleanAndInvalid<T, CacheLine::ENTIRE_DATA_CACHE>(tensor);
}
void ScalarStaysInTheCache(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  if (GetBlockIdx() == 0) {
    THERE b.y.SetValue(0, 1.0f);
    if (!is_broken) {
      DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(b.y);
    }
  }
  SyncAll();
  if (GetBlockIdx() == 1) {
    HERE b.y.GetValue(0);
  }
  Clean(b.y);
}
void CacheHoldsTheOldValue(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  b.y.GetValue(0);
  SyncAll();
  if (GetBlockIdx() == 0) {
    auto t = b.At(0, 8);
    Duplicate(t, 1.0f, 8);
    Order<HardEvent::V_MTE3>();
    THERE DataCopy(b.y, t, 8);
  }
  SyncAll();
  if (!is_broken) Clean(b.y);
  if (GetBlockIdx() == 1) {
    HERE b.y.GetValue(0);
  }
}
void CopyReadsPastTheCache(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  THERE b.y.SetValue(0, 1.0f);
  if (!is_broken) DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE>(b.y);
  Order<HardEvent::S_MTE2>();
  HERE DataCopy(b.At(0, 8), b.y, 8);
  Clean(b.y);
}
void TwoBlocksShareALine(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  HERE THERE b.y.SetValue(GetBlockIdx() * (is_broken ? 1 : 16), 1.0f);
  Clean(b.y);
}
void ACopyAndAScalarShareALine(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 8);
  Duplicate(t, 1.0f, 8);
  Order<HardEvent::V_MTE3>();
  if (GetBlockIdx() == 0) {
    THERE b.y.SetValue(0, 1.0f);
    Clean(b.y);
  } else {
    HERE DataCopy(b.y[is_broken ? 8 : 16], t, 8);
  }
}
void AHeldLineIsWrittenLate(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  if (GetBlockIdx() == 0) {
    THERE b.y.SetValue(0, 1.0f);
    if (!is_broken) Clean(b.y);
  }
  SyncAll();
  if (GetBlockIdx() == 1) {
    HERE b.y.SetValue(1, 1.0f);
  }
  Clean(b.y);
}
void AnOldLineIsWritten(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  b.y.GetValue(0);
  SyncAll();
  if (GetBlockIdx() == 0) {
    THERE b.y.SetValue(0, 1.0f);
    Clean(b.y);
  }
  SyncAll();
  if (!is_broken) Clean(b.y);
  if (GetBlockIdx() == 1) {
    HERE b.y.SetValue(1, 1.0f);
  }
  Clean(b.y);
}
void ACopyGoesPastAHeldLine(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  auto t = b.At(0, 8);
  Duplicate(t, 1.0f, 8);
  THERE b.y.SetValue(0, 1.0f);
  if (!is_broken) Clean(b.y);
  Order<HardEvent::V_MTE3>();
  HERE DataCopy(b.y[8], t, 8);
  Clean(b.y);
}
void NothingCleansTheCache(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  HERE b.y.SetValue(0, 1.0f);
  if (!is_broken) Clean(b.y);
}

}  // namespace

std::vector<Defect> BlockDefects() {
  return {
      {"TwoBlocksWriteOnePlace", TwoBlocksWriteOnePlace, "gm-block-race", 3, false, true},
      {"NoSyncBetweenBlocks", NoSyncBetweenBlocks, "gm-block-race", 2, false, true},
      {"AddsWithoutAtomic", AddsWithoutAtomic, "gm-block-race", 3, false, true},
      {"ReturnsBeforeSyncAll", ReturnsBeforeSyncAll, "deadlock", 4},
      {"WaitsForAnotherEvent", WaitsForAnotherEvent, "deadlock", 2},
      {"CrossCoreOfSome", CrossCoreOfSome, "deadlock", 4},
      {"CrossCoreOfAnotherPipe", CrossCoreOfAnotherPipe, "gm-block-race", 2, false, true},
      {"ChainOfBlocks", ChainOfBlocks, "gm-block-race", 2, false, true},
      {"ScalarStaysInTheCache", ScalarStaysInTheCache, "stale-read", 2, false, true},
      {"CacheHoldsTheOldValue", CacheHoldsTheOldValue, "stale-read", 2, false, true},
      {"CopyReadsPastTheCache", CopyReadsPastTheCache, "stale-read", 1, false, true},
      {"TwoBlocksShareALine", TwoBlocksShareALine, "line-overwrite", 2, false, true},
      {"ACopyAndAScalarShareALine", ACopyAndAScalarShareALine, "line-overwrite", 2, false, true},
      {"AHeldLineIsWrittenLate", AHeldLineIsWrittenLate, "line-overwrite", 2, false, true},
      {"AnOldLineIsWritten", AnOldLineIsWritten, "line-overwrite", 2, false, true},
      {"ACopyGoesPastAHeldLine", ACopyGoesPastAHeldLine, "line-overwrite", 1, false, true},
      {"NothingCleansTheCache", NothingCleansTheCache, "dirty-cache"},
  };
}

}  // namespace ascend_tests
