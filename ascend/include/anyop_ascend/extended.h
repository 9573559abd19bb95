// SPDX-License-Identifier: Apache-2.0
// Extended functions, which headers in lib/ give: Gelu and its like; over rows RmsNorm, SoftMax,
// TopK. Each is one instruction here that reads its sources and writes its results as wholes; the
// memory for intermediate values is taken and not used. Values are computed in float and rounded
// once.
#pragma once
#include <algorithm>
#include <vector>

#include "anyop_ascend/extended_tiling.h"
#include "anyop_ascend/sort.h"
#include "anyop_ascend/vector.h"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {

struct SoftMaxShapeInfo {
  std::uint32_t srcM = 0;  // rows and elements in memory
  std::uint32_t srcK = 0;
  std::uint32_t oriSrcM = 0;  // and those that count
  std::uint32_t oriSrcK = 0;
};
struct TopKInfo {
  std::int32_t outter = 1;  // rows
  std::int32_t inner = 0;   // elements from row to row, a multiple of 32
  std::int32_t n = 0;       // elements of a row that count
};

namespace anyop_extended {

template <class T>
inline anyop_sorting::Range Whole(const LocalTensor<T>& tensor, std::uint64_t elements) {
  return {tensor.span(), elements * sizeof(T)};
}

}  // namespace anyop_extended

// x / (1 + exp(-beta x)).
template <class T, bool isReuseSource = false>
inline void Swish(const LocalTensor<T>& dst, const LocalTensor<T>& src, std::uint32_t count,
                  const AnyopNotDeduced<T> beta, ANYOP_ASCEND_SITE) {
  const auto factor = static_cast<float>(beta);
  UnaryCount<false>(
      dst, src, count,
      [factor](T, T a) { return anyop_element::Gated(a, factor * static_cast<float>(a)); }, site);
}

// dst = src / sqrt(mean(src^2) + epsilon) * gamma, for bLength * sLength rows.
template <class T, bool isBasicBlock = false>
inline void RmsNorm(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                    const LocalTensor<T>& gamma, const AnyopNotDeduced<T> epsilon,
                    const RmsNormTiling& tiling, ANYOP_ASCEND_SITE) {
  const std::uint32_t rows = tiling.bLength * tiling.sLength, row = tiling.hLength;
  const std::uint32_t n = tiling.originalHLength ? tiling.originalHLength : row;
  const std::uint64_t all = rows ? std::uint64_t{rows - 1} * row + n : 0;
  if (kChecked && (!all || n > row)) {
    rt::Report("tiling", site,
               "RmsNorm: the tiling has %u rows of %u elements, of which %u count. Try "
               "GetRmsNormTilingInfo on the host",
               rows, row, n);
    return;
  }
  if (!anyop_sorting::Check({anyop_extended::Whole(dst, all)},
                            {anyop_extended::Whole(src, all), anyop_extended::Whole(gamma, n)},
                            site)) {
    return;
  }
  for (std::uint32_t r = 0; r < rows; ++r) {
    const T* from = src.data() + std::size_t{r} * row;
    T* to = dst.data() + std::size_t{r} * row;
    float sum = 0;
    for (std::uint32_t i = 0; i < n; ++i)
      sum += static_cast<float>(from[i]) * static_cast<float>(from[i]);
    const float root = std::sqrt(sum / static_cast<float>(n) + static_cast<float>(epsilon));
    for (std::uint32_t i = 0; i < n; ++i)
      to[i] =
          static_cast<T>(static_cast<float>(from[i]) / root * static_cast<float>(gamma.data()[i]));
  }
}
template <class T, bool isBasicBlock = false>
inline void RmsNorm(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                    const LocalTensor<T>& gamma, const LocalTensor<std::uint8_t>&,
                    const AnyopNotDeduced<T> epsilon, const RmsNormTiling& tiling,
                    ANYOP_ASCEND_SITE) {
  RmsNorm<T, isBasicBlock>(dst, src, gamma, epsilon, tiling, site);
}

namespace anyop_extended {

// Rows of SoftMax: the shape that is told, else that of the tiling.
struct Rows {
  std::uint32_t count;
  std::uint32_t stride;  // elements from row to row
  std::uint32_t n;       // that count

