// SPDX-License-Identifier: Apache-2.0
// Graphs in copies: copy.deepcopy, pickle and torch.save, alone and in what holds them.
//
// A graph is reduced to text and to the very objects that it is bound to, so that whoever copies it
// beside its holder gives both the same copies. Memory of its own is reduced to an array of bytes.
#include <algorithm>
#include <map>
#include <memory>

#include "bindings/module_functions.h"
#include "bindings/numpy/numpy_view.h"
#include "compiled_graph.h"
#include "graph/ir/alias.h"
#include "graph/saved/load.h"
#include "graph/saved/save.h"

namespace anyop::python {
namespace {

// The bytes from an array's first to its last element.
Array ExtentAsBytes(const Array& array) {
  const Extent extent = ExtentOf(array.tensor());
  const std::int64_t bytes[] = {std::int64_t(extent.end - extent.begin)};
  void* const begin = bytes[0] ? reinterpret_cast<void*>(extent.begin) : array.data();
  return Array::Wrap(begin, bytes, DType::kU8, {}, std::make_shared<Array>(array));
}

Ref ToTuple(Array::Shape numbers) {
  Ref tuple = Checked(PyTuple_New(Py_ssize_t(numbers.size())));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), Py_ssize_t(i),
                     Checked(PyLong_FromLongLong(numbers[i])).release());
  }
  return tuple;
}

std::vector<std::int64_t> ToNumbers(PyObject* tuple) {
  std::vector<std::int64_t> numbers;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    numbers.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i)));
    if (PyErr_Occurred()) throw ErrorSet{};
  }
  return numbers;
}

// (object, whether the graph alone has it, None or (offset in bytes, dtype, shape, strides))
Ref ReduceMemory(const CompiledGraph& graph, const NamedArray& memory, PyObject* copied) {
  const Array& array = memory.array;
  HeldState::Holder holder = graph.held.HolderOf(graph.info.name, array, copied);
  PyObject* const object = holder.object.get();
  if (holder.is_whole) return Checked(Py_BuildValue("(OOO)", object, Py_False, Py_None));
  const bool is_own = !holder.object;
  const Ref bytes = is_own ? BytesAsArray(array) : std::move(holder.object);
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(BytesOf(bytes.get()).data());
  const Ref shape = ToTuple(array.shape()), strides = ToTuple(array.strides());
  const std::string dtype(Name(array.dtype()));
  return Checked(Py_BuildValue("(OO(LsOO))", bytes.get(),
                               is_own || holder.is_kept ? Py_True : Py_False,
                               (long long)(reinterpret_cast<std::uintptr_t>(array.data()) - begin),
                               dtype.c_str(), shape.get(), strides.get()));
}

// The memory of a graph that is put together again, by name.
class GivenMemory {
 public:
  GivenMemory(const std::string& graph, PyObject* rows) : graph_(graph), rows_(rows) {}

  Array operator()(const std::string& name, const std::string& tensor) {
    const auto [known, is_new] = arrays_.try_emplace(tensor);
    if (is_new) known->second = Make(name, tensor);
    return known->second;
  }

  void CheckWrites(const Graph& graph) const {
    const std::vector<bool> written = WrittenRoots(graph);
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
      const GraphValue& v = graph.values[i];
      if (!written[i] || v.array.is_none()) continue;
      for (const Extent& fixed : read_only_) {
        if (!Meet(fixed, ExtentOf(v.array.tensor()))) continue;
        ThrowValueError(graph_ + ": " + v.name + " is read-only, but is written. Try a copy.");
      }
    }
  }

  const Host* host = nullptr;
  HeldState held;

 private:
  [[noreturn]] void Refuse(const std::string& name) const {
    ThrowValueError("the copy of " + graph_ + ": " + name +
                    " is no array, or no part of one. Pickle the graph again.");
  }

  Array Make(const std::string& name, const std::string& tensor) {
    PyObject* row = PyDict_GetItemString(rows_, tensor.c_str());
    PyObject *object, *is_own, *where;
    if (!row) return Array();  // AttachGraph refuses it, with the name
    if (!PyTuple_Check(row)) Refuse(name);
    if (!PyArg_ParseTuple(row, "OOO", &object, &is_own, &where)) throw ErrorSet{};
    if (!HostOfTensor(object)) Refuse(name);
    is_own == Py_True ? held.Keep(object) : held.Add(tensor, object);
    if (PyArray_Check(object) && !PyArray_ISWRITEABLE(reinterpret_cast<PyArrayObject*>(object))) {
      const Array bytes = BytesOf(object);  // of any dtype, but not of an array with gaps
      read_only_.push_back(ExtentOf((bytes.is_none() ? ArrayOf(object) : bytes).tensor()));
    }
    const Host* const of_object = HostOfTensor(object);
    if (is_own != Py_True && of_object != &NumpyHost()) host = of_object;
    if (where == Py_None) return ArrayOf(object);
    long long offset;
    const char* dtype;
    PyObject *shape, *strides;
    if (!PyTuple_Check(where)) Refuse(name);
    if (!PyArg_ParseTuple(where, "LsO!O!", &offset, &dtype, &PyTuple_Type, &shape, &PyTuple_Type,
                          &strides)) {
      throw ErrorSet{};
    }
    if (FindDType(dtype) < 0) Refuse(name);
    SavedValue view{
        tensor, true, DType(FindDType(dtype)), offset, ToNumbers(shape), ToNumbers(strides)};
    if (std::count(view.shape.begin(), view.shape.end(), 0)) {
      const bool fits = view.shape.size() <= std::size_t(Array::kMaxRank) &&
                        *std::min_element(view.shape.begin(), view.shape.end()) == 0;
      if (!fits) Refuse(name);
      return Array::Empty(view.shape, view.dtype);
    }
    const Array bytes = BytesOf(object);
    if (bytes.is_none()) Refuse(name);  // with gaps, as no graph writes it
    return ViewIn(bytes, view, name);
  }

  const std::string& graph_;
  PyObject* const rows_;
  std::map<std::string, Array> arrays_;
  std::vector<Extent> read_only_;
};

