// SPDX-License-Identifier: Apache-2.0
// A call of a graph from Python: as one of an operator, with the graph's inputs as parameters.
#include "bindings/calls/call.h"
#include "bindings/calls/raised.h"
#include "bindings/calls/results.h"
#include "compiled_graph.h"
#include "graph/replay/progress.h"
#include "runtime/plan/calling_host.h"

namespace anyop::python {
namespace {

// Runs f; what the runtime says of a call gets the graph's own name.
template <class F>
auto Named(const CompiledGraph& graph, F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    constexpr std::string_view kAny = "graph: ";
    const std::string text = e.what();
    if (!text.starts_with(kAny)) throw;
    Fail(e.code, graph.info.Message(text.substr(kAny.size())));
  }
}

// replay(executable, specialisation, inputs, outputs)
template <class HostCall, class F>
PyObject* ReplayWith(HostCall& call, CompiledGraph& graph, const Slots& slots, F&& replay) {
  OperatorInfo& info = graph.info;
  const std::size_t n_inputs = std::size_t(info.n_params), n_outputs = std::size_t(info.n_results);
  Room<anyop_value, kMaxParams + kMaxResults> values(n_inputs + n_outputs);
  anyop_value* frame = values.data();
  Room<View, kMaxParams + kMaxResults> views(n_inputs + n_outputs);
  CallMemory memory(&call, views.data());
  call.PassProfiler();
  Room<PyObject*, kMaxResults> given(n_outputs);
  Gather(call, info, slots, memory, frame, given.data());
  if (!call.is_direct()) {
    ThrowValueError(info.Message("a graph cannot take these tensors: " +
                                 std::string(call.reason()) + ". Try detached CPU tensors."));
  }
  graph.held.Check(info.name);  // before any state is read
  const std::span<const anyop_value> inputs(frame, n_inputs);
  const std::shared_ptr<Specialisation> s =
      Named(graph, [&] { return graph.executable->Prepare(inputs); });
  const ResultShape* shapes = OutputsOf(*s).data();
  call.ResultsLieOn(DeviceOf(*s));
  Room<const DLTensor*, kMaxResults> outputs(n_outputs);
  Room<PyObject*, kMaxResults> objects(n_outputs);
  Results results(info.n_results, objects.data());
  results.Allocate(call, info, shapes, memory, frame, given.data());
  for (std::size_t r = 0; r < n_outputs; ++r) outputs[r] = frame[n_inputs + r].t;
  ++graph.calls;
  const std::span<const DLTensor* const> out(outputs.data(), n_outputs);
  const CallingHost calling(call.host().name);
  const auto run = [&] {
    if (!GivesLockBack(EstimatedNs(*s), !IsHost(DeviceOf(*s)))) {
      return replay(*graph.executable, *s, inputs, out);
    }
    memory.CopyShapes();
    const WithoutLock released;
    replay(*graph.executable, *s, inputs, out);
  };
  [[maybe_unused]] const auto stream = call.OnStream();
  Raising([&] { Named(graph, run); });
  call.Finish();
  graph.held.CountWrites();
  return graph.tuple ? results.Tuple(graph.tuple) : results.Return(info);
}

void CheckKeywords(const OperatorInfo& info, const Slots& slots) {
  if (!slots.policy && !slots.like) return;
  ThrowTypeError(info.Message(
      std::string(slots.policy ? "policy" : "like") +
      " is given, but a graph takes its inputs and out only. Try anyop.policy() around "
      "the call."));
}

template <class F>
PyObject* CallThrough(PyObject* self, PyObject* const* args, Py_ssize_t n_args, PyObject* keywords,
                      F&& replay) {
  CompiledGraph& graph = *reinterpret_cast<GraphObject*>(self)->graph;
  // Begins before the arguments are looked at: a call that is refused there has written nothing,
  // whatever the call before wrote.
  const Progress progress;
  GraphSlots slots(graph.info);
  try {
    Sort(graph.info, args, n_args, keywords, slots);
    CheckKeywords(graph.info, slots);
    const Host& host =
        graph.state_host && !slots.out ? *graph.state_host : HostOf(graph.info, slots);
    return WithCall(host, [&](auto& call) { return ReplayWith(call, graph, slots, replay); });
  } catch (...) {
    SetPythonError();
  }
  PyObject* tracer = FindTracer(AllOf(args, n_args, keywords));
  if (!tracer || !PyErr_ExceptionMatches(g_errors.wrong_type)) return nullptr;
  PyErr_Clear();
  return Guarded([&] { return RecordGraph(graph, tracer, slots); });
}

}  // namespace

PyObject* CallGraph(PyObject* self, PyObject* const* args, std::size_t n_args, PyObject* keywords) {
  return CallThrough(self, args, PyVectorcall_NARGS(n_args), keywords,
                     [](Executable& e, Specialisation& s, auto inputs, auto outputs) {
                       e.Replay(s, inputs, outputs);
                     });
}

PyObject* CallGraphAs(PyObject* self, PyObject* const* args, Py_ssize_t n_args, PyObject* keywords,
                      const GraphReplay& replay) {
  return CallThrough(self, args, n_args, keywords, replay);
}

}  // namespace anyop::python
