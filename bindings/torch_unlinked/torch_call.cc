// SPDX-License-Identifier: Apache-2.0
// Calls that torch's dispatcher must see: the same arguments, given to the torch operator that was
// registered from the same signature.
#include "torch_call.h"

#include <span>
#include <unordered_map>

#include "bindings/host/elsewhere.h"
#include "bindings/host/slots.h"
#include "bindings/module_functions.h"
#include "bindings/torch/texts.h"
#include "bindings/torch_unlinked/torch_schema.h"
#include "signature/facts.h"

namespace anyop::python {
namespace {

// The overloads of an operator's torch operator, once they are registered.
struct TorchOverloads {
  PyObject *functional = nullptr, *out = nullptr;
  bool takes_mask = false;
};
std::unordered_map<const OperatorInfo*, TorchOverloads>& Overloads() {
  static auto& table = *new std::unordered_map<const OperatorInfo*, TorchOverloads>;
  return table;
}

Ref TorchArgument(const Parameter& param, PyObject* object) {
  if (!object) return DefaultObject(TorchHost(), param);
  if (param.kind != ParamKind::kDType || object == Py_None) return Ref::Borrow(object);
  const int dtype = DTypeOfAnyHost(object);
  return Ref::Borrow(dtype < 0 || !g_torch.dtype_objects[dtype] ? object
                                                                : g_torch.dtype_objects[dtype]);
}

// Registered now if its library was loaded a moment ago.
const TorchOverloads& OverloadsOf(const OperatorInfo& info) {
  if (const auto found = Overloads().find(&info); found != Overloads().end()) return found->second;
  const Ref host = Checked(PyImport_ImportModule("anyop.torch"));
  const Ref done = Checked(PyObject_CallMethod(host.get(), "register_new", nullptr));
  const auto found = Overloads().find(&info);
  if (found != Overloads().end()) return found->second;
  Fail(ANYOP_NOT_AVAILABLE, info.name +
                                ": it has no torch operator. Try anyop doctor, which says what "
                                "keeps the torch host from working.");
}

// Which results are wanted, as torch's operator takes it. Null if all are.
Ref OutputMask(const OperatorInfo& info, const TorchOverloads& op, PyObject* const* given) {
  bool all = true;
  for (int r = 0; r < info.n_results; ++r) all &= given[r] != Py_False;
  if (all || !op.takes_mask) return Ref();
  Ref mask = Checked(PyList_New(info.n_results));
  for (int r = 0; r < info.n_results; ++r) {
    PyList_SET_ITEM(mask.get(), r, Py_NewRef(given[r] == Py_False ? Py_False : Py_True));
  }
  return mask;
}

// Copies what was computed into the tensors that the caller gave for some of the results: torch's
// out overload takes all of them or none.
Ref CopyInto(const OperatorInfo& info, Ref results, PyObject* const* given) {
  Ref made = Checked(PyTuple_New(info.n_results));
  for (int r = 0; r < info.n_results; ++r) {
    Ref kept = info.n_results == 1 ? Ref::Borrow(results.get()) : ResultOf(results.get(), r);
    if (given[r] && given[r] != Py_False && kept.get() != Py_None) {
      kept = Checked(PyObject_CallMethod(given[r], "copy_", "O", kept.get()));
    }
    PyTuple_SET_ITEM(made.get(), r, kept.release());
  }
  return made;
}

// The results of an out overload of several, which returns nothing itself: torch.compile refuses
// several results that alias arguments.
Ref GivenResults(const OperatorInfo& info, PyObject* const* given) {
  if (info.n_results == 1) return Ref::Borrow(given[0]);
  Ref tuple = Checked(PyTuple_New(info.n_results));
  for (int r = 0; r < info.n_results; ++r) {
    PyTuple_SET_ITEM(tuple.get(), r, Py_NewRef(given[r]));
  }
  return tuple;
}

// torch_route(function, default overload, out overload or None)
PyObject* SetRoute(PyObject*, PyObject* args) {
  return Guarded([&] {
    PyObject *function, *overload, *out;
    if (!PyArg_ParseTuple(args, "OOO", &function, &overload, &out)) throw ErrorSet{};
    OperatorInfo& info = ToOperator(function);
    Overloads()[&info] = {Py_NewRef(overload), out == Py_None ? nullptr : Py_NewRef(out),
                          FactsOf(*info.op->contract).takes_mask};
    return Py_NewRef(Py_None);
  });
}

// result_type(function): the named tuple that an operator with several results returns.
PyObject* GetResultType(PyObject*, PyObject* function) {
  return Guarded([&] {
    OperatorInfo& info = ToOperator(function);
    if (info.n_results < 2) return Py_NewRef(Py_None);
    return Py_NewRef(reinterpret_cast<PyObject*>(ResultType(info)));
  });
}

// (functional, out, in place); "" where there is no such variant.
PyObject* GetSchemas(PyObject*, PyObject* op) {
  return Guarded([&] {
    const Contract& contract = *ToOperator(op).op->contract;
    return Py_BuildValue("(sss)", TorchSchema(contract).c_str(),
                         TorchSchema(contract, SchemaKind::kOut).c_str(),
                         TorchSchema(contract, SchemaKind::kInPlace).c_str());
  });
}

Ref TupleOf(std::span<const char* const> words) {
  Ref tuple = Checked(PyTuple_New(Py_ssize_t(words.size())));
  for (std::size_t i = 0; i < words.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), Py_ssize_t(i), ToPython(words[i]).release());
  }
  return tuple;
}