  std::uint64_t elements() const { return count ? std::uint64_t{count - 1} * stride + n : 0; }
};
inline bool RowsOf(const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape, Rows& rows,
                   rt::Site site) {
  rows = {tiling.srcM, tiling.srcK, tiling.srcK};
  if (shape.srcM) rows = {shape.srcM, shape.srcK, shape.oriSrcK ? shape.oriSrcK : shape.srcK};
  if (shape.oriSrcM) rows.count = std::min(rows.count, shape.oriSrcM);
  if (kChecked && (!rows.elements() || rows.n > rows.stride)) {
    rt::Report("tiling", site,
               "SoftMax: %u rows of %u elements, of which %u count. Try SoftMaxTilingFunc on the "
               "host, or SoftMaxShapeInfo",
               rows.count, rows.stride, rows.n);
    return false;
  }
  return rows.elements() > 0;
}
// A row; the largest element and the sum of exponentials go to the pointers.
template <class T>
inline void SoftMaxRow(T* to, const T* from, std::uint32_t n, float& most, float& sum) {
  most = static_cast<float>(from[0]);
  for (std::uint32_t i = 1; i < n; ++i) most = std::max(most, static_cast<float>(from[i]));
  sum = 0;
  for (std::uint32_t i = 0; i < n; ++i) sum += std::exp(static_cast<float>(from[i]) - most);
  for (std::uint32_t i = 0; i < n; ++i)
    to[i] = static_cast<T>(std::exp(static_cast<float>(from[i]) - most) / sum);
}

}  // namespace anyop_extended

// Softmax of each row. `sum` and `max` hold 32 bytes for each row, filled with its sum and maximum.
template <class T, bool isReuseSource = false, bool isBasicBlock = false,
          bool isDataFormatNZ = false, class U>
inline void SoftMax(const LocalTensor<T>& dst, const LocalTensor<U>& sum, const LocalTensor<U>& max,
                    const LocalTensor<T>& src, const SoftMaxTiling& tiling,
                    const SoftMaxShapeInfo& shape = {}, ANYOP_ASCEND_SITE) {
  static_assert(!isDataFormatNZ, "SoftMax takes rows (ND) here");
  constexpr std::uint32_t kPerBlock = 32 / sizeof(U);
  anyop_extended::Rows rows{};
  if (!anyop_extended::RowsOf(tiling, shape, rows, site)) return;
  const std::uint64_t all = rows.elements(), few = std::uint64_t{rows.count} * kPerBlock;
  if (!anyop_sorting::Check({anyop_extended::Whole(dst, all), anyop_extended::Whole(sum, few),
                             anyop_extended::Whole(max, few)},
                            {anyop_extended::Whole(src, all)}, site)) {
    return;
  }
  for (std::uint32_t r = 0; r < rows.count; ++r) {
    const std::size_t at = std::size_t{r} * rows.stride;
    float most = 0, total = 0;
    anyop_extended::SoftMaxRow(dst.data() + at, src.data() + at, rows.n, most, total);
    std::fill_n(sum.data() + std::size_t{r} * kPerBlock, kPerBlock, static_cast<U>(total));
    std::fill_n(max.data() + std::size_t{r} * kPerBlock, kPerBlock, static_cast<U>(most));
  }
}
template <class T, bool isReuseSource = false, bool isBasicBlock = false,
          bool isDataFormatNZ = false, class U>
inline void SoftMax(const LocalTensor<T>& dst, const LocalTensor<U>& sum, const LocalTensor<U>& max,
                    const LocalTensor<T>& src, const LocalTensor<std::uint8_t>&,
                    const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape = {},
                    ANYOP_ASCEND_SITE) {
  SoftMax<T, isReuseSource, isBasicBlock, isDataFormatNZ>(dst, sum, max, src, tiling, shape, site);
}
template <class T, bool isReuseSource = false, bool isBasicBlock = false>
inline void SoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                    const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape = {},
                    ANYOP_ASCEND_SITE) {
  anyop_extended::Rows rows{};
  if (!anyop_extended::RowsOf(tiling, shape, rows, site)) return;
  const std::uint64_t all = rows.elements();
  if (!anyop_sorting::Check({anyop_extended::Whole(dst, all)}, {anyop_extended::Whole(src, all)},
                            site))
    return;
  for (std::uint32_t r = 0; r < rows.count; ++r) {
    const std::size_t at = std::size_t{r} * rows.stride;
    float most = 0, total = 0;
    anyop_extended::SoftMaxRow(dst.data() + at, src.data() + at, rows.n, most, total);
  }
}
template <class T, bool isReuseSource = false, bool isBasicBlock = false>
inline void SoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                    const LocalTensor<std::uint8_t>&, const SoftMaxTiling& tiling,
                    const SoftMaxShapeInfo& shape = {}, ANYOP_ASCEND_SITE) {
  SoftMax<T, isReuseSource, isBasicBlock>(dst, src, tiling, shape, site);
}

