// SPDX-License-Identifier: Apache-2.0
#include "bound_state.h"

#include <algorithm>

#include "graph/alias.h"
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

// Of its storage; 0 where this torch does not tell.
Py_ssize_t TorchBytes(PyObject* tensor) {
  std::int64_t bytes = 0;
  if (g_torch.storage_bytes && g_torch.storage_bytes(TorchHandle(tensor), &bytes)) return -1;
  return Py_ssize_t(bytes);
}

}  // namespace

void BoundState::Add(const std::string& name, PyObject* object) {
  if (PyArray_Check(object)) {
    PyObject* owner = OwnerOf(object);
    rows_.push_back({name, Ref::Borrow(owner), false, PyArray_DATA(AsArray(owner)),
                     PyArray_NBYTES(AsArray(owner))});
  } else if (g_torch.is_known && g_torch.data_ptr && IsTorchTensor(object)) {
    rows_.push_back({name, Ref::Borrow(object), true, TorchData(object), TorchBytes(object)});
  }
}

void BoundState::Add(const BoundState& other) {
  for (const Row& r : other.rows_) {
    rows_.push_back({r.name, Ref::Borrow(r.owner.get()), r.is_torch, r.data, r.bytes});
  }
  for (const Ref& object : other.kept_) Keep(object.get());
}

void BoundState::KeepOnly(const Graph& graph) {
  const std::vector<bool> is_written = WrittenRoots(graph);
  std::erase_if(rows_, [&](const Row& row) {
    const char* begin = static_cast<const char*>(row.data);
    bool is_state = false, is_changed = false;
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      if (graph.values[v].kind != GraphValue::kState) continue;
      const char* at = static_cast<const char*>(graph.values[v].array.data());
      const bool is_mine = at == begin || (at > begin && at < begin + row.bytes);
      is_state |= is_mine;
      is_changed |= is_mine && is_written[v];
    }
    if (is_changed && row.is_torch) written_.push_back(Ref::Borrow(row.owner.get()));
    return !is_state;
  });
}

void BoundState::Bump(PyObject* tensor) {
  const auto keys = TorchField<std::uint64_t>(TorchImpl(tensor), g_torch.at.keys);
  // Nobody counts the writes of inference tensors.
  if ((keys & g_torch.training_keys) == g_torch.training_keys) {
    g_torch.bump_version(TorchHandle(tensor));
  }
}

bool BoundState::Holds(const Row& row) {
  PyObject* object = row.owner.get();
  if (row.is_torch) return TorchData(object) == row.data && TorchBytes(object) == row.bytes;
  return PyArray_DATA(AsArray(object)) == row.data && PyArray_NBYTES(AsArray(object)) == row.bytes;
}

void BoundState::Refuse(const std::string& graph, const Row& row) {
  ThrowValueError(graph + ": the state " + row.name +
                  " was resized or given other memory, but a graph keeps what it was made with. "
                  "Try making the graph again.");
}

}  // namespace anyop::python
