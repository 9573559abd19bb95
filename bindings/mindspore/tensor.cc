// SPDX-License-Identifier: Apache-2.0
// MindSpore's tensors as arguments of calls (anyop/python_host.h). It asks Python's objects of
// MindSpore by the methods that its own classes are made of, so that one build serves every
// MindSpore, and links nothing. Asking for the address waits for what MindSpore has queued.
#include <initializer_list>
#include <iterator>

#include "anyop/python_host.h"
#include "anyop/tensor.h"
#include "anyop/value.h"
#include "dtypes.h"

namespace {

constexpr int kRows = int(std::size(anyop::mindspore::kDTypes));

// An attribute of every tensor. MindSpore's class has it in C++: its getter is called without the
// search that PyObject_GetAttr begins with, which is most of what asking a tensor costs.
struct Attribute {
  PyObject* name = nullptr;
  PyGetSetDef* getter = nullptr;  // null: the class has another kind of attribute

  void Find(PyObject* type, const char* called) {
    name = PyUnicode_InternFromString(called);
    PyObject* found = PyObject_GetAttr(type, name);
    if (found && Py_IS_TYPE(found, &PyGetSetDescr_Type)) {
      getter = reinterpret_cast<PyGetSetDescrObject*>(found)->d_getset;  // lives as the class does
    }
    Py_XDECREF(found);
    PyErr_Clear();
  }
  // A new reference. Null for an error.
  PyObject* Of(PyObject* tensor) const {
    return getter && getter->get ? getter->get(tensor, getter->closure)
                                 : PyObject_GetAttr(tensor, name);
  }
};

// A method of every tensor without arguments, likewise.
struct Method {
  PyObject* function = nullptr;  // (tensor) -> what it says
  PyCFunction direct = nullptr;  // null: it is another kind of function
  PyObject* arguments = nullptr;

  void Keep(PyObject* given) {
    function = Py_NewRef(given);
    if (!Py_IS_TYPE(given, &PyMethodDescr_Type)) return;
    const PyMethodDef* def = reinterpret_cast<PyMethodDescrObject*>(given)->d_method;
    if (def->ml_flags == METH_VARARGS) arguments = PyTuple_New(0);
    if (def->ml_flags == METH_NOARGS || arguments) direct = def->ml_meth;
  }
  // A new reference. Null for an error.
  PyObject* Of(PyObject* tensor) const {
    return direct ? direct(tensor, arguments) : PyObject_CallOneArg(function, tensor);
  }
};

// What Python gives once, and keeps: see Record.
struct MindSpore {
  PyObject* tensor = nullptr;          // the class
  Method address;                      // -> int
  Method is_contiguous;                // -> bool
  Method stride;                       // -> list of ints
  PyObject* needs_gradient = nullptr;  // () -> whether MindSpore differentiates what runs now
  PyObject* empty = nullptr;           // (number of the dtype, shape) -> tensor
  PyObject* lend = nullptr;            // (number of the dtype, shape, strides, memory) -> tensor
  PyObject* jit_globals = nullptr;     // dict of the module that knows what captures calls
  PyObject* trace = nullptr;           // its `_jit_context` while calls are traced
  PyObject* dtypes[kRows] = {};        // in the order of kDTypes
  Attribute shape, dtype, requires_grad;
  PyObject* context_name = nullptr;
} g;

// Whether calls are handed back to the host for a span in MindSpore's timeline; on this thread,
// whether one is already within such a call. Both need Python's lock.
bool g_hands_back = false;
thread_local bool t_is_back = false;

// ---- Tensors.

int IsTensor(PyObject* object) {
  return PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(g.tensor));
}