// restore_graph(name, manifest, text, {tensor: row of ReduceMemory}, type of what is returned or
// None, module of the host of results or None)
PyObject* RestoreGraph(PyObject*, PyObject* args) {
  return Guarded([&] {
    PyObject *given_name, *manifest, *text, *rows, *returns, *module;
    if (!PyArg_ParseTuple(args, "UUUO!OO", &given_name, &manifest, &text, &PyDict_Type, &rows,
                          &returns, &module)) {
      throw ErrorSet{};
    }
    const std::string name = ToText(given_name, "a name");
    GivenMemory memory(name, rows);
    Graph graph = AttachGraph("the copy of " + name, ToText(manifest, "a manifest"),
                              ToText(text, "a graph"), std::ref(memory));
    memory.CheckWrites(graph);
    if (returns != Py_None && !CanHoldOutputs(returns)) {
      ThrowTypeError("the copy of " + name + ": it returns a " + Repr(returns) +
                     ", but must return a tuple or a named tuple.");
    }
    if (module != Py_None) {
      const Ref imported = Checked(PyImport_Import(module));
      memory.host = FindHost(InternHostName(ToText(module, "a module")));
    }
    PyTypeObject* tuple = returns != Py_None ? reinterpret_cast<PyTypeObject*>(returns) : nullptr;
    return MakeCompiledGraph(name, std::move(graph), tuple, memory.host, LoadedOptions(),
                             std::move(memory.held));
  });
}

PyMethodDef g_copy_methods[] = {
    {"restore_graph", RestoreGraph, METH_VARARGS, "A graph out of what its __reduce__ gave."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

Ref BytesAsArray(const Array& array) {
  auto kept = std::make_unique<Array>(ExtentAsBytes(array));
  const Array& bytes = *kept;
  Ref base = Checked(PyCapsule_New(kept.get(), nullptr, [](PyObject* capsule) {
    delete static_cast<Array*>(PyCapsule_GetPointer(capsule, nullptr));
  }));
  kept.release();
  return ViewAsArray(bytes.tensor(), Access::kRead, std::move(base));
}

// A shallow copy would be bound to the same arrays, and nothing else of a graph changes.
PyObject* CopyGraph(PyObject* self, PyObject*) { return Py_NewRef(self); }

PyObject* ReduceGraph(PyObject* self, PyObject* copied) {
  return Guarded([&] {
    const CompiledGraph& graph = ToGraph(self);
    const std::string& name = graph.info.name;
    graph.held.Check(name);
    const DetachedGraph parts = DetachGraph(graph.executable->graph(), name);
    const Ref rows = Checked(PyDict_New());
    for (const NamedArray& memory : parts.memory) {
      const Ref row = ReduceMemory(graph, memory, copied);
      if (PyDict_SetItemString(rows.get(), memory.name.c_str(), row.get()) < 0) throw ErrorSet{};
    }
    const Ref module = Checked(PyImport_ImportModule("anyop._anyop"));
    const Ref restore = Checked(PyObject_GetAttrString(module.get(), "restore_graph"));
    const Ref manifest = ToPython(parts.manifest), text = ToPython(parts.text);
    const Ref host = graph.state_host ? ToPython(graph.state_host->names.module) : Ref();
    PyObject* const tuple = reinterpret_cast<PyObject*>(graph.tuple);
    return Py_BuildValue("O(sOOOOO)", restore.get(), name.c_str(), manifest.get(), text.get(),
                         rows.get(), tuple ? tuple : Py_None, host ? host.get() : Py_None);
  });
}

// As copy.deepcopy copies what __reduce__ gives; but its memo also knows what is copied beside the
// graph, which __reduce__ cannot ask for.
PyObject* DeepCopyGraph(PyObject* self, PyObject* memo) {
  return Guarded([&] {
    const Ref key = Checked(PyLong_FromVoidPtr(memo));  // copy keeps there what it has copied
    PyObject* const kept = PyDict_Check(memo) ? PyDict_GetItem(memo, key.get()) : nullptr;
    const Ref parts = Checked(ReduceGraph(self, kept && PyList_Check(kept) ? kept : nullptr));
    const Ref module = Checked(PyImport_ImportModule("copy"));
    PyObject* const arguments = PyTuple_GET_ITEM(parts.get(), 1);
    const Ref copies =
        Checked(PyObject_CallMethod(module.get(), "deepcopy", "OO", arguments, memo));
    return PyObject_CallObject(PyTuple_GET_ITEM(parts.get(), 0), copies.get());
  });
}

void AddGraphCopyFunctions(PyObject* module) {
  if (PyModule_AddFunctions(module, g_copy_methods) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
