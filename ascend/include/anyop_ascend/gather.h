// SPDX-License-Identifier: Apache-2.0
// Elements taken from, or put to, places that data say; compaction by masks.
#pragma once
#include "anyop_ascend/vector.h"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {

// dst[i] = the element at byte base + offsets[i] of src.
template <class T>
inline void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                   const LocalTensor<std::uint32_t>& offsets, const std::uint32_t base,
                   const std::uint32_t count, ANYOP_ASCEND_SITE) {
  if (kChecked &&
      !rt::CheckOffsets(true, dst.span(), src.span(), offsets.span(), base, count, site)) {
    return;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    std::memcpy(dst.data() + i, src.bytes() + std::size_t{base} + offsets.data()[i], sizeof(T));
  }
}
template <class T>
inline void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                   const LocalTensor<std::uint32_t>& offsets, const std::uint32_t base,
                   const std::uint64_t mask, const AnyopTimes repeats,
                   const std::uint16_t dstRepStride, ANYOP_ASCEND_SITE) {
  const std::int32_t times = repeats.Of(site);
  for (std::int32_t r = 0; r < times; ++r) {
    Gather(dst[r * dstRepStride * 32 / sizeof(T)], src, offsets[r * kLanes<std::uint32_t>], base,
           static_cast<std::uint32_t>(mask), site);
  }
}
// The element at byte base + offsets[i] of dst = src[i].
template <class T>
inline void Scatter(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                    const LocalTensor<std::uint32_t>& offsets, const std::uint32_t base,
                    const std::uint32_t count, ANYOP_ASCEND_SITE) {
  if constexpr (kChecked) {
    rt::CheckSoc(rt::kNoScatter, "Scatter", site);
    if (!rt::CheckOffsets(false, src.span(), dst.span(), offsets.span(), base, count, site)) return;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    std::memcpy(dst.bytes() + std::size_t{base} + offsets.data()[i], src.data() + i, sizeof(T));
  }
}

namespace anyop_gathering {

// Results of 8 blocks of 32 bytes for each repeat, one for each element of `from`.
struct Blocks {
  unsigned char* to;
  std::uint32_t count;          // of all repeats; 0 where there is nothing to do
  std::uint32_t repeat, block;  // bytes from one to the next
  rt::Instruction by;

  template <class T, class U, class P>
  Blocks(const LocalTensor<T>& dst, const LocalTensor<U>& from, AnyopTimes repeats, const P& p,
         rt::Site site)
      : to(dst.bytes()),
        count(static_cast<std::uint32_t>(repeats.Of(site)) * 8u),
        repeat(p.dstRepStride * 32u),
        block(p.dstBlkStride * 32u),
        by{} {
    if (!kChecked || !count) return;
    const std::uint64_t from_bytes = count * sizeof(U);
    if (!rt::CheckSpan(from.span(), 0, from_bytes, 32, site) ||
        !rt::CheckSpan(dst.span(), 0, (count / 8 - 1u) * repeat + 7u * block + 32u, 32, site)) {
      count = 0;
      return;
    }
    by = rt::Issue(rt::kV, site);
    rt::Touch(by, rt::kRead, from.bytes(), from_bytes);
  }
  unsigned char* At(std::uint32_t i) const { return to + i / 8 * repeat + i % 8 * block; }
};

}  // namespace anyop_gathering

// Each repeat takes 8 blocks of 32 bytes: block i of dst is that at byte offsets[i] of src.
template <class T>
inline void Gatherb(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                    const LocalTensor<std::uint32_t>& offsets, const AnyopTimes repeats,
                    const GatherRepeatParams& p, ANYOP_ASCEND_SITE) {
  const anyop_gathering::Blocks blocks(dst, offsets, repeats, p, site);
  const rt::Instruction& by = blocks.by;
  if (kChecked && blocks.count && !rt::AreDefined(offsets.bytes(), blocks.count * 4u)) {
    rt::UndefinedRead("an offset of Gatherb", offsets.bytes(), site);
    return;
  }
  for (std::uint32_t i = 0; i < blocks.count; ++i) {
    unsigned char* to = blocks.At(i);
    const std::uint32_t offset = offsets.data()[i];
    if constexpr (kChecked) {
      if (offset % 32) {
        rt::Report("gather-offset", site,
                   "byte offset %u is no multiple of the 32 bytes of a block", offset);
        return;
      }
      if (!rt::CheckSpan(src.span(), offset, 32, 32, site)) return;
      rt::Touch(by, rt::kRead, src.bytes() + offset, 32);
      rt::Touch(by, rt::kWrite, to, 32);
      rt::DefineFrom(by, to, 32, src.bytes() + offset, 32);
    }
    std::memmove(to, src.bytes() + offset, 32);
  }
}

