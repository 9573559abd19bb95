// SPDX-License-Identifier: Apache-2.0
#include "define.h"

#include <memory>

#include "module.h"
#include "signature/symbolic.h"

namespace anyop::python {
namespace {

// (function, takes torch tensors, takes out[, is trusted]) for callers of one host.
DefinedFunction ToFunction(PyObject* row) {
  PyObject* function;
  int is_torch, takes_out, is_trusted = 0;
  if (!PyArg_ParseTuple(row, "Opp|p", &function, &is_torch, &takes_out, &is_trusted)) {
    throw ErrorSet{};
  }
  return {Py_NewRef(function), is_torch ? ObjectKind::kTorch : ObjectKind::kNumpy, takes_out != 0,
          is_trusted != 0};
}

void FillTables(Definition& d) {
  d.kernel.size = sizeof d.kernel;
  d.kernel.name = "cpu_python";
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

// define(library, signature, gradient, flops, bytes, doc, file, source, for NumPy, for torch,
// accept): (the operator's function, whether it is new). An operator of the same contract stays.
PyObject* Define(PyObject*, PyObject* args) {
  return Guarded([&] {
    const char *library, *signature, *gradient, *flops, *bytes, *doc, *file, *source;
    PyObject *for_numpy, *for_torch, *accept;
    if (!PyArg_ParseTuple(args, "ssssssssO!O!O", &library, &signature, &gradient, &flops, &bytes,
                          &doc, &file, &source, &PyTuple_Type, &for_numpy, &PyTuple_Type,
                          &for_torch, &accept)) {
      throw ErrorSet{};
    }
    auto owned = std::make_unique<Definition>();
    Definition& d = *owned;
    d.library = library, d.signature = signature, d.gradient = gradient;
    d.flops = flops, d.bytes = bytes, d.doc = doc, d.source = source;
    FillTables(d);
    const std::string name = d.library + "." + ParseContract(d.signature)->name;
    anyop::Define(d.table, file);
    PyObject* function = PyDict_GetItemString(Functions(), name.c_str());
    OperatorInfo& info = ToOperator(function);
    const auto& kernels = info.op->kernels;
    const bool is_new = kernels.size() == 1 && kernels[0].data.data == &d;
    if (is_new) {
      owned.release();
      d.info = &info;
      d.functions[0] = ToFunction(for_numpy);
      d.functions[1] = ToFunction(for_torch);
      d.accept = Py_NewRef(accept);
      info.method.ml_meth =
          reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&CallDefined));
    }
    return Py_BuildValue("(OO)", function, is_new ? Py_True : Py_False);
  });
}

// parse(signature): the contract as JSON, as contract_json gives it; nothing is registered.
PyObject* Parse(PyObject*, PyObject* text) {
  return Guarded(
      [&] { return ToPython(ContractJson(*ParseContract(ToText(text, "signature")))).release(); });
}

// dtype_name(numpy.float32 or torch.float32): "f32"; its own text for a dtype that anyop lacks.
PyObject* NameOfDType(PyObject*, PyObject* object) {
  return Guarded([&] {
    int dtype = TorchDType(object);
    if (dtype < 0) dtype = ToDType(object);
    if (dtype >= 0) return ToPython(Name(DType(dtype))).release();
    return Checked(PyObject_Str(object)).release();
  });
}

PyMethodDef g_methods[] = {
    {"define", Define, METH_VARARGS, "Registers an operator whose kernel is a function."},
    {"parse", Parse, METH_O, "The contract of a signature, as JSON."},
    {"dtype_name", NameOfDType, METH_O, "anyop's name of a dtype of NumPy or torch."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void AddDefineFunctions(PyObject* module) {
  if (PyModule_AddFunctions(module, g_methods) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
