// SPDX-License-Identifier: Apache-2.0
// Functions of the module _anyop by which anyop.torch sets up what reads PyTorch's tensors.
#include <string>
#include <vector>

#include "bindings/module_functions.h"
#include "torch_view.h"

namespace anyop::python {
namespace {

// torch_know(torch): from here on, torch's tensors are told apart from arrays.
PyObject* Know(PyObject*, PyObject* torch) {
  return Guarded([&] {
    LearnTorchTypes(torch);
    StopExpecting("torch");
    return Py_NewRef(Py_None);
  });
}

// torch_calibrate(forward_ad, probes, plain keys, keys of an inference tensor): see CalibrateTorch.
PyObject* Calibrate(PyObject*, PyObject* args) {
  return Guarded([&] {
    PyObject *forward_ad, *probes;
    unsigned long long plain, inference;
    if (!PyArg_ParseTuple(args, "OO!KK", &forward_ad, &PyList_Type, &probes, &plain, &inference)) {
      throw ErrorSet{};
    }
    return ToPython(CalibrateTorch(forward_ad, probes, plain, inference)).release();
  });
}

// torch_set_functions(empty, device_of): addresses of functions of our adapter. What makes fresh
// results, in place of torch's own function, and what says where a tensor lies.
PyObject* SetFunctions(PyObject*, PyObject* args) {
  unsigned long long empty, device_of;
  if (!PyArg_ParseTuple(args, "KK", &empty, &device_of)) return nullptr;
  g_torch_functions.empty = reinterpret_cast<decltype(g_torch_functions.empty)>(empty);
  g_torch_functions.device_of = reinterpret_cast<decltype(g_torch_functions.device_of)>(device_of);
  Py_RETURN_NONE;
}

// torch_thread_keys(): the two words of this thread's dispatch keys.
PyObject* GetThreadKeys(PyObject*, PyObject*) {
  return Guarded([] {
    using Word = unsigned long long;
    return Py_BuildValue("(KK)", Word(ThreadKeys()[0]), Word(ThreadKeys()[1]));
  });
}

// torch_enable(is_fast, included, excluded): the keys of a thread in inference mode.
PyObject* Enable(PyObject*, PyObject* args) {
  int is_fast;
  unsigned long long included, excluded;
  if (!PyArg_ParseTuple(args, "pKK", &is_fast, &included, &excluded)) return nullptr;
  g_torch_fast.inference[0] = included;
  g_torch_fast.inference[1] = excluded;
  g_torch_fast.is_on = is_fast;
  Py_RETURN_NONE;
}

// torch_reason(tensor): why a call that reads this tensor goes through the dispatcher; "" if not.
PyObject* GetReason(PyObject*, PyObject* tensor) {
  return Guarded([&] {
    TorchCall call;
    View view;
    const Ref name = ToPython("x");
    call.Convert({"torch_reason", name.get()}, Access::kRead, tensor, view);
    return ToPython(Describe(call.route())).release();
  });
}

// torch_view(tensor): (address, dtype, shape, strides or None), as kernels see it.
PyObject* GetView(PyObject*, PyObject* tensor) {
  return Guarded([&] {
    TorchCall call;
    View view;
    const Ref name = ToPython("x");
    call.Convert({"torch_view", name.get()}, Access::kRead, tensor, view);
    if (call.route() != TorchRoute::kFast) ThrowValueError(Describe(call.route()));
    const DLTensor& t = view.tensor;
    const auto list = [&](const std::int64_t* from) {
      Ref tuple = Checked(PyTuple_New(from ? t.ndim : 0));
      for (int i = 0; from && i < t.ndim; ++i) {
        PyTuple_SET_ITEM(tuple.get(), i, PyLong_FromLongLong(from[i]));
      }
      return tuple;
    };
    return Py_BuildValue("(KsNN)", reinterpret_cast<unsigned long long>(t.data),
                         std::string(Name(DType(FromDL(t.dtype)))).c_str(), list(t.shape).release(),
                         t.strides ? list(t.strides).release() : Py_NewRef(Py_None));
  });
}

// torch_empty(dtype, shape): a result as the fast path allocates it.
PyObject* MakeEmpty(PyObject*, PyObject* args) {
  return Guarded([&] {
    const char* name;
    PyObject* shape;
    if (!PyArg_ParseTuple(args, "sO!", &name, &PyTuple_Type, &shape)) throw ErrorSet{};
    std::vector<std::int64_t> sizes;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); ++i) {
      sizes.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i)));
    }
    const int dtype = FindDType(name);
    if (dtype < 0) ThrowValueError("torch_empty: no such dtype.");
    TorchCall call;
    View view;
    return call.Allocate(DType(dtype), int(sizes.size()), sizes.data(), view).release();
  });
}

PyMethodDef g_torch_api_methods[] = {
    {"torch_know", Know, METH_O, "Learns torch's types."},
    {"torch_calibrate", Calibrate, METH_VARARGS, "Measures the fast path's offsets."},
    {"torch_set_functions", SetFunctions, METH_VARARGS, "Sets functions of our adapter."},
    {"torch_thread_keys", GetThreadKeys, METH_NOARGS, "This thread's dispatch keys."},
    {"torch_enable", Enable, METH_VARARGS, "Switches the fast path."},
    {"torch_reason", GetReason, METH_O, "Why a tensor does not take the fast path."},
    {"torch_view", GetView, METH_O, "A tensor as kernels see it."},
    {"torch_empty", MakeEmpty, METH_VARARGS, "A result as the fast path allocates it."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void AddTorchFunctions(PyObject* module) {
  if (PyModule_AddFunctions(module, g_torch_api_methods) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
