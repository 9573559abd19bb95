// SPDX-License-Identifier: Apache-2.0
// The kernel of silu_and_mul for CUDA cards.
#include "devices/cuda/kernel.h"

namespace anyop::cuda {
namespace {

constexpr int kThreads = 256;

struct SiluCall {
  const void* x;
  void* y;
  Rows x_rows, y_rows;
  std::int64_t d;
  std::int64_t pieces;  // of all rows: chunks where everything is aligned, else elements
  Divider pieces_of_row;
};

#ifdef __CUDACC__

// f32 needs the exact exponential and quotient; what is rounded to 16 bits does not show the error
// of the fast ones, at most 2^-19 for gates up to 88.
template <class T>
__device__ float SiluAndMul(float gate, float up) {
  if constexpr (sizeof(T) == 4) {
    return 1.0f / (1.0f + expf(-gate)) * gate * up;
  } else {
    return __fdividef(gate, 1.0f + __expf(-gate)) * up;
  }
}

template <class T>
__device__ void ByChunks(const SiluCall& call) {
  constexpr int kUnroll = 2;
  uint4 gate[kUnroll], up[kUnroll];
  T* to[kUnroll];
  const std::int64_t first = std::int64_t(blockIdx.x) * (kThreads * kUnroll) + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kUnroll; ++k) {
    const std::int64_t piece = first + k * kThreads;
    to[k] = nullptr;
    if (piece >= call.pieces) continue;
    const std::int64_t row = call.pieces_of_row.Divide(piece);
    const std::int64_t at = (piece - row * call.pieces_of_row.d) * kChunk<T>;
    const T* from = static_cast<const T*>(call.x) + call.x_rows.Offset(row) + at;
    gate[k] = LoadChunk(from);
    up[k] = LoadChunk(from + call.d);
    to[k] = static_cast<T*>(call.y) + call.y_rows.Offset(row) + at;
  }
#pragma unroll
  for (int k = 0; k < kUnroll; ++k) {
    if (!to[k]) continue;
    float g[kChunk<T>], u[kChunk<T>];
    Widen<T>(gate[k], g);
    Widen<T>(up[k], u);
#pragma unroll
    for (int i = 0; i < kChunk<T>; ++i) g[i] = SiluAndMul<T>(g[i], u[i]);
    StoreChunk(to[k], Narrow<T>(g));
  }
}

template <class T>
__device__ void ByElements(const SiluCall& call) {
  const std::int64_t piece = GlobalThread();
  if (piece >= call.pieces) return;
  const std::int64_t row = call.pieces_of_row.Divide(piece);
  const std::int64_t at = piece - row * call.pieces_of_row.d;
  const T* from = static_cast<const T*>(call.x) + call.x_rows.Offset(row) + at;
  static_cast<T*>(call.y)[call.y_rows.Offset(row) + at] =
      FromFloat<T>(SiluAndMul<T>(ToFloat(from[0]), ToFloat(from[call.d])));
}

#define KERNELS(name, T)                                                                     \
  extern "C" __global__ void __launch_bounds__(kThreads) name##_chunks(const SiluCall c) {   \
    ByChunks<T>(c);                                                                          \
  }                                                                                          \
  extern "C" __global__ void __launch_bounds__(kThreads) name##_elements(const SiluCall c) { \
    ByElements<T>(c);                                                                        \
  }
KERNELS(f32, float)
KERNELS(f16, F16)
KERNELS(bf16, BF16)
#undef KERNELS

#else

constinit const Function kChunks[] = {{ANYOP_CUDA_IMAGE, "f32_chunks"},
                                      {ANYOP_CUDA_IMAGE, "f16_chunks"},
                                      {ANYOP_CUDA_IMAGE, "bf16_chunks"}};
constinit const Function kElements[] = {{ANYOP_CUDA_IMAGE, "f32_elements"},
                                        {ANYOP_CUDA_IMAGE, "f16_elements"},
                                        {ANYOP_CUDA_IMAGE, "bf16_elements"}};

int Run(const Context& ctx, const Tensor& x, const Tensor& y) {
  const std::int64_t d = y.row_size(), chunk = 16 / Bytes(y.type());
  if (y.size() == 0) return ANYOP_OK;
  // The second half of a row is aligned where half a row is a multiple of 16 bytes, as y's rows
  // are.
  const bool aligned = AreAligned(x, y);
  const std::int64_t pieces_of_row = aligned ? d / chunk : d;
  SiluCall call{x.base<void>(),           y.base<void>(),          RowsOf(x), RowsOf(y), d,
                y.rows() * pieces_of_row, DividerOf(pieces_of_row)};
  const Function& function = (aligned ? kChunks : kElements)[FloatNumber(y.type())];
  return Launch(ctx, function, {DivideUp(call.pieces, (aligned ? 2 : 1) * kThreads), kThreads},
                call);
}

constexpr Kernel kKernel{.name = "cuda", .needs = "sm_80", .run = Bind<&Run>()};

#endif

}  // namespace

#ifndef __CUDACC__
extern constinit const DeviceKernel silu_and_mul_cuda{.op = "anyop.silu_and_mul",
                                                      .kernel = &kKernel};
#endif

}  // namespace anyop::cuda
