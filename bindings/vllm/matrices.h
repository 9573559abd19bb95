// SPDX-License-Identifier: Apache-2.0
// Weights of dense layers behind the handles that vLLM holds, floats and bytes in one table.
#pragma once
#include <memory>
#include <shared_mutex>
#include <unordered_map>

#include "rows.h"

namespace anyop::vllm_host {

// A linear layer's weight as our kernels read it, for as long as vLLM holds the handle.
struct Matrix {
  at::Tensor packed;
  std::int64_t rows, columns;  // of the weight: features, then inputs
  // Of bytes: f32 [rows], and where inputs have zero points i32 [rows].
  at::Tensor scale = {}, sums = {};
  bool is_bytes() const { return scale.defined(); }
};

// Handles are numbers that are never given twice, so that one that was released is known as such.
class Matrices {
 public:
  std::int64_t Add(Matrix matrix);
  // handle: one number of Long. Raises unless it is held, for a matrix of the kind.
  std::shared_ptr<const Matrix> Get(const char* op, const at::Tensor& handle, bool is_bytes);
  // A call that runs holds its matrix, which goes when the call has ended.
  void Release(const char* op, std::int64_t handle);

 private:
  [[noreturn]] void RefuseHandle(const char* op, std::int64_t handle, bool is_bytes) const;
  std::shared_mutex mutex_;
  std::unordered_map<std::int64_t, std::shared_ptr<const Matrix>> matrices_;
  std::int64_t last_ = 0;
};

Matrices& TheMatrices();

// c = x * matrix, as vLLM passes them: any leading dimensions as one.
struct MatrixOperands {
  MatrixOperands(const char* op, const Matrix& matrix, const at::Tensor& c, const at::Tensor& a);
  Lent c, x;
};

}  // namespace anyop::vllm_host
