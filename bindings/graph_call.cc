// SPDX-License-Identifier: Apache-2.0
// A call of a graph from Python: as one of an operator, with the graph's inputs as parameters.
#include <algorithm>

#include "anyop/tensor.h"
#include "call.h"
#include "compiled_graph.h"
#include "results.h"
#include "runtime/calling_host.h"
#include "signature/expression.h"

namespace anyop::python {
namespace {

std::string ResultText(const OperatorInfo& info, int r, const DLTensor& t) {
  return info.name + ": " + ToText(info.result_names[std::size_t(r)], "a name") + " is " + Show(t);
}

bool IsAs(const DLTensor& t, const ResultShape& shape) {
  const DLDataType dtype = ToDL(shape.dtype);
  return t.dtype.code == dtype.code && t.dtype.bits == dtype.bits && t.ndim == shape.rank &&
         std::equal(t.shape, t.shape + t.ndim, shape.shape);
}

bool MeetsState(const CompiledGraph& graph, const DLTensor& t) {
  const Extent e = ExtentOf(t);
  const auto at = std::partition_point(graph.state.begin(), graph.state.end(),
                                       [&](const Extent& s) { return s.end <= e.begin; });
  return at != graph.state.end() && Meet(*at, e);
}

// A result of the caller: of the right kind, contiguous, and apart from all that the graph reads.
void CheckGiven(const CompiledGraph& graph, const anyop_value* frame, int r,
                const ResultShape& shape) {
  const OperatorInfo& info = graph.info;
  const DLTensor& t = *frame[info.n_params + r].t;
  if (!IsAs(t, shape)) {
    DLTensor wanted{};
    wanted.ndim = shape.rank;
    wanted.dtype = ToDL(shape.dtype);
    wanted.shape = const_cast<std::int64_t*>(shape.shape);
    ThrowValueError(ResultText(info, r, t) + ", but must be " + Show(wanted) + ".");
  }
  if (!static_cast<const Tensor&>(t).is_contiguous()) {
    ThrowValueError(ResultText(info, r, t) +
                    " and has gaps or another order, but must be contiguous. Try a new array.");
  }
  const auto refuse = [&](const std::string& other) {
    ThrowValueError(ResultText(info, r, t) + " and shares memory with " + other +
                    ", but a graph writes results into memory of their own.");
  };
  if (MeetsState(graph, t)) refuse("state of the graph");
  for (int i = 0; i < info.n_params + r; ++i) {
    if (frame[i].tag != ANYOP_TENSOR || !Meet(ExtentOf(*frame[i].t), ExtentOf(t))) continue;
    const std::size_t k = std::size_t(i);
    const std::size_t n = std::size_t(info.n_params);
    refuse(ToText(k < n ? info.params[k].name : info.result_names[k - n], "a name"));
  }
}

std::shared_ptr<Specialisation> Prepare(const CompiledGraph& graph,
                                        std::span<const anyop_value> inputs) {
  try {
    return graph.executable->Prepare(inputs);
  } catch (const Error& e) {  // what the runtime says of a call, with the graph's own name
    constexpr std::string_view kAny = "graph: ";
    const std::string text = e.what();
    if (!text.starts_with(kAny)) throw;
    Fail(e.code, graph.info.name + ": " + text.substr(kAny.size()));
  }
}

template <class Host>
PyObject* CallWith(Host& host, TorchCall* torch, CompiledGraph& graph, const Slots& slots) {
  OperatorInfo& info = graph.info;
  anyop_value frame[kMaxParams + kMaxResults];
  CallMemory memory(torch);
  PyObject* given[kMaxResults];
  Gather(host, info, slots, memory, frame, given);
  if constexpr (Host::kIsTorch) {
    if (host.route() != TorchRoute::kFast) {
      ThrowValueError(info.name + ": a graph cannot take these tensors: " + Describe(host.route()) +
                      ". Try detached CPU tensors.");
    }
  }
  const std::span<const anyop_value> inputs(frame, std::size_t(info.n_params));
  const std::shared_ptr<Specialisation> s = Prepare(graph, inputs);
  const ResultShape* shapes = OutputsOf(*s).data();
  const DLTensor* outputs[kMaxResults];
  Results results(info.n_results);
  results.Allocate(host, info, shapes, memory, frame, given);
  for (int r = 0; r < info.n_results; ++r) {
    if (given[r]) CheckGiven(graph, frame, r, shapes[r]);
    outputs[r] = frame[info.n_params + r].t;
  }
  ++graph.calls;
  const std::span<const DLTensor* const> out(outputs, std::size_t(info.n_results));
  if (EstimatedNs(*s) > kReleaseNs) {
    memory.CopyShapes();
    const CallingHost calling(Host::kIsTorch ? HostKind::kTorch : HostKind::kNumpy);
    const WithoutLock released;
    graph.executable->Replay(*s, inputs, out);
  } else {
    const CallingHost calling(Host::kIsTorch ? HostKind::kTorch : HostKind::kNumpy);
    graph.executable->Replay(*s, inputs, out);
  }
  if constexpr (Host::kIsTorch) host.Finish();
  return graph.tuple ? results.Tuple(graph.tuple) : results.Return(info);
}

void CheckKeywords(const OperatorInfo& info, const Slots& slots) {
  if (!slots.policy && !slots.like) return;
  ThrowTypeError(info.name + ": " + (slots.policy ? "policy" : "like") +
                 " is given, but a graph takes its inputs and out only. Try anyop.policy() around "
                 "the call.");
}

}  // namespace

PyObject* CallGraph(PyObject* self, PyObject* const* args, std::size_t n_args, PyObject* keywords) {
  CompiledGraph& graph = *reinterpret_cast<GraphObject*>(self)->graph;
  try {
    Slots slots;
    Sort(graph.info, args, PyVectorcall_NARGS(n_args), keywords, slots);
    CheckKeywords(graph.info, slots);
    if (IsForTorch(graph.info, slots) || (graph.is_torch && !slots.out)) {
      TorchCall host;
      return CallWith(host, &host, graph, slots);
    }
    NumpyCall host;
    return CallWith(host, nullptr, graph, slots);
  } catch (const FoundTraced&) {
    PyErr_SetString(g_errors.wrong_type,
                    (graph.info.name + ": a graph is called while another is made of it, but "
                                       "graphs hold operators only. Try its function instead.")
                        .c_str());
    return nullptr;
  } catch (...) {
    return SetPythonError();
  }
}

}  // namespace anyop::python
