// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <stdexcept>

#include "devices/cuda/kernel.h"

namespace anyop::cuda {

Rows RowsOf(const Tensor& t) {
  Rows rows{};
  if (t.rank() > 8) throw std::invalid_argument("a tensor of more than 8 dimensions.");
  for (int d = t.rank() - 2; d >= 0; --d) {
    const std::int64_t size = t.dim(d), stride = t.stride(d);
    if (size == 1) continue;
    const int last = rows.ndim - 1;
    if (last >= 0 && stride == rows.strides[last] * rows.shape[last]) {
      rows.shape[last] *= size;
    } else {
      rows.shape[rows.ndim] = size;
      rows.strides[rows.ndim++] = stride;
    }
  }
  return rows.ndim ? rows : OneRow();
}

Rows OneRow() {
  Rows rows{};
  rows.ndim = 1;
  rows.shape[0] = 1;
  return rows;
}

// Granlund and Montgomery 1994, "Division by invariant integers using multiplication".
Divider DividerOf(std::int64_t d) {
  const auto divisor = std::uint32_t(d);
  const auto shift = std::uint32_t(d <= 1 ? 0 : std::bit_width(divisor - 1));
  const std::uint64_t power = std::uint64_t{1} << shift;
  const std::uint64_t multiplier = (power - divisor) * (std::uint64_t{1} << 32) / divisor + 1;
  return {divisor, std::uint32_t(multiplier), shift};
}

bool BeginsAligned(const Tensor& t, std::int64_t element) {
  const std::int64_t bytes = Bytes(t.dtype);
  const auto at = reinterpret_cast<std::uintptr_t>(t.base<char>());
  return (at + std::uintptr_t(element * bytes)) % 16 == 0;
}

bool IsAligned(const Tensor& t) {
  const std::int64_t bytes = Bytes(t.dtype);
  if (!BeginsAligned(t)) return false;
  if (t.row_size() * bytes % 16) return false;
  for (int d = 0; d + 1 < t.rank(); ++d) {
    if (t.dim(d) > 1 && t.stride(d) * bytes % 16) return false;
  }
  return true;
}

}  // namespace anyop::cuda
