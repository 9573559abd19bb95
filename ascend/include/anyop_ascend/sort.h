// SPDX-License-Identifier: Apache-2.0
// Sorts of pairs (score, index) of 8 bytes, by descending score; equal scores keep their order. A
// half score leaves 2 bytes between it and the index.
#pragma once
#include "anyop_ascend/tensor.h"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {

template <class T>
struct MrgSortSrcList {
  LocalTensor<T> src1;
  LocalTensor<T> src2;
  LocalTensor<T> src3;
  LocalTensor<T> src4;

  MrgSortSrcList() = default;
  MrgSortSrcList(const LocalTensor<T>& a, const LocalTensor<T>& b, const LocalTensor<T>& c,
                 const LocalTensor<T>& d)
      : src1(a), src2(b), src3(c), src4(d) {}
};

namespace anyop_sorting {

constexpr std::uint32_t kPairBytes = 8;
constexpr std::uint32_t kRow = 32;  // pairs that one instruction sorts

template <class T>
struct Pair {
  T score;
  std::uint32_t index;
};
template <class T>
inline Pair<T> Read(const unsigned char* at) {
  Pair<T> pair;
  std::memcpy(&pair.score, at, sizeof(T));
  std::memcpy(&pair.index, at + 4, 4);
  return pair;
}
template <class T>
inline void Write(unsigned char* at, const Pair<T>& pair) {
  std::memset(at, 0, kPairBytes);
  std::memcpy(at, &pair.score, sizeof(T));
  std::memcpy(at + 4, &pair.index, 4);
}

// Checks whole ranges: reads all sources, writes the result, which is defined if all of them are.
struct Range {
  rt::Span span;
  std::uint64_t bytes;
};
inline bool Check(std::initializer_list<Range> results, std::initializer_list<Range> sources,
                  rt::Site site);
// A result that lies on a source is overwritten before it is read: pairs and scores have other
// sizes, and a merged list other places.
inline bool CheckApart(std::initializer_list<Range> results, std::initializer_list<Range> sources,
                       rt::Site site) {
  if constexpr (!kChecked) return true;
  for (const Range& result : results) {
    for (const Range& source : sources) {
      const auto to = result.span.at - rt::block->memory, from = source.span.at - rt::block->memory;
      const auto to_end = to + static_cast<std::int64_t>(result.bytes);
      const auto from_end = from + static_cast<std::int64_t>(source.bytes);
      if (to >= from_end || from >= to_end) continue;
      rt::Report("overlap", site,
                 "the result, bytes %lld to %lld of UB, overlaps an operand, bytes %lld to %lld",
                 static_cast<long long>(to), static_cast<long long>(to_end),
                 static_cast<long long>(from), static_cast<long long>(from_end));
      return false;
    }
  }
  return Check(results, sources, site);
}
inline bool Check(std::initializer_list<Range> results, std::initializer_list<Range> sources,
                  rt::Site site) {
  if constexpr (!kChecked) return true;
  for (const Range& r : results)
    if (!rt::CheckSpan(r.span, 0, r.bytes, 32, site)) return false;
  const Range* decides = sources.begin();  // a source that is not defined, if there is one
  for (const Range& r : sources) {
    if (!rt::CheckSpan(r.span, 0, r.bytes, 32, site)) return false;
    if (!rt::AreDefined(r.span.at, r.bytes)) decides = &r;
  }
  const rt::Instruction by = rt::Issue(rt::kV, site);
  for (const Range& r : sources) rt::Touch(by, rt::kRead, r.span.at, r.bytes);
  for (const Range& r : results) {
    rt::Touch(by, rt::kWrite, r.span.at, r.bytes);
    rt::DefineFrom(by, r.span.at, r.bytes, decides->span.at, decides->bytes);
  }
  return true;
}

// Sorts rows of `row` pairs.
template <class T>
inline void Rows(const LocalTensor<T>& dst, const LocalTensor<T>& scores,
                 const LocalTensor<std::uint32_t>& indices, std::uint32_t rows, std::uint32_t row) {
  for (std::uint32_t r = 0; r < rows; ++r) {
    unsigned char* to = dst.bytes() + std::size_t{r} * row * kPairBytes;
    // Places in the row, by score: insertion keeps the order of equal scores.
    for (std::uint32_t i = 0; i < row; ++i) {
      const Pair<T> pair{scores.data()[r * row + i], indices.data()[r * row + i]};
      std::uint32_t begin = 0, end = i;
      while (begin < end) {
        const std::uint32_t middle = (begin + end) / 2;
        if (Read<T>(to + middle * kPairBytes).score < pair.score)
          end = middle;
        else
          begin = middle + 1;
      }
      std::memmove(to + (begin + 1) * kPairBytes, to + begin * kPairBytes,
                   (i - begin) * kPairBytes);
      Write(to + begin * kPairBytes, pair);
    }
  }
}

}  // namespace anyop_sorting

