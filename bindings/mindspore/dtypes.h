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
  const char* own_name;  // "f32"
};

// MindSpore's number of each dtype of anyop's; kNone where it has no tensors of it on the CPU.
enum Id : int {
  kNone = -1,
  kBool = 30,
  kI8 = 32,
  kI16 = 33,
  kI32 = 34,
  kI64 = 35,
  kU8 = 37,
  kU16 = 38,
  kU32 = 39,
  kU64 = 40,
  kF16 = 42,
  kF32 = 43,
  kF64 = 44,
  kBF16 = 45,
  kC64 = 51,
  kC128 = 52,
  kF8E4M3 = kNone,
  kF8E5M2 = kNone,
  kF8E8M0 = kNone,
  kF8E4M3FNUZ = kNone,
  kF8E5M2FNUZ = kNone,
  kF4E2M1X2 = kNone,
};

#define ANYOP_MINDSPORE_COUNT(number, name, ...) +(k##name != kNone)
inline constexpr int kRowCount = ANYOP_DTYPE_LIST(ANYOP_MINDSPORE_COUNT);
#undef ANYOP_MINDSPORE_COUNT

struct DTypeTable {
  DTypeRow rows[kRowCount] = {};
  constexpr DTypeTable() {
    int n = 0;
#define ANYOP_MINDSPORE_ROW(number, name, own_name, long_name, kind, code, bits, lanes, ...) \
  if (k##name != kNone) rows[n++] = {long_name, k##name, {code, bits, lanes}, own_name};
    ANYOP_DTYPE_LIST(ANYOP_MINDSPORE_ROW)
#undef ANYOP_MINDSPORE_ROW
  }
};
inline constexpr DTypeTable kTable;
inline constexpr const DTypeRow (&kDTypes)[kRowCount] = kTable.rows;

inline const DTypeRow* FindDType(DLDataType dtype) {
  for (const DTypeRow& row : kDTypes) {
    if (row.dtype.code == dtype.code && row.dtype.bits == dtype.bits &&
        row.dtype.lanes == dtype.lanes)
      return &row;
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
