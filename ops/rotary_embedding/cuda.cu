// SPDX-License-Identifier: Apache-2.0
// The kernel of rotary_embedding for CUDA cards: a block rotates the heads of one token. A thread
// takes a piece of a head at a time: as many pairs as fill 16 bytes (twice, in style neox), or one
// pair where something is not aligned.
#include "devices/cuda/kernel.h"

namespace anyop::cuda {
namespace {

struct RotaryCall {
  const void* positions;  // or null
  void* query;
  void* key;
  const void* table;
  const std::uint32_t* failed;
  std::int64_t query_token, query_head, key_token, key_head, table_row;  // strides in elements
  std::int64_t offset, half;
  std::int32_t query_heads, heads;  // all heads: key's come after query's
  std::int32_t pieces;              // of a head
  std::int32_t positions_are_long, table_type, is_neox, is_inverse;
};

#ifdef __CUDACC__

constexpr int kF32 = 0, kF16 = 1;  // of table_type

template <class C, int N>
__device__ void LoadTable(const C* from, float (&to)[N]) {
  constexpr int kBytes = N * sizeof(C);
  if constexpr (N == 1) {
    to[0] = ToFloat(*from);
  } else if constexpr (kBytes >= 16) {
    std::uint32_t words[kBytes / 4];
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i) {
      const uint4 chunk = LoadChunk(reinterpret_cast<const uint4*>(from) + i);
      words[4 * i] = chunk.x;
      words[4 * i + 1] = chunk.y;
      words[4 * i + 2] = chunk.z;
      words[4 * i + 3] = chunk.w;
    }
    Widen<C, N>(words, to);
  } else {  // 4 or 8 bytes
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = ToFloat(from[i]);
  }
}

// Cosines and sines of N pairs, from pair `j` on.
template <int N>
__device__ void LoadPairs(const RotaryCall& call, std::int64_t row, std::int64_t j, float (&c)[N],
                          float (&s)[N]) {
  const std::int64_t at = row * call.table_row + j;
  const auto load = [&](auto* table) {
    LoadTable(table + at, c);
    LoadTable(table + at + call.half, s);
  };
  if (call.table_type == kF32) {
    load(static_cast<const float*>(call.table));
  } else if (call.table_type == kF16) {
    load(static_cast<const F16*>(call.table));
  } else {
    load(static_cast<const BF16*>(call.table));
  }
#pragma unroll
  for (int i = 0; i < N; ++i) s[i] = call.is_inverse ? -s[i] : s[i];
}

__device__ void Rotate(float& a, float& b, float c, float s) {
  const float rotated = fmaf(b, -s, a * c);
  b = fmaf(a, s, b * c);
  a = rotated;
}

// The elements of a piece: two chunks in style neox, else one.
struct Held {
  uint4 low, high;
};

template <class T>
__device__ Held LoadPiece(const RotaryCall& call, const T* z, int piece) {
  const std::int64_t at = std::int64_t(piece) * kChunk<T>;
  Held held{LoadChunk(z + at), {}};
  if (call.is_neox) held.high = LoadChunk(z + call.half + at);
  return held;
}

template <class T>
__device__ void RotateChunks(const RotaryCall& call, std::int64_t row, T* z, int piece,
                             const Held& held) {
  constexpr int kN = kChunk<T>;
  float a[kN], b[kN];
  const std::int64_t at = std::int64_t(piece) * kN;
  Widen<T>(held.low, a);
  if (call.is_neox) {
    float c[kN], s[kN];
    LoadPairs<kN>(call, row, at, c, s);
    Widen<T>(held.high, b);
#pragma unroll
    for (int i = 0; i < kN; ++i) Rotate(a[i], b[i], c[i], s[i]);
    StoreChunk(z + call.half + at, Narrow<T>(b));
  } else {
    float c[kN / 2], s[kN / 2];
    LoadPairs<kN / 2>(call, row, at / 2, c, s);
#pragma unroll
    for (int i = 0; i < kN / 2; ++i) Rotate(a[2 * i], a[2 * i + 1], c[i], s[i]);
  }
  StoreChunk(z + at, Narrow<T>(a));
}

template <class T>
__device__ void RotateOne(const RotaryCall& call, std::int64_t row, T* z, int piece) {
  float c[1], s[1];
  LoadPairs<1>(call, row, piece, c, s);
  T* first = z + (call.is_neox ? piece : 2 * std::int64_t(piece));
  T* second = call.is_neox ? first + call.half : first + 1;
  float a = ToFloat(*first), b = ToFloat(*second);
  Rotate(a, b, c[0], s[0]);
  *first = FromFloat<T>(a);
  *second = FromFloat<T>(b);
}

__device__ std::int64_t RowOf(const RotaryCall& call, std::int64_t token) {
  if (!call.positions) return token;
  return call.positions_are_long ? static_cast<const std::int64_t*>(call.positions)[token]
                                 : static_cast<const std::int32_t*>(call.positions)[token];
}

template <class T, bool kChunks>
__device__ void RotateToken(const RotaryCall& call) {
  const std::int64_t token = blockIdx.x, row = RowOf(call, token);
  const std::uint32_t failed = call.failed ? *call.failed : 0;
  const int items = call.heads * call.pieces;
  for (int item = threadIdx.x; item < items; item += blockDim.x) {
    const int head = item / call.pieces, piece = item - head * call.pieces;
    const bool is_query = head < call.query_heads;
    T* z = is_query
               ? static_cast<T*>(call.query) + token * call.query_token + head * call.query_head
               : static_cast<T*>(call.key) + token * call.key_token +
                     (head - call.query_heads) * call.key_head;
    z += call.offset;
    if constexpr (kChunks) {
      const Held held = LoadPiece(call, z, piece);  // before anybody waits for the position
      if (failed || row < 0) return;
      RotateChunks<T>(call, row, z, piece, held);
    } else {
      if (failed || row < 0) return;
      RotateOne<T>(call, row, z, piece);
    }
  }
}

#define KERNELS(name, T)                                                                  \
  extern "C" __global__ void __launch_bounds__(512) name##_chunks(const RotaryCall c) {   \
    RotateToken<T, true>(c);                                                              \
  }                                                                                       \
  extern "C" __global__ void __launch_bounds__(512) name##_elements(const RotaryCall c) { \
    RotateToken<T, false>(c);                                                             \
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

