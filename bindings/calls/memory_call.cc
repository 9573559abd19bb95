// SPDX-License-Identifier: Apache-2.0
// Calls on memory that is described by numbers: for a host that has no compiled adapter.
#include <algorithm>

#include "anyop/value.h"
#include "bindings/module_functions.h"
#include "call.h"
#include "raised.h"
#include "runtime/plan/calling_host.h"
#include "runtime/plan/make_plan.h"

namespace anyop::python {
namespace {

// A described tensor, with its own shape and strides.
struct Described {
  DLTensor tensor;
  std::int64_t shape[kMaxRank], strides[kMaxRank];
};

int FillSizes(PyObject* tuple, std::int64_t* to) {
  if (!PyTuple_Check(tuple)) ThrowTypeError("call_memory: a shape must be a tuple.");
  const Py_ssize_t n = PyTuple_GET_SIZE(tuple);
  if (n > kMaxRank) ThrowValueError("call_memory: a tensor has more than 8 dimensions.");
  for (Py_ssize_t i = 0; i < n; ++i) {
    to[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
    if (to[i] == -1 && PyErr_Occurred()) throw ErrorSet{};
  }
  return int(n);
}

// (address, "bf16", shape, strides in elements)
void DescribeMemory(PyObject* object, Described& to) {
  unsigned long long address;
  const char* dtype_name;
  PyObject *shape, *strides;
  if (!PyArg_ParseTuple(object, "KsOO", &address, &dtype_name, &shape, &strides)) throw ErrorSet{};
  const int dtype = FindDType(dtype_name);
  if (dtype < 0) ThrowValueError(std::string("call_memory: no dtype is called ") + dtype_name);
  const int rank = FillSizes(shape, to.shape);
  if (FillSizes(strides, to.strides) != rank) {
    ThrowValueError("call_memory: a shape and its strides differ in length.");
  }
  FillTensor(&to.tensor, reinterpret_cast<void*>(std::uintptr_t(address)), kHostDevice,
             ToDL(DType(dtype)), rank, to.shape, to.strides);
}

Described& NextTensor(CallMemory& memory) { return *memory.Array<Described>(1); }

void SetTensor(anyop_value& value, PyObject* object, CallMemory& memory) {
  Described& described = NextTensor(memory);
  DescribeMemory(object, described);
  value = TensorValue(&described.tensor);
}

void SetTensors(anyop_value& value, PyObject* object, CallMemory& memory) {
  const Ref tuple = Checked(PySequence_Tuple(object));
  const std::size_t n = std::size_t(PyTuple_GET_SIZE(tuple.get()));
  auto* list = memory.Array<const DLTensor*>(n);
  for (std::size_t i = 0; i < n; ++i) {
    Described& described = NextTensor(memory);
    DescribeMemory(PyTuple_GET_ITEM(tuple.get(), Py_ssize_t(i)), described);
    list[i] = &described.tensor;
  }
  value = TensorsValue(list, n);
}

void FillParams(const OperatorInfo& info, PyObject* args, CallMemory& memory, anyop_value* frame) {
  for (int i = 0; i < info.n_params; ++i) {
    const Parameter& param = info.params[std::size_t(i)];
    PyObject* object = PyTuple_GET_ITEM(args, i);
    if (object == Py_None) {
      frame[i] = {};
    } else if (param.kind == ParamKind::kTensor) {
      SetTensor(frame[i], object, memory);
    } else if (param.kind == ParamKind::kTensors) {
      SetTensors(frame[i], object, memory);
    } else {
      ConvertOther(info, param, object, memory, frame[i]);
    }
  }
}

Ref ShapeTuple(const ResultShape& result) {
  Ref shape = Checked(PyTuple_New(std::max(result.rank, 0)));
  for (int i = 0; i < result.rank; ++i) {
    PyTuple_SET_ITEM(shape.get(), i, Checked(PyLong_FromLongLong(result.shape[i])).release());
  }
  return shape;
}

// What allocate(dtype name, shape) returns: any object, and its description.
Ref AllocateResult(PyObject* allocate, const ResultShape& result, CallMemory& memory,
                   anyop_value& value) {
  const Ref shape = ShapeTuple(result);
  const std::string name(Name(result.dtype));
  const Ref pair = Checked(PyObject_CallFunction(allocate, "sO", name.c_str(), shape.get()));
  PyObject *object, *description;
  if (!PyArg_ParseTuple(pair.get(), "OO", &object, &description)) throw ErrorSet{};
  SetTensor(value, description, memory);
  return Ref::Borrow(object);
}

struct DescribedCall {
  const OperatorInfo& info;
  CallMemory memory{nullptr, nullptr};
  anyop_value frame[kMaxParams + kMaxResults];

  DescribedCall(const OperatorInfo& op, PyObject* arguments, PyObject* given) : info(op) {
    if (PyTuple_GET_SIZE(arguments) != info.n_params || PyTuple_GET_SIZE(given) != info.n_results) {
      ThrowTypeError("call_memory: every parameter and every result needs an entry.");
    }
    FillParams(info, arguments, memory, frame);
    for (int r = 0; r < info.n_results; ++r) {
      PyObject* object = PyTuple_GET_ITEM(given, r);
      result(r) = {};
      if (PyTuple_Check(object)) SetTensor(result(r), object, memory);
    }
  }
  anyop_value& result(int r) { return frame[info.n_params + r]; }
  HeldPlan plan() { return GetPlan(*info.op, frame); }
};

// call_memory(op, arguments, given, allocate, host): see the stub.
PyObject* CallMemoryFunction(PyObject*, PyObject* args) {
  return Guarded([&] {
    PyObject *function, *arguments, *given, *allocate;
    const char* host_name;
    if (!PyArg_ParseTuple(args, "OO!O!Os", &function, &PyTuple_Type, &arguments, &PyTuple_Type,
                          &given, &allocate, &host_name)) {
      throw ErrorSet{};
    }
    const OperatorInfo& info = ToOperator(function);
    DescribedCall call(info, arguments, given);
    const HeldPlan plan = call.plan();
    Ref list = Checked(PyTuple_New(info.n_results));
    for (int r = 0; r < info.n_results; ++r) {
      Ref object = Ref::Borrow(Py_None);
      if (PyTuple_GET_ITEM(given, r) == Py_None) {
        object = AllocateResult(allocate, plan->results[r], call.memory, call.result(r));
      }
      PyTuple_SET_ITEM(list.get(), r, object.release());
    }
    const CallingHost host(InternHostName(host_name));
    // Planned anew, because the results that `allocate` made may have any strides.
    const auto run = [&] { Run(*info.op, *call.plan(), call.frame); };
    // What the kernel raises belongs to the call of Python's that this one is part of. Where there
    // is none, this is that call.
    PythonCall::innermost ? run() : Raising(run, /*is_plain=*/true);
    return list.release();
  });
}

// plan_memory(op, arguments, given): see the stub.
PyObject* PlanMemory(PyObject*, PyObject* args) {
  return Guarded([&] {
    PyObject *function, *arguments, *given;
    if (!PyArg_ParseTuple(args, "OO!O!", &function, &PyTuple_Type, &arguments, &PyTuple_Type,
                          &given)) {
      throw ErrorSet{};
    }
    const OperatorInfo& info = ToOperator(function);
    DescribedCall call(info, arguments, given);
    const HeldPlan plan = call.plan();
    Ref list = Checked(PyTuple_New(info.n_results));
    for (int r = 0; r < info.n_results; ++r) {
      const std::string name(Name(plan->results[r].dtype));
      PyObject* pair = Py_BuildValue("(sO)", name.c_str(), ShapeTuple(plan->results[r]).get());
      PyTuple_SET_ITEM(list.get(), r, Checked(pair).release());
    }
    return list.release();
  });
}

// flops_memory(op, arguments, given): see the stub.
PyObject* FlopsMemory(PyObject*, PyObject* args) {
  return Guarded([&] {
    PyObject *function, *arguments, *given;
    if (!PyArg_ParseTuple(args, "OO!O!", &function, &PyTuple_Type, &arguments, &PyTuple_Type,
                          &given)) {
      throw ErrorSet{};
    }
    DescribedCall call(ToOperator(function), arguments, given);
    const HeldPlan plan = call.plan();
    return PyFloat_FromDouble(ValueOf(plan->op->flops, *plan, call.frame, 0));
  });
}

PyMethodDef g_memory_methods[] = {
    {"call_memory", CallMemoryFunction, METH_VARARGS, "A call on memory described by numbers."},
    {"plan_memory", PlanMemory, METH_VARARGS, "The results of such a call, which is not made."},
    {"flops_memory", FlopsMemory, METH_VARARGS, "The flops of such a call, which is not made."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void AddMemoryCallFunctions(PyObject* module) {
  if (PyModule_AddFunctions(module, g_memory_methods) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
