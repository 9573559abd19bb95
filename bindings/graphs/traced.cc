// SPDX-License-Identifier: Apache-2.0
#include "traced.h"

#include <cstddef>
#include <memory>

#include <structmember.h>

#include "bindings/calls/convert.h"

namespace anyop::python {

PyTypeObject* g_traced_type = nullptr;

namespace {

PyTypeObject* g_tracer_type = nullptr;
PyObject* g_value_class = nullptr;  // of traced tensors
std::string g_package;              // the folder of anyop's own Python

// Sets the tracer already, as code that calls __new__ alone must not get a value without a graph:
// nobody asks for null.
PyObject* NewTraced(PyTypeObject* type, PyObject* args, PyObject*) {
  return Guarded([&] {
    PyObject* tracer = PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, 0) : nullptr;
    if (!tracer || Py_TYPE(tracer) != g_tracer_type) {
      ThrowTypeError("a value of a graph is made without its tracer. Try anyop.graph.");
    }
    PyObject* self = Checked(type->tp_alloc(type, 0)).release();
    auto* object = reinterpret_cast<TracedObject*>(self);
    object->tracer = Py_NewRef(tracer);
    object->id = -1;
    return self;
  });
}

int InitTraced(PyObject* self, PyObject* args, PyObject*) {
  auto* object = reinterpret_cast<TracedObject*>(self);
  PyObject* tracer;
  int id = -1;
  if (!PyArg_ParseTuple(args, "O!|i", g_tracer_type, &tracer, &id)) return -1;
  const Trace& trace = *reinterpret_cast<TracerObject*>(tracer)->trace;
  if (id < -1 || id >= int(trace.builder.graph().values.size())) {
    PyErr_Format(g_errors.invalid_argument, "%s: the graph has no value %d.", trace.name.c_str(),
                 id);
    return -1;
  }
  Py_XSETREF(object->tracer, Py_NewRef(tracer));
  object->id = id;
  return 0;
}

void FreeTraced(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(reinterpret_cast<TracedObject*>(self)->tracer);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef g_traced_members[] = {
    {"_tracer", T_OBJECT_EX, offsetof(TracedObject, tracer), READONLY, nullptr},
    {"_id", T_INT, offsetof(TracedObject, id), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

template <class T>
void Append(std::string* key, const T* items, std::size_t n) {
  key->append(reinterpret_cast<const char*>(items), n * sizeof(T));
}

std::string KeyOf(const Array& a) {
  const void* data = a.data();
  const int dtype = int(a.dtype());
  std::string key;
  Append(&key, &data, 1);
  Append(&key, &dtype, 1);
  Append(&key, a.shape().data(), a.shape().size());
  Append(&key, a.strides().data(), a.strides().size());
  return key;
}

}  // namespace

std::shared_ptr<void> KeepObject(PyObject* object) {
  return {Py_NewRef(object), [](void* kept) {
            if (!Py_IsInitialized()) return;  // Python has ended, and its objects with it
            WithPython([&] {
              const PyGILState_STATE state = PyGILState_Ensure();
              Py_DECREF(static_cast<PyObject*>(kept));
              PyGILState_Release(state);
            });
          }};
}

Array HeldArray(const char* op, PyObject* name, PyObject* object, bool is_written,
                const Host** host) {
  const Access access = is_written ? Access::kWrite : Access::kRead;
  const Host* of_tensor = HostOfTensor(object);
  if (of_tensor && of_tensor != &NumpyHost()) *host = of_tensor;
  return WithCall(of_tensor ? *of_tensor : NumpyHost(), [&](auto& call) {
    View view;
    CallMemory memory(&call, &view);
    call.PassProfiler();
    call.Convert({op, name}, access, object, memory, view);
    const std::string start = std::string(op) + ": " + ToText(name, "a name");
    if (!call.is_direct()) {
      ThrowValueError(start + " cannot be bound to a graph: " + call.reason() +
                      ". Try a detached CPU tensor.");
    }
    if (memory.has_copies()) {
      ThrowValueError(start +
                      " has a stride that is no multiple of its element, so that it cannot be "
                      "bound to a graph. Try numpy.ascontiguousarray.");
    }
    return Array::Wrap(view.tensor, KeepObject(object));
  });
}

Trace& TraceOf(PyObject* tracer) {
  Trace& trace = *reinterpret_cast<TracerObject*>(tracer)->trace;
  if (!trace.is_done) return trace;
  ThrowValueError(trace.name +
                  ": a value of this graph is used after its function returned, but it was never "
                  "computed. Try returning it from the function.");
}

int BindState(Trace& trace, const char* op, PyObject* name, PyObject* object, bool is_written,
              bool is_frozen) {
  const Array array = HeldArray(op, name, object, is_written, &trace.state_host);
  const std::size_t before = trace.builder.graph().values.size();  // a new value gets this number
  const int id = BindArray(trace, ToText(name, "a name"), array, is_frozen);
  if (std::size_t(id) == before) trace.held.Add(trace.builder.graph().value(id).name, object);
  return id;
}

int BindArray(Trace& trace, const std::string& name, const Array& array, bool is_frozen) {
  // Two objects over the same memory, in the same form, are one state.
  const auto [found, is_new] = trace.states.emplace(KeyOf(array), -1);
  if (is_new) found->second = trace.builder.State(trace.builder.FreeName(name), array, is_frozen);
  return found->second;
}

std::int64_t ToSizeNumber(PyObject* object, const std::string& what) {
  const Ref index = Checked(PyNumber_Index(object));
  int overflow = 0;
  const long long n = PyLong_AsLongLongAndOverflow(index.get(), &overflow);
  if (overflow)
    ThrowValueError(what + " is " + Repr(object) + ", but must be an int of at most 64 bits.");
  return n;
}

Size ToSize(Trace& trace, PyObject* object) {
  if (PyLong_Check(object)) return Size(ToSizeNumber(object, trace.name + ": a size"));
  const Ref text = Checked(PyObject_Str(object));
  return trace.builder.ParseSize(ToText(text.get(), "a size"));
}

Ref MakeTraced(PyObject* tracer, int id) {
  return Checked(PyObject_CallFunction(g_value_class, "Oi", tracer, id));
}

std::string UserPlace() {
  Ref frame = Ref::Borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    auto* at = reinterpret_cast<PyFrameObject*>(frame.get());
    const Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(at)));
    const Ref file = Checked(PyObject_GetAttrString(code.get(), "co_filename"));
    const std::string path = ToNameShown(file.get());
    if (!path.starts_with(g_package)) {
      return path.substr(path.rfind('/') + 1) + ":" + std::to_string(PyFrame_GetLineNumber(at));
    }
    frame = Ref(reinterpret_cast<PyObject*>(PyFrame_GetBack(at)));
  }
  return "";
}

