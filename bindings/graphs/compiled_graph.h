// SPDX-License-Identifier: Apache-2.0
// A compiled graph as a callable of Python: anyop.Graph.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "bindings/operators/op_object.h"
#include "graph/executable.h"
#include "runtime/memory/overlap.h"
#include "traced.h"

namespace anyop::python {

struct CompiledGraph {
  OperatorInfo info;  // its inputs and outputs as parameters and results; without an operator
  std::unique_ptr<Executable> executable;
  HeldState held;
  std::vector<Extent> state;         // in ascending order, none of which meet
  PyTypeObject* tuple = nullptr;     // type that is returned; null for a lone tensor, or nothing
  const Host* state_host = nullptr;  // host of calls without a tensor; null: NumPy
  unsigned long long calls = 0;

  ~CompiledGraph() { Py_XDECREF(tuple); }
};

struct GraphObject {
  PyObject_HEAD vectorcallfunc call;
  CompiledGraph* graph;
};

// Of an object that is an anyop.Graph.
inline CompiledGraph& ToGraph(PyObject* self) {
  return *reinterpret_cast<GraphObject*>(self)->graph;
}
void InitGraphTypes(PyObject* module);
void InitCapturedTypes(PyObject* module);  // Captured, and HeldTensors
// tuple: the type that holds the outputs; null where there is one or none. held: the objects whose
// memory is its state. Takes the graph over.
PyObject* MakeCompiledGraph(const std::string& name, Graph graph, PyTypeObject* tuple,
                            const Host* state_host, CompileOptions options = {},
                            HeldState held = {});
// The number of every free symbol, from keywords; those that are missing are an error.
std::shared_ptr<Specialisation> PrepareAt(CompiledGraph& graph, PyObject* sizes);
PyObject* CallGraph(PyObject* self, PyObject* const* args, std::size_t n_args, PyObject* keywords);
// The same, replayed in another way.
using GraphReplay = std::function<void(Executable& executable, Specialisation& s,
                                       std::span<const anyop_value> inputs,
                                       std::span<const DLTensor* const> outputs)>;
PyObject* CallGraphAs(PyObject* self, PyObject* const* args, Py_ssize_t n_args, PyObject* keywords,
                      const GraphReplay& replay);

// Methods of anyop.Graph in graph_profile.cc.
PyObject* DescribeAt(PyObject* self, PyObject* args, PyObject* keywords);  // describe(**sizes)
PyObject* Profile(PyObject* self, PyObject* args, PyObject* keywords);     // profile(*inputs)
void InitProfile(PyObject* module);
// A type of named rows, "anyop.GraphStats", as a member of the module: pickle looks it up there.
PyTypeObject* AddSequence(PyObject* module, const char* name, const char* doc,
                          PyStructSequence_Field* fields, int n_fields);
// Whom every graph that is compiled from now on tells of its passes; null: nobody listens.
PassListener ListenerToPasses();

// Of an anyop.Graph; null for any other object.
CompiledGraph* AsGraph(PyObject* object);

// A method of anyop.Graph in graph_save.cc.
PyObject* SaveMethod(PyObject* self, PyObject* args, PyObject* keywords);  // save(path)

// Whether a call of the graph can make an object of this type from tensors: of tuple or a subclass,
// such as a named tuple. Not those that C makes, such as os.stat_result: they have more items than
// they show.
bool CanHoldOutputs(PyObject* type);

// Methods of anyop.Graph in graph_copy.cc.
PyObject* CopyGraph(PyObject* self, PyObject*);           // __copy__()
PyObject* DeepCopyGraph(PyObject* self, PyObject* memo);  // __deepcopy__(memo)
// __reduce__(). copied: a list of the objects that are copied beside the graph; null: not known.
PyObject* ReduceGraph(PyObject* self, PyObject* copied);
// The bytes of an array as one of NumPy's, which nobody writes; keeps them alive.
Ref BytesAsArray(const Array& array);

// Methods of anyop.Graph in graph_text.cc.
PyObject* ParseText(PyObject* type, PyObject* args, PyObject* keywords);  // parse(text, state)
PyObject* StateArrays(PyObject* self, void*);                             // state
PyObject* Buffers(PyObject* self, PyObject* args, PyObject* keywords);    // buffers(**sizes)

}  // namespace anyop::python
