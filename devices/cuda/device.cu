// SPDX-License-Identifier: Apache-2.0
// The kernels of the device library itself.
#include "devices/cuda/device_kernels.h"

using namespace anyop::cuda;

namespace {

// The offset of the element of number `place` in row-major order.
__device__ std::int64_t OffsetOf(const Strided& of, std::int64_t place) {
  if (of.is_contiguous) return place;
  std::int64_t offset = 0;
  for (int d = of.ndim - 1; d > 0; --d) {
    const std::int64_t rest = place / of.shape[d];
    offset += (place - rest * of.shape[d]) * of.strides[d];
    place = rest;
  }
  return offset + place * of.strides[0];
}

__device__ std::int64_t Entry(const CheckCall& call, std::int64_t place) {
  const std::int64_t at = OffsetOf(call.of, place);
  switch (call.bytes) {
    case 8:
      return static_cast<const std::int64_t*>(call.data)[at];
    case 4:
      return static_cast<const std::int32_t*>(call.data)[at];
    case 2:
      return static_cast<const std::int16_t*>(call.data)[at];
    default:
      return call.is_signed ? static_cast<const std::int8_t*>(call.data)[at]
                            : static_cast<const std::uint8_t*>(call.data)[at];
  }
}

__device__ bool IsWrong(const CheckCall& call, std::int64_t place) {
  const std::int64_t value = Entry(call, place);
  if (!call.is_offsets) return value >= call.limit;
  if (place == 0) return value != 0;
  return value < Entry(call, place - 1) || value > call.limit;
}

// By the thread that came last, when all entries have been looked at.
__device__ void Conclude(const CheckCall& call) {
  CheckWords* words = call.words;
  volatile CheckRecord* record = call.record;
  const std::uint64_t first =
      atomicExch(reinterpret_cast<unsigned long long*>(&words->first), 0ull);
  words->arrived = 0;
  if (words->failed && !record->is_taken) return;  // the first error stands until it is taken
  words->failed = first != 0;
  record->is_taken = 0;
  if (first == 0) return;
  const std::int64_t place = std::int64_t(~first);
  record->is_offsets = call.is_offsets;
  record->ndim = call.shape_ndim;
  record->name = call.name;
  record->must = call.must;
  record->place = place;
  record->value = Entry(call, place);
  record->before = place > 0 ? Entry(call, place - 1) : 0;
  for (int d = 0; d < call.shape_ndim; ++d) record->shape[d] = call.shape[d];
  __threadfence_system();
  record->is_set = 1;
  __threadfence_system();
  *static_cast<volatile std::uint32_t*>(call.any) = 1;
}

template <class T>
__device__ void Pack(const CopyCall& call) {
  const std::int64_t step = std::int64_t(gridDim.x) * blockDim.x;
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < call.of.count;
       i += step) {
    static_cast<T*>(call.to)[i] = static_cast<const T*>(call.from)[OffsetOf(call.of, i)];
  }
}
template <class T>
__device__ void Unpack(const CopyCall& call) {
  const std::int64_t step = std::int64_t(gridDim.x) * blockDim.x;
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < call.of.count;
       i += step) {
    static_cast<T*>(call.to)[OffsetOf(call.of, i)] = static_cast<const T*>(call.from)[i];
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) check_indices(const CheckCall call) {
  unsigned long long first = 0;
  const std::int64_t step = std::int64_t(gridDim.x) * blockDim.x;
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < call.of.count;
       i += step) {
    if (IsWrong(call, i)) {
      first = ~static_cast<unsigned long long>(i);
      break;
    }
  }
  if (first != 0) atomicMax(reinterpret_cast<unsigned long long*>(&call.words->first), first);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && atomicAdd(&call.words->arrived, 1u) == gridDim.x - 1) {
    __threadfence();
    Conclude(call);
  }
}

extern "C" __global__ void pack_1(const CopyCall call) { Pack<std::uint8_t>(call); }
extern "C" __global__ void pack_2(const CopyCall call) { Pack<std::uint16_t>(call); }
extern "C" __global__ void pack_4(const CopyCall call) { Pack<std::uint32_t>(call); }
extern "C" __global__ void pack_8(const CopyCall call) { Pack<std::uint64_t>(call); }
extern "C" __global__ void unpack_1(const CopyCall call) { Unpack<std::uint8_t>(call); }
extern "C" __global__ void unpack_2(const CopyCall call) { Unpack<std::uint16_t>(call); }
extern "C" __global__ void unpack_4(const CopyCall call) { Unpack<std::uint32_t>(call); }
extern "C" __global__ void unpack_8(const CopyCall call) { Unpack<std::uint64_t>(call); }

extern "C" __global__ void fill(const FillCall call) {
  const std::uint64_t step = std::uint64_t(gridDim.x) * blockDim.x;
  for (std::uint64_t i = std::uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < call.bytes;
       i += step) {
    call.to[i] = call.item[i % call.item_bytes];
  }
}
