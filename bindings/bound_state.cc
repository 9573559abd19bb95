// SPDX-License-Identifier: Apache-2.0
#include "bound_state.h"

#include <algorithm>

#include "torch_api.h"

namespace anyop::python {
namespace {

PyArrayObject* AsArray(PyObject* object) { return reinterpret_cast<PyArrayObject*>(object); }

// Whose memory an array is a view of, as far as that is an array.
PyObject* OwnerOf(PyObject* array) {
  for (PyObject* base = array; base && PyArray_Check(base); base = PyArray_BASE(AsArray(base))) {
    array = base;
  }
  return array;
}

void* TorchData(PyObject* tensor) {
  void* data = nullptr;
  return g_torch.data_ptr(TorchHandle(tensor), &data) ? nullptr : data;
}

}  // namespace

void BoundState::Add(const std::string& name, PyObject* object) {
  if (PyArray_Check(object)) {
    PyObject* owner = OwnerOf(object);
    rows_.push_back({name, Ref::Borrow(owner), false, PyArray_DATA(AsArray(owner)),
                     PyArray_NBYTES(AsArray(owner))});
  } else if (g_torch.is_known && g_torch.data_ptr && IsTorchTensor(object)) {
    rows_.push_back({name, Ref::Borrow(object), true, TorchData(object), 0});
  }
}

void BoundState::Add(const BoundState& other) {
  for (const Row& r : other.rows_) {
    rows_.push_back({r.name, Ref::Borrow(r.owner.get()), r.is_torch, r.data, r.bytes});
  }
  for (const Ref& object : other.kept_) Keep(object.get());
}

void BoundState::KeepOnly(const Graph& graph) {
  std::erase_if(rows_, [&](const Row& row) {
    const char* begin = static_cast<const char*>(row.data);
    return std::none_of(graph.values.begin(), graph.values.end(), [&](const GraphValue& v) {
      if (v.kind != GraphValue::kState) return false;
      const char* at = static_cast<const char*>(v.array.data());
      return at == begin || (at > begin && at < begin + row.bytes);
    });
  });
}

bool BoundState::Holds(const Row& row) {
  PyObject* object = row.owner.get();
  if (row.is_torch) return TorchData(object) == row.data;
  return PyArray_DATA(AsArray(object)) == row.data && PyArray_NBYTES(AsArray(object)) == row.bytes;
}

void BoundState::Refuse(const std::string& graph, const Row& row) {
  ThrowValueError(graph + ": the state " + row.name +
                  " was resized or given other memory, but a graph keeps what it was made with. "
                  "Try making the graph again.");
}

}  // namespace anyop::python
