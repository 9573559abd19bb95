// SPDX-License-Identifier: Apache-2.0
#include "matrices.h"

#include <mutex>

namespace anyop::vllm_host {
namespace {

const char* MakerOf(bool is_bytes) {
  return is_bytes ? "create_onednn_scaled_mm_handler" : "create_onednn_mm_handler";
}

}  // namespace

std::int64_t Matrices::Add(Matrix matrix) {
  const std::unique_lock lock(mutex_);
  matrices_.emplace(++last_, std::make_shared<const Matrix>(std::move(matrix)));
  return last_;
}

std::shared_ptr<const Matrix> Matrices::Get(const char* op, const at::Tensor& tensor,
                                            bool is_bytes) {
  if (tensor.scalar_type() != at::kLong || tensor.numel() != 1) {
    Refuse(op, std::string("handler_tensor must be one number of Long, which ") +
                   MakerOf(is_bytes) + " gave.");
  }
  const std::int64_t handle = *tensor.const_data_ptr<std::int64_t>();
  const std::shared_lock lock(mutex_);
  const auto found = matrices_.find(handle);
  if (found == matrices_.end()) RefuseHandle(op, handle, is_bytes);
  if (found->second->is_bytes() != is_bytes) {
    Refuse(op, "the handle is " + std::to_string(handle) + ", but that is a matrix of " +
                   MakerOf(!is_bytes) + ". Try one of " + MakerOf(is_bytes) + ".");
  }
  return found->second;
}

void Matrices::Release(const char* op, std::int64_t handle) {
  const std::unique_lock lock(mutex_);
  if (!matrices_.erase(handle)) RefuseHandle(op, handle, false);
}

void Matrices::RefuseHandle(const char* op, std::int64_t handle, bool is_bytes) const {
  const bool was_there = handle >= 1 && handle <= last_;
  Refuse(op, "the handle is " + std::to_string(handle) + ", but " +
                 (was_there ? "that one was released." : "no matrix has that one.") +
                 " Try one of " + MakerOf(is_bytes) + " that is still held.");
}

Matrices& TheMatrices() {
  static auto& matrices = *new Matrices;  // released by Python, which ends last
  return matrices;
}

MatrixOperands::MatrixOperands(const char* op, const Matrix& matrix, const at::Tensor& to,
                               const at::Tensor& a)
    : c(op, "c", to, true), x(op, "a", a) {
  if (x.rank() < 1 || x.size(x.rank() - 1) != matrix.columns) {
    Refuse(op, "a has rows of " + std::to_string(x.rank() ? x.size(x.rank() - 1) : 1) +
                   " elements, but the matrix behind the handle takes " +
                   std::to_string(matrix.columns) + ".");
  }
  if (c.rank() < 1 || !c.MergeFirst(c.rank() - 1) || !x.MergeFirst(x.rank() - 1)) {
    Refuse(op, "a or c is a view whose rows are no single dimension. Try contiguous().");
  }
}

}  // namespace anyop::vllm_host
