// SPDX-License-Identifier: Apache-2.0
#include "compiled_graph.h"

#include <structmember.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>

#include "graph/ir/alias.h"
#include "graph/ir/text.h"

namespace anyop::python {
namespace {

PyTypeObject* g_graph_type = nullptr;
PyTypeObject* g_memory_type = nullptr;
PyTypeObject* g_stats_type = nullptr;

const Graph& GraphOf(PyObject* self) { return ToGraph(self).executable->graph(); }

void DescribeCall(const std::string& name, const Graph& graph, OperatorInfo& info) {
  const std::vector<bool> written = WrittenRoots(graph);
  info.name = info.python_name = name;
  info.n_params = int(graph.inputs.size());
  info.n_results = int(graph.outputs.size());
  for (const int id : graph.inputs) {
    const GraphValue& v = graph.value(id);
    const ParamKind kind = v.kind == GraphValue::kScalar ? v.scalar : ParamKind::kTensor;
    if (kind == ParamKind::kTensor && info.first_tensor < 0) {
      info.first_tensor = int(info.params.size());
    }
    info.params.push_back({Intern(v.name), kind, false, true, written[std::size_t(id)], {}, {}});
  }
  FillOrder(info);
  info.takes_like = info.first_tensor < 0;
  for (int r = 0; r < info.n_results; ++r) {
    info.result_names.push_back(Intern(graph.outputs[std::size_t(r)].name));
  }
}

// Memory that several values have counts once.
std::vector<Extent> StateOf(const Graph& graph) {
  std::vector<Extent> all, apart;
  for (const GraphValue& v : graph.values) {
    if (v.kind == GraphValue::kState) all.push_back(ExtentOf(v.array.tensor()));
  }
  std::sort(all.begin(), all.end(), [](Extent a, Extent b) { return a.begin < b.begin; });
  for (const Extent& e : all) {
    if (!apart.empty() && e.begin <= apart.back().end) {
      apart.back().end = std::max(apart.back().end, e.end);
    } else {
      apart.push_back(e);
    }
  }
  return apart;
}

void FreeGraph(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  CompiledGraph* graph = reinterpret_cast<GraphObject*>(self)->graph;
  if (graph) {
    for (const Parameter& p : graph->info.params) Py_DECREF(p.name);
    for (PyObject* name : graph->info.result_names) Py_DECREF(name);
    delete graph;
  }
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* GetGraphText(PyObject* self, void*) {
  return Guarded([&] { return ToPython(Print(GraphOf(self))).release(); });
}
PyObject* Str(PyObject* self) { return GetGraphText(self, nullptr); }

PyObject* GetGraphName(PyObject* self, void*) {
  return Guarded([&] { return ToPython(ToGraph(self).info.name).release(); });
}

// "f32[n, 64]" by input, or by output.
PyObject* Types(PyObject* self, bool is_output) {
  return Guarded([&] {
    const Graph& graph = GraphOf(self);
    Ref types = Checked(PyDict_New());
    const auto add = [&](const std::string& name, int value) {
      const Ref type = ToPython(ShowType(graph, value));
      if (PyDict_SetItemString(types.get(), name.c_str(), type.get()) < 0) throw ErrorSet{};
    };
    if (is_output) {
      for (const GraphOutput& o : graph.outputs) add(o.name, o.value);
    } else {
      for (const int id : graph.inputs) add(graph.value(id).name, id);
    }
    return types.release();
  });
}
PyObject* SymbolsOf(PyObject* self, void*) {
  return Guarded([&] {
    Ref names = Checked(PyList_New(0));
    for (const GraphSymbol& s : GraphOf(self).symbols) {
      const Ref name = ToPython(s.name);
      if (s.value == GraphSymbol::kFree && PyList_Append(names.get(), name.get()) < 0) {
        throw ErrorSet{};
      }
    }
    return PyList_AsTuple(names.get());
  });
}

PyObject* GetGraphInputs(PyObject* self, void*) { return Types(self, false); }
PyObject* Outputs(PyObject* self, void*) { return Types(self, true); }

PyObject* ShowGraph(PyObject* self) {
  return Guarded([&] {
    const Graph& graph = GraphOf(self);
    std::string text;
    for (const int id : graph.inputs) {
      text += (text.empty() ? "" : ", ") + graph.value(id).name + ": " + ShowType(graph, id);
    }
    return ToPython("<graph " + ToGraph(self).info.name + "(" + text + "), " +
                    std::to_string(graph.nodes.size()) + " nodes>")
        .release();
  });
}

// memory(**sizes): what the arena of a replay holds.
PyObject* Memory(PyObject* self, PyObject* args, PyObject* keywords) {
  return Guarded([&] {
    if (PyTuple_GET_SIZE(args)) ThrowTypeError("memory takes sizes by name: memory(n=16).");
    const MemoryReport report = ReportOf(*PrepareAt(ToGraph(self), keywords));
    Ref row = Checked(PyStructSequence_New(g_memory_type));
    const long long bytes[] = {report.arena_bytes, report.bound_bytes, report.unshared_bytes};
    for (int i = 0; i < 3; ++i) {
      PyStructSequence_SET_ITEM(row.get(), i, Checked(PyLong_FromLongLong(bytes[i])).release());
    }
    return row.release();
  });
}

PyObject* Stats(PyObject* self, PyObject*) {
  return Guarded([&] {
    const Graph& graph = GraphOf(self);
    long long state_bytes = 0;
    for (const Extent& e : ToGraph(self).state) state_bytes += (long long)(e.end - e.begin);
    const long long numbers[] = {(long long)(graph.nodes.size()), state_bytes,
                                 (long long)(ToGraph(self).calls)};
    Ref row = Checked(PyStructSequence_New(g_stats_type));
    for (int i = 0; i < 3; ++i) {
      PyStructSequence_SET_ITEM(row.get(), i, Checked(PyLong_FromLongLong(numbers[i])).release());
    }
    return row.release();
  });
}

PyMethodDef g_graph_methods[] = {
    {"memory", AsMethod(&Memory), METH_VARARGS | METH_KEYWORDS,
     "memory($self, /, **sizes)\n--\n\nBytes of the memory that a replay at these sizes needs "
     "beside inputs, outputs and state."},
    {"parse", AsMethod(&ParseText), METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "parse($type, /, text, state={}, name='graph')\n--\n\nThe graph whose str() is `text`. "
     "state: arrays for its state and constants, by name, bound by reference."},
    {"buffers", AsMethod(&Buffers), METH_VARARGS | METH_KEYWORDS,
     "buffers($self, /, **sizes)\n--\n\nWhere values lie in the memory of a replay: (offset, "
     "bytes, first node, last node)."},
    {"describe", AsMethod(&DescribeAt), METH_VARARGS | METH_KEYWORDS,
     "describe($self, /, **sizes)\n--\n\nThe graph as JSON; with sizes also shapes, kernels, costs "
     "and memory."},
    {"profile", AsMethod(&Profile), METH_VARARGS | METH_KEYWORDS,
     "profile($self, /, *inputs, repeats=20, **keywords)\n--\n\nThe time of each node over replays "
     "with these inputs, which change state as calls do."},
    {"save", AsMethod(&SaveMethod), METH_VARARGS | METH_KEYWORDS,
     "save($self, path, /, *, metadata=None, files=None, progress=None)\n--\n\nWrites a folder "
     "that "
     "anyop.load_graph reads: as anyop.save_graphs, of this graph."},
    {"__copy__", CopyGraph, METH_NOARGS, nullptr},
    {"__deepcopy__", DeepCopyGraph, METH_O, nullptr},
    {"__reduce__", ReduceGraph, METH_NOARGS, nullptr},
    {"stats", Stats, METH_NOARGS,
     "stats($self, /)\n--\n\nNodes after compilation, bytes of bound state, calls so far."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef g_graph_fields[] = {
    {"text", GetGraphText, nullptr, "The graph after compilation, as str() gives it.", nullptr},
    {"name", GetGraphName, nullptr, "The function's name.", nullptr},
    {"state", StateArrays, nullptr, "Arrays and constants that it holds, by name; no copies.",
     nullptr},
    {"symbols", SymbolsOf, nullptr, "The sizes that a call decides, by name.", nullptr},
    {"inputs", GetGraphInputs, nullptr, "The type of each input, by name.", nullptr},
    {"outputs", Outputs, nullptr, "The type of each output, by name.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef g_graph_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(GraphObject, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyStructSequence_Field g_memory_fields[] = {
    {"peak_bytes", "of the arena"},
    {"bound_bytes", "no plan needs less: most bytes alive at one step"},
    {"unshared_bytes", "if nothing shared memory"},
    {nullptr, nullptr}};
PyStructSequence_Field g_stats_fields[] = {{"nodes", "operator calls after compilation"},
                                           {"state_bytes", "memory bound by reference"},
                                           {"calls", "replays so far"},
                                           {nullptr, nullptr}};

}  // namespace

bool CanHoldOutputs(PyObject* object) {
  return PyType_Check(object) &&
         PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(object), &PyTuple_Type) &&
         !PyObject_HasAttrString(object, "n_sequence_fields");
}

PyTypeObject* AddSequence(PyObject* module, const char* name, const char* doc,
                          PyStructSequence_Field* fields, int n_fields) {
  // The type keeps the pointer to the name, so that only literals may be given.
  PyStructSequence_Desc desc{name, doc, fields, n_fields};
  PyTypeObject* type = PyStructSequence_NewType(&desc);
  const char* const own = std::strrchr(name, '.') + 1;
  if (!type || PyModule_AddObjectRef(module, own, reinterpret_cast<PyObject*>(type)) < 0) {
    throw ErrorSet{};
  }
  return type;
}

CompiledGraph* AsGraph(PyObject* object) {
  return Py_TYPE(object) == g_graph_type ? &ToGraph(object) : nullptr;
}

void InitGraphTypes(PyObject* module) {
  static PyType_Slot slots[] = {
      {Py_tp_doc, const_cast<char*>(
                      "What anyop.graph makes: call it with arrays, and out= for given results.\n\n"
                      "Several threads may call one graph at once; state that it changes is theirs "
                      "to guard.")},
      {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
      {Py_tp_dealloc, reinterpret_cast<void*>(&FreeGraph)},
      {Py_tp_str, reinterpret_cast<void*>(&Str)},
      {Py_tp_repr, reinterpret_cast<void*>(&ShowGraph)},
      {Py_tp_methods, g_graph_methods},
      {Py_tp_members, g_graph_members},
      {Py_tp_getset, g_graph_fields},
      {0, nullptr}};
  static PyType_Spec spec = {"anyop.Graph", sizeof(GraphObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL |
                                 Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
                             slots};
  g_graph_type = reinterpret_cast<PyTypeObject*>(Checked(PyType_FromSpec(&spec)).release());
  g_memory_type =
      AddSequence(module, "anyop.GraphMemory", "Memory of a replay.", g_memory_fields, 3);
  g_stats_type = AddSequence(module, "anyop.GraphStats", "A compiled graph.", g_stats_fields, 3);
  InitProfile(module);
  if (PyModule_AddObjectRef(module, "Graph", reinterpret_cast<PyObject*>(g_graph_type)) < 0) {
    throw ErrorSet{};
  }
}

PyObject* MakeCompiledGraph(const std::string& name, Graph traced, PyTypeObject* tuple,
                            const Host* state_host, CompileOptions options, HeldState held) {
  auto made = std::make_unique<CompiledGraph>();
  options.on_pass = ListenerToPasses();
  options.name = name;
  made->executable = std::make_unique<Executable>(std::move(traced), options);
  const Graph& graph = made->executable->graph();
  DescribeCall(name, graph, made->info);
  made->held = std::move(held);
  made->held.KeepOnly(graph);  // of the graph after its passes, which may need less of the state
  made->state = StateOf(graph);
  if (made->info.first_tensor < 0) made->state_host = state_host;
  made->tuple = reinterpret_cast<PyTypeObject*>(Py_XNewRef(tuple));
  GraphObject* self = PyObject_New(GraphObject, g_graph_type);
  if (!self) throw ErrorSet{};
  self->call = CallGraph;
  self->graph = made.release();
  return reinterpret_cast<PyObject*>(self);
}

}  // namespace anyop::python
