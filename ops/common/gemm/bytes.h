// SPDX-License-Identifier: Apache-2.0
// Rows and weights of bytes before and after their product: padding, packing, scales.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ops/common/elementwise/elementwise.h"
#include "ops/common/gemm/int8.h"
#include "ops/common/transpose.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Bytes of a row of x; rows 4096 apart would share one set of the first level of cache.
template <class N>
constexpr N PitchOfBytes(const N& k) {
  return LineBytes(k, 1) + N(64);
}

// As PackPanel of floats: out[z][j] = bytes 4 z ... 4 z + 3 of row j; zero where out of range.
inline void PackPanel(const std::int8_t* weight, std::int64_t stride, std::int64_t rows,
                      std::int64_t k, I8x2* out) {
  using Block = Square<std::int32_t>;
  constexpr std::int64_t kBlock = 4 * Block::kCount;  // bytes of a row
  char* to = reinterpret_cast<char*>(out);
  std::int64_t l = 0;
  for (; rows == kPanel && l + kBlock <= k; l += kBlock) {
#pragma GCC unroll 1
    for (std::int64_t j = 0; j < kPanel; j += Block::kCount) {
      Block::Transpose(reinterpret_cast<const char*>(weight + j * stride + l), stride,
                       to + l * kPanel + j * 4, 4 * kPanel);
    }
  }
  for (; l < k; l += 4) {
    std::memset(to + l * kPanel, 0, 4 * kPanel);
    const std::size_t count = std::size_t(std::min<std::int64_t>(4, k - l));
    for (std::int64_t j = 0; j < rows; ++j) {
      std::memcpy(to + l * kPanel + j * 4, weight + j * stride + l, count);
    }
  }
}

// Writes zeros after the k bytes of a row, up to a multiple of 4: a step along k takes 4 bytes.
// Returns the sum of the row's bytes if it is asked for.
inline std::int32_t FinishBytes(std::int8_t* q, std::int64_t k, bool with_sum) {
  std::memset(q + k, 0, std::size_t(CeilDiv(k, 4) * 4 - k));
  std::int32_t sum = 0;
  for (std::int64_t l = 0; with_sum && l < k; ++l) sum += q[l];
  return sum;
}

template <class T>
inline void ReadBiases(const T* bias, std::int64_t columns, float* biases) {
  ForLanes(columns, [&](std::int64_t j, auto lanes) [[gnu::always_inline]] {
    StoreN(biases + j, LoadN(bias + j, lanes), lanes);
  });
}

// What is subtracted from the sums of a row of x.
struct Excess {
  std::uint32_t too_large;  // by how much, modulo 2^32, the dot instruction makes them too large
  std::int32_t zero = 0;    // the byte of x that stands for 0
  const std::int32_t* weight_sums = nullptr;  // [32], which zero multiplies; null if zero is 0
};

// out[j] = sums[j] less the excess, exact before the one rounding to f32. Sums of x - zero fit 32
// bits while zero is a byte, as k is at most 65535 then: 65535 * 255 * 128 < 2^31.
inline void ExactSums(const std::int32_t* sums, const Excess& excess, float* out) {
  const auto [too_large, zero, weight_sums] = excess;
  if (!weight_sums) {
    for (int j = 0; j < kPanel; ++j) {
      out[j] = float(std::int32_t(std::uint32_t(sums[j]) - too_large));
    }
  } else if (zero == std::int8_t(zero)) {
    for (int j = 0; j < kPanel; ++j) {
      const std::uint32_t all = std::uint32_t(zero) * std::uint32_t(weight_sums[j]) + too_large;
      out[j] = float(std::int32_t(std::uint32_t(sums[j]) - all));
    }
  } else {
    for (int j = 0; j < kPanel; ++j) {
      const auto sum = std::int32_t(std::uint32_t(sums[j]) - too_large);
      out[j] = float(sum - std::int64_t(zero) * weight_sums[j]);
    }
  }
}

// One row of at most 32 columns: y = f32(sum - excess) * weight_scale * scale + bias. biases: null
// for none.
template <class Y>
inline void StoreBytesRow(const std::int32_t* sums, const Excess& excess, float scale,
                          const float* weight_scales, const float* biases, std::int64_t columns,
                          Y* y) {
  float products[kPanel];
  ExactSums(sums, excess, products);
  const F32 row_scale = Set(scale);
  ForLanes(columns, [&](std::int64_t j, auto lanes) [[gnu::always_inline]] {
    F32 v = LoadN(products + j, lanes) * LoadN(weight_scales + j, lanes) * row_scale;
    if (biases) v += LoadN(biases + j, lanes);
    StoreN(y + j, v, lanes);
  });
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
