// SPDX-License-Identifier: Apache-2.0
// anyop._anyop: operators as builtin functions, and what the Python package needs of the runtime.
#define ANYOP_IMPORTS_NUMPY
#include "python.h"

#include "bindings/calls/bound_call.h"
#include "bindings/graphs/compiled_graph.h"
#include "bindings/numpy/numpy_view.h"
#include "bindings/operators/op_object.h"
#include "bindings/torch_unlinked/bound_tensors.h"
#include "module.h"

namespace anyop::python {
namespace {

int ImportNumpy() {
  import_array1(-1);
  return 0;
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
  InitTypes();
  InitOpType();
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
