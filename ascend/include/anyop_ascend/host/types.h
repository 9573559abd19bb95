// SPDX-License-Identifier: Apache-2.0
// Element types, formats and shapes as tiling functions (op_host files) name them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace ge {

using graphStatus = std::uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0;
constexpr graphStatus GRAPH_FAILED = 0xFFFFFFFF;
constexpr graphStatus GRAPH_PARAM_INVALID = 50331649;

enum DataType : int {
  DT_FLOAT = 0,
  DT_FLOAT16 = 1,
  DT_INT8 = 2,
  DT_INT32 = 3,
  DT_UINT8 = 4,
  DT_INT16 = 6,
  DT_UINT16 = 7,
  DT_UINT32 = 8,
  DT_INT64 = 9,
  DT_UINT64 = 10,
  DT_DOUBLE = 11,
  DT_BOOL = 12,
  DT_STRING = 13,
  DT_COMPLEX64 = 16,
  DT_COMPLEX128 = 17,
  DT_BF16 = 27,
  DT_UNDEFINED = 28
};
inline const char* NameOf(DataType type) {
#define ANYOP_ASCEND_NAME(name) \
  case name:                    \
    return #name;
  switch (type) {
    ANYOP_ASCEND_NAME(DT_FLOAT)
    ANYOP_ASCEND_NAME(DT_FLOAT16)
    ANYOP_ASCEND_NAME(DT_INT8)
    ANYOP_ASCEND_NAME(DT_INT32)
    ANYOP_ASCEND_NAME(DT_UINT8)
    ANYOP_ASCEND_NAME(DT_INT16)
    ANYOP_ASCEND_NAME(DT_UINT16)
    ANYOP_ASCEND_NAME(DT_UINT32)
    ANYOP_ASCEND_NAME(DT_INT64)
    ANYOP_ASCEND_NAME(DT_UINT64)
    ANYOP_ASCEND_NAME(DT_DOUBLE)
    ANYOP_ASCEND_NAME(DT_BOOL)
    ANYOP_ASCEND_NAME(DT_STRING)
    ANYOP_ASCEND_NAME(DT_COMPLEX64)
    ANYOP_ASCEND_NAME(DT_COMPLEX128)
    ANYOP_ASCEND_NAME(DT_BF16)
    default:
      return "DT_UNDEFINED";
  }
#undef ANYOP_ASCEND_NAME
}
inline int GetSizeByDataType(DataType type) {
  switch (type) {
    case DT_INT8:
    case DT_UINT8:
    case DT_BOOL:
      return 1;
    case DT_FLOAT16:
    case DT_BF16:
    case DT_INT16:
    case DT_UINT16:
      return 2;
    case DT_FLOAT:
    case DT_INT32:
    case DT_UINT32:
      return 4;
    case DT_DOUBLE:
    case DT_INT64:
    case DT_UINT64:
    case DT_COMPLEX64:
      return 8;
    case DT_COMPLEX128:
      return 16;
    default:
      return -1;
  }
}

enum Format : int {
  FORMAT_NCHW = 0,
  FORMAT_NHWC = 1,
  FORMAT_ND = 2,
  FORMAT_NC1HWC0 = 3,
  FORMAT_FRACTAL_Z = 4,
  FORMAT_FRACTAL_NZ = 29,
  FORMAT_RESERVED = 40
};

// Of the functions that make tilings of extended instructions.
class Shape {
 public:
  Shape() = default;
  explicit Shape(std::vector<std::int64_t> dims) : dims_(std::move(dims)) {}
  std::size_t GetDimNum() const { return dims_.size(); }
  std::int64_t GetDim(std::size_t i) const { return i < dims_.size() ? dims_[i] : 0; }
  std::vector<std::int64_t> GetDims() const { return dims_; }
  std::int64_t GetShapeSize() const {
    std::int64_t size = 1;
    for (const std::int64_t dim : dims_) size *= dim;
    return size;
  }

 private:
  std::vector<std::int64_t> dims_;
};

}  // namespace ge

namespace gert {

class Shape {
 public:
  static constexpr std::size_t kMaxDimNum = 25;
  static constexpr std::int64_t kInvalidDimValue = INT64_MIN;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) {
    for (const std::int64_t dim : dims) AppendDim(dim);
  }
  std::size_t GetDimNum() const { return count_; }
  void SetDimNum(std::size_t count) { count_ = count; }
  std::int64_t GetDim(std::size_t i) const { return i < count_ ? dims_[i] : kInvalidDimValue; }
  std::int64_t operator[](std::size_t i) const { return dims_[i]; }
  std::int64_t& operator[](std::size_t i) { return dims_[i]; }
  void SetDim(std::size_t i, std::int64_t dim) {
    if (i < kMaxDimNum) dims_[i] = dim;
  }
  Shape& AppendDim(std::int64_t dim) {
    if (count_ < kMaxDimNum) dims_[count_++] = dim;
    return *this;
  }
  bool IsScalar() const { return !count_; }
  void SetScalar() { count_ = 0; }
  // Elements; 1 of a scalar.
  std::int64_t GetShapeSize() const {
    std::int64_t size = 1;
    for (std::size_t i = 0; i < count_; ++i) size *= dims_[i];
    return size;
  }
  bool operator==(const Shape& other) const {
    if (count_ != other.count_) return false;
    for (std::size_t i = 0; i < count_; ++i)
      if (dims_[i] != other.dims_[i]) return false;
    return true;
  }
  bool operator!=(const Shape& other) const { return !(*this == other); }

 private:
  std::size_t count_ = 0;
  std::int64_t dims_[kMaxDimNum] = {};
};

// The shape in memory and the one of the framework: the same here, where every format is ND.
class StorageShape {
 public:
  StorageShape() = default;
  explicit StorageShape(const Shape& shape) : origin_(shape), storage_(shape) {}
  const Shape& GetOriginShape() const { return origin_; }
  const Shape& GetStorageShape() const { return storage_; }
  Shape& MutableOriginShape() { return origin_; }
  Shape& MutableStorageShape() { return storage_; }

 private:
  Shape origin_;
  Shape storage_;
};

}  // namespace gert