// The number of a dtype in kDTypes; -1: none. Raises nothing. Most often the object is one of
// g.dtypes; only what looks like a dtype of MindSpore is compared, which runs code of Python's.
int FindDTypeObject(PyObject* object) {
  for (int i = 0; i < kRows; ++i) {
    if (g.dtypes[i] == object) return i;
  }
  if (!Py_IS_TYPE(object, Py_TYPE(g.dtypes[0])) && !PyObject_HasAttrString(object, "tensor_type")) {
    bool is_kin = false;  // each dtype of MindSpore has a class of its own
    for (int i = 0; i < kRows && !is_kin; ++i) is_kin = Py_IS_TYPE(object, Py_TYPE(g.dtypes[i]));
    if (!is_kin) return -1;
  }
  for (int i = 0; i < kRows; ++i) {
    const int is_equal = PyObject_RichCompareBool(g.dtypes[i], object, Py_EQ);
    if (is_equal < 0) PyErr_Clear();
    if (is_equal == 1) return i;
  }
  return -1;
}

// Reads the ints of a tuple or list. Returns how many there are, of which at most
// ANYOP_HOST_MAX_RANK are read: whoever looks at the view refuses a higher rank. -1 for an error.
int ReadInts(PyObject* sequence, int64_t* ints) {
  PyObject* fast = sequence ? PySequence_Fast(sequence, "sizes must be a tuple") : nullptr;
  if (!fast) return -1;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(fast);
  for (Py_ssize_t i = 0; i < n && i < ANYOP_HOST_MAX_RANK; ++i) {
    ints[i] = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(fast, i));
  }
  Py_DECREF(fast);
  return PyErr_Occurred() ? -1 : int(n);
}

// Everything of a tensor but its memory. -1 for an error.
int Describe(PyObject* tensor, anyop_host_view* view) {
  PyObject* shape = g.shape.Of(tensor);
  DLTensor& t = view->tensor;
  t.ndim = ReadInts(shape, view->shape);
  Py_XDECREF(shape);
  if (t.ndim < 0) return -1;
  t.device = anyop::kHostDevice;
  t.shape = view->shape;
  PyObject* dtype = g.dtype.Of(tensor);
  if (!dtype) return -1;
  const int row = FindDTypeObject(dtype);
  Py_DECREF(dtype);
  if (row >= 0) t.dtype = anyop::mindspore::kDTypes[row].dtype;
  return 0;
}

// Whether a gradient may come back to this tensor: it may where MindSpore differentiates what runs
// now and the tensor is among what it differentiates by. -1 for an error.
int NeedsGradient(PyObject* tensor) {
  PyObject* flag = g.requires_grad.Of(tensor);
  if (!flag) return -1;
  Py_DECREF(flag);
  if (flag != Py_True) return 0;
  PyObject* is_on = PyObject_CallNoArgs(g.needs_gradient);
  if (!is_on) return -1;
  Py_DECREF(is_on);
  return is_on == Py_True;
}

// Whether mindspore.jit(capture_mode="trace") runs: it records MindSpore's own operators, and would
// take what others make for constants.
bool IsTraced() { return PyDict_GetItem(g.jit_globals, g.context_name) == g.trace; }

// Sets the strides; null for a contiguous tensor, as most are: asking for that takes less time than
// a list of ints. -1 for an error.
int ReadStrides(PyObject* tensor, anyop_host_view* view) {
  view->tensor.strides = nullptr;
  PyObject* is_contiguous = g.is_contiguous.Of(tensor);
  if (!is_contiguous) return -1;
  Py_DECREF(is_contiguous);
  if (is_contiguous == Py_True) return 0;
  PyObject* strides = g.stride.Of(tensor);
  const int n = ReadInts(strides, view->strides);
  Py_XDECREF(strides);
  if (n == view->tensor.ndim) view->tensor.strides = view->strides;
  return n < 0 ? -1 : 0;
}

int View(PyObject* tensor, int, anyop_host_view* view) {
  if (IsTraced()) {
    PyErr_SetString(PyExc_ValueError,
                    "is traced by mindspore.jit, which records MindSpore's own operators alone. "
                    "Try capture_mode=\"ast\".");
    return -1;
  }
  if (g_hands_back && !t_is_back) {
    view->reason = "a profiler records it";
    return 1;
  }
  const int needs = NeedsGradient(tensor);
  if (needs > 0) view->reason = "a gradient is needed";
  if (needs != 0) return needs;
  if (Describe(tensor, view) < 0) return -1;
  if (ReadStrides(tensor, view) < 0) return -1;
  PyObject* address = g.address.Of(tensor);
  if (!address) return -1;
  view->tensor.data = PyLong_AsVoidPtr(address);
  Py_DECREF(address);
  return PyErr_Occurred() ? -1 : 0;
}

