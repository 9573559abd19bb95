// SPDX-License-Identifier: Apache-2.0
// Order between pipes of a block and between blocks, and the data cache of scalar accesses.
#pragma once
#include "anyop_ascend/queue.h"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {

// Whether a kernel of this library waits for other blocks or adds to memory. Functions that do so
// mention Mark<T>::kMark, which is instantiated only with them: without checks, blocks of other
// libraries need no stacks of their own and may run at the same time.
template <class>
struct AnyopWaits {
  __attribute__((visibility("hidden"))) static bool any;
};
template <class T>
bool AnyopWaits<T>::any = false;
template <class T>
struct AnyopMark {
  __attribute__((visibility("hidden"))) static const bool kMark;
};
template <class T>
const bool AnyopMark<T>::kMark = (AnyopWaits<void>::any = true);
template <class T>
inline void MarkWaits() {
  (void)&AnyopMark<T>::kMark;
}

template <HardEvent event>
inline void SetFlag(std::int32_t id, ANYOP_ASCEND_SITE) {
  constexpr int kPair = static_cast<int>(event);
  if (kChecked) rt::SetFlag(rt::Pipe(kPair / 16), rt::Pipe(kPair % 16), id, site);
}
template <HardEvent event>
inline void WaitFlag(std::int32_t id, ANYOP_ASCEND_SITE) {
  constexpr int kPair = static_cast<int>(event);
  if (kChecked) rt::WaitFlag(rt::Pipe(kPair / 16), rt::Pipe(kPair % 16), id, site);
}
template <pipe_t pipe>
inline void PipeBarrier(ANYOP_ASCEND_SITE) {
  if (kChecked) rt::Barrier(rt::Pipe(pipe), site);
}
template <pipe_t src, pipe_t dst>
class TQueSync {
 public:
  void SetFlag(TEventID id, ANYOP_ASCEND_SITE) {
    if (kChecked) rt::SetFlag(rt::Pipe(src), rt::Pipe(dst), id, site);
  }
  void WaitFlag(TEventID id, ANYOP_ASCEND_SITE) {
    if (kChecked) rt::WaitFlag(rt::Pipe(src), rt::Pipe(dst), id, site);
  }
};

template <bool isAIVOnly = true>
inline void SyncAll(ANYOP_ASCEND_SITE) {
  MarkWaits<std::bool_constant<isAIVOnly>>();
  rt::SyncAll(site);
}
template <bool isAIVOnly = true>
inline void SyncAll(const GlobalTensor<std::int32_t>&, const LocalTensor<std::int32_t>&,
                    const std::int32_t = 0, ANYOP_ASCEND_SITE) {
  MarkWaits<std::bool_constant<isAIVOnly>>();
  rt::SyncAll(site);
}
template <bool isAIVOnly = true>
inline void IBSet(const GlobalTensor<std::int32_t>&, const LocalTensor<std::int32_t>&,
                  std::int32_t block, std::int32_t event, ANYOP_ASCEND_SITE) {
  MarkWaits<std::bool_constant<isAIVOnly>>();
  rt::IbSet(block, event, site);
}
template <bool isAIVOnly = true>
inline void IBWait(const GlobalTensor<std::int32_t>&, const LocalTensor<std::int32_t>&,
                   std::int32_t block, std::int32_t event, ANYOP_ASCEND_SITE) {
  MarkWaits<std::bool_constant<isAIVOnly>>();
  rt::IbWait(block, event, site);
}
template <std::uint8_t mode, pipe_t pipe>
inline void CrossCoreSetFlag(std::uint16_t id, ANYOP_ASCEND_SITE) {
  MarkWaits<std::integral_constant<int, mode>>();
  if (kChecked) rt::CheckSoc(rt::kNoCrossCore, "CrossCoreSetFlag", site);
  rt::CrossSet(mode, rt::Pipe(pipe), id, site);
}
template <std::uint8_t mode = 0, pipe_t pipe = PIPE_S>
inline void CrossCoreWaitFlag(std::uint16_t id, ANYOP_ASCEND_SITE) {
  MarkWaits<std::integral_constant<int, mode>>();
  rt::CrossWait(id, site);
}

// Scalar accesses to global memory go through a cache of each core, which others do not see.
template <class T, CacheLine line, DcciDst dst = DcciDst::CACHELINE_ALL>
inline void DataCacheCleanAndInvalid(const GlobalTensor<T>& tensor, ANYOP_ASCEND_SITE) {
  if (kChecked) rt::CleanCache(tensor.data(), line == CacheLine::ENTIRE_DATA_CACHE, site);
}
template <class T, CacheLine line, DcciDst dst>
inline void DataCacheCleanAndInvalid(const LocalTensor<T>&) {}
template <MemDsbT kind>
inline void DataSyncBarrier() {}

inline std::int64_t GetBlockIdx() { return rt::block->index; }
inline std::int64_t GetBlockNum() { return rt::block->count; }
inline std::int64_t GetSubBlockIdx() { return 0; }
inline std::int64_t GetSubBlockNum() { return 1; }
inline std::int64_t GetTaskRation() { return 1; }
inline std::int64_t GetTaskRatio() { return 1; }
inline std::int64_t GetSystemCycle() { return 0; }
inline std::int64_t GetProgramCounter() { return 0; }
inline std::uint32_t GetDataBlockSizeInBytes() { return 32; }
inline std::uint32_t GetVecLen() { return 256; }
inline void InitSocState() {}

#define ANYOP_ASCEND_ATOMIC(Name, mode) \
  template <class T>                    \
  inline void Name(ANYOP_ASCEND_SITE) { \
    MarkWaits<T>();                     \
    rt::block->atomic = mode;           \
    if (kChecked) rt::AtomicFrom(site); \
  }
ANYOP_ASCEND_ATOMIC(SetAtomicAdd, 1)
ANYOP_ASCEND_ATOMIC(SetAtomicMax, 2)
ANYOP_ASCEND_ATOMIC(SetAtomicMin, 3)
#undef ANYOP_ASCEND_ATOMIC
// The type of the copies themselves decides.
template <class T>
inline void SetAtomicType() {
  MarkWaits<T>();
}
inline void SetAtomicNone() { rt::block->atomic = 0; }
template <class T>
inline void DisableDmaAtomic() {
  SetAtomicNone();
}

inline void SetMaskNorm() { rt::block->counts = false; }
inline void SetMaskNormImpl() { SetMaskNorm(); }
inline void SetMaskCount() { rt::block->counts = true; }
inline void SetMaskCountImpl() { SetMaskCount(); }
template <class T, MaskMode mode = MaskMode::NORMAL>
inline void SetVectorMask(std::uint64_t high, std::uint64_t low) {
  rt::block->mask[0] = low;
  rt::block->mask[1] = high;
}
template <class T, MaskMode mode = MaskMode::NORMAL>
inline void SetVectorMask(std::int32_t lanes) {
  const auto n = static_cast<std::uint64_t>(lanes);
  const auto low = n >= 64 ? ~0ull : (1ull << n) - 1;
  const auto high = n <= 64 ? 0 : n >= 128 ? ~0ull : (1ull << (n - 64)) - 1;
  const bool counts = mode == MaskMode::COUNTER;
  SetVectorMask<T, mode>(counts ? 0 : high, counts ? n : low);
}
inline void ResetMask() { SetVectorMask<half>(~0ull, ~0ull); }
inline void SetDeqScale(half scale) { rt::block->deq_scale = static_cast<float>(scale); }
inline void SetDeqScale(float scale) { rt::block->deq_scale = scale; }

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
