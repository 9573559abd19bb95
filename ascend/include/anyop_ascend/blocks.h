// SPDX-License-Identifier: Apache-2.0
// Transposes of 16 blocks of 32 bytes each, and global memory filled with one value.
#pragma once
#include <type_traits>

#include "anyop_ascend/copy.h"
#include "anyop_ascend/sync.h"
#include "anyop_ascend/vector.h"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {

// Halves choose 16 of the 32 elements of a block; they are of types of 8 bits alone. Strides from
// repeat to repeat are in blocks, and 0 where there is one repeat.
struct TransDataTo5HDParams {
  bool dstHighHalf = false;
  bool srcHighHalf = false;
  std::uint8_t repeatTimes = 1;
  std::uint16_t dstRepStride = 0;
  std::uint16_t srcRepStride = 0;

  TransDataTo5HDParams() = default;
  TransDataTo5HDParams(bool dst_high, bool src_high, std::uint8_t repeats, std::uint16_t dst_stride,
                       std::uint16_t src_stride)
      : dstHighHalf(dst_high),
        srcHighHalf(src_high),
        repeatTimes(repeats),
        dstRepStride(dst_stride),
        srcRepStride(src_stride) {}
};

namespace anyop_blocks {

constexpr int kBlocks = 16;
constexpr std::uint32_t kBytes = 32;

// Where element i of block b goes: to element `element` of block `block`; -1: nowhere.
struct Place {
  int block;
  int element;
};
template <class T>
constexpr Place PlaceOf(int b, int i, const TransDataTo5HDParams& p) {
  if (sizeof(T) == 4) return {2 * i + b / 8, b % 8};
  if (sizeof(T) == 2) return {i, b};
  const int from = i - 16 * p.srcHighHalf;
  return {from >= 0 && from < 16 ? from : -1, b + 16 * p.dstHighHalf};
}

// False where blocks lie outside of their buffers.
inline bool CheckRepeat(const rt::Span* dst, const rt::Span* src, std::int64_t to,
                        std::int64_t from, const rt::Instruction& by, rt::Site site) {
  bool are_defined = true;
  int decides = 0;  // a block that is not defined, if there is one
  for (int b = 0; b < kBlocks; ++b) {
    if (!rt::CheckSpan(src[b], from, kBytes, kBytes, site) ||
        !rt::CheckSpan(dst[b], to, kBytes, kBytes, site)) {
      return false;
    }
    rt::Touch(by, rt::kRead, src[b].at + from, kBytes);
    are_defined = are_defined && rt::AreDefined(src[b].at + from, kBytes);
    if (!are_defined && !decides) decides = b;
  }
  for (int b = 0; b < kBlocks; ++b) {
    rt::Touch(by, rt::kWrite, dst[b].at + to, kBytes);
    rt::DefineFrom(by, dst[b].at + to, kBytes, src[decides].at + from, kBytes);
  }
  return true;
}

template <class T>
inline void Transpose(const rt::Span* dst, const rt::Span* src, const TransDataTo5HDParams& p,
                      rt::Site site) {
  static_assert(sizeof(T) <= 4, "TransDataTo5HD takes elements of 8, 16 and 32 bits");
  constexpr int kElements = kBytes / sizeof(T);
  if (kChecked && !p.repeatTimes) rt::CheckTimes(0, site);
  const rt::Instruction by = Begin(rt::kV, site);
  for (int r = 0; r < p.repeatTimes; ++r) {
    const std::int64_t to = std::int64_t{kBytes} * r * p.dstRepStride;
    const std::int64_t from = std::int64_t{kBytes} * r * p.srcRepStride;
    if (kChecked && !CheckRepeat(dst, src, to, from, by, site)) return;
    T values[kBlocks][kElements];  // sources are read before anything is written
    for (int b = 0; b < kBlocks; ++b) std::memcpy(values[b], src[b].at + from, kBytes);
    for (int b = 0; b < kBlocks; ++b) {
      for (int i = 0; i < kElements; ++i) {
        const Place place = PlaceOf<T>(b, i, p);
        if (place.block < 0) continue;
        std::memcpy(dst[place.block].at + to + place.element * sizeof(T), &values[b][i], sizeof(T));
      }
    }
  }
}

// An address of local memory, as GetPhyAddr gives it. Its buffer is not known, but the memory is.
inline rt::Span SpanAt(std::uint64_t address, std::uint8_t element) {
  auto* const at = reinterpret_cast<unsigned char*>(address);
  const auto offset = static_cast<std::uint64_t>(at - rt::block->memory);
  const std::uint32_t bytes = kChecked ? rt::LocalBytes(rt::kUb) : rt::kMemorySpan;
  return {at, offset < bytes ? static_cast<std::uint32_t>(bytes - offset) : 0, true, element};
}

}  // namespace anyop_blocks

template <class T>
inline void TransDataTo5HD(const LocalTensor<T> (&dst)[16], const LocalTensor<T> (&src)[16],
                           const TransDataTo5HDParams& p, ANYOP_ASCEND_SITE) {
  rt::Span to[16], from[16];
  for (int i = 0; i < 16; ++i) {
    to[i] = dst[i].span();
    from[i] = src[i].span();
  }
  anyop_blocks::Transpose<T>(to, from, p, site);
}
// Lists of addresses.
template <class T>
inline void TransDataTo5HD(std::uint64_t (&dst)[16], std::uint64_t (&src)[16],
                           const TransDataTo5HDParams& p, ANYOP_ASCEND_SITE) {
  rt::Span to[16], from[16];
  for (int i = 0; i < 16; ++i) {
    to[i] = anyop_blocks::SpanAt(dst[i], sizeof(T));
    from[i] = anyop_blocks::SpanAt(src[i], sizeof(T));
  }
  anyop_blocks::Transpose<T>(to, from, p, site);
}

// Fills `size` elements of global memory, through the beginning of local memory: no buffer may lie
// there yet, and a copy into it afterwards has to wait for MTE3.
template <class T>
inline void InitGlobalMemory(GlobalTensor<T>& to, const std::uint64_t size,
                             const AnyopNotDeduced<T> value, ANYOP_ASCEND_SITE) {
  constexpr std::uint32_t kElements = 16384 / sizeof(T);
  if (kChecked && rt::block->allocated[rt::kUb]) {
    rt::Report("ub-overflow", site,
               "InitGlobalMemory takes local memory itself, where %u bytes are given out. Try to "
               "call it before InitBuffer",
               rt::block->allocated[rt::kUb]);
    return;
  }
  if (!size) return;
  const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(size, kElements));
  const LocalTensor<T> filled(TPosition::VECCALC, 0, kElements);
  Duplicate<T>(filled, value, static_cast<std::int32_t>(most), site);
  if constexpr (kChecked) {
    rt::Clock clock;
    rt::Snapshot(rt::kV, &clock);
    rt::Join(rt::kMTE3, clock);
  }
  for (std::uint64_t at = 0; at < size; at += most) {
    const std::uint64_t bytes = std::min<std::uint64_t>(most, size - at) * sizeof(T);
    RowOut(Begin(rt::kMTE3, site), to.data() + at, filled, 0, bytes, site);
  }
}

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
