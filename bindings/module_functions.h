// SPDX-License-Identifier: Apache-2.0
// The functions of the module, by what they are about. Each throws ErrorSet.
#pragma once
#include "python.h"

namespace anyop::python {

void AddOperatorFunctions(PyObject* module);        // load, functions, explain, info_json, counters
void AddTunedFunctions(PyObject* module);           // what `anyop tune` does
void AddScopeFunctions(PyObject* module);           // policy, strict, threads
void AddHostFunctions(PyObject* module);            // the hosts, first of all
void AddRegisteredHostFunctions(PyObject* module);  // register_host
void AddJaxFunctions(PyObject* module);             // what anyop.jax needs of XLA's handler
void AddTorchFunctions(PyObject* module);           // what anyop.torch needs of the fast path
void AddTorchRouteFunctions(PyObject* module);      // which torch operator stands behind a function
void AddTorchThreadFunctions(PyObject* module);     // whose threads run parallel regions
void AddDefineFunctions(PyObject* module);          // operators that are functions of Python
void AddMemoryCallFunctions(PyObject* module);      // call_memory
void AddExampleFunctions(PyObject* module);         // example_call, for tests
void AddReplayFunctions(PyObject* module);          // replay, of recorded calls
void AddReplayGraph(PyObject* module);              // the same of graphs
void AddSavedGraphFunctions(PyObject* module);      // save_graphs, load_graphs
void AddBoundGraphFunctions(PyObject* module);      // bound_graph, bound_saved_graph
void AddGraphCopyFunctions(PyObject* module);       // restore_graph
void AddMachineFunctions(PyObject* module);         // what `anyop doctor` prints
void AddInferFunctions(PyObject* module);           // infer, choose_form

}  // namespace anyop::python
