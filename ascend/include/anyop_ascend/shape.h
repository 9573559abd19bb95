// SPDX-License-Identifier: Apache-2.0
// Instructions that move elements to other places of a matrix.
#pragma once
#include <vector>

#include "anyop_ascend/sort.h"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {

// A matrix of 16 x 16 elements of 16 bits.
template <class T>
inline void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src, ANYOP_ASCEND_SITE) {
  static_assert(sizeof(T) == 2, "Transpose takes elements of 16 bits");
  constexpr int kSide = 16;
  if (!anyop_sorting::Check({{dst.span(), 512}}, {{src.span(), 512}}, site)) return;
  T values[kSide * kSide];
  std::memcpy(values, src.data(), sizeof values);
  for (int i = 0; i < kSide; ++i)
    for (int j = 0; j < kSide; ++j) dst.data()[j * kSide + i] = values[i * kSide + j];
}

// Shapes of the extended Transpose. A block of 16 x 16 elements of 16 bits, or images between
// [N, C, H, W] and [N, H, W, C].
enum class TransposeType : std::uint8_t {
  TRANSPOSE_TYPE_NONE,
  TRANSPOSE_ND2ND_B16,
  TRANSPOSE_NCHW2NHWC,
  TRANSPOSE_NHWC2NCHW
};
struct TransposeParamsExt {
  std::uint16_t nSize = 0;
  std::uint16_t cSize = 0;
  std::uint16_t hSize = 0;
  std::uint16_t wSize = 0;
  TransposeType transposeType = TransposeType::TRANSPOSE_ND2ND_B16;
};
template <class T>
inline void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                      const LocalTensor<std::uint8_t>&, const TransposeParamsExt& p,
                      ANYOP_ASCEND_SITE) {
  if (p.transposeType == TransposeType::TRANSPOSE_ND2ND_B16) {
    if constexpr (sizeof(T) == 2) {
      Transpose(dst, src, site);
    } else {
      rt::Report("transpose", site,
                 "TRANSPOSE_ND2ND_B16 takes elements of 16 bits, not of %zu bytes", sizeof(T));
    }
    return;
  }
  const std::size_t image = std::size_t{p.hSize} * p.wSize, channels = p.cSize;
  const std::size_t elements = p.nSize * channels * image;
  const bool is_known = p.transposeType == TransposeType::TRANSPOSE_NCHW2NHWC ||
                        p.transposeType == TransposeType::TRANSPOSE_NHWC2NCHW;
  if (!is_known || !elements || channels > 4095 || image * sizeof(T) % 32) {
    rt::Report("transpose", site,
               "Transpose of type %d, n %d, c %d, h %d, w %d: h * w must fill multiples of 32 "
               "bytes, and c be at most 4095",
               static_cast<int>(p.transposeType), p.nSize, p.cSize, p.hSize, p.wSize);
    return;
  }
  const std::uint64_t bytes = elements * sizeof(T);
  if (!anyop_sorting::Check({{dst.span(), bytes}}, {{src.span(), bytes}}, site)) return;
  const bool to_last = p.transposeType == TransposeType::TRANSPOSE_NCHW2NHWC;
  std::vector<T> values(src.data(), src.data() + elements);
  for (std::size_t n = 0; n < p.nSize; ++n) {
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t i = 0; i < image; ++i) {
        const std::size_t first = (n * channels + c) * image + i;
        const std::size_t last = (n * image + i) * channels + c;
        dst.data()[to_last ? last : first] = values[to_last ? first : last];
      }
    }
  }
}

// Repeats a row, or each element of a column, to a larger matrix.
template <class T, int dim, int axis, bool isReuseSource = false>
inline void Broadcast(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                      const std::uint32_t dstShape[dim], const std::uint32_t srcShape[dim],
                      ANYOP_ASCEND_SITE) {
  static_assert(dim == 1 || dim == 2, "Broadcast takes one or two dimensions");
  static_assert(axis == 0 || axis == 1, "Broadcast repeats along dimension 0 or 1");
  const std::uint32_t rows = dim == 2 ? dstShape[0] : 1, columns = dstShape[dim - 1];
  const std::uint32_t elements = dim == 2 ? srcShape[0] * srcShape[dim - 1] : srcShape[0];
  if (!anyop_sorting::Check({{dst.span(), std::uint64_t{rows} * columns * sizeof(T)}},
                            {{src.span(), elements * sizeof(T)}}, site)) {
    return;
  }
  for (std::uint32_t i = 0; i < rows; ++i) {
    for (std::uint32_t j = 0; j < columns; ++j) {
      const std::uint32_t from = dim == 1 ? 0 : axis == 0 ? j : i;
      dst.data()[i * columns + j] = src.data()[from];
    }
  }
}
template <class T, int dim, int axis, bool isReuseSource = false>
inline void Broadcast(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                      const std::uint32_t dstShape[dim], const std::uint32_t srcShape[dim],
                      LocalTensor<std::uint8_t>&, ANYOP_ASCEND_SITE) {
  Broadcast<T, dim, axis, isReuseSource>(dst, src, dstShape, srcShape, site);
}
// The name before CANN 8.1.
template <class T, int dim, int axis, bool isReuseSource = false>
inline void BroadCast(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                      const std::uint32_t dstShape[dim], const std::uint32_t srcShape[dim],
                      ANYOP_ASCEND_SITE) {
  Broadcast<T, dim, axis, isReuseSource>(dst, src, dstShape, srcShape, site);
}
template <class T, int dim, int axis, bool isReuseSource = false>
inline void BroadCast(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                      const std::uint32_t dstShape[dim], const std::uint32_t srcShape[dim],
                      LocalTensor<std::uint8_t>&, ANYOP_ASCEND_SITE) {
  Broadcast<T, dim, axis, isReuseSource>(dst, src, dstShape, srcShape, site);
}

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
