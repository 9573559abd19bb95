// SPDX-License-Identifier: Apache-2.0
#include "call.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/plan/calling_host.h"
#include "runtime/run/call.h"

namespace anyop::vllm_host {

const TorchOperator& Ours(const char* name) {
  static std::mutex mutex;
  // Never destroyed: calls may come while the process ends.
  static auto& operators = *new std::map<std::string, std::unique_ptr<TorchOperator>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<TorchOperator>& found = operators[name];
  if (!found) found = std::make_unique<TorchOperator>(*Find(name));
  return *found;
}

void Refuse(const char* op, const std::string& text) {
  torch_host::RaiseTorchError(ANYOP_INVALID_ARGUMENT, std::string("_C.") + op + ": " + text);
}
void RefuseKernel(const char* op, const std::string& text) {
  torch_host::RaiseTorchError(ANYOP_UNSUPPORTED, std::string("_C.") + op + ": " + text);
}

Lent::Lent(const char* op, const char* name, const at::Tensor& t, bool is_written)
    : op_(op), name_(name) {
  if (!torch_host::ViewTensor(t, is_written, view_)) {
    torch_host::RefuseTensor(std::string("_C.") + op, name, t);
  }
  const auto sizes = t.sizes(), strides = t.strides();
  std::copy(sizes.begin(), sizes.end(), shape_);
  std::copy(strides.begin(), strides.end(), strides_);
  view_.shape = shape_;
  view_.strides = strides_;
}

// By hand, because the view points to this object's own sizes and strides.
Lent& Lent::operator=(const Lent& other) {
  op_ = other.op_;
  name_ = other.name_;
  view_ = other.view_;
  std::copy_n(other.shape_, kMaxRank, shape_);
  std::copy_n(other.strides_, kMaxRank, strides_);
  view_.shape = shape_;
  view_.strides = strides_;
  return *this;
}

const Lent& Lent::MustHaveRank(int wanted, const char* what) const {
  if (rank() != wanted) {
    Refuse(op_, std::string(name_) + " has " + std::to_string(rank()) +
                    " dimensions, but must be " + what + ".");
  }
  return *this;
}

Lent& Lent::Swap(int a, int b) {
  std::swap(shape_[a], shape_[b]);
  std::swap(strides_[a], strides_[b]);
  return *this;
}

Lent& Lent::Slice(int dim, std::int64_t begin, std::int64_t size) {
  const std::int64_t width = Bytes(view_.dtype);
  view_.data = static_cast<char*>(view_.data) + begin * strides_[dim] * width;
  shape_[dim] = size;
  return *this;
}

Lent& Lent::As(DType dtype) {
  view_.dtype = ToDL(dtype);
  return *this;
}

Lent& Lent::Insert(int dim, std::int64_t size, std::int64_t stride) {
  std::copy_backward(shape_ + dim, shape_ + rank(), shape_ + rank() + 1);
  std::copy_backward(strides_ + dim, strides_ + rank(), strides_ + rank() + 1);
  shape_[dim] = size;
  strides_[dim] = stride;
  ++view_.ndim;
  return *this;
}

Lent& Lent::Split(int dim, std::int64_t inner) {
  if (inner < 1 || shape_[dim] % inner || rank() == kMaxRank) {
    Refuse(op_, std::string(name_) + " has " + std::to_string(shape_[dim]) +
                    " elements in dimension " + std::to_string(dim) +
                    ", but must have a multiple of " + std::to_string(inner) +
                    ", which is the size of a head.");
  }
  Insert(dim, shape_[dim] / inner, strides_[dim] * inner);
  shape_[dim + 1] = inner;
  return *this;
}

// A dimension of size 1 fits with any stride.
bool Lent::MergeFirst(int n) {
  std::int64_t size = 1, stride = 0;
  for (int i = n - 1; i >= 0; --i) {
    if (shape_[i] != 1) {
      if (size != 1 && strides_[i] != stride * size) return false;
      if (size == 1) stride = strides_[i];
    }
    size *= shape_[i];
  }
  if (n == 0) {
    Insert(0, 1, 0);
    return true;
  }
  std::copy(shape_ + n, shape_ + rank(), shape_ + 1);
  std::copy(strides_ + n, strides_ + rank(), strides_ + 1);
  shape_[0] = size;
  strides_[0] = stride;
  view_.ndim -= n - 1;
  return true;
}

Lent& Lent::Select(std::int64_t index) {
  Slice(0, index, 1);
  std::copy(shape_ + 1, shape_ + rank(), shape_);
  std::copy(strides_ + 1, strides_ + rank(), strides_);
  --view_.ndim;
  return *this;
}

OpCall& OpCall::Add(const at::Tensor& t, bool is_written) {
  if (!torch_host::ViewTensor(t, is_written, tensors_[n_])) {
    const std::string_view name =
        n_ < op_.n_params ? op_.param(n_).name : op_.result(n_ - op_.n_params).name;
    torch_host::RefuseTensor(op_.name, std::string(name), t);
  }
  return Tensor(&tensors_[n_]);
}

OpCall& OpCall::Tensor(const DLTensor* t) {
  values_[n_++] = TensorValue(t);
  return *this;
}

OpCall& OpCall::Int(std::int64_t i) {
  values_[n_++] = IntValue(i);
  return *this;
}

OpCall& OpCall::Float(double f) {
  values_[n_++] = FloatValue(f);
  return *this;
}

OpCall& OpCall::Bool(bool b) {
  values_[n_++] = BoolValue(b);
  return *this;
}

OpCall& OpCall::Word(std::string_view word) {
  const std::vector<std::string>& words = op_.op->contract->words[std::size_t(n_)];
  const auto found = std::ranges::find(words, word);
  TORCH_INTERNAL_ASSERT(found != words.end());
  values_[n_++] = WordValue(*found, int(found - words.begin()));
  return *this;
}

OpCall& OpCall::Type(at::ScalarType type) {
  values_[n_++] = DTypeValue(DType(torch_host::DTypeOf(type)));
  return *this;
}

OpCall& OpCall::Run() {
  TORCH_INTERNAL_ASSERT(n_ == op_.n_params + op_.n_results);
  static const HostName torch = InternHostName("torch");
  try {
    const HeldPlan plan = GetPlan(*op_.op, values_);
    const CallingHost host(torch);
    anyop::Run(*op_.op, *plan, values_);
  } catch (const Error& e) {
    torch_host::RaiseTorchError(e.code, e.what());
  }
  n_ = 0;
  return *this;
}

Numbers::Numbers(float* data, std::int64_t n) : size(n) {
  FillTensor(&view, data, kHostDevice, ToDL(DType::kF32), 1, &size);
}

}  // namespace anyop::vllm_host