PyObject* TupleOf(const int64_t* ints, int n) {
  PyObject* tuple = PyTuple_New(n);
  for (int i = 0; tuple && i < n; ++i) {
    PyObject* one = PyLong_FromLongLong(ints[i]);
    if (!one) Py_CLEAR(tuple);
    if (one) PyTuple_SET_ITEM(tuple, i, one);
  }
  return tuple;
}

// "f8e4m3", or "such a dtype".
const char* NameOf(DLDataType dtype) {
  const int known = anyop::FromDL(dtype);
  return known < 0 ? "such a dtype" : anyop::kDTypeRows[known].name.data();  // of literals
}

PyObject* Number(DLDataType dtype) {
  const auto* row = anyop::mindspore::FindDType(dtype);
  if (row) return PyLong_FromLong(long(row - anyop::mindspore::kDTypes));
  return PyErr_Format(PyExc_TypeError, "MindSpore has no tensors of %s on the CPU.", NameOf(dtype));
}

PyObject* Allocate(DLDataType dtype, int rank, const int64_t* shape, anyop_host_view* view) {
  PyObject* arguments[] = {Number(dtype), TupleOf(shape, rank)};
  PyObject* made =
      arguments[0] && arguments[1] ? PyObject_Vectorcall(g.empty, arguments, 2, nullptr) : nullptr;
  for (PyObject* a : arguments) Py_XDECREF(a);
  PyObject* address = made ? g.address.Of(made) : nullptr;
  if (!address) {
    Py_XDECREF(made);
    return nullptr;
  }
  for (int i = 0; i < rank; ++i) view->shape[i] = shape[i];
  anyop::FillTensor(&view->tensor, PyLong_AsVoidPtr(address), anyop::kHostDevice, dtype, rank,
                    view->shape);
  Py_DECREF(address);
  return made;
}

// ---- Memory that is lent.

// Ends a loan when its capsule goes.
struct Loan {
  void* owner;
  void (*release)(void*);
};
void EndLoan(PyObject* capsule) {
  auto* loan = static_cast<Loan*>(PyCapsule_GetPointer(capsule, nullptr));
  loan->release(loan->owner);
  delete loan;
}

PyObject* Lend(const DLTensor* t, int, void* owner, void (*release)(void*)) {
  int64_t strides[ANYOP_HOST_MAX_RANK], step = 1;
  for (int i = t->ndim - 1; i >= 0; step *= t->shape[i--]) {
    strides[i] = t->strides ? t->strides[i] : step;
  }
  const auto address = anyop::AddressOf(*t);
  PyObject* arguments[] = {Number(t->dtype), TupleOf(t->shape, t->ndim), TupleOf(strides, t->ndim),
                           PyLong_FromUnsignedLongLong(address), nullptr};
  bool has_all = true;
  for (int i = 0; i < 4; ++i) has_all = has_all && arguments[i];
  // From here on the capsule ends the loan; before, the caller does.
  Loan* loan = has_all ? new Loan{owner, [](void*) {}} : nullptr;
  arguments[4] = loan ? PyCapsule_New(loan, nullptr, &EndLoan) : nullptr;
  PyObject* made = arguments[4] ? PyObject_Vectorcall(g.lend, arguments, 5, nullptr) : nullptr;
  if (made) loan->release = release;
  for (PyObject* a : arguments) Py_XDECREF(a);
  return made;
}

// ---- Dtypes.

PyObject* DTypeObject(DLDataType dtype) {
  const auto* row = anyop::mindspore::FindDType(dtype);
  if (row) return Py_NewRef(g.dtypes[row - anyop::mindspore::kDTypes]);
  return PyErr_Format(PyExc_TypeError, "MindSpore has no %s on the CPU.", NameOf(dtype));
}

int ToDType(PyObject* object, DLDataType* dtype) {
  const int row = FindDTypeObject(object);
  if (row >= 0) *dtype = anyop::mindspore::kDTypes[row].dtype;
  return row >= 0;
}

