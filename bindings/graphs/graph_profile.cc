// SPDX-License-Identifier: Apache-2.0
// What a graph does, as data: nodes and memory, times, and what passes changed.
#include <algorithm>
#include <chrono>
#include <utility>

#include "compiled_graph.h"
#include "graph/ir/text.h"
#include "graph/specialise/describe.h"

namespace anyop::python {
namespace {

PyTypeObject* g_time_type = nullptr;
PyObject* g_listener = nullptr;

constexpr int kFields = 9;
PyStructSequence_Field g_time_fields[] = {
    {"name", "of the node's first result, or what it writes"},
    {"op", "the operator"},
    {"place", "of the user's program: \"model.py:31\""},
    {"kernel", "which ran; \"means\": the composition"},
    {"ns_min", "the least time of a replay"},
    {"ns_median", "the median time"},
    {"flops", "by .flops; 0: not stated"},
    {"bytes", "by .bytes, or those of all arguments and results"},
    {"share", "of the sum of all least times"},
    {nullptr, nullptr}};

// What reading the clock costs, which is part of every time that is measured. The least of 100, as
// anything else that the machine does only adds to it.
double ClockNs() {
  double least = 1e9;
  for (int k = 0; k < 100; ++k) {
    const auto start = std::chrono::steady_clock::now();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    least = std::min(least, took.count());
  }
  return least;
}

// Times of every replay, and what was replayed.
struct Timing {
  int repeats;
  std::vector<std::vector<double>> ns;  // by node, then replay
  std::vector<NodeCost> costs;

  void Replay(Executable& e, Specialisation& s, std::span<const anyop_value> inputs,
              std::span<const DLTensor* const> outputs) {
    std::vector<double> once(e.graph().nodes.size());
    ns.resize(once.size());
    costs = NodeCosts(s);
    e.Replay(s, inputs, outputs);  // warms up
    const double clock = ClockNs();
    for (int k = 0; k < repeats; ++k) {
      e.ReplayTimed(s, inputs, outputs, once);
      for (std::size_t i = 0; i < once.size(); ++i) {
        ns[i].push_back(std::max(once[i] - clock, 0.0));
      }
    }
    for (std::vector<double>& times : ns) std::sort(times.begin(), times.end());
  }
};

std::string NodeName(const Graph& graph, const GraphNode& node) {
  for (const int v : node.results) {
    if (v >= 0) return graph.value(v).name;
  }
  for (std::size_t i = 0; i < node.arguments.size(); ++i) {
    const bool is_written = node.op->contract->forms[0].params[i].is_mut;
    if (is_written && !node.arguments[i].values.empty()) {
      return graph.value(node.arguments[i].values[0]).name;
    }
  }
  return "";
}

Ref Row(const Graph& graph, const Timing& timing, std::size_t i, double total) {
  const GraphNode& node = graph.nodes[i];
  const std::vector<double>& ns = timing.ns[i];
  const NodeCost& cost = timing.costs[i];
  Ref row = Checked(PyStructSequence_New(g_time_type));
  Py_ssize_t at = 0;
  const auto text = [&](const std::string& s) {
    PyStructSequence_SET_ITEM(row.get(), at++, ToPython(s).release());
  };
  const auto number = [&](double x) {
    PyStructSequence_SET_ITEM(row.get(), at++, Checked(PyFloat_FromDouble(x)).release());
  };
  text(NodeName(graph, node));
  text(node.op->name);
  text(node.place);
  text(cost.kernel);
  number(ns.front());
  number(ns[ns.size() / 2]);
  number(cost.flops);
  number(cost.bytes);
  number(total > 0 ? ns.front() / total : 0);
  return row;
}

Ref Rows(const Graph& graph, const Timing& timing) {
  double total = 0;
  for (const std::vector<double>& ns : timing.ns) total += ns.front();
  Ref rows = Checked(PyList_New(Py_ssize_t(graph.nodes.size())));
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    PyList_SET_ITEM(rows.get(), Py_ssize_t(i), Row(graph, timing, i, total).release());
  }
  return rows;
}

// The arguments of a vectorcall, from a tuple and a dict without `repeats`.
struct ProfileArguments {
  std::vector<PyObject*> values;  // borrowed
  Ref names;
  int repeats = 20;

