// SPDX-License-Identifier: Apache-2.0
// Graphs in folders: what anyop._graph.saved needs.
#include <map>

#include "bindings/calls/results.h"
#include "bindings/module_functions.h"
#include "compiled_graph.h"
#include "graph/saved/load.h"
#include "graph/saved/save.h"

namespace anyop::python {
namespace {

// A list of (str, object) as f(text, object) takes it.
template <class F>
void ForPairs(PyObject* list, F&& f) {
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list); ++k) {
    PyObject *text, *object;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(list, k), "OO", &text, &object)) throw ErrorSet{};
    f(ToText(text, "save: a name"), object);
  }
}

std::vector<GraphToSave> ToGraphs(PyObject* list) {
  std::vector<GraphToSave> graphs;
  ForPairs(list, [&](const std::string& name, PyObject* object) {
    const CompiledGraph* graph = AsGraph(object);
    if (!graph) ThrowTypeError("save: " + name + " is " + Repr(object) + ", but must be a graph.");
    graph->held.Check(graph->info.name);
    const bool is_tuple = graph->tuple && graph->info.n_results == 1;
    graphs.push_back({name, &graph->executable->graph(), is_tuple});
  });
  return graphs;
}

// Calls progress(written, all) with Python's lock; what it raises ends the writing.
void Tell(void* progress, std::int64_t written, std::int64_t all) {
  const bool is_right = WithPython([&] {
    const PyGILState_STATE state = PyGILState_Ensure();
    PyObject* done = PyObject_CallFunction(static_cast<PyObject*>(progress), "LL",
                                           (long long)(written), (long long)(all));
    Py_XDECREF(done);
    PyGILState_Release(state);
    return done != nullptr;
  });
  if (!is_right) throw ErrorSet{};
}

// save_graphs(path as bytes, [(name, graph)], metadata, [(name, bytes)], progress)
PyObject* SaveCompiledGraphs(PyObject*, PyObject* args) {
  return Guarded([&] {
    const char* path;
    PyObject *metadata, *list, *files, *progress;
    if (!PyArg_ParseTuple(args, "yO!OO!O", &path, &PyList_Type, &list, &metadata, &PyList_Type,
                          &files, &progress)) {
      throw ErrorSet{};
    }
    const std::vector<GraphToSave> graphs = ToGraphs(list);
    SaveOptions options;
    options.metadata = ToText(metadata, "save: metadata");
    ForPairs(files, [&](const std::string& name, PyObject* content) {
      char* bytes;
      Py_ssize_t n;
      if (PyBytes_AsStringAndSize(content, &bytes, &n) < 0) throw ErrorSet{};
      options.files.push_back({name, std::string(bytes, std::size_t(n))});
    });
    if (progress != Py_None) options.progress = &Tell, options.progress_data = progress;
    const std::string where = path;
    {
      const WithoutLock released;
      WriteGraphs(where, graphs, options);
    }
    Py_RETURN_NONE;
  });
}

// load_graphs(path as bytes, name or None for all, verify): ({name: graph}, metadata)
PyObject* LoadAll(PyObject*, PyObject* args) {
  return Guarded([&] {
    const char *path, *name;
    int verify;
    if (!PyArg_ParseTuple(args, "yzp", &path, &name, &verify)) throw ErrorSet{};
    LoadedGraphs loaded = [&] {
      const std::string where = path, which = name ? name : "";
      const WithoutLock released;  // reads all the weights
      const LoadOptions options{verify != 0};
      return name ? ReadGraph(where, which, options) : ReadGraphs(where, options);
    }();
    Ref graphs = Checked(PyDict_New());
    std::map<const void*, Ref> shared;  // one object for memory of several graphs: copies share it
    for (LoadedGraph& g : loaded.graphs) {
      const bool is_tuple = g.returns_tuple || g.graph.outputs.size() > 1;
      PyTypeObject* tuple = is_tuple ? &PyTuple_Type : nullptr;
      HeldState held;
      for (const Array& memory : g.memory) {
        Ref& array = shared[memory.data()];
        if (!array) array = BytesAsArray(memory);
        held.Keep(array.get());
      }
      const Ref graph = Checked(MakeCompiledGraph(g.name, std::move(g.graph), tuple, nullptr,
                                                  LoadedOptions(), std::move(held)));
      if (PyDict_SetItemString(graphs.get(), g.name.c_str(), graph.get()) < 0) throw ErrorSet{};
    }
    return Py_BuildValue("(Os)", graphs.get(), loaded.metadata.c_str());
  });
}

PyMethodDef g_save_methods[] = {
    {"save_graphs", SaveCompiledGraphs, METH_VARARGS, "Writes graphs to a folder."},
    {"load_graphs", LoadAll, METH_VARARGS, "The graphs of a folder, and their metadata."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyObject* SaveMethod(PyObject* self, PyObject* args, PyObject* keywords) {
  return Guarded([&] {
    if (PyTuple_GET_SIZE(args) != 1) ThrowTypeError("save takes a path: graph.save('my.anyop').");
    const Ref module = Checked(PyImport_ImportModule("anyop._graph.saved"));
    const Ref function = Checked(PyObject_GetAttrString(module.get(), "save_graphs"));
    const std::string& name = AsGraph(self)->info.name;
    const Ref given =
        Checked(Py_BuildValue("(O{sO})", PyTuple_GET_ITEM(args, 0), name.c_str(), self));
    return PyObject_Call(function.get(), given.get(), keywords);
  });
}

void AddSavedGraphFunctions(PyObject* module) {
  if (PyModule_AddFunctions(module, g_save_methods) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