namespace anyop_gathering {

// Appends to dst the elements of src that takes(repeat, lane) names; gives their number.
template <class T, class F>
inline std::uint64_t Compact(const LocalTensor<T>& dst, const LocalTensor<T>& src, bool counts,
                             std::uint32_t mask, const GatherMaskParams& p, const F& takes,
                             rt::Site site) {
  const std::uint32_t lanes = counts ? mask : kLanes<T>;
  if (!p.repeatTimes || !lanes) return 0;
  const AnyopView<T> view{src, p.src0BlockStride, p.src0RepeatStride};
  const auto at = [&](std::uint32_t r, std::uint32_t i) {
    return view.Lane(view.Row(r), static_cast<int>(i));
  };
  rt::Instruction by{};
  if constexpr (kChecked) {
    const auto* end = reinterpret_cast<const unsigned char*>(at(p.repeatTimes - 1u, lanes - 1) + 1);
    const auto extent = static_cast<std::uint64_t>(end - src.bytes());
    if (!rt::CheckSpan(dst.span(), 0, 0, 32, site) ||
        !rt::CheckSpan(src.span(), 0, extent, 32, site)) {
      return 0;
    }
    by = rt::Issue(rt::kV, site);
  }
  std::uint64_t taken = 0;
  for (std::uint32_t r = 0; r < p.repeatTimes; ++r) {
    for (std::uint32_t i = 0; i < lanes; ++i) {
      constexpr std::uint32_t kPerBlock = 32 / sizeof(T);
      if (kChecked && i % kPerBlock == 0) {
        rt::Touch(by, rt::kRead, at(r, i), std::min(kPerBlock, lanes - i) * sizeof(T));
      }
      if (!takes(r, i)) continue;
      T* to = dst.data() + taken;
      if constexpr (kChecked) {
        const auto offset = static_cast<std::int64_t>(taken * sizeof(T));
        if (!rt::CheckSpan(dst.span(), offset, sizeof(T), 1, site)) return taken;
        rt::Touch(by, rt::kWrite, to, sizeof(T));
        rt::DefineFrom(by, to, sizeof(T), at(r, i), sizeof(T));
      }
      const T value = *at(r, i);
      *to = value;
      ++taken;
    }
  }
  return taken;
}

}  // namespace anyop_gathering

// Patterns 1 to 7: even, odd, the first, second, third, fourth of four, all.
template <class T, class U = T, int mode = 0>
inline void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                       const std::uint8_t pattern, const bool reduceMode, const std::uint32_t mask,
                       const GatherMaskParams& p, std::uint64_t& rsvdCnt, ANYOP_ASCEND_SITE) {
  constexpr std::uint8_t kBits[] = {0, 0x55, 0xAA, 0x11, 0x22, 0x44, 0x88, 0xFF};
  if (pattern < 1 || pattern > 7) {
    rt::Report("gather-pattern", site, "GatherMask: pattern %d is outside 1..7", pattern);
    return;
  }
  const std::uint8_t bits = kBits[pattern];
  rsvdCnt = anyop_gathering::Compact(
      dst, src, reduceMode, mask, p,
      [bits](std::uint32_t, std::uint32_t i) { return bits >> i % 8 & 1; }, site);
}
// A bit for each element, low bit first.
template <class T, class U, int mode = 0>
inline void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                       const LocalTensor<U>& pattern, const bool reduceMode,
                       const std::uint32_t mask, const GatherMaskParams& p, std::uint64_t& rsvdCnt,
                       ANYOP_ASCEND_SITE) {
  static_assert(std::is_unsigned<U>::value, "patterns are unsigned integers");
  const std::uint32_t bytes = ((reduceMode ? mask : kLanes<T>)+7) / 8;
  if constexpr (kChecked) {
    const std::uint32_t last = p.repeatTimes ? p.repeatTimes - 1u : 0;
    const std::uint64_t extent = last * p.src1RepeatStride * 32u + bytes;
    if (!rt::CheckSpan(pattern.span(), 0, extent, 32, site)) return;
    rt::Touch(rt::Issue(rt::kV, site), rt::kRead, pattern.bytes(), extent);
    if (!rt::AreBitsDefined(pattern.bytes(), 0, reduceMode ? mask : kLanes<T>)) {
      rt::UndefinedRead("GatherMask's pattern", pattern.bytes(), site);
    }
  }
  const unsigned char* bits = pattern.bytes();
  const std::uint32_t stride = p.src1RepeatStride * 32u;
  rsvdCnt = anyop_gathering::Compact(
      dst, src, reduceMode, mask, p,
      [bits, stride](std::uint32_t r, std::uint32_t i) {
        return bits[r * stride + i / 8] >> i % 8 & 1;
      },
      site);
}

// Each of 8 elements of a repeat fills a block of 32 bytes.
template <class T>
inline void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const AnyopTimes repeats,
                 const BrcbRepeatParams& p, ANYOP_ASCEND_SITE) {
  const anyop_gathering::Blocks blocks(dst, src, repeats, p, site);
  for (std::uint32_t i = 0; i < blocks.count; ++i) {
    unsigned char* to = blocks.At(i);
    if constexpr (kChecked) {
      rt::Touch(blocks.by, rt::kWrite, to, 32);
      rt::DefineFrom(blocks.by, to, 32, src.data() + i, sizeof(T));
    }
    const T value = src.data()[i];
    for (std::size_t k = 0; k < 32 / sizeof(T); ++k)
      std::memcpy(to + k * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
