// SPDX-License-Identifier: Apache-2.0
// The kernel of rms_norm for CUDA cards: a row belongs to a part of a warp, to a warp or to a
// block, whose threads keep it in registers where it fits. As few threads as can have a row, so
// that what is done once for a row and thread is done seldom. Thread t has the chunks t, t + n, t +
// 2n... of a row, whether they are read as chunks or by elements: the order of a row's sum depends
// on d and the dtype alone.
#include <algorithm>
#include <bit>

#include "devices/cuda/kernel.h"

namespace anyop::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kSmallBlock = 128;    // threads, where rows belong to a warp or less
constexpr int kMostThreads = 1024;  // of a row
constexpr int kFewestThreads = 4;   // of a row of as many chunks: they read 64 bytes at once
constexpr int kChunks = 4;          // that a thread keeps

struct RmsNormCall {
  const void* x;
  const void* weight;  // or null
  void* y;
  Rows x_rows, y_rows;
  std::int64_t n_rows, d;
  float eps, weight_offset, inverse_d;
};

#ifdef __CUDACC__

// The sum over the threads of a row, in all of them; 0 <= pass < 2 tells apart the sums of one row.
// Rows that share a warp may part ways, so each names its own threads alone.
__device__ float SumOfRow(float value, int pass) {
  const int threads = blockDim.x, in_warp = min(threads, kWarp);
  const unsigned thread = threadIdx.x + threadIdx.y * threads;
  const unsigned mask = 0xffffffffu >> (kWarp - in_warp) << (thread % kWarp & -in_warp);
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    if (step < in_warp) value += __shfl_xor_sync(mask, value, step);
  }
  if (threads <= kWarp) return value;
  __shared__ float parts[2][kMostThreads / kWarp];
  const int lane = threadIdx.x % kWarp;
  if (lane == 0) parts[pass][threadIdx.x / kWarp] = value;
  __syncthreads();
  value = lane < threads / kWarp ? parts[pass][lane] : 0;
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, step);
  }
  return value;
}

// The power of 2 by which a row is multiplied before it is squared: ops/common/norm/row_unit.h.
__device__ float UnitOf(float mean_square) {
  if (mean_square >= 0x1p-90f && mean_square <= 0x1p120f) return 1;
  return mean_square < 1 ? 0x1p96f : 0x1p-96f;
}

struct Scale {
  float unit, scale;
};

// What is rounded to 16 bits does not show the error of the fast root, at most 2^-22.9.
template <class T>
__device__ float InverseRoot(float x) {
  if constexpr (sizeof(T) == 4) {
    return 1 / sqrtf(x);
  } else {
    return rsqrtf(x);
  }
}

// squares(unit): the sum of this thread's squares.
template <class T, class F>
__device__ Scale ScaleOf(const RmsNormCall& call, F&& squares) {
  const float mean = SumOfRow(squares(1.0f), 0) * call.inverse_d;
  const float unit = UnitOf(mean + call.eps);
  if (unit == 1) return {1, InverseRoot<T>(mean + call.eps)};
  const float in_units = SumOfRow(squares(unit), 1) * call.inverse_d;
  const double all = double(in_units) + double(call.eps) * double(unit) * double(unit);
  return {unit, float(1 / sqrt(all))};
}

template <class T>
__device__ void AddSquares(const float (&x)[kChunk<T>], float unit, float& sum) {
#pragma unroll
  for (int i = 0; i < kChunk<T>; ++i) {
    const float v = x[i] * unit;
    sum = fmaf(v, v, sum);
  }
}

template <class T>
__device__ void Normalize(float (&x)[kChunk<T>], const float (&gain)[kChunk<T>], Scale of) {
#pragma unroll
  for (int i = 0; i < kChunk<T>; ++i) x[i] = x[i] * of.unit * of.scale * gain[i];
}

template <class T>
__device__ void ToGains(float (&weight)[kChunk<T>], const RmsNormCall& call) {
#pragma unroll
  for (int i = 0; i < kChunk<T>; ++i) weight[i] = call.weight ? weight[i] + call.weight_offset : 1;
}

// Rows of at most kChunks chunks for each thread, everything aligned.
template <class T>
__device__ void InRegisters(const RmsNormCall& call, std::int64_t row, bool is_there) {
  const int chunks = int(call.d / kChunk<T>);
  const T* x = static_cast<const T*>(call.x) + call.x_rows.Offset(row);
  T* y = static_cast<T*>(call.y) + call.y_rows.Offset(row);
  const T* weight = static_cast<const T*>(call.weight);
  uint4 held[kChunks], gains[kChunks];
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
    const int c = threadIdx.x + k * blockDim.x;
    held[k] = c < chunks ? LoadOnce(x + c * kChunk<T>) : uint4{0, 0, 0, 0};
  }
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
    const int c = threadIdx.x + k * blockDim.x;
    gains[k] = weight && c < chunks ? LoadChunk(weight + c * kChunk<T>) : uint4{0, 0, 0, 0};
  }
  const Scale of = ScaleOf<T>(call, [&](float unit) {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      float v[kChunk<T>];
      Widen<T>(held[k], v);
      AddSquares<T>(v, unit, sum);
    }
    return sum;
  });
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
    const int c = threadIdx.x + k * blockDim.x;
    if (c >= chunks || !is_there) continue;
    float v[kChunk<T>], gain[kChunk<T>];
    Widen<T>(held[k], v);
    Widen<T>(gains[k], gain);
    ToGains<T>(gain, call);
    Normalize<T>(v, gain, of);
    StoreChunk(y + c * kChunk<T>, Narrow<T>(v));
  }
}

