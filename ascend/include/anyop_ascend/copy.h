// SPDX-License-Identifier: Apache-2.0
// Copies between global and local memory. Global to local runs on MTE2, local to global on MTE3,
// within local memory on V.
#pragma once
#include "anyop_ascend/arithmetic.h"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {

// Adds to memory, or takes the larger or the smaller, as SetAtomic* said.
template <class T>
inline void StoreAtomic(void* to, const void* from, std::uint64_t bytes) {
  T* d = static_cast<T*>(to);
  const T* s = static_cast<const T*>(from);
  const int kind = rt::block->atomic;
  for (std::uint64_t i = 0; i < bytes / sizeof(T); ++i) {
    d[i] = kind == 1   ? anyop_element::Add::Of(d[i], s[i])
           : kind == 2 ? anyop_element::Max::Of(d[i], s[i])
                       : anyop_element::Min::Of(d[i], s[i]);
  }
}

template <class T>
inline void RowIn(const rt::Instruction& by, const LocalTensor<T>& dst, std::int64_t offset,
                  const void* from, std::uint64_t bytes, rt::Site site) {
  if constexpr (kChecked) {
    rt::CopyIn(by, dst.span(), offset, from, bytes, site);
  } else {
    std::memcpy(dst.bytes() + offset, from, bytes);
  }
}
template <class T>
inline void RowOut(const rt::Instruction& by, void* to, const LocalTensor<T>& src,
                   std::int64_t offset, std::uint64_t bytes, rt::Site site) {
  const rt::Store store = rt::block->atomic ? &StoreAtomic<T> : nullptr;
  if constexpr (kChecked) {
    rt::CopyOut(by, to, src.span(), offset, bytes, store, site);
  } else if (store) {
    store(to, src.bytes() + offset, bytes);
  } else {
    std::memcpy(to, src.bytes() + offset, bytes);
  }
}
template <class T>
inline void RowLocal(const rt::Instruction& by, const LocalTensor<T>& dst, std::int64_t to,
                     const LocalTensor<T>& src, std::int64_t from, std::uint64_t bytes,
                     rt::Site site) {
  if constexpr (kChecked) {
    rt::CopyLocal(by, dst.span(), to, src.span(), from, bytes, site);
  } else {
    std::memmove(dst.bytes() + to, src.bytes() + from, bytes);
  }
}

// Rows of a copy, of which an instruction takes a limited number.
template <class P>
inline std::int64_t RowsOf(const P& params, rt::Site site) {
  if (kChecked) rt::CheckRows(params.blockCount, site);
  return params.blockCount;
}
inline rt::Instruction Begin(rt::Pipe pipe, rt::Site site) {
  return kChecked ? rt::Issue(pipe, site) : rt::Instruction{};
}
template <class T>
inline void Aligned(const LocalTensor<T>& tensor, rt::Site site) {
  if (kChecked) rt::CheckSpan(tensor.span(), 0, 0, 32, site);
}
// A copy by a count moves whole units of 32 bytes.
template <class T>
inline std::uint64_t WholeBytes(std::uint32_t count, rt::Site site) {
  const std::uint64_t bytes = std::uint64_t{count} * sizeof(T);
  if (kChecked && bytes % 32) {
    rt::Report("copy-size", site,
               "DataCopy of %llu bytes drops the last %llu: it moves multiples of 32 bytes. Try "
               "DataCopyPad",
               static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(bytes % 32));
  }
  return bytes - bytes % 32;
}

template <class T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                     const std::uint32_t count, ANYOP_ASCEND_SITE) {
  Aligned(dst, site);
  const std::uint64_t bytes = WholeBytes<T>(count, site);
  if (bytes) RowIn(Begin(rt::kMTE2, site), dst, 0, src.data(), bytes, site);
}
template <class T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
                     const std::uint32_t count, ANYOP_ASCEND_SITE) {
  Aligned(src, site);
  const std::uint64_t bytes = WholeBytes<T>(count, site);
  if (bytes) RowOut(Begin(rt::kMTE3, site), dst.data(), src, 0, bytes, site);
}
template <class T>
inline void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                     const std::uint32_t count, ANYOP_ASCEND_SITE) {
  Aligned(dst, site);
  Aligned(src, site);
  const std::uint64_t bytes = WholeBytes<T>(count, site);
  if (bytes) RowLocal(Begin(rt::kV, site), dst, 0, src, 0, bytes, site);
}

template <class T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& p,
                     ANYOP_ASCEND_SITE) {
  Aligned(dst, site);
  const rt::Instruction by = Begin(rt::kMTE2, site);
  const auto* from = reinterpret_cast<const unsigned char*>(src.data());
  const std::int64_t bytes = p.blockLen * 32, rows = RowsOf(p, site);
  for (std::int64_t i = 0; i < rows; ++i) {
    RowIn(by, dst, i * (bytes + p.dstStride * 32), from + i * (bytes + p.srcStride * 32),
          static_cast<std::uint64_t>(bytes), site);
  }
}
template <class T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& p,
                     ANYOP_ASCEND_SITE) {
  Aligned(src, site);
  const rt::Instruction by = Begin(rt::kMTE3, site);
  auto* to = reinterpret_cast<unsigned char*>(dst.data());
  const std::int64_t bytes = p.blockLen * 32, rows = RowsOf(p, site);
  for (std::int64_t i = 0; i < rows; ++i) {
    RowOut(by, to + i * (bytes + p.dstStride * 32), src, i * (bytes + p.srcStride * 32),
           static_cast<std::uint64_t>(bytes), site);
  }
}
template <class T>
inline void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& p,
                     ANYOP_ASCEND_SITE) {
  Aligned(dst, site);
  Aligned(src, site);
  const rt::Instruction by = Begin(rt::kV, site);
  const std::int64_t bytes = p.blockLen * 32, rows = RowsOf(p, site);
  for (std::int64_t i = 0; i < rows; ++i) {
    RowLocal(by, dst, i * (bytes + p.dstStride * 32), src, i * (bytes + p.srcStride * 32),
             static_cast<std::uint64_t>(bytes), site);
  }
}
template <class D, class S>
inline void DataCopy(const D& dst, const S& src, const DataCopyParams& p,
                     const DataCopyEnhancedParams&, ANYOP_ASCEND_SITE) {
  DataCopy(dst, src, p, site);
}

