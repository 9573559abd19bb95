// SPDX-License-Identifier: Apache-2.0
// Instructions that move elements to other places of a matrix.
#pragma once
#include "anyop_ascend/sort.h"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {

// A matrix of 16 x 16 elements of 16 bits.
template <class T>
inline void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src, ANYOP_ASCEND_SITE) {
  static_assert(sizeof(T) == 2, "Transpose takes elements of 16 bits");
  constexpr int kSide = 16;
  if (!sorting::Check({{dst.span(), 512}}, {{src.span(), 512}}, site)) return;
  T values[kSide * kSide];
  std::memcpy(values, src.data(), sizeof values);
  for (int i = 0; i < kSide; ++i)
    for (int j = 0; j < kSide; ++j) dst.data()[j * kSide + i] = values[i * kSide + j];
}

// Repeats a row, or each element of a column, to a larger matrix.
template <class T, int dim, int axis, bool isReuseSource = false>
inline void Broadcast(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                      const std::uint32_t (&dstShape)[dim], const std::uint32_t (&srcShape)[dim],
                      ANYOP_ASCEND_SITE) {
  static_assert(dim == 1 || dim == 2, "Broadcast takes one or two dimensions");
  static_assert(axis == 0 || axis == 1, "Broadcast repeats along dimension 0 or 1");
  const std::uint32_t rows = dim == 2 ? dstShape[0] : 1, columns = dstShape[dim - 1];
  const std::uint32_t elements = dim == 2 ? srcShape[0] * srcShape[dim - 1] : srcShape[0];
  if (!sorting::Check({{dst.span(), std::uint64_t{rows} * columns * sizeof(T)}},
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
                      const std::uint32_t (&dstShape)[dim], const std::uint32_t (&srcShape)[dim],
                      LocalTensor<std::uint8_t>&, ANYOP_ASCEND_SITE) {
  Broadcast<T, dim, axis, isReuseSource>(dst, src, dstShape, srcShape, site);
}

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
