// SPDX-License-Identifier: Apache-2.0
// Values of a graph under construction, which stand in for arrays and numbers while the graph's
// function is called. No host has such tensors, so that a call of them is refused, and recorded.
#pragma once
#include <map>
#include <span>
#include <string>

#include "bindings/host/slots.h"
#include "graph/builder/builder.h"
#include "held_state.h"

namespace anyop::python {

// A graph under construction. Ends when it is compiled.
struct Trace {
  std::string name;  // of the function, as messages begin
  GraphBuilder builder;
  std::map<std::string, int> states;  // by memory, dtype, shape and strides
  HeldState held;
  std::string place;                 // of nodes that are added; "": the user's line
  const Host* state_host = nullptr;  // of its state; null: NumPy
  bool is_done = false;
};

struct TracerObject {
  PyObject_HEAD Trace* trace;
};
// A tensor or number; a size has id -1 and is its text.
struct TracedObject {
  PyObject_HEAD PyObject* tracer;
  int id;
};
extern PyTypeObject* g_traced_type;
void InitTracedTypes(PyObject* module);
PyTypeObject* MakeTracerType(PyObject* module);

inline bool IsTraced(PyObject* object) { return PyObject_TypeCheck(object, g_traced_type); }

// The graph of a traced value among arguments or in a list of these, borrowed; null: there is none.
PyObject* FindTracer(std::span<PyObject* const> arguments);

// The graph's part in calls that are refused: it takes those of traced values. Adds the call of the
// operator; arrays beside the traced values become state. What the operator returns is traced.
const CallTaker* MakeRecorder();

// Adds the calls of a compiled graph to the graph `tracer`, of its traced arguments. A new
// reference. Throws ErrorSet or Error.
struct CompiledGraph;
PyObject* RecordGraph(CompiledGraph& graph, PyObject* tracer, const Slots& slots);

// The graph of a traced object. Throws ErrorSet if it is compiled already.
Trace& TraceOf(PyObject* tracer);
// The memory of an array or tensor, which is kept alive; nothing is copied.
// host: whose tensor it is; left as it is for an array of NumPy's.
Array HeldArray(const char* op, PyObject* name, PyObject* object, bool is_written,
                const Host** host);
// Keeps an object alive from C++, whoever drops it and whenever: the owner of an Array.
std::shared_ptr<void> KeepObject(PyObject* object);
// The value of an array or tensor, bound by reference. name: of the argument, in messages and text.
int BindState(Trace& trace, const char* op, PyObject* name, PyObject* object, bool is_written,
              bool is_frozen = false);
// The same of memory that something keeps alive.
int BindArray(Trace& trace, const std::string& name, const Array& array, bool is_frozen);
// A whole number of 64 bits. what: begins the message, "step: a size".
std::int64_t ToSizeNumber(PyObject* object, const std::string& what);
// A number, a traced size, or the text of one.
Size ToSize(Trace& trace, PyObject* object);
// Traced value `id` as an object of Python.
Ref MakeTraced(PyObject* tracer, int id);
// "model.py:31": the innermost line of Python that is not anyop's own. "" if there is none.
std::string UserPlace();
// The place of a node that is added now: the one that at() has set, else the user's line.
inline std::string PlaceIn(const Trace& trace) {
  return trace.place.empty() ? UserPlace() : trace.place;
}

}  // namespace anyop::python
