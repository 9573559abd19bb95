// SPDX-License-Identifier: Apache-2.0
// What a call's frame is made of: values (anyop_value) and tensors (DLTensor), filled in one place.
// For hosts, which make calls. Operators read them through op.h and do not need this header.
//
// anyop_value{} is the value of an argument that is absent.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "anyop/abi.h"
#include "anyop/dtype.h"

namespace anyop {

#define ANYOP_FILL [[gnu::always_inline]] inline

// The memory of the host, which the CPU's kernels read and write.
inline constexpr DLDevice kHostDevice{1, 0};
constexpr bool IsHost(DLDevice device) { return device.device_type == kHostDevice.device_type; }

// ---- Values. Tag, index and count are written as one word, because the key of a call reads them
// as one: a load that is wider than the stores before it waits until these have reached the cache.
ANYOP_FILL void SetHead(anyop_value* v, std::uint64_t tag, std::uint64_t index = 0,
                        std::uint64_t count = 0) {
  static_assert(std::endian::native == std::endian::little && offsetof(anyop_value, tag) == 0 &&
                offsetof(anyop_value, index) == 2 && offsetof(anyop_value, count) == 4);
  const std::uint64_t head = tag | index << 16 | count << 32;
  std::memcpy(v, &head, sizeof head);
}

// A value that is held as a whole number; tag: ANYOP_BOOL, ANYOP_INT or ANYOP_DTYPE.
ANYOP_FILL anyop_value WholeValue(std::uint64_t tag, std::int64_t i) {
  anyop_value v;
  SetHead(&v, tag);
  v.i = i;
  return v;
}
ANYOP_FILL anyop_value BoolValue(bool b) { return WholeValue(ANYOP_BOOL, b); }
ANYOP_FILL anyop_value IntValue(std::int64_t i) { return WholeValue(ANYOP_INT, i); }
ANYOP_FILL anyop_value DTypeValue(DType d) { return WholeValue(ANYOP_DTYPE, int(d)); }
ANYOP_FILL anyop_value FloatValue(double f) {
  anyop_value v;
  SetHead(&v, ANYOP_FLOAT);
  v.f = f;
  return v;
}
// number: among all forms of the operator; 65535 or -1 for none of them.
ANYOP_FILL anyop_value WordValue(std::string_view text, int number) {
  anyop_value v;
  SetHead(&v, ANYOP_WORD, std::uint16_t(number), text.size());
  v.s = text.data();
  return v;
}
// t: null keeps the place of a tensor that the host has not made yet.
ANYOP_FILL anyop_value TensorValue(const DLTensor* t) {
  anyop_value v;
  SetHead(&v, ANYOP_TENSOR);
  v.t = t;
  return v;
}
ANYOP_FILL anyop_value TensorsValue(const DLTensor* const* list, std::size_t n) {
  anyop_value v;
  SetHead(&v, ANYOP_TENSORS, 0, n);
  v.ts = list;
  return v;
}
ANYOP_FILL anyop_value IntsValue(const std::int64_t* list, std::size_t n) {
  anyop_value v;
  SetHead(&v, ANYOP_INTS, 0, n);
  v.is = list;
  return v;
}
ANYOP_FILL anyop_value FloatsValue(const double* list, std::size_t n) {
  anyop_value v;
  SetHead(&v, ANYOP_FLOATS, 0, n);
  v.fs = list;
  return v;
}

// ---- Tensors.

// Every field, rank and dtype as the one word that a key reads. rank: -1 if it is unknown. strides:
// in elements; null for contiguous. Writes field by field into the tensor's place: a tensor that is
// put together elsewhere is copied by loads that are wider than its stores, and they wait for
// these.
ANYOP_FILL void FillTensor(DLTensor* t, void* data, DLDevice device, DLDataType dtype, int rank,
                           const std::int64_t* shape, const std::int64_t* strides = nullptr) {
  static_assert(offsetof(DLTensor, dtype) == offsetof(DLTensor, ndim) + 4);
  const std::uint64_t rank_and_dtype =
      std::uint32_t(rank) | std::uint64_t(std::bit_cast<std::uint32_t>(dtype)) << 32;
  t->data = data;
  t->device = device;
  std::memcpy(reinterpret_cast<char*>(t) + offsetof(DLTensor, ndim), &rank_and_dtype,
              sizeof rank_and_dtype);
  t->shape = const_cast<std::int64_t*>(shape);
  t->strides = const_cast<std::int64_t*>(strides);
  t->byte_offset = 0;
}
ANYOP_FILL DLTensor MakeDLTensor(void* data, DLDevice device, DLDataType dtype, int rank,
                                 const std::int64_t* shape, const std::int64_t* strides = nullptr) {
  DLTensor t;
  FillTensor(&t, data, device, dtype, rank, shape, strides);
  return t;
}

#undef ANYOP_FILL

}  // namespace anyop
