// SPDX-License-Identifier: Apache-2.0
// Scales and zero points of 16 rows of a weight, as floats.
#pragma once
#include <algorithm>
#include <cstdint>

#include "anyop/op.h"
#include "ops/common/elementwise/elementwise.h"
#include "ops/linear_u4/words.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Of one group; rows beyond n have zeros.
struct alignas(64) GroupNumbers {
  float scale[kWordRows], zero[kWordRows];
};

// The numbers of a call: in rows of the weight, [n, g], or in rows of groups, [g, n].
struct U4Numbers {
  const Tensor& scale;
  const Tensor* zero;
  bool has_rows_of_groups;
  std::int64_t n, groups;

  // Of block a, groups [begin, end).
  void Read(std::int64_t a, std::int64_t begin, std::int64_t end, GroupNumbers* out) const {
    const std::int64_t column = a * kWordRows;
    const std::int64_t count = std::min<std::int64_t>(n - column, kWordRows);
    VisitFloat(scale.type(), [&](auto zero_of_type) {
      using S = decltype(zero_of_type);
      for (std::int64_t i = begin; i < end; ++i) {
        GroupNumbers& to = out[i - begin];
        if (has_rows_of_groups) {
          ReadRow(scale.base<const S>() + scale.row_offset(i) + column, count, to.scale);
        } else {
          ReadColumn(scale.base<const S>() + scale.row_offset(column) + i, Stride(scale), count,
                     to.scale);
        }
      }
    });
    for (std::int64_t i = begin; i < end; ++i) ReadZeros(i, column, count, out[i - begin].zero);
  }

 private:
  static std::int64_t Stride(const Tensor& t) { return t.stride(0); }

  template <class T>
  [[gnu::always_inline]] static void ReadRow(const T* from, std::int64_t count, float* to) {
    if (count == kWordRows) {
#pragma GCC unroll 4
      for (int j = 0; j < kWordRows; j += kLanes) Store(to + j, Load(from + j));
      return;
    }
    std::fill_n(to, kWordRows, 0.0f);
    for (std::int64_t j = 0; j < count; ++j) to[j] = float(from[j]);
  }
  template <class T>
  [[gnu::always_inline]] static void ReadColumn(const T* from, std::int64_t stride,
                                                std::int64_t count, float* to) {
    std::fill_n(to, kWordRows, 0.0f);
    for (std::int64_t j = 0; j < count; ++j) to[j] = float(from[j * stride]);
  }
  void ReadZeros(std::int64_t i, std::int64_t column, std::int64_t count, float* to) const {
    if (!zero) return (void)std::fill_n(to, kWordRows, 8.0f);
    const auto* from = zero->base<const std::uint8_t>();
    std::uint8_t bytes[kWordRows] = {};
    if (!has_rows_of_groups) {
      from += zero->row_offset(column) + i;
      for (std::int64_t j = 0; j < count; ++j) bytes[j] = from[j * Stride(*zero)];
    } else if (zero->dim(1) == n) {
      std::copy_n(from + zero->row_offset(i) + column, count, bytes);
    } else {
      from += zero->row_offset(i) + column / 2;
      for (std::int64_t b = 0; b < (count + 1) / 2; ++b) {
        bytes[2 * b] = from[b] & 15;
        bytes[2 * b + 1] = from[b] >> 4;
      }
    }
    for (int j = 0; j < kWordRows; ++j) to[j] = float(bytes[j]);
  }
};

// Which elements a product takes, and their groups: neighbours of one group follow each other.
struct U4Groups {
  std::int64_t count;          // elements that are taken
  std::int64_t groups, size;   // size: of each group where `starts` is null
  const std::int32_t* order;   // [count]: elements of a row; null: all as they come
  const std::int64_t* starts;  // [groups + 1]

  std::int64_t begin(std::int64_t i) const { return starts ? starts[i] : i * size; }
  std::int64_t end(std::int64_t i) const { return starts ? starts[i + 1] : (i + 1) * size; }
  // How many of elements [first, first + count) there are.
  std::int64_t TakenOf(std::int64_t first, std::int64_t of) const {
    return std::clamp<std::int64_t>(count - first, 0, of);
  }
  // The group that element `at` < count of the order is in, not before `from`.
  std::int64_t GroupOf(std::int64_t at, std::int64_t from) const {
    if (!starts) return at / size;
    while (starts[from + 1] <= at) ++from;
    return from;
  }
};

// Elements by their group, those of one group as they come; those of no group are left out.
inline U4Groups OrderGroups(const Tensor& index, std::int64_t groups, std::int32_t* order,
                            std::int64_t* starts) {
  const std::int64_t k = index.dim(0);
  const auto* group = index.base<const std::int32_t>();
  std::fill_n(starts, groups + 1, std::int64_t{0});
  for (std::int64_t l = 0; l < k; ++l) {
    if (group[l] >= 0) ++starts[group[l] + 1];
  }
  for (std::int64_t i = 0; i < groups; ++i) starts[i + 1] += starts[i];
  const std::int64_t count = starts[groups];
  for (std::int64_t l = 0; l < k; ++l) {
    if (group[l] >= 0) order[starts[group[l]]++] = std::int32_t(l);
  }
  // Each start has moved to the start of the next group.
  for (std::int64_t i = groups; i > 0; --i) starts[i] = starts[i - 1];
  starts[0] = 0;
  return {count, groups, 0, order, starts};
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