  ProfileArguments(PyObject* args, PyObject* keywords, const std::string& name) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
      values.push_back(PyTuple_GET_ITEM(args, i));
    }
    if (!keywords) return;
    Ref list = Checked(PyList_New(0));
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(keywords, &at, &key, &value)) {
      if (PyUnicode_CompareWithASCIIString(key, "repeats") == 0) {
        SetRepeats(value, name);
      } else {
        values.push_back(value);
        if (PyList_Append(list.get(), key) < 0) throw ErrorSet{};
      }
    }
    if (PyList_GET_SIZE(list.get())) names = Checked(PyList_AsTuple(list.get()));
  }

  void SetRepeats(PyObject* value, const std::string& name) {
    const long n = PyLong_Check(value) ? PyLong_AsLong(value) : 0;
    if (n < 1 || n > 1000000) {
      PyErr_Clear();
      ThrowValueError(name + ": repeats is " + Repr(value) +
                      ", but must be a whole number from 1 to 1000000.");
    }
    repeats = int(n);
  }
};

// listen_to_passes(function or None): called with a pass's name and its diff. Returns the last one.
PyObject* ListenToPasses(PyObject*, PyObject* listener) {
  PyObject* last = g_listener ? g_listener : Py_NewRef(Py_None);
  g_listener = listener == Py_None ? nullptr : Py_NewRef(listener);
  return last;
}

PyMethodDef g_profile_functions[] = {{"listen_to_passes", ListenToPasses, METH_O,
                                      "Sets who is told what the passes of a graph change."},
                                     {nullptr, nullptr, 0, nullptr}};

}  // namespace

PassListener ListenerToPasses() {
  if (!g_listener) return nullptr;
  return [](std::string_view pass, const std::string& diff) {
    const Ref name = ToPython(pass), text = ToPython(diff);
    Checked(PyObject_CallFunctionObjArgs(g_listener, name.get(), text.get(), nullptr));
  };
}

PyObject* DescribeAt(PyObject* self, PyObject* args, PyObject* keywords) {
  return Guarded([&] {
    if (PyTuple_GET_SIZE(args)) ThrowTypeError("describe takes sizes by name: describe(n=16).");
    const Graph& graph = ToGraph(self).executable->graph();
    const bool is_sized =
        (keywords && PyDict_GET_SIZE(keywords)) ||
        std::none_of(graph.symbols.begin(), graph.symbols.end(),
                     [](const GraphSymbol& s) { return s.value == GraphSymbol::kFree; });
    if (!is_sized) return ToPython(DescribeGraph(graph)).release();
    return ToPython(DescribeGraph(graph, PrepareAt(ToGraph(self), keywords).get())).release();
  });
}

PyObject* Profile(PyObject* self, PyObject* args, PyObject* keywords) {
  return Guarded([&] {
    const ProfileArguments given(args, keywords, ToGraph(self).info.name);
    Timing timing{given.repeats, {}, {}};
    const Py_ssize_t n_positional = PyTuple_GET_SIZE(args);
    Checked(CallGraphAs(self, given.values.data(), n_positional, given.names.get(),
                        [&](Executable& e, Specialisation& s, auto inputs, auto outputs) {
                          timing.Replay(e, s, inputs, outputs);
                        }));
    return Rows(ToGraph(self).executable->graph(), timing).release();
  });
}

void InitProfile(PyObject* module) {
  g_time_type =
      AddSequence(module, "anyop.GraphNodeTime", "A node of a profile.", g_time_fields, kFields);
  if (PyModule_AddFunctions(module, g_profile_functions) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
