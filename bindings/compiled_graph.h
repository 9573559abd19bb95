// SPDX-License-Identifier: Apache-2.0
// A compiled graph as a callable of Python: anyop.Graph.
#pragma once
#include <memory>
#include <vector>

#include "graph/executable.h"
#include "op_object.h"
#include "runtime/overlap.h"
#include "traced.h"

namespace anyop::python {

struct CompiledGraph {
  OperatorInfo info;  // its inputs and outputs as parameters and results; without an operator
  std::unique_ptr<Executable> executable;
  std::vector<Extent> state;      // in ascending order, none of which meet
  PyTypeObject* tuple = nullptr;  // of what is returned; null for the only tensor, or nothing
  bool is_torch = false;          // where no tensor of a call says: whether the state is torch's
  unsigned long long calls = 0;

  ~CompiledGraph() { Py_XDECREF(tuple); }
};

struct GraphObject {
  PyObject_HEAD vectorcallfunc call;
  CompiledGraph* graph;
};

void InitGraphTypes(PyObject* module);
// returns: None, or the type of the tuple that holds the outputs.
PyObject* MakeCompiledGraph(Trace& trace, PyObject* returns);
PyObject* CallGraph(PyObject* self, PyObject* const* args, std::size_t n_args, PyObject* keywords);

}  // namespace anyop::python