// Whether a head's rotated part is whole chunks, and so are the table's rows.
bool CanChunk(const Tensor& query, const Tensor* key, const Tensor& table, std::int64_t offset) {
  const std::int64_t chunk = 16 / Bytes(query.type()), half = table.dim(1) / 2;
  const auto is_good = [&](const Tensor& t) {
    return BeginsAligned(t, offset) && t.stride(0) % chunk == 0 && t.stride(1) % chunk == 0;
  };
  // A table in 16 bits is read by 16 bytes too where half a row is a multiple of 8 elements.
  const std::int64_t table_chunk =
      chunk > 16 / Bytes(table.type()) ? chunk : 16 / Bytes(table.type());
  return half % chunk == 0 && half % table_chunk == 0 && table.stride(0) % table_chunk == 0 &&
         BeginsAligned(table) && is_good(query) && (!key || is_good(*key));
}

int Run(const Context& ctx, const Tensor* positions, const Tensor& query, const Tensor* key,
        const Tensor& table, std::int64_t offset, std::string_view style, bool inverse) {
  const std::int64_t half = table.dim(1) / 2, heads = query.dim(1) + (key ? key->dim(1) : 0);
  const bool neox = style == "neox", chunks = CanChunk(query, key, table, offset);
  const std::int64_t chunk = 16 / Bytes(query.type());
  RotaryCall call{};
  call.positions = positions ? positions->base<void>() : nullptr;
  call.query = query.base<void>();
  call.key = key ? key->base<void>() : nullptr;
  call.table = table.base<void>();
  call.failed = FailedWord(ctx);
  call.query_token = query.stride(0);
  call.query_head = query.stride(1);
  call.key_token = key ? key->stride(0) : 0;
  call.key_head = key ? key->stride(1) : 0;
  call.table_row = table.stride(0);
  call.offset = offset;
  call.half = half;
  call.query_heads = std::int32_t(query.dim(1));
  call.heads = std::int32_t(heads);
  call.pieces = std::int32_t(!chunks ? half : neox ? half / chunk : 2 * half / chunk);
  call.positions_are_long = positions && positions->type() == DType::kI64;
  call.table_type = FloatNumber(table.type());
  call.is_neox = neox;
  call.is_inverse = inverse;
  const std::int64_t items = heads * call.pieces;
  if (items == 0) return ANYOP_OK;
  const std::int64_t threads = items < 512 ? DivideUp(items, 32) * 32 : 512;
  return Launch(ctx, (chunks ? kChunks : kElements)[FloatNumber(query.type())],
                {query.dim(0), threads}, call);
}

constexpr Kernel kKernel{.name = "cuda", .needs = "sm_80", .run = Bind<&Run>()};

#endif

}  // namespace

#ifndef __CUDACC__
extern constinit const DeviceKernel rotary_embedding_cuda{
    .stops = true, .op = "anyop.rotary_embedding", .kernel = &kKernel};
#endif

}  // namespace anyop::cuda
