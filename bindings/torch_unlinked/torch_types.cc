// SPDX-License-Identifier: Apache-2.0
#include "torch_types.h"

#include "torch_symbols.h"

namespace anyop::python {

TorchTypes g_torch;

namespace {

void LearnDTypes(PyObject* torch) {
  for (std::int8_t& number : g_torch.numbers) number = -1;
  for (int d = 0; d < kDTypes; ++d) {
    Ref object(PyObject_GetAttrString(torch, kDTypeRows[d].long_name));
    if (!object) {
      PyErr_Clear();
      continue;
    }
    g_torch.dtype_objects[d] = object.release();
    const std::int32_t n = FindTorchNumber(kDTypeRows[d].long_name);
    if (n < 0 || n >= 64) continue;
    g_torch.numbers[d] = std::int8_t(n);
    g_torch.dtypes[n] = ToDL(DType(d));
  }
}

PyObject* TorchAttribute(PyObject* object, const char* name) {
  return Checked(PyObject_GetAttrString(object, name)).release();
}

}  // namespace

void LearnTorchTypes(PyObject* torch) {
  const Ref c = Checked(PyObject_GetAttrString(torch, "_C"));
  const Ref nn = Checked(PyObject_GetAttrString(torch, "nn"));
  g_torch.base = reinterpret_cast<PyTypeObject*>(TorchAttribute(c.get(), "TensorBase"));
  g_torch.tensor = reinterpret_cast<PyTypeObject*>(TorchAttribute(torch, "Tensor"));
  g_torch.parameter = reinterpret_cast<PyTypeObject*>(TorchAttribute(nn.get(), "Parameter"));
  constexpr const char* kSymbolic[] = {"SymInt", "SymFloat", "SymBool"};
  for (int i = 0; i < 3; ++i) {
    g_torch.symbolic[i] = reinterpret_cast<PyTypeObject*>(TorchAttribute(torch, kSymbolic[i]));
  }
  LearnDTypes(torch);
  g_torch.is_known = true;
}

int TorchDType(PyObject* object) {
  for (int d = 0; d < kDTypes; ++d) {
    if (g_torch.dtype_objects[d] && g_torch.dtype_objects[d] == object) return d;
  }
  return -1;
}

}  // namespace anyop::python