template <class T>
inline void Sort32(const LocalTensor<T>& dst, const LocalTensor<T>& scores,
                   const LocalTensor<std::uint32_t>& indices, const std::int32_t repeats,
                   ANYOP_ASCEND_SITE) {
  const auto rows = static_cast<std::uint32_t>(repeats), pairs = rows * anyop_sorting::kRow;
  if (kChecked) rt::CheckSoc(rt::kNoSortPairs, "Sort32", site);
  if (!anyop_sorting::CheckApart({{dst.span(), pairs * anyop_sorting::kPairBytes}},
                                 {{scores.span(), pairs * sizeof(T)}, {indices.span(), pairs * 4}},
                                 site)) {
    return;
  }
  anyop_sorting::Rows(dst, scores, indices, rows, anyop_sorting::kRow);
}

// Merges up to four sorted lists; stops when one is used up if the info says so.
template <class T>
inline void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& list,
                    const MrgSort4Info& info, ANYOP_ASCEND_SITE) {
  const LocalTensor<T>* sources[4] = {&list.src1, &list.src2, &list.src3, &list.src4};
  anyop_sorting::Range ranges[4];
  std::uint64_t total = 0;
  for (int k = 0; k < 4; ++k) {
    const bool is_valid = info.validBit >> k & 1;
    const std::uint64_t bytes = is_valid ? info.elementLengths[k] * 8u : 0;
    ranges[k] = {is_valid ? sources[k]->span() : list.src1.span(), bytes};
    total += bytes;
  }
  if (kChecked) rt::CheckSoc(rt::kNoMrgSort, "MrgSort", site);
  if (!anyop_sorting::CheckApart({{dst.span(), total}},
                                 {ranges[0], ranges[1], ranges[2], ranges[3]}, site)) {
    return;
  }
  std::uint32_t taken[4] = {};
  for (unsigned char* to = dst.bytes();; to += anyop_sorting::kPairBytes) {
    int best = -1;
    anyop_sorting::Pair<T> pair{};
    for (int k = 0; k < 4; ++k) {
      if (!(info.validBit >> k & 1) || taken[k] == info.elementLengths[k]) continue;
      const auto next =
          anyop_sorting::Read<T>(sources[k]->bytes() + taken[k] * anyop_sorting::kPairBytes);
      if (best >= 0 && !(next.score > pair.score)) continue;
      best = k;
      pair = next;
    }
    if (best < 0) return;
    anyop_sorting::Write(to, pair);
    if (++taken[best] == info.elementLengths[best] && info.ifExhaustedSuspension) return;
  }
}

// On A2 and A3 scores need no preparation.
template <class T>
inline void Concat(LocalTensor<T>& concat, const LocalTensor<T>& src, const LocalTensor<T>&,
                   const std::int32_t, ANYOP_ASCEND_SITE) {
  (void)site;
  concat = src;
}
template <class T, bool isFullSort>
inline void Sort(const LocalTensor<T>& dst, const LocalTensor<T>& scores,
                 const LocalTensor<std::uint32_t>& indices, const LocalTensor<T>& work,
                 const std::int32_t repeats, ANYOP_ASCEND_SITE) {
  const auto pairs = static_cast<std::uint32_t>(repeats) * anyop_sorting::kRow;
  const std::uint64_t bytes = std::uint64_t{pairs} * anyop_sorting::kPairBytes;
  if (!anyop_sorting::CheckApart({{dst.span(), bytes}, {work.span(), isFullSort ? bytes : 0}},
                                 {{scores.span(), pairs * sizeof(T)}, {indices.span(), pairs * 4}},
                                 site)) {
    return;
  }
  const std::uint32_t row = isFullSort ? pairs : anyop_sorting::kRow;
  anyop_sorting::Rows(dst, scores, indices, pairs / (row ? row : 1), row);
}
template <class T>
inline void Extract(const LocalTensor<T>& scores, const LocalTensor<std::uint32_t>& indices,
                    const LocalTensor<T>& sorted, const std::int32_t repeats, ANYOP_ASCEND_SITE) {
  const auto pairs = static_cast<std::uint32_t>(repeats) * anyop_sorting::kRow;
  if (!anyop_sorting::CheckApart({{scores.span(), pairs * sizeof(T)}, {indices.span(), pairs * 4}},
                                 {{sorted.span(), pairs * anyop_sorting::kPairBytes}}, site)) {
    return;
  }
  for (std::uint32_t i = 0; i < pairs; ++i) {
    const auto pair = anyop_sorting::Read<T>(sorted.bytes() + i * anyop_sorting::kPairBytes);
    scores.data()[i] = pair.score;
    indices.data()[i] = pair.index;
  }
}

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
