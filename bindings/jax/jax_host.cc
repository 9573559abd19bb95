// SPDX-License-Identifier: Apache-2.0
// JAX as a host: which objects are its arrays, and what its Python side needs of this module. Every
// call goes through JAX, which alone may trace, compile and allocate.
#include <algorithm>

#include "anyop/value.h"
#include "bindings/host/registered_host.h"
#include "bindings/module_functions.h"
#include "bindings/numpy/numpy_view.h"
#include "handler.h"

namespace anyop::python {
namespace {

PyTypeObject *g_array, *g_tracer;

int IsArray(PyObject* object) {
  return Py_TYPE(object) == g_array || PyObject_TypeCheck(object, g_tracer);
}

// Dtype and shape alone: JAX makes every call itself, so a view only describes.
int ViewArray(PyObject* object, int, anyop_host_view* view) {
  try {
    const Ref dtype = Checked(PyObject_GetAttrString(object, "dtype"));
    const Ref sizes = Checked(PyObject_GetAttrString(object, "shape"));
    const Ref shape = Checked(PySequence_Tuple(sizes.get()));
    const int known = NumpyHost().ToDType(dtype.get());
    const Py_ssize_t rank = PyTuple_GET_SIZE(shape.get());
    view->tensor.device = kHostDevice;
    view->tensor.ndim = int(rank);
    view->tensor.shape = view->shape;
    if (known >= 0) view->tensor.dtype = ToDL(DType(known));
    for (Py_ssize_t i = 0; i < std::min<Py_ssize_t>(rank, kMaxRank); ++i) {
      view->shape[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape.get(), i));
      if (view->shape[i] == -1 && PyErr_Occurred()) throw ErrorSet{};
    }
    return 0;
  } catch (...) {
    SetPythonError();
    return -1;
  }
}

PyObject* Allocate(DLDataType, int, const std::int64_t*, anyop_host_view*) {
  PyErr_SetString(PyExc_NotImplementedError, "jax: JAX itself allocates the results of calls.");
  return nullptr;
}

// jax.numpy.bfloat16, which is a type with a dtype.
int DTypeOfType(PyObject* object, DLDataType* dtype) {
  if (!PyType_Check(Py_TYPE(object)) || !PyCallable_Check(object)) return 0;
  const Ref own(PyObject_GetAttrString(object, "dtype"));
  if (!own) PyErr_Clear();
  const int known = own && PyArray_DescrCheck(own.get()) ? NumpyHost().ToDType(own.get()) : -1;
  if (known >= 0) *dtype = ToDL(DType(known));
  return known >= 0;
}

// jax_record(array_type, tracer_type): what anyop.hosting.register takes.
PyObject* MakeRecord(PyObject*, PyObject* args) {
  PyObject *array, *tracer;
  if (!PyArg_ParseTuple(args, "O!O!", &PyType_Type, &array, &PyType_Type, &tracer)) return nullptr;
  g_array = reinterpret_cast<PyTypeObject*>(Py_NewRef(array));
  g_tracer = reinterpret_cast<PyTypeObject*>(Py_NewRef(tracer));
  static anyop_python_host host = {};
  host.size = sizeof host;
  host.module = "jax";
  host.noun = "JAX array";
  host.from_numpy = "jax.numpy.asarray(*)";
  host.to_numpy = "numpy.asarray(*)";
  host.is_tensor = &IsArray;
  host.view = &ViewArray;
  host.allocate = &Allocate;
  host.to_dtype = &DTypeOfType;
  host.sees_calls = "JAX traces and compiles every call";
  host.number_advice =
      "A traced value is not known when the program is made. Try a number of Python, or "
      "static_argnums of jax.jit";
  return PyCapsule_New(&host, ANYOP_PYTHON_HOST, nullptr);
}

// jax_handler(): the function that XLA calls, as jax.ffi.register_ffi_target takes it.
PyObject* MakeHandler(PyObject*, PyObject*) {
  return PyCapsule_New(reinterpret_cast<void*>(&HandleXlaCall), nullptr, nullptr);
}

PyMethodDef g_jax_methods[] = {
    {"jax_record", MakeRecord, METH_VARARGS, "The record of JAX as a host."},
    {"jax_handler", MakeHandler, METH_NOARGS, "What XLA calls for every operator."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void AddJaxFunctions(PyObject* module) {
  if (PyModule_AddFunctions(module, g_jax_methods) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
