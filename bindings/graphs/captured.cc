// SPDX-License-Identifier: Apache-2.0
// anyop._anyop.Captured: a graph that was made of a torch program, called directly. What a call
// needs beside the graph is asked of `details`, an object of Python, only when something changed.

#include "compiled_graph.h"

#include <structmember.h>

#include <algorithm>
#include <cstddef>

#include "bindings/room.h"
#include "bindings/torch_unlinked/held_tensors.h"
#include "bindings/torch_unlinked/torch_view.h"
#include "graph/replay/progress.h"
#include "platform/of_thread.h"

namespace anyop::python {
namespace {

struct CapturedObject {
  PyObject_HEAD vectorcallfunc call;
  PyObject* graph;
  PyObject* details;
  HeldTensors* held;
  std::vector<std::int64_t>* sizes;  // of the last call that details.check allowed
  bool has_conditions;
};
struct CallSizes {
  std::vector<std::int64_t> sizes;
};
struct HeldObject {
  PyObject_HEAD HeldTensors* held;
};

// The ranks, sizes and strides of all tensors of a call, one after the other. False where one has
// no memory of its own, as within torch.vmap.
bool AppendSizes(PyObject* const* args, Py_ssize_t n, std::vector<std::int64_t>* sizes) {
  DLTensor t;
  std::int64_t size;
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (!IsTorchTensor(args[i])) continue;
    char* const impl = static_cast<char*>(TorchImpl(args[i]));
    if (!g_torch_fast.IsPlain(g_torch_layout.Keys(impl))) return false;
    if (!g_torch_layout.View(impl, t, size)) continue;
    sizes->push_back(t.ndim);
    sizes->insert(sizes->end(), t.shape, t.shape + t.ndim);
    if (t.strides) sizes->insert(sizes->end(), t.strides, t.strides + t.ndim);
  }
  return true;
}

// Whether the graph serves these sizes; throws where the program itself refuses them.
bool CheckConditions(CapturedObject* self, PyObject* const* args, Py_ssize_t n) {
  // Kept for the thread, so that a call allocates nothing.
  std::vector<std::int64_t>& sizes = OfThread<CallSizes>::Get().sizes;
  sizes.clear();
  const bool is_known = AppendSizes(args, n, &sizes);
  if (is_known && *self->sizes == sizes) return true;
  const Ref check = Checked(PyObject_GetAttrString(self->details, "check"));
  const Ref holds = Checked(PyObject_Vectorcall(check.get(), args, std::size_t(n), nullptr));
  if (holds.get() == Py_False) return false;
  if (is_known) *self->sizes = sizes;
  return true;
}

// The graph is made anew from what the tensors are now.
void Refresh(CapturedObject* self) {
  const Ref row = Checked(PyObject_CallMethod(self->details, "refresh", nullptr));
  PyObject *graph, *rows;
  int has_conditions;
  if (!PyArg_ParseTuple(row.get(), "OOp", &graph, &rows, &has_conditions)) throw ErrorSet{};
  self->held->Set(rows);
  self->has_conditions = has_conditions != 0;
  self->sizes->clear();
  Py_XSETREF(self->graph, Py_NewRef(graph));
}

// After an error of the graph: details.raise_again(error) where it had written something, as what a
// part of the program raised is raised as it is. Else details.elsewhere(error, *args): what the
// graph refused, an argument with gaps for instance, runs through torch where it is legal.
PyObject* CallDetails(CapturedObject* self, const char* method, PyObject* const* args,
                      Py_ssize_t n) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  const Ref owned[] = {Ref(type), Ref(value), Ref(trace)};
  if (trace) PyException_SetTraceback(value, trace);
  const Ref run = Checked(PyObject_GetAttrString(self->details, method));
  Room<PyObject*, 16> given(std::size_t(n) + 1);
  given[0] = value;
  std::copy(args, args + n, given.data() + 1);
  return PyObject_Vectorcall(run.get(), given.data(), std::size_t(n) + 1, nullptr);
}

PyObject* CallCaptured(PyObject* object, PyObject* const* args, std::size_t n_args,
                       PyObject* keywords) {
  auto* self = reinterpret_cast<CapturedObject*>(object);
  try {
    if (!self->held->Hold(nullptr)) [[unlikely]]
      Refresh(self);
    if (self->has_conditions && !CheckConditions(self, args, PyVectorcall_NARGS(n_args))) {
      const Ref call = Checked(PyObject_GetAttrString(self->details, "call"));
      return PyObject_Vectorcall(call.get(), args, n_args, keywords);
    }
    const Ref graph = Ref::Borrow(self->graph);  // another thread may refresh meanwhile
    PyObject* made = PyObject_Vectorcall(graph.get(), args, n_args, keywords);
    if (made || !AsGraph(graph.get()) || !PyErr_ExceptionMatches(g_errors.error)) return made;
    if (Progress::LastHasWritten()) return CallDetails(self, "raise_again", nullptr, 0);
    if (keywords) return nullptr;  // details.elsewhere takes positional arguments alone
    return CallDetails(self, "elsewhere", args, PyVectorcall_NARGS(n_args));
  } catch (...) {
    return SetPythonError();
  }
}

// Captured(graph, details, rows of HeldTensors, whether details.check must see new sizes)
PyObject* NewCaptured(PyTypeObject* type, PyObject* args, PyObject*) {
  return Guarded([&] {
    PyObject *graph, *details, *rows;
    int has_conditions;
    if (!PyArg_ParseTuple(args, "OOOp", &graph, &details, &rows, &has_conditions)) throw ErrorSet{};
    Ref made = Checked(type->tp_alloc(type, 0));
    auto* self = reinterpret_cast<CapturedObject*>(made.get());
    self->call = CallCaptured;
    self->held = new HeldTensors;
    self->sizes = new std::vector<std::int64_t>;
    self->has_conditions = has_conditions != 0;
    self->graph = Py_NewRef(graph);
    self->details = Py_NewRef(details);
    self->held->Set(rows);
    return made.release();
  });
}

