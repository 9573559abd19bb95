// SPDX-License-Identifier: Apache-2.0
// The types of elements as torch has them (devices/npu/aclnn/types.h).
#pragma once
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <string_view>

#include "devices/npu/aclnn/types.h"

namespace virtual_torch::aclnn {

constexpr at::ScalarType TypeNamed(std::string_view name) {
#define ANYOP_NPU_NAMED(type, known) \
  if (name == #known) return at::ScalarType::known;
  AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS(ANYOP_NPU_NAMED)
#undef ANYOP_NPU_NAMED
  return at::ScalarType::Undefined;
}

constexpr std::size_t BytesOfNamed(std::string_view name) {
#define ANYOP_NPU_BYTES(type, known) \
  if (name == #known) return sizeof(type);
  AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS(ANYOP_NPU_BYTES)
#undef ANYOP_NPU_BYTES
  return 0;
}
static_assert(std::ranges::all_of(npu::kTypes, [](const npu::Type& type) {
  return !*type.torch || BytesOfNamed(type.torch) == type.bytes;
}));

}  // namespace virtual_torch::aclnn
