// SPDX-License-Identifier: Apache-2.0
// Tiling data and workspace of a kernel. A tiling struct is copied from the argument's bytes.
#pragma once
#include <algorithm>
#include <cstring>

#include "anyop_ascend/macros.h"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {

inline GM_ADDR GetUserWorkspace(GM_ADDR workspace) { return workspace; }
inline void SetSysWorkspace(GM_ADDR) {}
inline GM_ADDR GetSysWorkSpacePtr() {
  static std::uint8_t none[64];
  return none;
}

// The name of a type as its author wrote it, though a macro may know it by another one.
struct AnyopTypeName {
  char text[128];
};
template <class T>
inline AnyopTypeName NameOf() {
  AnyopTypeName name{};
  const char* begin = std::strstr(__PRETTY_FUNCTION__, "T = ");
  if (!begin) return name;
  begin += 4;
  const std::size_t bytes = std::min(std::strcspn(begin, ";]"), sizeof name.text - 1);
  std::memcpy(name.text, begin, bytes);
  return name;
}

// Copies as many bytes as there are; the rest is 0xFF, as fresh memory is.
template <class T>
inline void ReadTiling(void* to, const void* data, rt::Site site) {
  std::uint64_t there = sizeof(T);
  if constexpr (kChecked) there = rt::CheckTiling(NameOf<T>().text, data, sizeof(T), site);
  std::memcpy(to, data, there);
  std::memset(static_cast<unsigned char*>(to) + there, 0xFF, sizeof(T) - there);
}
template <class T>
inline T TilingOf(const void* data, rt::Site site) {
  alignas(T) unsigned char bytes[sizeof(T)];
  ReadTiling<T>(bytes, data, site);
  return *reinterpret_cast<const T*>(bytes);
}

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC

#define KERNEL_TASK_TYPE_DEFAULT(...)
#define KERNEL_TASK_TYPE(...)
#define TILING_KEY_IS(key) (::anyop_ascend::TilingKey() == static_cast<std::uint64_t>(key))
#define TILING_KEY_VAR (::anyop_ascend::TilingKey())
#define REGISTER_TILING_DEFAULT(type) using anyop_ascend_tiling_data = type
#define REGISTER_TILING_FOR_TILINGKEY(...)
#define GET_TILING_DATA_WITH_STRUCT(type, name, data)                                    \
  type name;                                                                             \
  ::AscendC::ReadTiling<type>(static_cast<void*>(&name), static_cast<const void*>(data), \
                              ANYOP_ASCEND_HERE)
#define GET_TILING_DATA(name, data) \
  GET_TILING_DATA_WITH_STRUCT(anyop_ascend_tiling_data, name, data)
#define GET_TILING_DATA_MEMBER(type, member, name, data) \
  decltype(type::member) name = ::AscendC::TilingOf<type>(data, ANYOP_ASCEND_HERE).member
