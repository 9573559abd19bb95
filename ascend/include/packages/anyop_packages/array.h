// SPDX-License-Identifier: Apache-2.0
// A tensor that came from Python, or was made for it: a NumPy array, or a tensor of MindSpore's on
// the CPU. Both interfaces of ms_extension are written over it. Python's lock is held throughout.
#pragma once
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "anyop_ascend/kernel_table.h"

// Packages link the runtime where they have kernels.
#pragma weak anyop_ascend_lend
#pragma weak anyop_ascend_take_back

namespace anyop_packages {

namespace py = pybind11;

// MindSpore's numbers of types, by the names of its documentation.
enum TypeId : int {
  kTypeUnknown = 0,
  kNumberTypeBegin = 29,
  kNumberTypeBool,
  kNumberTypeInt,
  kNumberTypeInt8,
  kNumberTypeInt16,
  kNumberTypeInt32,
  kNumberTypeInt64,
  kNumberTypeUInt,
  kNumberTypeUInt8,
  kNumberTypeUInt16,
  kNumberTypeUInt32,
  kNumberTypeUInt64,
  kNumberTypeFloat,
  kNumberTypeFloat16,
  kNumberTypeFloat32,
  kNumberTypeFloat64,
  kNumberTypeBFloat16,
  kNumberTypeDouble,
  kNumberTypeComplex,
  kNumberTypeComplex64,
  kNumberTypeComplex128,
  kNumberTypeInt4,
  kNumberTypeGLUInt,
  kNumberTypeEnd
};
using Sizes = std::vector<std::int64_t>;

struct Type {
  TypeId id;
  const char* name;  // NumPy's; MindSpore's is the same but for upper case
  int bytes;
};
constexpr Type kTypes[] = {{kNumberTypeBool, "bool", 1},        {kNumberTypeInt8, "int8", 1},
                           {kNumberTypeInt16, "int16", 2},      {kNumberTypeInt32, "int32", 4},
                           {kNumberTypeInt64, "int64", 8},      {kNumberTypeUInt8, "uint8", 1},
                           {kNumberTypeUInt16, "uint16", 2},    {kNumberTypeUInt32, "uint32", 4},
                           {kNumberTypeUInt64, "uint64", 8},    {kNumberTypeFloat16, "float16", 2},
                           {kNumberTypeFloat32, "float32", 4},  {kNumberTypeFloat64, "float64", 8},
                           {kNumberTypeBFloat16, "bfloat16", 2}};

inline const Type& TypeOf(TypeId id) {
  if (id == kNumberTypeInt) id = kNumberTypeInt32;
  if (id == kNumberTypeUInt) id = kNumberTypeUInt32;
  if (id == kNumberTypeFloat) id = kNumberTypeFloat32;
  if (id == kNumberTypeDouble) id = kNumberTypeFloat64;
  for (const Type& type : kTypes) {
    if (type.id == id) return type;
  }
  throw py::type_error("TypeId " + std::to_string(int(id)) +
                       " is no type of tensors here. Try one from kNumberTypeBool to "
                       "kNumberTypeBFloat16.");
}
// Of a dtype's text: "float32", or "Float32", as MindSpore's are printed.
inline const Type& TypeNamed(std::string name) {
  for (char& c : name) c = char(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  for (const Type& type : kTypes) {
    if (name == type.name) return type;
  }
  throw py::type_error("A tensor of dtype " + name +
                       " cannot be passed, but one of bool, int8 to int64, uint8 to uint64, "
                       "float16, bfloat16, float32 or float64. Try converting it.");
}

inline bool IsMindSpore(py::handle object) {
  const py::object modules = py::module_::import("sys").attr("modules");
  if (!modules.contains("mindspore")) return false;
  const py::object tensor = py::getattr(modules["mindspore"], "Tensor", py::none());
  return !tensor.is_none() && py::isinstance(object, tensor);
}

// NumPy has bfloat16 from ml_dtypes alone.
inline py::dtype DTypeOf(const Type& type) {
  if (type.id != kNumberTypeBFloat16) return py::dtype(type.name);
  return py::dtype::from_args(py::module_::import("ml_dtypes").attr("bfloat16"));
}

// Which kind of tensor the caller passes: new ones are given back as the same.
inline bool& CallerUsesMindSpore() {
  static thread_local bool uses = false;
  return uses;
}

class Array {
 public:
  Array(const Type& type, const Sizes& sizes)
      : Array(py::reinterpret_steal<py::object>(nullptr), type,
              py::array(type.id == kNumberTypeBFloat16 ? py::dtype("uint16") : DTypeOf(type),
                        sizes)) {}

  // Null where the object is no tensor.
  static std::shared_ptr<Array> From(py::handle object) {
    const auto kept = py::reinterpret_borrow<py::object>(object);
    if (py::isinstance<py::array>(object)) {
      const auto array = py::reinterpret_borrow<py::array>(object);
      CallerUsesMindSpore() = false;
      const Type& type = TypeNamed(py::str(array.dtype()));
      return std::make_shared<Array>(kept, type, array);
    }
    if (!IsMindSpore(object)) return nullptr;
    CallerUsesMindSpore() = true;
    return std::make_shared<Array>(kept, TypeNamed(py::str(object.attr("dtype"))), Look(object));
  }

  Array(py::object given, const Type& type, py::array view)
      : given_(std::move(given)), type_(type), view_(std::move(view)) {
    for (py::ssize_t i = 0; i < view_.ndim(); ++i) {
      sizes_.push_back(view_.shape(i));
      strides_.push_back(view_.strides(i) / (view_.itemsize() ? view_.itemsize() : 1));
    }
  }

  ~Array() {
    if (lent_) anyop_ascend_take_back(lent_);
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  const Type& type() const { return type_; }
  const Sizes& sizes() const { return sizes_; }
  const py::array& view() const { return view_; }
  std::size_t count() const { return std::size_t(view_.size()); }
  bool is_writeable() const { return view_.writeable(); }
  bool is_contiguous() const {
    std::int64_t step = 1;
    for (std::size_t i = sizes_.size(); i-- > 0;) {
      if (sizes_[i] > 1 && strides_[i] != step && count()) return false;
      step *= sizes_[i];
    }
    return true;
  }
  // Who asks for strides, or whether there are gaps, may have the address of a tensor with gaps.
  const Sizes& AskStrides() {
    knows_strides_ = true;
    return strides_;
  }

  std::string Text() const {
    std::string text = std::string(type_.name) + "[";
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      text += (i ? ", " : "") + std::to_string(sizes_[i]);
    }
    return text + "]";
  }

  void* Address() const {
    if (!knows_strides_ && !is_contiguous()) {
      throw py::value_error("A tensor of " + Text() +
                            " is not contiguous, but a kernel gets the address of its first "
                            "element alone. Try numpy.ascontiguousarray, or .contiguous().");
    }
    Lend();
    return const_cast<void*>(view_.data());
  }
  void* WriteableAddress() const {
    if (!is_writeable()) {
      throw py::value_error("A tensor of " + Text() +
                            " is read-only, but the kernel may write to it. Try a copy.");
    }
    return Address();
  }

  // As NumPy computes with it.
  py::object AsNumPy() const {
    if (type_.id != kNumberTypeBFloat16) return view_;
    return view_.attr("view")(DTypeOf(type_));
  }
  // A new one, of what a function of NumPy has made.
  static std::shared_ptr<Array> Made(const Type& type, const py::object& array) {
    py::array made = py::reinterpret_borrow<py::object>(array);
    if (type.id == kNumberTypeBFloat16) made = made.attr("view")("uint16");
    return std::make_shared<Array>(py::reinterpret_steal<py::object>(nullptr), type, made);
  }
  void Assign(const Array& from) const {
    if (!is_writeable()) WriteableAddress();  // raises
    AsNumPy().attr("__setitem__")(py::ellipsis(), from.AsNumPy());
  }

  // What the caller gets: its own tensor, or a new one of its kind.
  py::object ToPython() const {
    if (given_) return given_;
    if (!CallerUsesMindSpore()) return AsNumPy();
    const py::module_ mindspore = py::module_::import("mindspore");
    const py::object made = mindspore.attr("Tensor").attr("from_numpy")(view_);
    return type_.id == kNumberTypeBFloat16 ? made.attr("view")(mindspore.attr("bfloat16")) : made;
  }

 private:
  // Kernels that check themselves know from here what belongs to an address that they get.
  void Lend() const {
    if (lent_ || !anyop_ascend_lend) return;
    const auto* first = static_cast<const char*>(view_.data());
    const auto* last = first;  // of the bytes of elements, strides may be negative
    for (std::size_t i = 0; i < sizes_.size() && count(); ++i) {
      const std::int64_t way = (sizes_[i] - 1) * strides_[i] * type_.bytes;
      (way < 0 ? first : last) += way;
    }
    lent_ = first;
    const auto bytes = count() ? std::uint64_t(last - first) + std::uint64_t(type_.bytes) : 0;
    const std::uint32_t writes = is_writeable() ? ANYOP_ASCEND_WRITE : 0;
    anyop_ascend_lend(first, bytes, Text().c_str(), ANYOP_ASCEND_READ | writes);
  }

  // NumPy's view of a tensor's own memory. Its address is told once its value is there.
  static py::array Look(py::handle tensor) {
    const auto address = tensor.attr("data_ptr")().cast<std::uintptr_t>();
    const Type& type = TypeNamed(py::str(tensor.attr("dtype")));
    const Sizes sizes = tensor.attr("shape").cast<py::tuple>().cast<Sizes>();
    Sizes bytes = py::list(tensor.attr("stride")()).cast<Sizes>();
    for (std::int64_t& stride : bytes) stride *= type.bytes;
    const char* name = type.id == kNumberTypeBFloat16 ? "uint16" : type.name;
    return py::array(py::dtype(name), sizes, bytes, reinterpret_cast<void*>(address), tensor);
  }

  py::object given_;  // null: it was made here
  const Type& type_;
  py::array view_;  // of bfloat16 as uint16 where it was made here, or is MindSpore's
  Sizes sizes_, strides_;
  bool knows_strides_ = false;
  mutable const void* lent_ = nullptr;
};
using ArrayPtr = std::shared_ptr<Array>;

}  // namespace anyop_packages
