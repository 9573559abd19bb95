// SPDX-License-Identifier: Apache-2.0
// Test data: a dtype, a shape, and the bytes, dense and row-major.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <vector>

#include "anyop/tensor.h"
#include "signature/float_format.h"

namespace anyop::optest {

class Array {
 public:
  Array() = default;
  // Zeros.
  Array(DType dtype, std::vector<std::int64_t> shape);
  // The values in row-major order, rounded to the dtype; one value fills the whole array.
  Array(DType dtype, std::vector<std::int64_t> shape, std::initializer_list<double> values);

  DType dtype() const { return dtype_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t dim(int i) const { return shape_[std::size_t(i < 0 ? i + int(shape_.size()) : i)]; }
  std::int64_t size() const { return size_; }
  // Of all dimensions but the last; 1 for rank 0 and 1.
  std::int64_t rows() const;

  // Element i in row-major order; Set rounds once, half to even.
  double Get(std::int64_t i) const;
  void Set(std::int64_t i, double value);
  double Get(const std::vector<std::int64_t>& index) const { return Get(Offset(index)); }
  void Set(const std::vector<std::int64_t>& index, double value) { Set(Offset(index), value); }
  std::int64_t GetInt(std::int64_t i) const;  // exact beyond 2^53
  void SetInt(std::int64_t i, std::int64_t value);
  std::int64_t Offset(const std::vector<std::int64_t>& index) const;
  // Makes all slices along a dimension like the first one.
  void Repeat(int dim);
  // "[2, 0, 7]" for element i.
  std::string IndexText(std::int64_t i) const;

  template <class T>
  T* data() {
    return reinterpret_cast<T*>(bytes_.data());
  }
  template <class T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes_.data());
  }
  std::int64_t bytes() const { return std::int64_t(bytes_.size()); }
  // A tensor over these bytes, valid while the array lives and keeps its shape.
  DLTensor View();

  // "bf16[2, 4096]"
  std::string Text() const;
  // Bit for bit, NaNs included.
  friend bool operator==(const Array&, const Array&) = default;

 private:
  DType dtype_ = DType::kF32;
  std::vector<std::int64_t> shape_;
  std::int64_t size_ = 0;
  std::vector<unsigned char> bytes_;
};

// Of every leading dimension, whether it has several slices, all alike bit for bit.
std::vector<bool> RepeatedDims(const Array& array);

std::ostream& operator<<(std::ostream& out, const Array& array);

// Rounds half to even, once, to a float dtype; integers saturate as casts do.
double RoundTo(DType dtype, double value);
// The largest finite value of a dtype.
double Largest(DType dtype);

}  // namespace anyop::optest
