// SPDX-License-Identifier: Apache-2.0
// Generated calls for the tests of hosts: what to pass, not what it holds.
#include "bindings/module_functions.h"
#include "bindings/operators/op_object.h"
#include "signature/generate.h"

namespace anyop::python {
namespace {

Ref Pair(const char* format, PyObject* first, PyObject* second) {
  return Checked(Py_BuildValue(format, first, second));
}

// ("f32", [2, 3])
Ref TensorType(const DLTensor& t) {
  const std::string_view name = Name(DType(FromDL(t.dtype)));
  const Ref shape = ListOf(t.shape, std::size_t(t.ndim),
                           [](std::int64_t n) { return Checked(PyLong_FromLongLong(n)); });
  return Pair("(OO)", ToPython(name).get(), shape.get());
}

Ref ToArgument(const anyop_value& v) {
  switch (v.tag) {
    case ANYOP_DTYPE:
      return ToPython(Name(DType(v.i)));
    case ANYOP_TENSOR:
      return TensorType(*v.t);
    case ANYOP_TENSORS:
      return ListOf(v.ts, v.count, [](const DLTensor* t) { return TensorType(*t); });
    default:
      return ToObject(v);
  }
}

// ("below", 7), ("offsets", 3) or None.
Ref RuleOf(const Contract& contract, const GeneratedCall& call, int i) {
  const Param& p = contract.forms[std::size_t(call.form)].params[std::size_t(i)];
  if (p.rule == IndexRule::kNone) return Ref::Borrow(Py_None);
  const Number bound = Evaluate(contract, call.form, p.bound, call.bindings, call.call.frame());
  const char* name = p.rule == IndexRule::kBelow ? "below" : "offsets";
  return Checked(Py_BuildValue("(sL)", name, static_cast<long long>(bound.known ? bound.i : 0)));
}

template <class F>
void ForItems(PyObject* dict, F f) {
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(dict, &at, &key, &value)) f(ToText(key, "a name"), value);
}

// example_call(op, seed, form, dtypes, given): see the stub.
PyObject* ExampleCall(PyObject*, PyObject* args) {
  return Guarded([&] {
    PyObject *function, *dtypes, *given;
    unsigned long long seed;
    GenerateOptions options;
    if (!PyArg_ParseTuple(args, "OKiO!O!", &function, &seed, &options.form, &PyDict_Type, &dtypes,
                          &PyDict_Type, &given)) {
      throw ErrorSet{};
    }
    ForItems(dtypes, [&](std::string name, PyObject* dtype) {
      options.dtypes[name] = DType(FindDType(ToText(dtype, "a dtype")));
    });
    ForItems(given, [&](std::string name, PyObject* is_given) {
      options.given[name] = is_given == Py_True;
    });
    options.sizes = {1, 2, 3, 4, 5, 8};
    const OperatorInfo& info = ToOperator(function);
    const Contract& contract = *info.op->contract;
    if (options.form >= int(contract.forms.size())) {
      ThrowValueError(info.name + " has " + std::to_string(contract.forms.size()) +
                      " forms, but form " + std::to_string(options.form) + " is asked for.");
    }
    Random random(seed);
    const auto call = Generate(contract, random, options);
    if (!call) return Py_NewRef(Py_None);
    Ref list = Checked(PyList_New(info.n_params));
    for (int i = 0; i < info.n_params; ++i) {
      const Ref value = ToArgument(call->call[i]), rule = RuleOf(contract, *call, i);
      PyList_SET_ITEM(list.get(), i, Pair("(OO)", value.get(), rule.get()).release());
    }
    return list.release();
  });
}

PyMethodDef g_example_methods[] = {
    {"example_call", ExampleCall, METH_VARARGS, "The arguments of a generated call."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void AddExampleFunctions(PyObject* module) {
  if (PyModule_AddFunctions(module, g_example_methods) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
