// SPDX-License-Identifier: Apache-2.0
// A call of one of our operators with torch tensors, or with views of them that torch need not
// know:
//
//   static const TorchOperator& op = Ours("rms_norm");
//   OpCall(op).Tensor(x).Tensor(weight).Float(eps).Float(0.0).Written(out).Run();
//
// Arguments come in the order of the signature, then results.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "anyop/value.h"
#include "bindings/torch/frame.h"
#include "bindings/torch/operator.h"

namespace anyop::vllm_host {

using torch_host::TorchOperator;

// An operator of anyop's own, by its name. The same one each time.
const TorchOperator& Ours(const char* name);

// Raises InvalidArgument as `_C.<op>: <text>`.
[[noreturn]] void Refuse(const char* op, const std::string& text);
// The same as Unsupported.
[[noreturn]] void RefuseKernel(const char* op, const std::string& text);

// A tensor with sizes and strides of its own, over memory that is torch's.
class Lent {
 public:
  // op, name: for the message if nothing can read the tensor.
  Lent(const char* op, const char* name, const at::Tensor& t, bool is_written = false);
  Lent(const Lent& other) { *this = other; }
  Lent& operator=(const Lent& other);

  const DLTensor* get() const { return &view_; }
  int rank() const { return view_.ndim; }
  std::int64_t size(int dim) const { return shape_[dim]; }
  std::int64_t stride(int dim) const { return strides_[dim]; }
  // Raises if the rank is another. what: what the dimensions are, "[blocks, heads, ...]".
  const Lent& MustHaveRank(int rank, const char* what) const;

  Lent& Swap(int a, int b);
  Lent& Slice(int dim, std::int64_t begin, std::int64_t size);
  // The same elements of another meaning; both are as wide.
  Lent& As(DType dtype);
  // The same sizes over other memory.
  Lent& Point(void* data) {
    view_.data = data;
    return *this;
  }
  // Dimension `dim` as two: [..., size(dim) / inner, inner, ...].
  Lent& Split(int dim, std::int64_t inner);
  // Dimensions 0 to n - 1 as one. False, and nothing done, where no stride steps through them all.
  bool MergeFirst(int n);
  // Element `index` of the first dimension, which goes away.
  Lent& Select(std::int64_t index);

 private:
  Lent& Insert(int dim, std::int64_t size, std::int64_t stride);
  const char* op_;
  const char* name_;
  DLTensor view_;
  std::int64_t shape_[kMaxRank], strides_[kMaxRank];
};

class OpCall {
 public:
  explicit OpCall(const TorchOperator& op) : op_(op) {}
  OpCall(const OpCall&) = delete;

  OpCall& Tensor(const at::Tensor& t) { return Add(t, false); }
  OpCall& Written(const at::Tensor& t) { return Add(t, true); }
  OpCall& Optional(const c10::IValue& t) { return t.isNone() ? None() : Tensor(t.toTensor()); }
  OpCall& Optional(const at::Tensor& t) { return t.defined() ? Tensor(t) : None(); }
  // `t` outlives the call.
  OpCall& Tensor(const Lent& t) { return Tensor(t.get()); }
  OpCall& Tensor(const DLTensor* t);
  OpCall& None() {
    values_[n_++] = anyop_value{};
    return *this;
  }
  OpCall& Int(std::int64_t i);
  OpCall& Float(double f);
  OpCall& Bool(bool b);
  OpCall& Word(std::string_view word);
  OpCall& Type(at::ScalarType type);
  OpCall& Run();

 private:
  OpCall& Add(const at::Tensor& t, bool is_written);

  const TorchOperator& op_;
  int n_ = 0;
  anyop_value values_[kMaxParams + kMaxResults];
  DLTensor tensors_[kMaxParams + kMaxResults];
};

// A row of f32 numbers in memory of the call's own.
struct Numbers {
  Numbers(float* data, std::int64_t n);
  Numbers(const Numbers&) = delete;
  std::int64_t size;
  DLTensor view;
};

}  // namespace anyop::vllm_host
