// SPDX-License-Identifier: Apache-2.0
// Arithmetic of byte counts that never wraps: a result that does not fit is kTooManyBytes, and so
// is everything that is computed from it. Sizes come from callers and files, so every sum or
// product of them is made here; the one place that asks for the memory then refuses it.
#pragma once
#include <cstdint>
#include <limits>
#include <span>

namespace anyop {

inline constexpr std::int64_t kTooManyBytes = std::numeric_limits<std::int64_t>::max();
// No process addresses as much; asking the system for more is of no use.
inline constexpr std::int64_t kMostBytes = std::int64_t(1) << 46;

// Arguments of all of these are 0 or more.
constexpr std::int64_t AddBytes(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kTooManyBytes : sum;
}
constexpr std::int64_t MultiplyBytes(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kTooManyBytes : product;
}
// The next multiple of `unit`, a power of two.
constexpr std::int64_t AlignBytes(std::int64_t bytes, std::int64_t unit) {
  if (bytes > kTooManyBytes - (unit - 1)) return kTooManyBytes;
  return (bytes + (unit - 1)) & ~(unit - 1);
}
// Bytes of a dense tensor. A size of 0 does not hide others that are too large, because strides are
// products of the same sizes, and they would wrap.
constexpr std::int64_t TensorBytes(std::int64_t element_bytes,
                                   std::span<const std::int64_t> shape) {
  bool is_empty = false;
  for (const std::int64_t n : shape) {
    is_empty |= n == 0;
    if (n) element_bytes = MultiplyBytes(element_bytes, n);
  }
  return is_empty && element_bytes != kTooManyBytes ? 0 : element_bytes;
}

}  // namespace anyop
