// SPDX-License-Identifier: Apache-2.0
#include "define.h"

#include <algorithm>
#include <memory>

#include "bindings/calls/raised.h"
#include "bindings/module_functions.h"
#include "runtime/registry/composition.h"
#include "runtime/registry/registry.h"
#include "signature/expression.h"
#include "signature/symbolic.h"

namespace anyop::python {
namespace {

// (function, the host whose tensors it takes, takes out[, is trusted]). "": the caller's host.
// Borrowed.
DefinedFunction ToFunction(PyObject* row) {
  PyObject* function;
  const char* host;
  int takes_out, is_trusted = 0;
  if (!PyArg_ParseTuple(row, "Osp|p", &function, &host, &takes_out, &is_trusted)) {
    throw ErrorSet{};
  }
  return {function, *host ? InternHostName(host) : nullptr, takes_out != 0, is_trusted != 0};
}

void FillTables(Definition& d) {
  d.kernel.size = sizeof d.kernel;
  d.kernel.name = kPythonKernel;
  d.kernel.run = &RunFunction;
  d.kernel.data = &d;
  d.op.size = sizeof d.op;
  d.op.signature = d.signature.c_str();
  d.op.gradient = d.gradient.c_str();
  d.op.flops = d.flops.c_str();
  d.op.bytes = d.bytes.c_str();
  d.op.n_kernels = 1;
  d.op.kernels = d.kernels;
  d.docs[0] = d.doc.c_str();
  d.files[0] = d.source.c_str();
  d.table.size = sizeof d.table;
  d.table.abi_version = ANYOP_ABI_VERSION;
  d.table.name = d.library.c_str();
  d.table.version = "";
  d.table.n_ops = 1;
  d.table.ops = d.ops;
  d.table.docs = d.docs;
  d.table.files = d.files;
}

// Registers the operator. Whether it is new: then the registry points into the definition, which
// stays; an operator of the same contract is left as it is.
bool RegisterDefinition(std::unique_ptr<Definition> owned, const std::string& name,
                        const char* file) {
  Definition& d = *owned;
  anyop::Define(d.table, file);
  if (DefinitionOf(*FindRegistered(name)) != &d) return false;
  owned.release();
  for (const DefinedFunction& f : d.functions) Py_INCREF(f.function);
  Py_INCREF(d.accept);
  return true;
}

// define(library, signature, gradient, flops, bytes, doc, file, source, functions, accept): (the
// operator's function, whether it is new).
PyObject* Define(PyObject*, PyObject* args) {
  return Guarded([&] {
    PyObject* texts[8];
    PyObject *functions, *accept;
    if (!PyArg_ParseTuple(args, "OOOOOOOOO!O", &texts[0], &texts[1], &texts[2], &texts[3],
                          &texts[4], &texts[5], &texts[6], &texts[7], &PyList_Type, &functions,
                          &accept)) {
      throw ErrorSet{};
    }
    auto owned = std::make_unique<Definition>();
    Definition& d = *owned;
    d.library = ToText(texts[0], "define: the library");
    d.signature = ToText(texts[1], "define: the signature");
    d.gradient = ToText(texts[2], "define: the gradient");
    d.flops = ToText(texts[3], "define: flops");
    d.bytes = ToText(texts[4], "define: bytes");
    d.doc = ToNameShown(texts[5]);
    d.source = ToNameShown(texts[7]);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(functions); ++i) {
      d.functions.push_back(ToFunction(PyList_GET_ITEM(functions, i)));
    }
    if (d.functions.empty()) ThrowTypeError("define: there is no function.");
    d.accept = accept;
    FillTables(d);  // last: its tables point into the texts
    const std::string name = d.library + "." + ParseContract(d.signature)->name;
    const bool is_new = RegisterDefinition(std::move(owned), name, ToNameShown(texts[6]).c_str());
    PyObject* function = PyDict_GetItemString(Functions(), name.c_str());
    return Py_BuildValue("(OO)", function, is_new ? Py_True : Py_False);
  });
}

// parse(signature): the contract as JSON, as contract_json gives it; nothing is registered.
PyObject* Parse(PyObject*, PyObject* text) {
  return Guarded([&] {
    return ToPython(ContractJson(*ParseContract(ToText(text, "define: the signature")))).release();
  });
}

// parse_expression(signature, field, text): raises what loading a library with this field would.
PyObject* ParseExpression(PyObject*, PyObject* const* args, Py_ssize_t n_args) {
  return Guarded([&] {
    if (n_args != 3) ThrowTypeError("parse_expression: needs a signature, a field and a text.");
    const auto contract = ParseContract(ToText(args[0], "parse_expression: the signature"));
    const std::string field = ToText(args[1], "parse_expression: the field");
    const std::string text = ToText(args[2], "parse_expression: the text");
    if (field == "when") {
      CompileConditions(*contract, text);
    } else if (field == "means" || field == "prepack") {
      ParseCompositions(*contract, text,
                        field == "means" ? CompositionField::kMeans : CompositionField::kPrepack);
    } else {
      const bool has_threads = field == "workspace";
      CompileExpression(*contract, text, has_threads ? ThreadsName::kKnown : ThreadsName::kUnknown);
    }
    return Ref::Borrow(Py_None).release();
  });
}

// dtype_name(numpy.float32 or a framework's dtype): "f32"; its own text for a dtype that anyop
// lacks.
PyObject* NameOfDType(PyObject*, PyObject* object) {
  return Guarded([&] {
    const int dtype = DTypeOfAnyHost(object);
    if (dtype >= 0) return ToPython(Name(DType(dtype))).release();
    return Checked(PyObject_Str(object)).release();
  });
}

// raise_again(): see Raised::Wait.
PyObject* RaiseAgain(PyObject*, PyObject*) {
  return Raised::RestoreWaiting() ? nullptr : Py_NewRef(Py_None);
}

PyMethodDef g_define_methods[] = {
    {"define", Define, METH_VARARGS, "Registers an operator whose kernel is a function."},
    {"parse", Parse, METH_O, "The contract of a signature, as JSON."},
    {"parse_expression", AsMethod(&ParseExpression), METH_FASTCALL, "Checks an operator's field."},
    {"dtype_name", NameOfDType, METH_O, "anyop's name of a dtype of any host."},
    {"raise_again", RaiseAgain, METH_NOARGS, "Raises what waits for a framework's dispatcher."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

const DefinedFunction& Definition::For(HostName caller) const {
  const auto of = [&](HostName host) {
    return std::find_if(functions.begin(), functions.end(),
                        [&](const DefinedFunction& f) { return f.takes == host; });
  };
  auto found = caller ? of(caller) : functions.end();
  if (found == functions.end()) found = of(nullptr);
  return found == functions.end() ? functions.front() : *found;
}

Definition* DefinitionOf(const Operator& op) {
  const auto kernel = std::ranges::find_if(
      op.kernels, [](const OperatorKernel& k) { return k.data.run == &RunFunction; });
  if (kernel == op.kernels.end()) return nullptr;
  return static_cast<Definition*>(const_cast<void*>(kernel->data.data));
}

void AddDefineFunctions(PyObject* module) {
  if (PyModule_AddFunctions(module, g_define_methods) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