// Elements of a chunk, of which `n` are there; the others are 0.
template <class T>
__device__ void LoadSome(const T* from, std::int64_t n, float (&to)[kChunk<T>]) {
#pragma unroll
  for (int i = 0; i < kChunk<T>; ++i) to[i] = i < n ? ToFloat(from[i]) : 0;
}

// Any row: it is read twice.
template <class T>
__device__ void InMemory(const RmsNormCall& call, std::int64_t row, bool is_there) {
  const std::int64_t step = std::int64_t(blockDim.x) * kChunk<T>;
  const std::int64_t first = std::int64_t(threadIdx.x) * kChunk<T>;
  const T* x = static_cast<const T*>(call.x) + call.x_rows.Offset(row);
  T* y = static_cast<T*>(call.y) + call.y_rows.Offset(row);
  const T* weight = static_cast<const T*>(call.weight);
  const Scale of = ScaleOf<T>(call, [&](float unit) {
    float sum = 0;
    for (std::int64_t i = first; i < call.d; i += step) {
      float v[kChunk<T>];
      LoadSome(x + i, call.d - i, v);
      AddSquares<T>(v, unit, sum);
    }
    return sum;
  });
  for (std::int64_t i = first; is_there && i < call.d; i += step) {
    float v[kChunk<T>], gain[kChunk<T>];
    LoadSome(x + i, call.d - i, v);
    LoadSome(weight ? weight + i : x + i, call.d - i, gain);
    ToGains<T>(gain, call);
    Normalize<T>(v, gain, of);
#pragma unroll
    for (int k = 0; k < kChunk<T>; ++k) {
      if (i + k < call.d) y[i + k] = FromFloat<T>(v[k]);
    }
  }
}

// Threads without a row of their own take part in sums, for the last row, and write nothing.
#define KERNEL(name, row_function)                                                       \
  extern "C" __global__ void __launch_bounds__(kMostThreads) name(const RmsNormCall c) { \
    const std::int64_t row = std::int64_t(blockIdx.x) * blockDim.y + threadIdx.y;        \
    row_function(c, row < c.n_rows ? row : c.n_rows - 1, row < c.n_rows);                \
  }
#define KERNELS(name, T)                   \
  KERNEL(name##_registers, InRegisters<T>) \
  KERNEL(name##_memory, InMemory<T>)
KERNELS(f32, float)
KERNELS(f16, F16)
KERNELS(bf16, BF16)
#undef KERNELS
#undef KERNEL

#else

constinit const Function kRegisters[] = {{ANYOP_CUDA_IMAGE, "f32_registers"},
                                         {ANYOP_CUDA_IMAGE, "f16_registers"},
                                         {ANYOP_CUDA_IMAGE, "bf16_registers"}};
constinit const Function kMemory[] = {{ANYOP_CUDA_IMAGE, "f32_memory"},
                                      {ANYOP_CUDA_IMAGE, "f16_memory"},
                                      {ANYOP_CUDA_IMAGE, "bf16_memory"}};

// Of a row: a power of 2 up to a warp, then whole warps.
std::int64_t ThreadsOf(std::int64_t chunks) {
  const std::int64_t few = std::min<std::int64_t>(chunks, kFewestThreads);
  const std::int64_t needed = std::max(DivideUp(chunks, kChunks), few);
  if (needed <= kWarp) return std::int64_t(std::bit_ceil(std::uint64_t(needed)));
  return std::min<std::int64_t>(DivideUp(needed, kWarp) * kWarp, kMostThreads);
}

int Run(const Context& ctx, const Tensor& x, const Tensor* weight, float eps, float weight_offset,
        const Tensor& y) {
  const std::int64_t d = x.row_size(), rows = x.rows(), chunk = 16 / Bytes(x.type());
  const std::int64_t chunks = DivideUp(d, chunk), threads = ThreadsOf(chunks);
  const bool aligned = AreAligned(x, y) && (!weight || IsAligned(*weight));
  const auto& functions = aligned && chunks <= threads * kChunks ? kRegisters : kMemory;
  const RmsNormCall call{x.base<void>(),
                         weight ? weight->base<void>() : nullptr,
                         y.base<void>(),
                         RowsOf(x),
                         RowsOf(y),
                         rows,
                         d,
                         eps,
                         weight_offset,
                         float(1 / double(d))};
  const std::int64_t rows_of_block = threads <= kWarp ? kSmallBlock / threads : 1;
  return Launch(ctx, functions[FloatNumber(x.type())],
                {DivideUp(rows, rows_of_block), threads, rows_of_block}, call);
}

constexpr Kernel kKernel{.name = "cuda", .needs = "sm_80", .run = Bind<&Run>()};

#endif

}  // namespace

#ifndef __CUDACC__
extern constinit const DeviceKernel rms_norm_cuda{.op = "anyop.rms_norm", .kernel = &kKernel};
#endif

}  // namespace anyop::cuda
