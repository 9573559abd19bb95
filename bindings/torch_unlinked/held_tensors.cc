// SPDX-License-Identifier: Apache-2.0
#include "held_tensors.h"

#include <dlfcn.h>

#include <cstring>

#include "torch_view.h"

namespace anyop::python {
namespace {

// How often a tensor was written; 0 for an inference tensor, of which nobody counts that.
std::int64_t VersionOf(PyObject* tensor) {
  using Function = std::int64_t (*)(const void* handle);
  static const auto version = reinterpret_cast<Function>(
      dlsym(dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY), "_ZNK2at10TensorBase8_versionEv"));
  if (!HasVersion(tensor)) return 0;
  if (version) return version(TorchHandle(tensor));
  const Ref number = Checked(PyObject_GetAttrString(tensor, "_version"));
  return PyLong_AsLongLong(number.get());
}

void* DataOf(PyObject* tensor) {
  void* data = nullptr;
  if (g_torch_functions.data_ptr(TorchHandle(tensor), &data)) return nullptr;
  return data;
}

TorchLayout::Form FormOf(PyObject* tensor) {
  return g_torch_layout.FormOf(static_cast<char*>(TorchImpl(tensor)));
}

void CheckTensor(PyObject* object) {
  if (g_torch_fast.is_on && IsTorchTensor(object)) return;
  ThrowTypeError("HeldTensors: " + Repr(object) + " is given, but must be a torch tensor.");
}

}  // namespace

HeldTensors::~HeldTensors() { Clear(); }

void HeldTensors::Clear() {
  for (const Row& row : rows_) Py_DECREF(row.tensor);
  rows_.clear();
}

void HeldTensors::Set(PyObject* rows) {
  Clear();
  const Ref all = Checked(PySequence_Fast(rows, "HeldTensors takes rows"));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(all.get()); ++i) {
    Py_ssize_t place;
    PyObject* tensor;
    int is_frozen;
    PyObject* row = PySequence_Fast_GET_ITEM(all.get(), i);
    if (!PyArg_ParseTuple(row, "nOp", &place, &tensor, &is_frozen)) throw ErrorSet{};
    CheckTensor(tensor);
    const std::int64_t version = is_frozen ? VersionOf(tensor) : -1;
    const TorchLayout::Form form = FormOf(tensor);
    std::vector<std::int64_t> sizes(form.sizes, form.sizes + form.rank);
    sizes.insert(sizes.end(), form.strides, form.strides + form.rank);
    rows_.push_back(
        {place, Py_NewRef(tensor), DataOf(tensor), form.number, std::move(sizes), version});
  }
}

bool HeldTensors::HasForm(PyObject* tensor, const Row& row) {
  const TorchLayout::Form form = FormOf(tensor);
  const std::size_t bytes = form.rank * sizeof(std::int64_t);
  return form.number == row.number && 2 * form.rank == row.sizes.size() &&
         !std::memcmp(form.sizes, row.sizes.data(), bytes) &&
         !std::memcmp(form.strides, row.sizes.data() + form.rank, bytes);
}

bool HeldTensors::Hold(PyObject* arguments) const {
  const Py_ssize_t n = arguments ? PySequence_Fast_GET_SIZE(arguments) : 0;
  PyObject** const given = arguments ? PySequence_Fast_ITEMS(arguments) : nullptr;
  for (const Row& row : rows_) {
    PyObject* tensor = row.tensor;
    if (given && row.place >= 0) {
      if (row.place >= n || !IsTorchTensor(given[row.place])) return false;
      tensor = given[row.place];
    }
    if (DataOf(tensor) != row.data || !HasForm(tensor, row)) return false;
    if (row.version >= 0 && VersionOf(tensor) != row.version) return false;
  }
  return true;
}

}  // namespace anyop::python