// torch_texts(): see the stub.
PyObject* GetTorchTexts(PyObject*, PyObject*) {
  return Guarded([&] {
    return Py_BuildValue(
        "(OOOO)", DictOf(torch_texts::kAll).get(), DictOf(torch_texts::kLayouts).get(),
        TupleOf(torch_texts::kWrongLayoutKeys).get(), TupleOf(torch_texts::kDeviceKeys).get());
  });
}

PyMethodDef g_torch_call_methods[] = {
    {"torch_texts", GetTorchTexts, METH_NOARGS,
     "What torch's operators refuse, and in which words."},
    {"schemas", GetSchemas, METH_O, "The schemas of an operator in PyTorch's language."},
    {"torch_route", SetRoute, METH_VARARGS, "Sets the torch operator behind a function."},
    {"result_type", GetResultType, METH_O, "The named tuple of several results, or None."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyObject* CallTorchOperator(OperatorInfo& info, const Slots& slots) {
  PyObject* given[kMaxResults];
  FindGiven(info, slots.out, given);
  int n_given = 0;
  for (int r = 0; r < info.n_results; ++r) n_given += given[r] && given[r] != Py_False;
  const TorchOverloads& op = OverloadsOf(info);
  Ref arguments = Checked(PyTuple_New(info.n_params));
  for (int i = 0; i < info.n_params; ++i) {
    const Parameter& param = info.params[std::size_t(i)];
    if (!slots[i] && param.is_required) RefuseMissing(info, param);
    PyTuple_SET_ITEM(arguments.get(), i, TorchArgument(param, slots[i]).release());
  }
  Ref keywords = Checked(PyDict_New());
  if (n_given && n_given == info.n_results && op.out) {
    for (int r = 0; r < info.n_results; ++r) {
      const std::string name =
          info.n_results == 1 ? "out" : "out_" + ToText(info.result_names[std::size_t(r)], "out");
      if (PyDict_SetItemString(keywords.get(), name.c_str(), given[r]) < 0) throw ErrorSet{};
    }
    Ref made = Checked(PyObject_Call(op.out, arguments.get(), keywords.get()));
    // torch.fx returns a proxy even for a call that returns nothing.
    if (made.get() == Py_None || info.n_results > 1) made = GivenResults(info, given);
    return NamedResults(info, std::move(made));
  }
  const Ref mask = OutputMask(info, op, given);
  if (mask && PyDict_SetItemString(keywords.get(), "output_mask", mask.get()) < 0) throw ErrorSet{};
  Ref results = Checked(PyObject_Call(op.functional, arguments.get(), keywords.get()));
  if (info.n_results == 1 && given[0] == Py_False) return Py_NewRef(Py_None);
  if (n_given) results = CopyInto(info, std::move(results), given);
  if (n_given && info.n_results == 1) return Py_NewRef(PyTuple_GET_ITEM(results.get(), 0));
  return NamedResults(info, std::move(results));
}

void AddTorchRouteFunctions(PyObject* module) {
  if (PyModule_AddFunctions(module, g_torch_call_methods) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