// ---- The module.

// record(tensor, address, is_contiguous, stride, needs_gradient, empty, lend, jit_globals, trace,
// dtypes): what register takes.
PyObject* Record(PyObject*, PyObject* args) {
  PyObject *address, *is_contiguous, *stride, *dtypes;
  if (!PyArg_ParseTuple(args, "OOOOOOOO!OO!", &g.tensor, &address, &is_contiguous, &stride,
                        &g.needs_gradient, &g.empty, &g.lend, &PyDict_Type, &g.jit_globals,
                        &g.trace, &PyTuple_Type, &dtypes)) {
    return nullptr;
  }
  if (PyTuple_GET_SIZE(dtypes) != kRows) {
    return PyErr_Format(PyExc_ValueError, "record: %d dtypes are needed.", kRows);
  }
  g.address.Keep(address);
  g.is_contiguous.Keep(is_contiguous);
  g.stride.Keep(stride);
  for (PyObject* kept : {g.tensor, g.needs_gradient, g.empty, g.lend, g.jit_globals, g.trace}) {
    Py_INCREF(kept);  // for as long as the process
  }
  for (int i = 0; i < kRows; ++i) g.dtypes[i] = Py_NewRef(PyTuple_GET_ITEM(dtypes, i));
  g.context_name = PyUnicode_InternFromString("_jit_context");
  g.shape.Find(g.tensor, "_shape");
  g.dtype.Find(g.tensor, "_dtype");
  g.requires_grad.Find(g.tensor, "_requires_grad");
  static anyop_python_host host = {};
  host.size = sizeof host;
  host.module = "mindspore";
  host.noun = "MindSpore tensor";
  host.from_numpy = "mindspore.Tensor(*)";
  host.to_numpy = "*.asnumpy()";
  host.is_tensor = &IsTensor;
  host.view = &View;
  host.allocate = &Allocate;
  host.lend = &Lend;
  host.dtype_object = &DTypeObject;
  host.to_dtype = &ToDType;
  return PyCapsule_New(&host, ANYOP_PYTHON_HOST, nullptr);
}

// dtypes(): what names the dtypes, in the order in which `record` takes them.
PyObject* Names(PyObject*, PyObject*) {
  PyObject* names = PyTuple_New(kRows);
  for (int i = 0; names && i < kRows; ++i) {
    const auto& row = anyop::mindspore::kDTypes[i];
    PyObject* pair = Py_BuildValue("(sis)", row.name, row.id, row.own_name);
    if (!pair) Py_CLEAR(names);
    if (pair) PyTuple_SET_ITEM(names, i, pair);
  }
  return names;
}

// hand_back(on): whether calls are handed back.
PyObject* HandBack(PyObject*, PyObject* on) {
  g_hands_back = on == Py_True;
  Py_RETURN_NONE;
}

// take_back(): whether a call was handed back for its span, in which case the thread's calls are
// made until give_back().
PyObject* TakeBack(PyObject*, PyObject*) {
  if (!g_hands_back || t_is_back) Py_RETURN_FALSE;
  t_is_back = true;
  Py_RETURN_TRUE;
}
PyObject* GiveBack(PyObject*, PyObject*) {
  t_is_back = false;
  Py_RETURN_NONE;
}

PyMethodDef g_methods[] = {
    {"dtypes", Names, METH_NOARGS, "(name, TypeId, anyop's name) of each dtype."},
    {"hand_back", HandBack, METH_O, "Whether calls are handed back."},
    {"take_back", TakeBack, METH_NOARGS, "Begins a call handed back."},
    {"give_back", GiveBack, METH_NOARGS, "Ends it."},
    {"record", Record, METH_VARARGS, "What hosting.register takes."},
    {nullptr, nullptr, 0, nullptr}};
PyModuleDef g_module = {PyModuleDef_HEAD_INIT,
                        "_mindspore",
                        nullptr,
                        -1,
                        g_methods,
                        nullptr,
                        nullptr,
                        nullptr,
                        nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__mindspore() { return PyModule_Create(&g_module); }
