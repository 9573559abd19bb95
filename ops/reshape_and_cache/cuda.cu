// SPDX-License-Identifier: Apache-2.0
// The kernel of reshape_and_cache for CUDA cards: a block stores the key and the value of one
// token. A thread takes a piece at a time: 16 bytes of the source where everything is aligned, else
// one element.
#include "devices/cuda/kernel.h"

namespace anyop::cuda {
namespace {

// What becomes of an element.
enum class Store : std::int32_t { kCopy, kI8, kF8 };

// Rows of keys, or of values, on their way into their cache. Strides and sizes in elements.
struct Side {
  const char* from;
  char* to;
  const float* scale;  // or null
  std::int64_t from_token, from_head;
  std::int64_t to_block, to_offset, to_part;
  std::int32_t width;     // of a head of the source
  std::int32_t part;      // elements that lie together in the cache: a head, or a piece of NZ
  std::int32_t pieces;    // of a row
  std::int32_t of_piece;  // elements
  std::int32_t from_bytes, to_bytes;
  std::int32_t from_type;  // 0, 1, 2: f32, f16, bf16
  Store store;
};

struct CacheCall {
  Side key, value;
  const void* slots;
  const std::uint32_t* failed;
  Divider slots_of_block;
  std::int32_t slots_are_long, has_value;
};

#ifdef __CUDACC__

__device__ std::int8_t ToI8(float x) {
  const float kept = x != x ? 0 : fmaxf(fminf(x, 127.0f), -128.0f);
  return std::int8_t(__float2int_rn(kept));
}

__device__ std::uint32_t Stored(float x, float factor, Store store) {
  x *= factor;
  return store == Store::kI8 ? std::uint8_t(ToI8(x)) : F8E4M3(x).bits;
}

// Stores 16 bytes of elements T as 8 or 4 bytes.
template <class T>
__device__ void StoreChunkAsBytes(uint4 chunk, char* to, float factor, Store store) {
  float x[kChunk<T>];
  Widen<T>(chunk, x);
  std::uint32_t words[kChunk<T> / 4];
#pragma unroll
  for (int w = 0; w < kChunk<T> / 4; ++w) {
    words[w] = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) words[w] |= Stored(x[4 * w + i], factor, store) << 8 * i;
    reinterpret_cast<std::uint32_t*>(to)[w] = words[w];
  }
}

__device__ float LoadElement(const char* from, int type) {
  if (type == 0) return *reinterpret_cast<const float*>(from);
  if (type == 1) return ToFloat(*reinterpret_cast<const F16*>(from));
  return ToFloat(*reinterpret_cast<const BF16*>(from));
}

__device__ void MoveChunk(const Side& side, uint4 chunk, char* to, float factor) {
  if (side.store == Store::kCopy) {
    StoreChunk(to, chunk);
  } else if (side.from_type == 0) {
    StoreChunkAsBytes<float>(chunk, to, factor, side.store);
  } else if (side.from_type == 1) {
    StoreChunkAsBytes<F16>(chunk, to, factor, side.store);
  } else {
    StoreChunkAsBytes<BF16>(chunk, to, factor, side.store);
  }
}

__device__ void MoveElement(const Side& side, const char* from, char* to, float factor) {
  if (side.store != Store::kCopy) {
    *to = char(Stored(LoadElement(from, side.from_type), factor, side.store));
  } else if (side.from_bytes == 4) {
    *reinterpret_cast<std::uint32_t*>(to) = *reinterpret_cast<const std::uint32_t*>(from);
  } else if (side.from_bytes == 2) {
    *reinterpret_cast<std::uint16_t*>(to) = *reinterpret_cast<const std::uint16_t*>(from);
  } else {
    *to = *from;
  }
}

__device__ std::int64_t SlotOf(const CacheCall& call, std::int64_t token) {
  return call.slots_are_long ? static_cast<const std::int64_t*>(call.slots)[token]
                             : static_cast<const std::int32_t*>(call.slots)[token];
}

// A piece of a token's row; the slot is waited for after the piece is asked for.
__device__ void StorePiece(const CacheCall& call, const Side& side, std::int64_t token,
                           std::int64_t slot, std::uint32_t failed, int piece) {
  const int x = piece * side.of_piece;  // the element within the row, counted over all heads
  const int head = x / side.width, e = x - head * side.width;
  const int part = x / side.part, at = x - part * side.part;
  const char* from =
      side.from + (token * side.from_token + head * side.from_head + e) * side.from_bytes;
  const uint4 chunk = side.of_piece > 1 ? LoadOnce(from) : uint4{0, 0, 0, 0};
  const float factor = side.scale ? 1.0f / side.scale[head] : 1.0f;
  if (failed || slot < 0) return;
  const std::int64_t block = call.slots_of_block.Divide(slot);
  const std::int64_t offset = slot - block * call.slots_of_block.d;
  char* to = side.to + (block * side.to_block + offset * side.to_offset +
                        std::int64_t(part) * side.to_part + at) *
                           side.to_bytes;
  if (side.of_piece > 1) {
    MoveChunk(side, chunk, to, factor);
  } else {
    MoveElement(side, from, to, factor);
  }
}

extern "C" __global__ void __launch_bounds__(512) store_tokens(const CacheCall call) {
  const std::int64_t token = blockIdx.x, slot = SlotOf(call, token);
  const std::uint32_t failed = call.failed ? *call.failed : 0;
  const int keys = call.key.pieces, all = keys + (call.has_value ? call.value.pieces : 0);
  for (int i = threadIdx.x; i < all; i += blockDim.x) {
    if (i < keys) {
      StorePiece(call, call.key, token, slot, failed, i);
    } else {
      StorePiece(call, call.value, token, slot, failed, i - keys);
    }
  }
}

#else

constinit const Function kStoreTokens{ANYOP_CUDA_IMAGE, "store_tokens"};

bool IsMultiple(std::int64_t n, std::initializer_list<std::int64_t> numbers) {
  for (std::int64_t number : numbers) {
    if (number % n) return false;
  }
  return true;
}

// Whether `chunk` elements can be read and written at once.
bool CanChunk(const Side& side, std::int64_t chunk) {
  const auto from = reinterpret_cast<std::uintptr_t>(side.from);
  const auto to = reinterpret_cast<std::uintptr_t>(side.to);
  const auto to_bytes = std::uintptr_t(chunk * side.to_bytes);
  return from % 16 == 0 && to % to_bytes == 0 &&
         IsMultiple(chunk, {side.width, side.part, side.from_token, side.from_head, side.to_block,
                            side.to_offset, side.to_part});
}

// rows [t, h, d]; cache [nb, bs, h, d] or, with nz, [nb, h*d/c0, bs, c0]; scale [h] or null
Side SideOf(const Tensor& rows, const Tensor& cache, const Tensor* scale, bool nz) {
  Side side{};
  side.from = rows.base<const char>();
  side.to = cache.base<char>();
  side.from_token = rows.stride(0);
  side.from_head = rows.stride(1);
  side.to_block = cache.stride(0);
  side.to_offset = cache.stride(nz ? 2 : 1);
  side.to_part = cache.stride(nz ? 1 : 2);
  side.width = std::int32_t(rows.dim(2));
  side.part = std::int32_t(cache.dim(3));
  side.from_bytes = Bytes(rows.type());
  side.to_bytes = Bytes(cache.type());
  if (rows.type() != cache.type()) {
    side.store = cache.type() == DType::kI8 ? Store::kI8 : Store::kF8;
    side.from_type = FloatNumber(rows.type());
    side.scale = scale ? scale->base<const float>() : nullptr;
  }
  const std::int64_t chunk = 16 / side.from_bytes;
  side.of_piece = std::int32_t(CanChunk(side, chunk) ? chunk : 1);
  side.pieces = std::int32_t(rows.dim(1) * rows.dim(2) / side.of_piece);
  return side;
}

int Run(const Context& ctx, const Tensor& key, const Tensor* value, const Tensor& key_cache,
        const Tensor* value_cache, const Tensor& slot_mapping, const Tensor* k_scale,
        const Tensor* v_scale, std::string_view layout) {
  const bool nz = layout == "NZ";
  CacheCall call{};
  call.key = SideOf(key, key_cache, k_scale, nz);
  if (value) call.value = SideOf(*value, *value_cache, v_scale, nz);
  call.slots = slot_mapping.base<void>();
  call.failed = FailedWord(ctx);
  call.slots_of_block = DividerOf(key_cache.dim(nz ? 2 : 1));
  call.slots_are_long = slot_mapping.type() == DType::kI64;
  call.has_value = value != nullptr;
  const std::int64_t pieces = std::int64_t(call.key.pieces) + call.value.pieces;
  if (pieces == 0) return ANYOP_OK;
  const std::int64_t threads = pieces < 512 ? DivideUp(pieces, 32) * 32 : 512;
  return Launch(ctx, kStoreTokens, {slot_mapping.dim(0), threads}, call);
}

constexpr Kernel kKernel{.name = "cuda", .needs = "sm_80", .run = Bind<&Run>()};

#endif

}  // namespace

#ifndef __CUDACC__
extern constinit const DeviceKernel reshape_and_cache_cuda{
    .stops = true, .op = "anyop.reshape_and_cache", .kernel = &kKernel};
#endif

}  // namespace anyop::cuda
