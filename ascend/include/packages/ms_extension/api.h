// SPDX-License-Identifier: Apache-2.0
// MindSpore's C++ interface for custom operators (CustomOpBuilder), by the names of its public
// documentation, on NumPy arrays and on MindSpore's tensors on the CPU. It needs no MindSpore.
#pragma once
#pragma GCC system_header  // packages define macros of these names themselves
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <type_traits>

#include "anyop_packages/array.h"

#ifndef MS_EXTENSION_NAME
#define MS_EXTENSION_NAME ms_extension
#endif
// The Python module of this name; packages that register their functions elsewhere redefine it.
#define MS_EXTENSION_MODULE(name) PYBIND11_MODULE(name, m)
// m.def("f", PYBOOST_CALLER(1, f)): f with so many results, as a function for Python.
#define PYBOOST_CALLER(results, ...)                                   \
  [](auto&&... arguments) {                                            \
    return ::ms::pynative::PyboostRunner::Call<results>(               \
        __VA_ARGS__, std::forward<decltype(arguments)>(arguments)...); \
  }

namespace ms {

namespace py = pybind11;
using anyop_packages::TypeId;
using ShapeVector = std::vector<int64_t>;

class Tensor {
 public:
  Tensor() = default;
  Tensor(TypeId type, const ShapeVector& shape)
      : array_(std::make_shared<anyop_packages::Array>(anyop_packages::TypeOf(type), shape)) {}
  explicit Tensor(anyop_packages::ArrayPtr array) : array_(std::move(array)) {}

  bool is_defined() const { return array_ != nullptr; }
  TypeId data_type() const { return Get().type().id; }
  const ShapeVector& shape() const { return Get().sizes(); }
  size_t numel() const { return Get().count(); }
  std::vector<int64_t> stride() const { return Get().AskStrides(); }
  int64_t storage_offset() const { return 0; }  // GetDataPtr is the first element's
  bool is_contiguous() const {
    Get().AskStrides();
    return Get().is_contiguous();
  }
  void SetNeedContiguous(bool) const {}
  bool need_contiguous() const { return true; }
  std::string format() const { return "DefaultFormat"; }
  void set_format(const std::string&) const {}

  void* GetDataPtr() const { return array_ ? Get().Address() : nullptr; }
  template <class T>
  T* data_ptr() const {
    return static_cast<T*>(GetDataPtr());
  }

  Tensor cast(TypeId type) const {
    const auto& to = anyop_packages::TypeOf(type);
    return Tensor(
        anyop_packages::Array::Made(to, NumPy().attr("astype")(anyop_packages::DTypeOf(to))));
  }
  Tensor contiguous() const { return is_contiguous() ? *this : Of("ascontiguousarray"); }
  Tensor reshape(const std::vector<int64_t>& shape) const { return Of("reshape", shape); }
  Tensor flatten(int64_t start = 0, int64_t end = -1) const {
    const int64_t n = int64_t(shape().size());
    start = start < 0 ? start + n : start;
    end = end < 0 ? end + n : end;
    ShapeVector sizes(shape().begin(), shape().begin() + start);
    int64_t together = 1;
    for (int64_t i = start; i <= end && i < n; ++i) together *= shape()[size_t(i)];
    sizes.push_back(together);
    if (end + 1 < n) sizes.insert(sizes.end(), shape().begin() + end + 1, shape().end());
    return reshape(sizes);
  }
  Tensor index_select(int64_t dim, const Tensor& index) const {
    return Of("take", index.NumPy(), dim);
  }
  Tensor repeat(const std::vector<int64_t>& repeats) const { return Of("tile", repeats); }
  Tensor repeat_interleave(int64_t repeats, const std::optional<int64_t>& dim = std::nullopt,
                           const std::optional<int64_t>& = std::nullopt) const {
    return Of("repeat", repeats, dim);
  }
  Tensor repeat_interleave(const Tensor& repeats, const std::optional<int64_t>& dim = std::nullopt,
                           const std::optional<int64_t>& = std::nullopt) const {
    return Of("repeat", repeats.NumPy(), dim);
  }
  std::vector<Tensor> chunk(int64_t chunks, int64_t dim = 0) const {
    dim = dim < 0 ? dim + int64_t(shape().size()) : dim;
    const int64_t size = shape().at(size_t(dim)), step = (size + chunks - 1) / chunks;
    std::vector<Tensor> parts;
    for (int64_t i = 0; i < size; i += step) {
      py::list at;
      for (int64_t d = 0; d < dim; ++d) at.append(py::slice(0, shape()[size_t(d)], 1));
      at.append(py::slice(i, std::min(i + step, size), 1));
      parts.push_back(Made(NumPy().attr("__getitem__")(py::tuple(at))));
    }
    return parts;
  }
  void AssignTensor(const Tensor& from) const { Get().Assign(from.Get()); }

  // Not MindSpore's: what runners and converters use.
  const anyop_packages::ArrayPtr& array() const { return array_; }