// What a row of DataCopyPad looks like in local memory: padding, data, padding, the rest.
struct AnyopPaddedRow {
  std::uint32_t rows;
  std::uint64_t bytes;    // of data
  std::uint64_t src_gap;  // bytes
  std::uint64_t dst_gap;  // units of 32 bytes
  bool pads;
  std::uint8_t left;  // elements
  std::uint8_t right;
};
template <class T>
inline void CopyPadIn(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                      const AnyopPaddedRow& row, T value, rt::Site site) {
  if constexpr (kChecked) {
    rt::CheckSoc(rt::kNoCopyPad, "DataCopyPad", site);
    Aligned(dst, site);
    if (row.left * sizeof(T) > 32 || row.right * sizeof(T) > 32) {
      rt::Report("pad", site,
                 "DataCopyPad: padding of %d and %d elements, but at most 32 bytes fit", row.left,
                 row.right);
    }
  }
  const rt::Instruction by = Begin(rt::kMTE2, site);
  const int left = row.pads ? row.left : 0, right = row.pads ? row.right : 0;
  const auto* from = reinterpret_cast<const unsigned char*>(src.data());
  const std::uint64_t whole = (row.bytes + (left + right) * sizeof(T) + 31) / 32 * 32;
  for (std::int64_t r = 0; r < row.rows; ++r) {
    const auto offset = static_cast<std::int64_t>(r * (whole + row.dst_gap * 32));
    const auto data = offset + static_cast<std::int64_t>(left * sizeof(T));
    if (kChecked && !rt::PadRow(by, dst.span(), offset, whole, site)) return;
    T* begin = reinterpret_cast<T*>(dst.bytes() + offset);
    T* end = reinterpret_cast<T*>(dst.bytes() + data + row.bytes);
    for (int i = 0; i < left; ++i) std::memcpy(begin + i, &value, sizeof(T));
    for (int i = 0; i < right; ++i) std::memcpy(end + i, &value, sizeof(T));
    if constexpr (kChecked) {
      rt::Define(begin, left * sizeof(T), true);
      rt::Define(end, right * sizeof(T), true);
    }
    RowIn(by, dst, data, from + r * (row.bytes + row.src_gap), row.bytes, site);
  }
}
template <class T>
inline void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                        const DataCopyExtParams& p, const DataCopyPadExtParams<T>& pad,
                        ANYOP_ASCEND_SITE) {
  CopyPadIn(dst, src,
            {static_cast<std::uint32_t>(RowsOf(p, site)), p.blockLen, p.srcStride, p.dstStride,
             pad.isPad, pad.leftPadding, pad.rightPadding},
            pad.paddingValue, site);
}
template <class T>
inline void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                        const DataCopyParams& p, const DataCopyPadParams& pad, ANYOP_ASCEND_SITE) {
  T value;
  std::memcpy(&value, &pad.paddingValue, sizeof(T));
  CopyPadIn(dst, src,
            {static_cast<std::uint32_t>(RowsOf(p, site)), p.blockLen, p.srcStride, p.dstStride,
             pad.isPad, pad.leftPadding, pad.rightPadding},
            value, site);
}
template <class T>
inline void CopyPadOut(const GlobalTensor<T>& dst, const LocalTensor<T>& src, std::int64_t rows,
                       std::int64_t bytes, std::int64_t src_gap, std::int64_t dst_gap,
                       rt::Site site) {
  if constexpr (kChecked) rt::CheckSoc(rt::kNoCopyPad, "DataCopyPad", site);
  Aligned(src, site);
  const rt::Instruction by = Begin(rt::kMTE3, site);
  auto* to = reinterpret_cast<unsigned char*>(dst.data());
  const std::int64_t whole = (bytes + 31) / 32 * 32 + src_gap * 32;
  for (std::int64_t r = 0; r < rows; ++r) {
    RowOut(by, to + r * (bytes + dst_gap), src, r * whole, static_cast<std::uint64_t>(bytes), site);
  }
}
template <class T>
inline void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
                        const DataCopyExtParams& p, ANYOP_ASCEND_SITE) {
  CopyPadOut(dst, src, RowsOf(p, site), p.blockLen, p.srcStride, p.dstStride, site);
}
template <class T>
inline void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
                        const DataCopyParams& p, ANYOP_ASCEND_SITE) {
  CopyPadOut(dst, src, RowsOf(p, site), p.blockLen, p.srcStride, p.dstStride, site);
}

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
