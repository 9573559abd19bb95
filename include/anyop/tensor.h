// SPDX-License-Identifier: Apache-2.0
// A DLTensor in C++ clothes: no member added, so a DLTensor* is a Tensor*.
// Kernels may assume: the last dimension has stride 1, CPU memory, the signature's shape and dtype.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "anyop/dtype.h"

namespace anyop {

class TensorShape;

// Where a tensor's first element is, on whatever device.
inline char* BaseOf(const DLTensor& t) { return static_cast<char*>(t.data) + t.byte_offset; }
inline std::uintptr_t AddressOf(const DLTensor& t) {
  return reinterpret_cast<std::uintptr_t>(t.data) + t.byte_offset;
}

// Its members are always_inline, so that no file with a wider instruction set leaves a copy of one.
struct Tensor : DLTensor {
#define ANYOP_MEMBER [[gnu::always_inline]]
  template <class T>
  ANYOP_MEMBER T* base() const {
    return reinterpret_cast<T*>(static_cast<char*>(data) + byte_offset);
  }
  ANYOP_MEMBER DType type() const { return DType(FromDL(dtype)); }
  ANYOP_MEMBER int rank() const { return ndim; }
  // Size of dimension i; negative i counts from the end.
  ANYOP_MEMBER std::int64_t dim(int i) const { return shape[i < 0 ? ndim + i : i]; }
  // Distance in elements between neighbours along dimension i.
  ANYOP_MEMBER std::int64_t stride(int i) const {
    if (i < 0) i += ndim;
    if (strides) return strides[i];
    std::int64_t s = 1;
    for (int k = i + 1; k < ndim; ++k) s *= shape[k];
    return s;
  }
  // Number of elements.
  ANYOP_MEMBER std::int64_t size() const {
    std::int64_t n = 1;
    for (int i = 0; i < ndim; ++i) n *= shape[i];
    return n;
  }
  // Size of the last dimension (1 for a scalar), and the number of such rows.
  ANYOP_MEMBER std::int64_t row_size() const { return ndim ? shape[ndim - 1] : 1; }
  ANYOP_MEMBER std::int64_t rows() const {
    std::int64_t n = 1;
    for (int i = 0; i + 1 < ndim; ++i) n *= shape[i];
    return n;
  }
  // Offset in elements of row r, rows counted in row-major order of the leading dimensions.
  ANYOP_MEMBER std::int64_t row_offset(std::int64_t r) const {
    if (!strides) return r * row_size();
    if (ndim <= 2) return ndim == 2 ? r * strides[0] : 0;
    std::int64_t offset = 0;
    for (int i = ndim - 2; i > 0; --i) {
      offset += r % shape[i] * strides[i];
      r /= shape[i];
    }
    return offset + r * strides[0];
  }
  template <class T>
  ANYOP_MEMBER std::span<T> row(std::int64_t r) const {
    return {base<T>() + row_offset(r), std::size_t(row_size())};
  }
  // The address of the element at the given leading indices.
  template <class T, class... I>
  ANYOP_MEMBER T* at(I... index) const {
    std::int64_t offset = 0;
    int d = 0;
    ((offset += std::int64_t(index) * stride(d++)), ...);
    return base<T>() + offset;
  }
  ANYOP_MEMBER bool is_contiguous() const {
    if (!strides) return true;
    std::int64_t s = 1;
    for (int i = ndim - 1; i >= 0; --i) {
      if (shape[i] != 1 && strides[i] != s) return false;
      s *= shape[i];
    }
    return true;
  }
  ANYOP_MEMBER operator const TensorShape&() const;
#undef ANYOP_MEMBER
};
static_assert(sizeof(Tensor) == sizeof(DLTensor) && std::is_standard_layout_v<Tensor>);

// A tensor without its data: the parameter of an operator's check that does not read the tensor.
// The data of a call on a device then need no copy to the host.
class TensorShape : private DLTensor {
 public:
  DType type() const { return tensor().type(); }
  int rank() const { return tensor().rank(); }
  std::int64_t dim(int i) const { return tensor().dim(i); }
  std::int64_t stride(int i) const { return tensor().stride(i); }
  std::int64_t size() const { return tensor().size(); }
  std::int64_t row_size() const { return tensor().row_size(); }
  std::int64_t rows() const { return tensor().rows(); }
  bool is_contiguous() const { return tensor().is_contiguous(); }

 private:
  const Tensor& tensor() const { return *reinterpret_cast<const Tensor*>(this); }
};
static_assert(sizeof(TensorShape) == sizeof(DLTensor));
inline Tensor::operator const TensorShape&() const {
  return *reinterpret_cast<const TensorShape*>(this);
}

}  // namespace anyop
