// SPDX-License-Identifier: Apache-2.0
// What kernels in AscendC have in common: copies of rows of any length, casts to float and back,
// indices, orders between pipes. Findings name the lines that call them.
#pragma once
#include "anyop/ascend.h"

namespace anyop::ops {
inline namespace ANYOP_ASCEND_BUILD {

using namespace AscendC;

// The second pipe of the event goes on once the first one has done what it was given.
template <HardEvent event>
__aicore__ inline void Wait(ANYOP_ASCEND_SITE) {
  const auto id = static_cast<event_t>(GetTPipePtr()->FetchEventID(event));
  SetFlag<event>(id, site);
  WaitFlag<event>(id, site);
}

// n elements rounded up to what `bytes` hold.
template <class T>
__aicore__ inline uint32_t RoundUp(uint32_t n, uint32_t bytes = 32) {
  const auto unit = static_cast<uint32_t>(bytes / sizeof(T));
  return (n + unit - 1) / unit * unit;
}

// Bytes between rows, of which an instruction counts 32 bits: with more, each row is a copy.
template <class T>
__aicore__ inline uint64_t Gap(uint32_t n, uint32_t rows, uint64_t pitch) {
  return rows > 1 ? (pitch - n) * sizeof(T) : 0;
}

// rows of n elements, `pitch` apart in global memory. In local memory each begins at a multiple of
// 32 bytes; what lies behind its n elements is not defined.
template <class T>
__aicore__ inline void CopyIn(const LocalTensor<T>& to, const GlobalTensor<T>& from, uint32_t n,
                              uint32_t rows = 1, uint64_t pitch = 0, ANYOP_ASCEND_SITE) {
  const auto bytes = static_cast<uint32_t>(n * sizeof(T));
  const uint64_t between = Gap<T>(n, rows, pitch);
  const auto gap = static_cast<uint32_t>(between);
  if (gap != between) {
    for (uint32_t i = 0; i < rows; ++i) {
      CopyIn(to[i * RoundUp<T>(n)], from[i * pitch], n, 1, 0, site);
    }
    return;
  }
  DataCopyPad(to, from, DataCopyExtParams(static_cast<uint16_t>(rows), bytes, gap, 0, 0),
              DataCopyPadExtParams<T>(false, 0, 0, 0), site);
}
template <class T>
__aicore__ inline void CopyOut(const GlobalTensor<T>& to, const LocalTensor<T>& from, uint32_t n,
                               uint32_t rows = 1, uint64_t pitch = 0, ANYOP_ASCEND_SITE) {
  const auto bytes = static_cast<uint32_t>(n * sizeof(T));
  const uint64_t between = Gap<T>(n, rows, pitch);
  const auto gap = static_cast<uint32_t>(between);
  if (gap != between) {
    for (uint32_t i = 0; i < rows; ++i) {
      CopyOut(to[i * pitch], from[i * RoundUp<T>(n)], n, 1, 0, site);
    }
    return;
  }
  DataCopyPad(to, from, DataCopyExtParams(static_cast<uint16_t>(rows), bytes, 0, gap, 0), site);
}

// Floats of elements of type T, and elements of floats, rounded half to even.
template <class T>
class Floats {
 public:
  // Bytes of the unified buffer for each element that is rounded at a time.
  static constexpr uint32_t kBytes = std::is_same_v<T, half> ? sizeof(float) : 0;

  // most: elements that are rounded at a time.
  __aicore__ inline void Init(TPipe& pipe, uint32_t most) {
    if constexpr (std::is_same_v<T, half>) {
      pipe.InitBuffer(added_, most * sizeof(float));
    }
  }
  __aicore__ inline void Read(const LocalTensor<float>& to, const LocalTensor<T>& from, uint32_t n,
                              ANYOP_ASCEND_SITE) {
    if constexpr (std::is_same_v<T, float>) {
      Muls(to, from, 1.0f, n, site);
    } else {
      Cast(to, from, RoundMode::CAST_NONE, n, site);
    }
  }
  // May change `from`.
  __aicore__ inline void Write(const LocalTensor<T>& to, const LocalTensor<float>& from, uint32_t n,
                               ANYOP_ASCEND_SITE) {
    if constexpr (std::is_same_v<T, float>) {
      Muls(to, from, 1.0f, n, site);
    } else {
      if constexpr (std::is_same_v<T, half>) Overflow(from, n, site);
      Cast(to, from, RoundMode::CAST_RINT, n, site);
    }
  }

 private:
  // Makes infinite what rounds to more than a half holds, 65520 and more: the cast would make 65504
  // of it. Each such element overflows in the first product, and all others underflow behind it, so
  // that an infinity or a zero of the element's sign is added.
  __aicore__ inline void Overflow(const LocalTensor<float>& from, uint32_t n, rt::Site site) {
    LocalTensor<float> added = added_.template Get<float>();
    Muls(added, from, 0x1.001002p112f, n, site);
    PipeBarrier<PIPE_V>(site);
    Muls(added, added, 0x1p-120f, n, site);
    PipeBarrier<PIPE_V>(site);
    Muls(added, added, 0x1p-120f, n, site);
    PipeBarrier<PIPE_V>(site);
    Muls(added, added, 0x1p-120f, n, site);
    PipeBarrier<PIPE_V>(site);
    Add(from, from, added, n, site);
    PipeBarrier<PIPE_V>(site);
  }

  TBuf<TPosition::VECCALC> added_;
};

// A tensor of i32 or i64, read one by one.
class Indices {
 public:
  __aicore__ inline void Init(GM_ADDR data, bool is_wide) {
    is_wide_ = is_wide;
    narrow_.SetGlobalBuffer((__gm__ int32_t*)data);
    wide_.SetGlobalBuffer((__gm__ int64_t*)data);
  }
  __aicore__ inline int64_t operator[](uint64_t i) const {
    return is_wide_ ? wide_.GetValue(i) : int64_t{narrow_.GetValue(i)};
  }

 private:
  bool is_wide_ = false;
  GlobalTensor<int32_t> narrow_;
  GlobalTensor<int64_t> wide_;
};

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace anyop::ops
