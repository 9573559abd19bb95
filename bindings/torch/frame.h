// SPDX-License-Identifier: Apache-2.0
// torch's arguments as the frame of a call. Nothing is copied but lists of numbers.
#pragma once
#include <memory>
#include <vector>

#include "anyop/value.h"
#include "operator.h"

namespace anyop::torch_host {

// Says why no kernel of `op` can read a tensor.
[[noreturn]] void RefuseTensor(const std::string& op, const std::string& name, const at::Tensor& t);
// A tensor as kernels see it; sizes and strides stay torch's. False where no kernel can read it.
bool ViewTensor(const at::Tensor& t, bool is_written, DLTensor& view);

class Frame {
 public:
  explicit Frame(const TorchOperator& op) : op_(op) {}
  anyop_value* values() { return values_; }

  // The parameters, from op.n_params arguments. `writes_first`: the first one is written too.
  void FillParams(const c10::IValue* arguments, bool writes_first);
  // A result that the caller gives.
  void SetResult(int r, const at::Tensor& t) {
    if (!SetTensor(op_.n_params + r, t, true)) RefuseTensor(op_.name, op_.out_name(r), t);
  }
  // A result that was allocated as the plan says; the plan outlives the frame.
  void SetFresh(int r, const at::Tensor& t, const ResultShape& shape, DLDevice device) {
    const int i = op_.n_params + r;
    void* data = t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()->mutable_data();
    FillTensor(&tensors_[i], data, device, ToDL(shape.dtype), shape.rank, shape.shape);
    values_[i] = TensorValue(&tensors_[i]);
  }
  void SetResultToParam(int r, int param) { values_[op_.n_params + r] = values_[param]; }
  void SetNone(int i) { values_[i] = anyop_value{}; }

 private:
  // False for a tensor that no kernel can read.
  bool SetTensor(int i, const at::Tensor& t, bool is_written);
  void SetTensors(int i, const c10::IValue& list);
  void SetNumbers(int i, const c10::IValue& list);
  void SetWord(int i, const c10::IValue& word);
  void SetOther(int i, const c10::IValue& value);
  template <class T>
  T* Array(std::size_t n) {
    heap_.push_back(std::make_unique<char[]>(n * sizeof(T)));
    return reinterpret_cast<T*>(heap_.back().get());
  }

  const TorchOperator& op_;
  anyop_value values_[kMaxParams + kMaxResults];
  DLTensor tensors_[kMaxParams + kMaxResults];
  std::vector<std::unique_ptr<char[]>> heap_;
};

// anyop's dtype of a torch tensor; -1 for what anyop does not have.
int DTypeOf(at::ScalarType type);
at::ScalarType ToTorch(DType dtype);

}  // namespace anyop::torch_host
