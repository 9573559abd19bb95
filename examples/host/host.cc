// SPDX-License-Identifier: Apache-2.0
// The adapter of a framework called toy, whose tensors are objects of Python that hold a DLPack
// capsule. It links nothing; `toy.py` is its other half.
#include "anyop/python_host.h"

#include <cstdlib>

namespace {

struct Managed {  // DLPack's DLManagedTensor, with room for what it points to
  DLTensor tensor;
  void* context;
  void (*deleter)(Managed*);
  void* owner;
  void (*release)(void*);
  int64_t shape[ANYOP_HOST_MAX_RANK], strides[ANYOP_HOST_MAX_RANK];
};

PyObject* g_class;  // toy.Tensor(capsule)

void End(Managed* m) {
  m->release(m->owner);
  delete m;
}
void EndCapsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;  // a consumer has taken the tensor
  auto* m = static_cast<Managed*>(PyCapsule_GetPointer(capsule, "dltensor"));
  m->deleter(m);
}
void DropObject(void* object) { Py_DECREF(static_cast<PyObject*>(object)); }

// A capsule of t's memory; release(owner) ends it.
PyObject* NewCapsule(const DLTensor& t, void* owner, void (*release)(void*)) {
  auto* m = new Managed{t, nullptr, &End, owner, release, {}, {}};
  int64_t stride = 1;
  for (int i = t.ndim - 1; i >= 0; stride *= t.shape[i--]) {
    m->shape[i] = t.shape[i];
    m->strides[i] = t.strides ? t.strides[i] : stride;
  }
  m->tensor.shape = m->shape;
  m->tensor.strides = m->strides;
  return PyCapsule_New(m, "dltensor", &EndCapsule);
}

const DLTensor& TensorOf(PyObject* object) {  // which keeps its capsule
  PyObject* capsule = PyObject_GetAttrString(object, "capsule");
  Py_DECREF(capsule);
  return static_cast<Managed*>(PyCapsule_GetPointer(capsule, "dltensor"))->tensor;
}
PyObject* NewTensor(PyObject* capsule) {  // takes it over
  PyObject* made = capsule ? PyObject_CallOneArg(g_class, capsule) : nullptr;
  Py_XDECREF(capsule);
  return made;
}

int IsTensor(PyObject* object) {
  return PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(g_class));
}

int View(PyObject* object, int, anyop_host_view* view) {
  PyObject* needed = PyObject_GetAttrString(object, "needs_gradient");
  const bool elsewhere = needed == Py_True;
  Py_XDECREF(needed);
  view->reason = "a gradient is needed";
  if (!elsewhere) view->tensor = TensorOf(object);
  return elsewhere;
}

PyObject* Allocate(DLDataType dtype, int rank, const int64_t* shape, anyop_host_view* view) {
  size_t bytes = dtype.bits / 8;
  for (int i = 0; i < rank; ++i) bytes *= size_t(shape[i]);
  void* memory = aligned_alloc(64, (bytes + 64) & ~size_t{63});
  if (!memory) return PyErr_NoMemory();
  const DLTensor t = {memory, {1, 0}, rank, dtype, const_cast<int64_t*>(shape), nullptr, 0};
  PyObject* made = NewTensor(NewCapsule(t, memory, &free));
  if (made) view->tensor = TensorOf(made);
  return made;
}

PyObject* Lend(const DLTensor* t, int, void* owner, void (*release)(void*)) {
  return NewTensor(NewCapsule(*t, owner, release));
}

// export(tensor): a capsule for others, as its __dlpack__ gives it.
PyObject* Export(PyObject*, PyObject* tensor) {
  return NewCapsule(TensorOf(tensor), Py_NewRef(tensor), &DropObject);
}

// record(Tensor): what anyop.hosting.register takes.
PyObject* Record(PyObject*, PyObject* tensor_class) {
  g_class = Py_NewRef(tensor_class);
  static anyop_python_host host = {};
  host.size = sizeof host;
  host.module = "toy";
  host.noun = "toy tensor";
  host.from_numpy = "toy.Tensor(*.__dlpack__())";
  host.to_numpy = "numpy.from_dlpack(*)";
  host.is_tensor = &IsTensor;
  host.view = &View;
  host.allocate = &Allocate;
  host.lend = &Lend;
  return PyCapsule_New(&host, ANYOP_PYTHON_HOST, nullptr);
}

PyMethodDef g_methods[] = {{"record", Record, METH_O, nullptr},
                           {"export", Export, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};
PyModuleDef g_module = {
    PyModuleDef_HEAD_INIT, "toy_host", nullptr, -1, g_methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_toy_host() { return PyModule_Create(&g_module); }