namespace {

// graph_classes(Value, folder): the class of traced tensors, and where anyop's own Python lies.
PyObject* SetClasses(PyObject*, PyObject* args) {
  return Guarded([&] {
    PyObject* value;
    PyObject* folder;
    if (!PyArg_ParseTuple(args, "OO", &value, &folder)) throw ErrorSet{};
    g_value_class = Py_NewRef(value);
    g_package = ToNameShown(folder);
    return Py_NewRef(Py_None);
  });
}

PyMethodDef g_traced_functions[] = {
    {"graph_classes", SetClasses, METH_VARARGS, "Sets what traced tensors are made of."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void InitTracedTypes(PyObject* module) {
  static PyType_Slot slots[] = {
      {Py_tp_doc, const_cast<char*>("What only a call of a graph knows.")},
      {Py_tp_new, reinterpret_cast<void*>(&NewTraced)},
      {Py_tp_init, reinterpret_cast<void*>(&InitTraced)},
      {Py_tp_dealloc, reinterpret_cast<void*>(&FreeTraced)},
      {Py_tp_members, g_traced_members},
      {0, nullptr}};
  static PyType_Spec spec = {"anyop._anyop.Traced", sizeof(TracedObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  g_traced_type = reinterpret_cast<PyTypeObject*>(Checked(PyType_FromSpec(&spec)).release());
  if (PyModule_AddObjectRef(module, "Traced", reinterpret_cast<PyObject*>(g_traced_type)) < 0 ||
      PyModule_AddFunctions(module, g_traced_functions) < 0) {
    throw ErrorSet{};
  }
  g_tracer_type = MakeTracerType(module);
  AddTaker(MakeRecorder());
}

}  // namespace anyop::python
