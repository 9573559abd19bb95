// SPDX-License-Identifier: Apache-2.0
// A recorded replay of a graph (src/graph/record.h), made again.
#include <charconv>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "anyop/graph.h"
#include "bindings/calls/recorded.h"
#include "bindings/module_functions.h"
#include "bindings/python.h"
#include "graph/ir/alias.h"
#include "graph/saved/load.h"
#include "graph/saved/safetensors.h"
#include "runtime/memory/copy.h"

namespace anyop::python {
namespace {

// The state that the graph writes, by name.
std::vector<std::string> WrittenState(const std::string& folder) {
  LoadOptions options;
  options.verify = false;  // LoadGraph, which loads the graph to run it, compares the digests
  const Graph graph = ReadGraph(folder, "", options).graphs.at(0).graph;
  const std::vector<bool> is_written = WrittenRoots(graph);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const GraphValue& v = graph.values[i];
    if (v.kind == GraphValue::kState && is_written[i]) names.push_back(v.name);
  }
  return names;
}

class ReplayedGraph {
 public:
  ReplayedGraph(const std::string& folder, PyObject* strides, PyObject* numbers)
      : graph_(LoadGraph(folder + "/graph")), state_(WrittenState(folder + "/graph")) {
    const TensorFile file(folder + "/inputs.safetensors");
    for (const GraphPort& port : graph_.inputs()) {
      if (port.is_tensor) {
        AddTensor(port, file.Get(port.name), PyDict_GetItemString(strides, port.name.c_str()));
      } else {
        AddNumber(port, PyDict_GetItemString(numbers, port.name.c_str()));
      }
    }
  }

  // Nanoseconds, with the allocation of results. The inputs are as they were recorded; state is
  // as the replay before left it.
  double Run() {
    for (const auto& [from, to] : tensors_) CopyFromPacked(from.data(), to->tensor());
    const auto start = std::chrono::steady_clock::now();
    results_ = graph_.Run(arguments_);
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    return spent.count();
  }

  // name -> (type, elements in row-major order): outputs, and state that the graph writes.
  Ref Written() const {
    Ref written = Checked(PyDict_New());
    const std::vector<GraphPort> ports = graph_.outputs();
    for (std::size_t k = 0; k < ports.size(); ++k) AddWritten(written, ports[k].name, results_[k]);
    for (const std::string& name : state_) AddWritten(written, name, graph_.state(name));
    return written;
  }

 private:
  void AddTensor(const GraphPort& port, const Array& packed, PyObject* strides) {
    auto placed = std::make_unique<Array>(
        PlacedArray(port.name, packed.tensor(), ToStrides(port.name, strides)));
    arguments_.emplace_back(*placed);
    tensors_.emplace_back(packed, std::move(placed));
  }
  void AddNumber(const GraphPort& port, PyObject* text) {
    if (!text) ThrowValueError("replay: the recorded call lacks the number " + port.name + ".");
    const std::string number = ToText(text, "replay: a number");
    if (port.type == "float") return void(arguments_.emplace_back(Read<double>(port, number)));
    const auto whole = Read<std::int64_t>(port, number);
    if (port.type == "bool") return void(arguments_.emplace_back(whole != 0));
    arguments_.emplace_back(whole);
  }
  template <class T>
  static T Read(const GraphPort& port, const std::string& text) {
    T number{};
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number);
    if (read.ec != std::errc() || read.ptr != end) {
      ThrowValueError("replay: the number " + port.name + " is '" + text + "', but must be a " +
                      (std::is_same_v<T, double> ? "number" : "whole number of 64 bits") +
                      ". The file is damaged.");
    }
    return number;
  }

  const anyop::CompiledGraph graph_;
  const std::vector<std::string> state_;
  std::vector<std::pair<Array, std::unique_ptr<Array>>> tensors_;  // as recorded, as given
  std::vector<Argument> arguments_;
  std::vector<Array> results_;
};

// replay_graph(folder, strides, numbers, repeats): see the stub.
PyObject* ReplayGraph(PyObject*, PyObject* args) {
  return Guarded([&] {
    const char* folder;
    PyObject *strides, *numbers;
    int repeats;
    if (!PyArg_ParseTuple(args, "sO!O!i", &folder, &PyDict_Type, &strides, &PyDict_Type, &numbers,
                          &repeats)) {
      throw ErrorSet{};
    }
    ReplayedGraph graph(folder, strides, numbers);
    const Ref times = TimesOf(repeats, [&] { return graph.Run(); });
    const Ref written = graph.Written();
    return Py_BuildValue("(OO)", times.get(), written.get());
  });
}

PyMethodDef g_replay_graph_methods[] = {
    {"replay_graph", ReplayGraph, METH_VARARGS, "Makes a recorded replay of a graph again."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void AddReplayGraph(PyObject* module) {
  if (PyModule_AddFunctions(module, g_replay_graph_methods) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
