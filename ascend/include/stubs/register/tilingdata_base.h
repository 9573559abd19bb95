// SPDX-License-Identifier: Apache-2.0
// Tiling data as plain structs: the same text serves the tiling function and the kernel.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#define BEGIN_TILING_DATA_DEF(name)                                     \
  struct name {                                                         \
    void SaveToBuffer(void* to, std::size_t bytes) const {              \
      if (bytes >= sizeof(*this)) std::memcpy(to, this, sizeof(*this)); \
    }                                                                   \
    std::size_t GetDataSize() const { return sizeof(*this); }
#define TILING_DATA_FIELD_DEF(type, name)       \
  type name = {};                               \
  void set_##name(type value) { name = value; } \
  type get_##name() const { return name; }
#define TILING_DATA_FIELD_DEF_ARR(type, count, name)                               \
  type name[count] = {};                                                           \
  void set_##name(const type* values) { std::memcpy(name, values, sizeof(name)); } \
  const type* get_##name() const { return name; }
#define TILING_DATA_FIELD_DEF_STRUCT(type, name) type name = {};
#define END_TILING_DATA_DEF }
// Stands in namespace optiling, and kernels use the struct without it.
#define REGISTER_TILING_DATA_CLASS(op, data)       \
  }                                                \
  using optiling::data;                            \
  using anyop_ascend_tiling_data = optiling::data; \
  namespace optiling {
