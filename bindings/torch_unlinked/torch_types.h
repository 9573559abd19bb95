// SPDX-License-Identifier: Apache-2.0
// PyTorch's types as objects of Python: what is a tensor, a dtype, a number of a traced program.
#pragma once
#include <cstdint>
#include <cstring>

#include "anyop/dtype.h"
#include "anyop/value.h"
#include "bindings/python.h"

namespace anyop::python {

struct TorchTypes {
  bool is_known = false;         // torch is imported, so its tensors are told apart
  PyTypeObject* base = nullptr;  // torch._C.TensorBase
  PyTypeObject* tensor = nullptr;
  PyTypeObject* parameter = nullptr;
  PyTypeObject* symbolic[3] = {};  // SymInt, SymFloat, SymBool: numbers of a program being traced
  DLDataType dtypes[64] = {};      // by torch's number; lanes 0: none of anyop's
  std::int8_t numbers[kDTypes];    // torch's number by dtype; -1: none
  PyObject* dtype_objects[kDTypes] = {};
};
extern TorchTypes g_torch;

// Learns the types of the module torch.
void LearnTorchTypes(PyObject* torch);

// A tensor's object is PyObject's fields, then the at::Tensor, a pointer to its TensorImpl.
inline void* TorchImpl(PyObject* tensor) {
  void* impl;
  std::memcpy(&impl, reinterpret_cast<char*>(tensor) + sizeof(PyObject), sizeof impl);
  return impl;
}
inline const void* TorchHandle(PyObject* tensor) {
  return reinterpret_cast<char*>(tensor) + sizeof(PyObject);
}
inline bool IsTorchTensor(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == g_torch.tensor || type == g_torch.parameter ||
         PyType_IsSubtype(type, g_torch.base);
}

// A number of a program that is traced, not known yet. Python's conversions would make it a
// constant of the program, for all sizes.
inline bool IsTorchNumber(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return g_torch.is_known && (type == g_torch.symbolic[0] || type == g_torch.symbolic[1] ||
                              type == g_torch.symbolic[2]);
}

// What Python's torch objects stand for: torch.bfloat16; -1, without an exception, for others.
int TorchDType(PyObject* object);

}  // namespace anyop::python
