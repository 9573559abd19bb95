// SPDX-License-Identifier: Apache-2.0
// The kernel of add for CUDA cards.
#include "devices/cuda/kernel.h"

namespace anyop::cuda {
namespace {

constexpr int kThreads = 256;

struct AddCall {
  const void* x;
  const void* y;
  void* z;
  Rows x_rows, y_rows, z_rows;
  std::int64_t pieces;  // of all rows: chunks where everything is aligned, else elements
  Divider pieces_of_row;
  std::int32_t is_one_row;  // all is contiguous
};

#ifdef __CUDACC__

template <class T>
__device__ T Sum(T x, T y) {
  if constexpr (sizeof(T) == 2) {
    return FromFloat<T>(ToFloat(x) + ToFloat(y));
  } else {
    return x + y;  // integers are unsigned here and wrap
  }
}

template <class T>
__device__ uint4 SumOfChunks(uint4 x, uint4 y) {
  if constexpr (sizeof(T) == 2) {
    float a[kChunk<T>], b[kChunk<T>];
    Widen<T>(x, a);
    Widen<T>(y, b);
#pragma unroll
    for (int i = 0; i < kChunk<T>; ++i) a[i] += b[i];
    return Narrow<T>(a);
  } else {
    struct alignas(16) Elements {
      T e[kChunk<T>];
    };
    auto a = __builtin_bit_cast(Elements, x);
    const auto b = __builtin_bit_cast(Elements, y);
#pragma unroll
    for (int i = 0; i < kChunk<T>; ++i) a.e[i] += b.e[i];
    return __builtin_bit_cast(uint4, a);
  }
}

// The offsets of a piece of `width` elements in x, y and z.
struct Places {
  std::int64_t x, y, z;

  __device__ Places(const AddCall& call, std::int64_t piece, int width) {
    if (call.is_one_row) {
      x = y = z = piece * width;
      return;
    }
    const std::int64_t row = call.pieces_of_row.Divide(piece);
    const std::int64_t at = (piece - row * call.pieces_of_row.d) * width;
    x = call.x_rows.Offset(row) + at;
    y = call.y_rows.Offset(row) + at;
    z = call.z_rows.Offset(row) + at;
  }
};

template <class T>
__device__ void ByChunks(const AddCall& call) {
  constexpr int kUnroll = 2;
  uint4 x[kUnroll], y[kUnroll];
  T* to[kUnroll];
  const std::int64_t first = std::int64_t(blockIdx.x) * (kThreads * kUnroll) + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kUnroll; ++k) {
    const std::int64_t piece = first + k * kThreads;
    to[k] = nullptr;
    if (piece >= call.pieces) continue;
    const Places at(call, piece, kChunk<T>);
    x[k] = LoadChunk(static_cast<const T*>(call.x) + at.x);
    y[k] = LoadChunk(static_cast<const T*>(call.y) + at.y);
    to[k] = static_cast<T*>(call.z) + at.z;
  }
#pragma unroll
  for (int k = 0; k < kUnroll; ++k) {
    if (to[k]) StoreChunk(to[k], SumOfChunks<T>(x[k], y[k]));
  }
}

template <class T>
__device__ void ByElements(const AddCall& call) {
  const std::int64_t piece = GlobalThread();
  if (piece >= call.pieces) return;
  const Places at(call, piece, 1);
  static_cast<T*>(call.z)[at.z] =
      Sum(static_cast<const T*>(call.x)[at.x], static_cast<const T*>(call.y)[at.y]);
}

#define KERNELS(name, T)                                                                    \
  extern "C" __global__ void __launch_bounds__(kThreads) name##_chunks(const AddCall c) {   \
    ByChunks<T>(c);                                                                         \
  }                                                                                         \
  extern "C" __global__ void __launch_bounds__(kThreads) name##_elements(const AddCall c) { \
    ByElements<T>(c);                                                                       \
  }
KERNELS(f32, float)
KERNELS(f16, F16)
KERNELS(bf16, BF16)
KERNELS(i32, std::uint32_t)
KERNELS(i64, std::uint64_t)
#undef KERNELS

#else

constinit const Function kChunks[] = {
    {ANYOP_CUDA_IMAGE, "f32_chunks"},  {ANYOP_CUDA_IMAGE, "f16_chunks"},
    {ANYOP_CUDA_IMAGE, "bf16_chunks"}, {ANYOP_CUDA_IMAGE, "i32_chunks"},
    {ANYOP_CUDA_IMAGE, "i64_chunks"},
};
constinit const Function kElements[] = {
    {ANYOP_CUDA_IMAGE, "f32_elements"},  {ANYOP_CUDA_IMAGE, "f16_elements"},
    {ANYOP_CUDA_IMAGE, "bf16_elements"}, {ANYOP_CUDA_IMAGE, "i32_elements"},
    {ANYOP_CUDA_IMAGE, "i64_elements"},
};

int NumberOf(DType d) { return d == DType::kI32 ? 3 : d == DType::kI64 ? 4 : FloatNumber(d); }

int Run(const Context& ctx, const Tensor& x, const Tensor& y, const Tensor& z) {
  if (z.size() == 0) return ANYOP_OK;
  const bool one_y = y.rank() < x.rank();
  const bool aligned = AreAligned(x, y, z);
  const std::int64_t width = aligned ? 16 / Bytes(z.type()) : 1;
  const bool one_row =
      z.rows() == 1 || (!one_y && x.is_contiguous() && y.is_contiguous() && z.is_contiguous());
  const std::int64_t pieces = z.size() / width, pieces_of_row = z.row_size() / width;
  AddCall call{x.base<void>(),
               y.base<void>(),
               z.base<void>(),
               RowsOf(x),
               one_y ? OneRow() : RowsOf(y),
               RowsOf(z),
               pieces,
               DividerOf(pieces_of_row),
               one_row};
  const Function& function = (aligned ? kChunks : kElements)[NumberOf(z.type())];
  return Launch(ctx, function, {DivideUp(pieces, (aligned ? 2 : 1) * kThreads), kThreads}, call);
}

constexpr Kernel kKernel{.name = "cuda", .needs = "sm_80", .run = Bind<&Run>()};

#endif

}  // namespace

#ifndef __CUDACC__
extern constinit const DeviceKernel add_cuda{.op = "anyop.add", .kernel = &kKernel};
#endif

}  // namespace anyop::cuda
