// SPDX-License-Identifier: Apache-2.0
// The types of elements: what each number of aclDataType means here, in the runtime and to torch.
#pragma once
#include <array>
#include <cstddef>
#include <string>

#include "ascend/include/npu/acl/acl_base.h"

namespace npu {

struct Type {
  int number;         // of aclDataType
  std::size_t bytes;  // of an element
  const char* name;
  const char* torch;     // its at::ScalarType; "" where operators do not compute with such
  bool is_real = false;  // one of those that norms, gates and the like are there for
};

// What has no bytes of its own, as two int4 share one, is not among them.
inline constexpr auto kTypes = std::to_array<Type>({
    {ACL_FLOAT, 4, "float32", "Float", true},
    {ACL_FLOAT16, 2, "float16", "Half", true},
    {ACL_BF16, 2, "bfloat16", "BFloat16", true},
    {ACL_DOUBLE, 8, "float64", "Double"},
    {ACL_INT8, 1, "int8", "Char"},
    {ACL_INT16, 2, "int16", "Short"},
    {ACL_INT32, 4, "int32", "Int"},
    {ACL_INT64, 8, "int64", "Long"},
    {ACL_UINT8, 1, "uint8", "Byte"},
    {ACL_UINT16, 2, "uint16", ""},
    {ACL_UINT32, 4, "uint32", ""},
    {ACL_UINT64, 8, "uint64", ""},
    {ACL_BOOL, 1, "bool", "Bool"},
    {ACL_COMPLEX32, 4, "complex32", ""},
    {ACL_COMPLEX64, 8, "complex64", "ComplexFloat"},
    {ACL_COMPLEX128, 16, "complex128", "ComplexDouble"},
    {ACL_HIFLOAT8, 1, "hifloat8", ""},
    {ACL_FLOAT8_E5M2, 1, "float8_e5m2", "Float8_e5m2"},
    {ACL_FLOAT8_E4M3FN, 1, "float8_e4m3fn", "Float8_e4m3fn"},
    {ACL_FLOAT8_E8M0, 1, "float8_e8m0", ""},
});

// Null where the number is none of them.
constexpr const Type* FindType(int number) {
  for (const Type& type : kTypes) {
    if (type.number == number) return &type;
  }
  return nullptr;
}

inline std::string NameOfType(int number) {
  const Type* const type = FindType(number);
  return type ? type->name : "type " + std::to_string(number);
}

}  // namespace npu
