// SPDX-License-Identifier: Apache-2.0
// Dtypes as MindSpore numbers and names them.
#pragma once
#include <cstring>

#include "anyop/host.h"

namespace anyop::mindspore {

struct DTypeRow {
  const char* name;  // "float32": in mindspore, and what kernels are told
  int id;            // of MindSpore's enum TypeId
  DLDataType dtype;
};

inline constexpr DTypeRow kDTypes[] = {
    {"float64", 44, {2, 64, 1}},  {"float32", 43, {2, 32, 1}}, {"float16", 42, {2, 16, 1}},
    {"bfloat16", 45, {4, 16, 1}}, {"int64", 35, {0, 64, 1}},   {"int32", 34, {0, 32, 1}},
    {"int16", 33, {0, 16, 1}},    {"int8", 32, {0, 8, 1}},     {"uint8", 37, {1, 8, 1}},
    {"bool", 30, {6, 8, 1}},
};

inline const DTypeRow* FindDType(DLDataType dtype) {
  for (const DTypeRow& row : kDTypes) {
    if (row.dtype.code == dtype.code && row.dtype.bits == dtype.bits) return &row;
  }
  return nullptr;
}
inline const DTypeRow* FindDType(const char* name) {
  for (const DTypeRow& row : kDTypes) {
    if (!std::strcmp(row.name, name)) return &row;
  }
  return nullptr;
}

}  // namespace anyop::mindspore
