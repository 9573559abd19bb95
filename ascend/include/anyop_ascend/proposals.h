// SPDX-License-Identifier: Apache-2.0
// Region proposals, which the inference products sort instead of pairs: 8 elements each, of which
// the fifth is the score. A2 and A3 have none.
#pragma once
#include "anyop_ascend/sort.h"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {
namespace anyop_proposals {

constexpr std::uint32_t kFields = 8;
constexpr std::uint32_t kScore = 4;
constexpr std::uint32_t kRow = 16;  // proposals that one repeat takes

inline void Check(const char* name, rt::Site site) {
  if (kChecked) rt::CheckSoc(rt::kNoProposals, name, site);
}
template <class T>
inline std::uint64_t Bytes(std::uint32_t proposals) {
  return std::uint64_t{proposals} * kFields * sizeof(T);
}

}  // namespace anyop_proposals

// Puts elements into field `mode` of proposals, 16 for each repeat.
template <class T>
inline void ProposalConcat(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                           const std::int32_t repeats, const std::int32_t mode, ANYOP_ASCEND_SITE) {
  anyop_proposals::Check("ProposalConcat", site);
  const auto count = static_cast<std::uint32_t>(repeats) * anyop_proposals::kRow;
  rt::Instruction by{};
  if constexpr (kChecked) {
    if (!rt::CheckSpan(dst.span(), 0, anyop_proposals::Bytes<T>(count), 32, site) ||
        !rt::CheckSpan(src.span(), 0, count * sizeof(T), 32, site)) {
      return;
    }
    by = rt::Issue(rt::kV, site);
    rt::Touch(by, rt::kRead, src.bytes(), count * sizeof(T));
    rt::Touch(by, rt::kWrite, dst.bytes(), anyop_proposals::Bytes<T>(count));
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    T* to = dst.data() + i * anyop_proposals::kFields + mode;
    *to = src.data()[i];
    if (kChecked) rt::DefineFrom(by, to, sizeof(T), src.data() + i, sizeof(T));
  }
}
template <class T>
inline void ProposalExtract(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                            const std::int32_t repeats, const std::int32_t mode,
                            ANYOP_ASCEND_SITE) {
  anyop_proposals::Check("ProposalExtract", site);
  const auto count = static_cast<std::uint32_t>(repeats) * anyop_proposals::kRow;
  rt::Instruction by{};
  if constexpr (kChecked) {
    if (!rt::CheckSpan(dst.span(), 0, count * sizeof(T), 32, site) ||
        !rt::CheckSpan(src.span(), 0, anyop_proposals::Bytes<T>(count), 32, site)) {
      return;
    }
    by = rt::Issue(rt::kV, site);
    rt::Touch(by, rt::kRead, src.bytes(), anyop_proposals::Bytes<T>(count));
    rt::Touch(by, rt::kWrite, dst.bytes(), count * sizeof(T));
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const T* from = src.data() + i * anyop_proposals::kFields + mode;
    dst.data()[i] = *from;
    if (kChecked) rt::DefineFrom(by, dst.data() + i, sizeof(T), from, sizeof(T));
  }
}

// Sorts each 16 proposals by descending score; equal scores keep their order.
template <class T>
inline void RpSort16(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                     const std::int32_t repeats, ANYOP_ASCEND_SITE) {
  using anyop_proposals::kFields;
  anyop_proposals::Check("RpSort16", site);
  const auto count = static_cast<std::uint32_t>(repeats) * anyop_proposals::kRow;
  const std::uint64_t bytes = anyop_proposals::Bytes<T>(count);
  if (!anyop_sorting::Check({{dst.span(), bytes}}, {{src.span(), bytes}}, site)) return;
  for (std::uint32_t begin = 0; begin < count; begin += anyop_proposals::kRow) {
    T row[anyop_proposals::kRow * kFields];
    std::memcpy(row, src.data() + begin * kFields, sizeof row);
    T* to = dst.data() + begin * kFields;
    for (std::uint32_t i = 0; i < anyop_proposals::kRow; ++i) {
      const T score = row[i * kFields + anyop_proposals::kScore];
      std::uint32_t place = i;
      while (place > 0 && to[(place - 1) * kFields + anyop_proposals::kScore] < score) --place;
      std::memmove(to + (place + 1) * kFields, to + place * kFields,
                   (i - place) * kFields * sizeof(T));
      std::memcpy(to + place * kFields, row + i * kFields, kFields * sizeof(T));
    }
  }
}

// Merges up to four sorted lists of proposals.
template <class T>
inline void MrgSort4(const LocalTensor<T>& dst, const MrgSortSrcList<T>& list,
                     const MrgSort4Info& info, ANYOP_ASCEND_SITE) {
  using anyop_proposals::kFields;
  anyop_proposals::Check("MrgSort4", site);
  const LocalTensor<T>* sources[4] = {&list.src1, &list.src2, &list.src3, &list.src4};
  anyop_sorting::Range ranges[4];
  std::uint64_t total = 0;
  for (int k = 0; k < 4; ++k) {
    const bool is_valid = info.validBit >> k & 1;
    const std::uint64_t bytes = is_valid ? anyop_proposals::Bytes<T>(info.elementLengths[k]) : 0;
    ranges[k] = {is_valid ? sources[k]->span() : list.src1.span(), bytes};
    total += bytes;
  }
  if (!anyop_sorting::CheckApart({{dst.span(), total}},
                                 {ranges[0], ranges[1], ranges[2], ranges[3]}, site)) {
    return;
  }
  std::uint32_t taken[4] = {};
  for (T* to = dst.data();; to += kFields) {
    const T* best = nullptr;
    int from = 0;
    for (int k = 0; k < 4; ++k) {
      if (!(info.validBit >> k & 1) || taken[k] == info.elementLengths[k]) continue;
      const T* next = sources[k]->data() + taken[k] * kFields;
      if (best && !(next[anyop_proposals::kScore] > best[anyop_proposals::kScore])) continue;
      best = next;
      from = k;
    }
    if (!best) return;
    std::memcpy(to, best, kFields * sizeof(T));
    if (++taken[from] == info.elementLengths[from] && info.ifExhaustedSuspension) return;
  }
}

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
