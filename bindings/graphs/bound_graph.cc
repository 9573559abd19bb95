// SPDX-License-Identifier: Apache-2.0
// Graphs as bound calls: what a compiler keeps of a call of one.
#include <string>
#include <vector>

#include "anyop/scope.h"
#include "bindings/calls/bound_call.h"
#include "bindings/calls/convert.h"
#include "bindings/module_functions.h"
#include "compiled_graph.h"
#include "hosting/bound_call.h"
#include "hosting/call_text.h"
#include "hosting/graph_call.h"

namespace anyop::python {
namespace {

std::vector<GraphNumber> NumbersOf(PyObject* keywords) {
  std::vector<GraphNumber> numbers;
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (keywords && PyDict_Next(keywords, &at, &key, &value)) {
    const std::string name = ToText(key, "a name");
    numbers.push_back({name, ToNumberValue(value, "graph: " + name)});
  }
  return numbers;
}

// bound_graph(graph, **numbers): see the stub.
PyObject* BindGraph(PyObject*, PyObject* args, PyObject* keywords) {
  return Guarded([&] {
    PyObject* object = PyTuple_GET_SIZE(args) == 1 ? PyTuple_GET_ITEM(args, 0) : nullptr;
    const CompiledGraph* graph = object ? AsGraph(object) : nullptr;
    if (!graph) ThrowTypeError("bound_graph takes a compiled graph, and its numbers by name.");
    const Graph& plain = graph->executable->graph();
    const std::string text = TextOfGraphCall(plain, NumbersOf(keywords), CurrentScope());
    return MakeBoundCallObject(FindBoundCall(text)).release();
  });
}

// bound_saved_graph(path, name, **numbers): see the stub.
PyObject* BindSavedGraph(PyObject*, PyObject* args, PyObject* keywords) {
  return Guarded([&] {
    PyObject *path, *name;
    if (!PyArg_ParseTuple(args, "OO", &path, &name)) throw ErrorSet{};
    const std::string text = TextOfSavedGraphCall(ToPath(path, "bound_saved_graph: path"),
                                                  ToText(name, "bound_saved_graph: name"),
                                                  NumbersOf(keywords), CurrentScope());
    return MakeBoundCallObject(FindBoundCall(text)).release();
  });
}

PyMethodDef g_bound_graph_functions[] = {
    {"bound_graph", AsMethod(&BindGraph), METH_VARARGS | METH_KEYWORDS, "A graph as a bound call."},
    {"bound_saved_graph", AsMethod(&BindSavedGraph), METH_VARARGS | METH_KEYWORDS,
     "A saved graph as a bound call."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void AddBoundGraphFunctions(PyObject* module) {
  if (PyModule_AddFunctions(module, g_bound_graph_functions) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
