// SPDX-License-Identifier: Apache-2.0
// What a file cuda.cu is written with. Both of its compilers read this: nvcc sees the part for the
// card, the C++ compiler launch.h and the functions that prepare a call.
#pragma once
#include <cstdint>

#include "anyop/dtype.h"
#ifndef __CUDACC__
#include "devices/cuda/launch.h"
#endif

namespace anyop::cuda {

// Where the rows of a tensor begin: row r in row-major order of the leading dimensions, of which
// neighbours that are one dimension are merged.
struct Rows {
  std::int64_t shape[7];  // from the last leading dimension to the first
  std::int64_t strides[7];
  std::int32_t ndim;

#ifdef __CUDACC__
  __device__ std::int64_t Offset(std::int64_t row) const {
    std::int64_t offset = 0;
    for (int d = 0; d < ndim - 1; ++d) {
      const std::int64_t rest = row / shape[d];
      offset += (row - rest * shape[d]) * strides[d];
      row = rest;
    }
    return offset + row * strides[ndim - 1];
  }
#endif
};

// n / d by a multiplication, for n < 2^31 and 1 <= d < 2^31; larger n are divided.
struct Divider {
  std::uint32_t d, multiplier, shift;

#ifdef __CUDACC__
  __device__ std::int64_t Divide(std::int64_t n) const {
    if (n >> 31) return n / d;
    return (__umulhi(std::uint32_t(n), multiplier) + std::uint32_t(n)) >> shift;
  }
#endif
};

// Elements of 16 bytes.
template <class T>
inline constexpr int kChunk = 16 / sizeof(T);

#ifdef __CUDACC__

__device__ inline float ToFloat(float x) { return x; }
__device__ inline float ToFloat(BF16 x) { return __uint_as_float(std::uint32_t(x.bits) << 16); }
__device__ inline float ToFloat(F16 x) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x.bits));
  return f;
}

// Rounds half to even.
template <class T>
__device__ inline T FromFloat(float x) {
  T to;
  if constexpr (sizeof(T) == 4) {
    to = x;
  } else if constexpr (kDTypeOf<T> == ANYOP_BF16) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(x));
  } else {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(x));
  }
  return to;
}

template <class T>
__device__ inline void ToFloats(std::uint32_t word, float& low, float& high) {
  if constexpr (kDTypeOf<T> == ANYOP_BF16) {
    low = __uint_as_float(word << 16);
    high = __uint_as_float(word & 0xffff0000u);
  } else {
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
        : "=f"(low), "=f"(high)
        : "r"(word));
  }
}
template <class T>
__device__ inline std::uint32_t FromFloats(float low, float high) {
  std::uint32_t word;
  if constexpr (kDTypeOf<T> == ANYOP_BF16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  }
  return word;
}

// N elements from words, two of 16 bits or one of 32 in each.
template <class T, int N>
__device__ inline void Widen(const std::uint32_t* words, float (&to)[N]) {
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = __uint_as_float(words[i]);
  } else {
#pragma unroll
    for (int i = 0; i < N; i += 2) ToFloats<T>(words[i / 2], to[i], to[i + 1]);
  }
}

template <class T>
__device__ inline void Widen(uint4 chunk, float (&to)[kChunk<T>]) {
  const std::uint32_t words[] = {chunk.x, chunk.y, chunk.z, chunk.w};
  Widen<T, kChunk<T>>(words, to);
}
template <class T>
__device__ inline uint4 Narrow(const float (&from)[kChunk<T>]) {
  std::uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4) {
      words[i] = __float_as_uint(from[i]);
    } else {
      words[i] = FromFloats<T>(from[2 * i], from[2 * i + 1]);
    }
  }
  return {words[0], words[1], words[2], words[3]};
}

// 16 bytes, aligned.
__device__ inline uint4 LoadChunk(const void* p) { return *static_cast<const uint4*>(p); }
__device__ inline void StoreChunk(void* p, uint4 chunk) { *static_cast<uint4*>(p) = chunk; }
// The same, of what is read once: it leaves the caches to others. Whether that is faster differs
// from kernel to kernel, and is measured.
__device__ inline uint4 LoadOnce(const void* p) { return __ldcs(static_cast<const uint4*>(p)); }

__device__ inline std::int64_t GlobalThread() {
  return std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
}

#else  // the C++ compiler

// Throws std::invalid_argument for more than 8 dimensions.
Rows RowsOf(const Tensor& t);
// The same rows of a tensor that is one row for all.
Rows OneRow();
Divider DividerOf(std::int64_t d);

bool BeginsAligned(const Tensor& t, std::int64_t element = 0);
// Whether all rows begin and end at multiples of 16 bytes.
bool IsAligned(const Tensor& t);
template <class... Tensors>
bool AreAligned(const Tensors&... tensors) {
  return (IsAligned(tensors) && ...);
}

inline std::int64_t DivideUp(std::int64_t n, std::int64_t d) { return (n + d - 1) / d; }

// 0, 1, 2 for f32, f16, bf16.
inline int FloatNumber(DType d) { return d == DType::kF32 ? 0 : d == DType::kF16 ? 1 : 2; }

#endif

}  // namespace anyop::cuda