int TraverseCaptured(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<CapturedObject*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->graph);
  Py_VISIT(self->details);
  return 0;
}
// The details are enough: the collector does not follow a Graph, so that cycles go through these.
int ClearCaptured(PyObject* object) {
  auto* self = reinterpret_cast<CapturedObject*>(object);
  Py_CLEAR(self->details);
  return 0;
}
void FreeCaptured(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  auto* self = reinterpret_cast<CapturedObject*>(object);
  Py_CLEAR(self->graph);
  Py_CLEAR(self->details);
  delete self->held;
  delete self->sizes;
  type->tp_free(object);
  Py_DECREF(type);
}

// Everything else is asked of the details: report(), text, ...
PyObject* GetCapturedAttribute(PyObject* object, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(object, name);
  if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyErr_Clear();
  return PyObject_GetAttr(reinterpret_cast<CapturedObject*>(object)->details, name);
}
PyObject* GetCapturedText(PyObject* object) {
  return PyObject_Str(reinterpret_cast<CapturedObject*>(object)->graph);
}
PyObject* Show(PyObject* object) {
  return PyObject_Repr(reinterpret_cast<CapturedObject*>(object)->graph);
}

// What copy and pickle make the copy from.
PyObject* ReduceCaptured(PyObject* object, PyObject*) {
  return PyObject_CallMethod(reinterpret_cast<CapturedObject*>(object)->details, "reduced",
                             nullptr);
}

PyMethodDef g_captured_methods[] = {{"__reduce__", ReduceCaptured, METH_NOARGS, nullptr},
                                    {nullptr, nullptr, 0, nullptr}};
PyMemberDef g_captured_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CapturedObject, call), READONLY, nullptr},
    {"graph", T_OBJECT, offsetof(CapturedObject, graph), READONLY, "The anyop.Graph."},
    {"details", T_OBJECT, offsetof(CapturedObject, details), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot g_captured_slots[] = {
    {Py_tp_doc, const_cast<char*>("What anyop.torch.capture makes: call it with tensors.")},
    {Py_tp_new, reinterpret_cast<void*>(&NewCaptured)},
    {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&FreeCaptured)},
    {Py_tp_traverse, reinterpret_cast<void*>(&TraverseCaptured)},
    {Py_tp_clear, reinterpret_cast<void*>(&ClearCaptured)},
    {Py_tp_getattro, reinterpret_cast<void*>(&GetCapturedAttribute)},
    {Py_tp_str, reinterpret_cast<void*>(&GetCapturedText)},
    {Py_tp_repr, reinterpret_cast<void*>(&Show)},
    {Py_tp_members, g_captured_members},
    {Py_tp_methods, g_captured_methods},
    {0, nullptr}};
PyType_Spec g_captured_spec = {
    "anyop._anyop.Captured", sizeof(CapturedObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    g_captured_slots};

PyObject* NewHeld(PyTypeObject* type, PyObject* args, PyObject*) {
  return Guarded([&] {
    PyObject* rows;
    if (!PyArg_ParseTuple(args, "O", &rows)) throw ErrorSet{};
    Ref made = Checked(type->tp_alloc(type, 0));
    auto* self = reinterpret_cast<HeldObject*>(made.get());
    self->held = new HeldTensors;
    self->held->Set(rows);
    return made.release();
  });
}
void FreeHeld(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  delete reinterpret_cast<HeldObject*>(object)->held;
  type->tp_free(object);
  Py_DECREF(type);
}
PyObject* Hold(PyObject* object, PyObject* arguments) {
  return Guarded([&] {
    if (!PyList_Check(arguments) && !PyTuple_Check(arguments)) {
      ThrowTypeError("hold takes a list or tuple of tensors.");
    }
    const bool holds = reinterpret_cast<HeldObject*>(object)->held->Hold(arguments);
    return PyBool_FromLong(holds);
  });
}

PyObject* GraphHasWritten(PyObject*, PyObject*) {
  return PyBool_FromLong(Progress::LastHasWritten());
}

PyMethodDef g_captured_functions[] = {
    {"graph_has_written", GraphHasWritten, METH_NOARGS,
     "graph_has_written($module, /)\n--\n\nWhether this thread's last call of a graph wrote an "
     "argument or state before it returned or raised."},
    {nullptr, nullptr, 0, nullptr}};

PyMethodDef g_held_methods[] = {{"hold", Hold, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyType_Slot g_held_slots[] = {{Py_tp_doc, const_cast<char*>("Tensors that a graph was made with.")},
                              {Py_tp_new, reinterpret_cast<void*>(&NewHeld)},
                              {Py_tp_dealloc, reinterpret_cast<void*>(&FreeHeld)},
                              {Py_tp_methods, g_held_methods},
                              {0, nullptr}};
PyType_Spec g_held_spec = {"anyop._anyop.HeldTensors", sizeof(HeldObject), 0, Py_TPFLAGS_DEFAULT,
                           g_held_slots};

}  // namespace

void InitCapturedTypes(PyObject* module) {
  for (const auto& [name, spec] :
       {std::pair{"Captured", &g_captured_spec}, std::pair{"HeldTensors", &g_held_spec}}) {
    const Ref type = Checked(PyType_FromSpec(spec));
    if (PyModule_AddObjectRef(module, name, type.get()) < 0) throw ErrorSet{};
  }
  if (PyModule_AddFunctions(module, g_captured_functions) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