 private:
  anyop_packages::Array& Get() const {
    if (!array_) throw py::value_error("A tensor that is not defined was used. Try is_defined().");
    return *array_;
  }
  py::object NumPy() const { return Get().AsNumPy(); }
  Tensor Made(const py::object& array) const {
    return Tensor(anyop_packages::Array::Made(Get().type(), array));
  }
  template <class... A>
  Tensor Of(const char* function, const A&... arguments) const {
    return Made(py::module_::import("numpy").attr(function)(NumPy(), arguments...));
  }

  anyop_packages::ArrayPtr array_;
};

inline Tensor Filled(const char* function, const ShapeVector& shape, TypeId type) {
  const auto& to = anyop_packages::TypeOf(type);
  const py::object numpy = py::module_::import("numpy");
  return Tensor(
      anyop_packages::Array::Made(to, numpy.attr(function)(shape, anyop_packages::DTypeOf(to))));
}
inline Tensor ones(const ShapeVector& shape, TypeId type = TypeId::kNumberTypeFloat32) {
  return Filled("ones", shape, type);
}
inline Tensor zeros(const ShapeVector& shape, TypeId type = TypeId::kNumberTypeFloat32) {
  return Filled("zeros", shape, type);
}
template <class T>
Tensor tensor(const std::vector<T>& values, TypeId type) {
  const auto& to = anyop_packages::TypeOf(type);
  const py::object numpy = py::module_::import("numpy");
  return Tensor(
      anyop_packages::Array::Made(to, numpy.attr("array")(values, anyop_packages::DTypeOf(to))));
}
inline Tensor tensor(double value, TypeId type = TypeId::kNumberTypeFloat32) {
  return tensor(std::vector<double>{value}, type).reshape({});
}

namespace pynative {

class PyboostRunner : public std::enable_shared_from_this<PyboostRunner> {
 public:
  explicit PyboostRunner(const std::string& op_name) : op_name_(op_name) {}
  virtual ~PyboostRunner() = default;
  virtual size_t CalcWorkspace() { return 0; }
  virtual void LaunchKernel() = 0;

  void Run(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
    inputs_ = inputs;
    outputs_ = outputs;
    for (const Tensor& output : outputs) {
      if (output.is_defined()) output.array()->WriteableAddress();  // raises where it is read-only
    }
    workspace_.resize((CalcWorkspace() + 63) / 64);
    const Lent lent(workspace_ptr(), 64 * workspace_.size());
    LaunchKernel();
  }
  // 0 results: None; 1: the tensor; more: a tuple.
  template <int results, class F, class... A>
  static py::object Call(F&& function, A&&... arguments) {
    using Returned = std::invoke_result_t<F, A...>;
    if constexpr (std::is_void_v<Returned>) {
      std::invoke(std::forward<F>(function), std::forward<A>(arguments)...);
      return py::none();
    } else {
      return ToPython<results>(
          std::invoke(std::forward<F>(function), std::forward<A>(arguments)...));
    }
  }

  const std::string& op_name() const { return op_name_; }
  const std::vector<Tensor>& inputs() const { return inputs_; }
  const std::vector<Tensor>& outputs() const { return outputs_; }
  void* workspace_ptr() { return workspace_.empty() ? nullptr : workspace_.data(); }
  size_t stream_id() const { return 0; }
  void* stream() { return nullptr; }  // kernels run at once

 private:
  struct alignas(64) Line {
    unsigned char bytes[64];
  };
  struct Lent {  // the workspace, for kernels that check themselves
    Lent(const void* data, size_t bytes) : data(anyop_ascend_lend ? data : nullptr) {
      if (!this->data) return;
      anyop_ascend_lend(data, bytes, "workspace", ANYOP_ASCEND_READ | ANYOP_ASCEND_WRITE);
    }
    ~Lent() {
      if (data) anyop_ascend_take_back(data);
    }
    const void* data;
  };

  template <int results>
  static py::object ToPython(const Tensor& tensor) {
    static_assert(results == 1, "the function returns one tensor");
    return tensor.is_defined() ? tensor.array()->ToPython() : py::none();
  }
  template <int results>
  static py::object ToPython(const std::vector<Tensor>& tensors) {
    if (tensors.size() != results) {
      throw py::value_error("Call<" + std::to_string(results) + "> got " +
                            std::to_string(tensors.size()) +
                            " tensors from its function, which must be as many.");
    }
    if constexpr (results == 0) {
      return py::none();
    } else if constexpr (results == 1) {
      return ToPython<1>(tensors[0]);
    } else {
      py::tuple all(results);
      for (size_t i = 0; i < results; ++i) all[i] = ToPython<1>(tensors[i]);
      return std::move(all);
    }
  }

  std::string op_name_;
  std::vector<Tensor> inputs_, outputs_;
  std::vector<Line> workspace_;
};

}  // namespace pynative
}  // namespace ms

namespace pybind11::detail {

template <>
struct type_caster<ms::Tensor> {
  PYBIND11_TYPE_CASTER(ms::Tensor, const_name("Tensor"));
  bool load(handle from, bool) {
    value = ms::Tensor(anyop_packages::Array::From(from));
    return value.is_defined();
  }
  static handle cast(const ms::Tensor& tensor, return_value_policy, handle) {
    return (tensor.is_defined() ? tensor.array()->ToPython() : none()).release();
  }
};

}  // namespace pybind11::detail
