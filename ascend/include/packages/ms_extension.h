// SPDX-License-Identifier: Apache-2.0
// MindSpore's first C++ interface for custom operators, by the names of its public guide: tensors
// are BaseTensorPtr, and work is handed to a task. Tasks run at once here.
#pragma once
#pragma GCC system_header  // packages define macros of these names themselves
#include "ms_extension/api.h"

namespace mindspore {

using anyop_packages::TypeId;
using ShapeVector = std::vector<int64_t>;
struct Int64Imm {
  explicit Int64Imm(int64_t number) : value_(number) {}
  int64_t value() const { return value_; }

 private:
  int64_t value_;
};
using Int64ImmPtr = std::shared_ptr<Int64Imm>;

namespace device {

class DeviceAddress {
 public:
  explicit DeviceAddress(anyop_packages::ArrayPtr array) : array_(std::move(array)) {}
  // Nothing says which tensors a kernel writes to, so none may be read-only.
  void* GetMutablePtr() const { return array_->WriteableAddress(); }
  const void* GetPtr() const { return array_->Address(); }
  size_t GetSize() const { return array_->count() * size_t(array_->type().bytes); }

 private:
  anyop_packages::ArrayPtr array_;
};
using DeviceAddressPtr = std::shared_ptr<DeviceAddress>;

struct DeviceResManager {
  void* GetStream(size_t) const { return nullptr; }  // kernels run at once
};
struct DeviceContext {
  std::unique_ptr<DeviceResManager> device_res_manager_ = std::make_unique<DeviceResManager>();
};

}  // namespace device

namespace tensor {

class Tensor {
 public:
  struct Data {
    ssize_t item, count;
    ssize_t itemsize() const { return item; }
    ssize_t size() const { return count; }
    ssize_t nbytes() const { return item * count; }
  };
  explicit Tensor(anyop_packages::ArrayPtr array) : array_(std::move(array)) {}
  Tensor(TypeId type, const ShapeVector& shape)
      : Tensor(std::make_shared<anyop_packages::Array>(anyop_packages::TypeOf(type), shape)) {}

  TypeId data_type() const { return array_->type().id; }
  const ShapeVector& shape() const { return array_->sizes(); }
  ShapeVector stride() const { return array_->AskStrides(); }
  size_t storage_offset() const { return 0; }  // the address is the first element's
  bool is_contiguous() const {
    array_->AskStrides();
    return array_->is_contiguous();
  }
  size_t DataSize() const { return array_->count(); }
  Data data() const { return {array_->type().bytes, ssize_t(array_->count())}; }
  void* data_c() const { return array_->WriteableAddress(); }
  device::DeviceAddressPtr device_address() const {
    return std::make_shared<device::DeviceAddress>(array_);
  }
  Tensor& AssignValue(const Tensor& from) {
    array_->Assign(*from.array_);
    return *this;
  }
  const anyop_packages::ArrayPtr& array() const { return array_; }

 private:
  anyop_packages::ArrayPtr array_;
};
using BaseTensor = Tensor;
using TensorPtr = std::shared_ptr<Tensor>;
using BaseTensorPtr = TensorPtr;

}  // namespace tensor

namespace runtime {

struct OpRunner {
  static const device::DeviceContext* GetDeviceContext(const std::string&) {
    static const device::DeviceContext context;
    return &context;
  }
};
struct OpExecutor {
  static void DispatchLaunchTask(const std::function<void()>& task) { task(); }
};
class PyBoostDeviceTask {
 public:
  explicit PyBoostDeviceTask(std::function<void()> run) : run_(std::move(run)) {}
  void Run() const { run_(); }

 private:
  std::function<void()> run_;
};

}  // namespace runtime

namespace kernel::pyboost {

struct PyBoostUtils {
  static size_t cur_stream_id() { return 0; }
  static void DispatchRun(const std::shared_ptr<runtime::PyBoostDeviceTask>& task) { task->Run(); }
  // Memory is the host's, and is there.
  template <class... A>
  static void PrepareOpInputs(const device::DeviceContext*, size_t, const A&...) {}
  template <class... A>
  static void PrepareOpOutputs(const device::DeviceContext*, size_t, const A&...) {}
  template <class... A>
  static void MallocOpInputs(const device::DeviceContext*, const A&...) {}
  template <class... A>
  static void MallocOpOutputs(const device::DeviceContext*, const A&...) {}
};

inline tensor::BaseTensorPtr cast(const tensor::BaseTensorPtr& from, const Int64ImmPtr& type) {
  const ms::Tensor made = ms::Tensor(from->array()).cast(TypeId(type->value()));
  return std::make_shared<tensor::Tensor>(made.array());
}

}  // namespace kernel::pyboost
}  // namespace mindspore

using BaseTensorPtr = mindspore::tensor::BaseTensorPtr;  // as the guide's text has it

namespace pybind11::detail {

template <>
struct type_caster<mindspore::tensor::BaseTensorPtr> {
  PYBIND11_TYPE_CASTER(mindspore::tensor::BaseTensorPtr, const_name("Tensor"));
  bool load(handle from, bool) {
    if (auto array = anyop_packages::Array::From(from)) {
      value = std::make_shared<mindspore::tensor::Tensor>(std::move(array));
    }
    return value != nullptr;
  }
  static handle cast(const mindspore::tensor::BaseTensorPtr& tensor, return_value_policy, handle) {
    return (tensor ? tensor->array()->ToPython() : none()).release();
  }
};

}  // namespace pybind11::detail
