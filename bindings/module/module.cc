// SPDX-License-Identifier: Apache-2.0
// anyop._anyop: operators as builtin functions, and what the Python package needs of the runtime.
#define ANYOP_IMPORTS_NUMPY
#include "bindings/python.h"

#include "bindings/calls/bound_call.h"
#include "bindings/functions/define.h"
#include "bindings/graphs/compiled_graph.h"
#include "bindings/module_functions.h"
#include "bindings/numpy/numpy_view.h"
#include "runtime/observe/profile.h"

namespace anyop::python {
namespace {

int ImportNumpy() {
  import_array1(-1);
  return 0;
}

// For a process that is profiled: times a call with the conversions of arguments and results, which
// are most of what the caller of a small call waits for.
template <CallFunction kCall>
PyObject* CallTimed(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  const HostTimer timer;
  return kCall(self, args, n, names);
}

CallFunction CallOf(OperatorInfo& info) {
  Definition* definition = DefinitionOf(*info.op);
  if (definition) definition->info = &info;
  const auto call = definition ? &CallDefined : &CallOperator;
  // Chosen when the function is made, so that calls of any other process pay nothing.
  if (!IsProfiling()) return call;
  return definition ? &CallTimed<&CallDefined> : &CallTimed<&CallOperator>;
}

PyModuleDef g_module = {PyModuleDef_HEAD_INIT,
                        "anyop._anyop",
                        "The C++ side of anyop in Python.",
                        -1,
                        nullptr,
                        nullptr,
                        nullptr,
                        nullptr,
                        nullptr};

PyObject* MakeModule() {
  if (ImportNumpy() < 0) throw ErrorSet{};
  // First what others use: NumPy's types and error classes, then the hosts (NumpyHost()).
  InitTypes();
  InitOpType(&CallOf);
  Ref module = Checked(PyModule_Create(&g_module));
  AddErrorClasses(module.get());
  AddHostFunctions(module.get());
  AddRegisteredHostFunctions(module.get());
  AddJaxFunctions(module.get());
  AddOperatorFunctions(module.get());
  AddScopeFunctions(module.get());
  AddTorchFunctions(module.get());
  AddTorchRouteFunctions(module.get());
  AddTorchThreadFunctions(module.get());
  AddDefineFunctions(module.get());
  AddMemoryCallFunctions(module.get());
  AddExampleFunctions(module.get());
  AddReplayFunctions(module.get());
  AddReplayGraph(module.get());
  AddSavedGraphFunctions(module.get());
  AddGraphCopyFunctions(module.get());
  AddMachineFunctions(module.get());
  AddBoundCallFunctions(module.get());
  AddBoundGraphFunctions(module.get());
  AddInferFunctions(module.get());
  AddTunedFunctions(module.get());
  InitTracedTypes(module.get());
  InitGraphTypes(module.get());
  InitCapturedTypes(module.get());
  return module.release();
}

}  // namespace
}  // namespace anyop::python

PyMODINIT_FUNC PyInit__anyop() {
  using namespace anyop::python;
  return Guarded(MakeModule);
}
