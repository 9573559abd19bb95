// SPDX-License-Identifier: Apache-2.0
// Tiling data and workspace of a kernel. A tiling struct is copied from the argument's bytes.
#pragma once
#include "anyop_ascend/macros.h"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {

inline GM_ADDR GetUserWorkspace(GM_ADDR workspace) { return workspace; }
inline void SetSysWorkspace(GM_ADDR) {}
inline GM_ADDR GetSysWorkSpacePtr() {
  static std::uint8_t none[64];
  return none;
}

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC

#define KERNEL_TASK_TYPE_DEFAULT(...)
#define KERNEL_TASK_TYPE(...)
#define TILING_KEY_IS(key) (::anyop_ascend::TilingKey() == static_cast<std::uint64_t>(key))
#define TILING_KEY_VAR (::anyop_ascend::TilingKey())
#define REGISTER_TILING_DEFAULT(type) using anyop_ascend_tiling_data = type
#define REGISTER_TILING_FOR_TILINGKEY(...)
#define GET_TILING_DATA_WITH_STRUCT(type, name, data) \
  type name;                                          \
  std::memcpy(static_cast<void*>(&name), static_cast<const void*>(data), sizeof(type))
#define GET_TILING_DATA(name, data) \
  GET_TILING_DATA_WITH_STRUCT(anyop_ascend_tiling_data, name, data)
#define GET_TILING_DATA_MEMBER(type, member, name, data) \
  decltype(type::member) name = reinterpret_cast<const type*>(data)->member
