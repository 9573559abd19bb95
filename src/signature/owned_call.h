// SPDX-License-Identifier: Apache-2.0
// A call that owns its shapes and values, but no data: for tests, generated calls and `explain`.
#pragma once
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "anyop/value.h"
#include "signature/contract.h"

namespace anyop {

using Shape = std::vector<std::int64_t>;  // an unknown size is -1
// A shape with a size that no tensor has.
inline Shape UnknownRank() { return {INT64_MIN}; }

class OwnedCall {
 public:
  // Optional arguments absent, defaults filled in, results to be allocated. Tensors lie on the
  // device, but for planned ones, which are the host's.
  explicit OwnedCall(const Contract& contract, DLDevice device = kHostDevice);

  // The parameters, then the results. Tensors have a null data pointer and no strides.
  const anyop_value* frame() const { return frame_.data(); }
  anyop_value* frame() { return frame_.data(); }
  const anyop_value& operator[](int i) const { return frame_[std::size_t(i)]; }
  anyop_value& operator[](int i) { return frame_[std::size_t(i)]; }

  // i: a parameter, or n_params() + a result.
  void Clear(int i) { frame_[std::size_t(i)] = anyop_value{}; }
  void SetTensor(int i, DType dtype, Shape shape);
  void SetTensors(int i, DType dtype, const std::vector<Shape>& shapes);
  void SetTensors(int i, const std::vector<std::pair<DType, Shape>>& types);
  void SetInt(int i, std::int64_t value);
  void SetFloat(int i, double value);
  void SetBool(int i, bool value);
  void SetWord(int i, std::string_view word);  // unknown words get a number that no form takes
  void SetDType(int i, DType value);
  void SetInts(int i, std::vector<std::int64_t> values);
  void SetFloats(int i, std::vector<double> values);
  void SetDefault(int i);  // the value of an omitted argument; None where there is no default

  // "x = bf16[2, 8], weight = None, eps = 1e-06": the arguments that were given.
  std::string Text() const;

 private:
  const DLTensor* NewTensor(int i, DType dtype, Shape shape);

  const Contract* contract_;
  DLDevice device_;
  std::vector<anyop_value> frame_;
  // Deques, because the frame points into them, and they move nothing as they grow.
  std::deque<Shape> shapes_;
  std::deque<DLTensor> tensors_;
  std::deque<std::vector<const DLTensor*>> lists_;
  std::deque<std::vector<std::int64_t>> ints_;
  std::deque<std::vector<double>> floats_;
  std::deque<std::string> words_;
};

// "x = bf16[2, 4096], eps = 1e-5, style = 'neox', stride = [1, 1], caches = [f32[2, 3]]": arguments
// by name (results too), "?" for an unknown size, "f32[...]" for an unknown rank. Throws Error
// (InvalidArgument).
OwnedCall ParseCall(const Contract& contract, std::string_view text, DLDevice device = kHostDevice);

}  // namespace anyop
