// SPDX-License-Identifier: Apache-2.0
// Transposition in registers.
#pragma once
#include <cstdint>
#include <cstring>
#include <utility>

#include "anyop/simd.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Transposes a square of elements, a vector wide: log2(kCount) rounds of interleaving the first
// half of the vectors with the second.
template <class Element, int kBytes = kLanes * 4>
struct Square {
  static constexpr int kCount = kBytes / int(sizeof(Element));
  typedef Element Vector [[gnu::vector_size(kBytes)]];

  template <int... kI>
  [[gnu::always_inline]] static void Zip(Vector a, Vector b, Vector& low, Vector& high,
                                         std::integer_sequence<int, kI...>) {
    constexpr Element kHalf = kCount / 2;
    low = __builtin_shuffle(a, b, Vector{Element(kI % 2 * kCount + kI / 2)...});
    high = __builtin_shuffle(a, b, Vector{Element(kI % 2 * kCount + kI / 2 + kHalf)...});
  }
  // to[i][j] = element i of row j for i, j < kCount; row(j) points to its first element.
  template <class Row>
  [[gnu::always_inline]] static void Transpose(Row&& row, char* to, std::int64_t to_stride) {
    Vector v[kCount], u[kCount];
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) std::memcpy(&v[i], row(i), kBytes);
#pragma GCC unroll 4
    for (int round = kCount; round > 1; round /= 2) {
#pragma GCC unroll 8
      for (int i = 0; i < kCount / 2; ++i) {
        Zip(v[i], v[i + kCount / 2], u[2 * i], u[2 * i + 1],
            std::make_integer_sequence<int, kCount>{});
      }
#pragma GCC unroll 16
      for (int i = 0; i < kCount; ++i) v[i] = u[i];
    }
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) std::memcpy(to + i * to_stride, &v[i], kBytes);
  }
  // to[i][j] = from[j][i] for i, j < kCount; strides in bytes.
  [[gnu::always_inline]] static void Transpose(const char* from, std::int64_t from_stride, char* to,
                                               std::int64_t to_stride) {
    Transpose([&](int i) { return from + i * from_stride; }, to, to_stride);
  }
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