// The k largest (or smallest) elements of each row with their indices, best first; equal elements
// keep their order. Rows of results follow one another in k elements rounded up to 32 bytes. A row
// whose `finished` is true gets the index n throughout.
template <class T, bool isInitIndex = false, bool isHasfinish = false, bool isReuseSrc = false,
          TopKMode topkMode = TopKMode::TOPK_NORMAL>
inline void TopK(const LocalTensor<T>& values, const LocalTensor<std::int32_t>& indices,
                 const LocalTensor<T>& src, const LocalTensor<std::int32_t>& src_indices,
                 const LocalTensor<bool>& finished, const std::int32_t k, const TopkTiling&,
                 const TopKInfo& info, const bool isLargest = true, ANYOP_ASCEND_SITE) {
  if (kChecked && (info.outter < 1 || info.inner % 32 || info.n < 1 || info.n > info.inner ||
                   k < 1 || k > info.n)) {
    rt::Report("tiling", site,
               "TopK of %d in %d rows of %d elements, of which %d count: rows are multiples of 32 "
               "elements, and k is at most what counts",
               k, info.outter, info.inner, info.n);
    return;
  }
  const auto rows = static_cast<std::size_t>(info.outter), most = static_cast<std::size_t>(k);
  const std::size_t inner = static_cast<std::size_t>(info.inner),
                    n = static_cast<std::size_t>(info.n);
  const auto rounded = [most](std::size_t bytes) { return (most * bytes + 31) / 32 * 32 / bytes; };
  const std::size_t to_values = rounded(sizeof(T)), to_indices = rounded(4);
  const std::uint64_t all = (rows - 1) * inner + n;
  if (!anyop_sorting::Check({anyop_extended::Whole(values, rows * to_values),
                             anyop_extended::Whole(indices, rows * to_indices)},
                            {anyop_extended::Whole(src, all),
                             isInitIndex ? anyop_extended::Whole(src_indices, n)
                                         : anyop_sorting::Range{src.span(), 0},
                             isHasfinish ? anyop_extended::Whole(finished, rows)
                                         : anyop_sorting::Range{src.span(), 0}},
                            site)) {
    return;
  }
  for (std::size_t r = 0; r < rows; ++r) {
    const T* row = src.data() + r * inner;
    std::vector<std::int32_t> order(n);
    for (std::size_t i = 0; i < n; ++i) order[i] = static_cast<std::int32_t>(i);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return isLargest ? row[b] < row[a] : row[a] < row[b];
    });
    bool is_finished = false;
    if constexpr (isHasfinish) is_finished = finished.data()[r];
    for (std::size_t i = 0; i < most; ++i) {
      std::int32_t index = order[i];
      values.data()[r * to_values + i] = row[index];
      if constexpr (isInitIndex) index = src_indices.data()[index];
      indices.data()[r * to_indices + i] = is_finished ? info.n : index;
    }
  }
}
template <class T, bool isInitIndex = false, bool isHasfinish = false, bool isReuseSrc = false,
          TopKMode topkMode = TopKMode::TOPK_NORMAL>
inline void TopK(const LocalTensor<T>& values, const LocalTensor<std::int32_t>& indices,
                 const LocalTensor<T>& src, const LocalTensor<std::int32_t>& src_indices,
                 const LocalTensor<bool>& finished, const LocalTensor<std::uint8_t>&,
                 const std::int32_t k, const TopkTiling& tiling, const TopKInfo& info,
                 const bool isLargest = true, ANYOP_ASCEND_SITE) {
  TopK<T, isInitIndex, isHasfinish, isReuseSrc, topkMode>(
      values, indices, src, src_indices, finished, k, tiling, info, isLargest, site);
}

#define ANYOP_ASCEND_GELU(Name)                                                                \
  template <class T, bool highPrecision = false, bool highPerformance = false>                 \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, std::uint32_t count,  \
                   ANYOP_ASCEND_SITE) {                                                        \
    UnaryCount<false>(                                                                         \
        dst, src, count, [](T, T a) { return anyop_element::Name::Of(a); }, site);             \
  }                                                                                            \
  template <class T, bool highPrecision = false, bool highPerformance = false>                 \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src,                       \
                   const LocalTensor<std::uint8_t>&, std::uint32_t count, ANYOP_ASCEND_SITE) { \
    UnaryCount<false>(                                                                         \
        dst, src, count, [](T, T a) { return anyop_element::Name::Of(a); }, site);             \
  }
ANYOP_ASCEND_GELU(Gelu)
ANYOP_ASCEND_GELU(FasterGelu)
#undef ANYOP_ASCEND_GELU

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
