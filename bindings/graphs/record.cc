// SPDX-License-Identifier: Apache-2.0
// Calls of operators on traced values.
#include "bindings/calls/call.h"
#include "bindings/calls/results.h"
#include "compiled_graph.h"
#include "graph/builder/copy_graph.h"
#include "traced.h"

namespace anyop::python {
namespace {

class Recorder {
 public:
  // tracer: of one of the arguments, which all must have.
  Recorder(OperatorInfo& info, const Slots& slots, PyObject* tracer)
      : info_(info), slots_(slots), tracer_(tracer), trace_(&TraceOf(tracer)) {}

  PyObject* Record() {
    GraphBuilder::CallOptions options;
    std::vector<GraphArgument> arguments;
    for (int i = 0; i < info_.n_params; ++i) arguments.push_back(Argument(i));
    PyObject* given[kMaxResults];
    FindGiven(info_, slots_.out, given);
    for (int r = 0; r < info_.n_results; ++r) {
      const bool is_array = given[r] && given[r] != Py_False;
      const bool is_declined = given[r] == Py_False || IsWithoutParameter(r, arguments);
      if (is_declined && !is_array) options.declined |= 1u << r;
      PyObject* name = info_.result_names[std::size_t(r)];
      options.into.push_back(is_array ? Tensor(name, given[r], true) : -1);
    }
    trace_->builder.SetPlace(PlaceIn(*trace_));
    const std::vector<int> ids = trace_->builder.Call(*info_.op, std::move(arguments), options);
    return Return(ids, given);
  }

  // The nodes of a compiled graph, with their own places.
  PyObject* Inline(const CompiledGraph& compiled) {
    if (slots_.out) {
      ThrowValueError(info_.name +
                      ": out is given, but a graph inside of another makes its results anew. Try "
                      "an operator with out, or leave it away.");
    }
    compiled.held.Check(info_.name);
    const Graph& graph = compiled.executable->graph();
    CheckOutputs(graph);
    std::vector<GraphArgument> arguments;
    for (int i = 0; i < info_.n_params; ++i) arguments.push_back(Argument(i));
    if (compiled.state_host) trace_->state_host = compiled.state_host;
    trace_->held.Add(compiled.held);
    GraphCopy copy(graph, &trace_->builder, [&](const GraphValue& v) {
      if (v.kind != GraphValue::kConstant) {
        return BindArray(*trace_, v.name, v.array, v.is_frozen);
      }
      const int id = trace_->builder.State(trace_->builder.FreeName(v.name), v.array);
      trace_->builder.MakeConstant(id);
      return id;
    });
    copy.BindInputs(arguments, info_.name);
    for (const GraphNode& node : graph.nodes) copy.CopyNode(node);
    std::vector<Ref> outputs;
    for (const GraphOutput& o : graph.outputs) {
      outputs.push_back(MakeTraced(tracer_, copy.Value(o.value)));
    }
    if (outputs.empty()) Py_RETURN_NONE;
    if (!compiled.tuple) return outputs[0].release();
    Ref tuple = Checked(compiled.tuple->tp_alloc(compiled.tuple, Py_ssize_t(outputs.size())));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      PyTuple_SET_ITEM(tuple.get(), Py_ssize_t(i), outputs[i].release());
    }
    return tuple.release();
  }

 private:
  // A call of the inner graph returns each output in memory of its own. Inlined, a value stands for
  // the output: it must be a new one, and no two outputs may have the same.
  void CheckOutputs(const Graph& graph) const {
    std::vector<bool> taken(graph.values.size());
    for (const GraphOutput& o : graph.outputs) {
      const int root = graph.Root(o.value);
      if (graph.value(root).kind == GraphValue::kResult && !taken[std::size_t(root)]) {
        taken[std::size_t(root)] = true;
        continue;
      }
      ThrowValueError(
          info_.Message("output " + o.name +
                        " is an input, a state or part of another output, which a graph inside of "
                        "another cannot copy. Try to leave it out."));
    }
  }

  bool IsWithoutParameter(int r, const std::vector<GraphArgument>& arguments) const {
    const int param = info_.declined_without[r];
    return param >= 0 && arguments[std::size_t(param)].kind == GraphArgument::kNone;
  }

  void CheckTracer(PyObject* name, PyObject* object) const {
    if (reinterpret_cast<TracedObject*>(object)->tracer == tracer_) return;
    ThrowValueError(info_.Message(ToText(name, "a name") +
                                  " belongs to another graph. Try one graph around both."));
  }

  int Tensor(PyObject* name, PyObject* object, bool is_written) {
    if (!IsTraced(object)) return BindState(*trace_, info_.name.c_str(), name, object, is_written);
    CheckTracer(name, object);
    const int id = reinterpret_cast<TracedObject*>(object)->id;
    if (id >= 0) return id;
    ThrowTypeError(info_.Message(ToText(name, "a name") + " is " + Repr(object) +
                                 ", a number, but must be a tensor."));
  }

  GraphArgument Argument(int i) {
    const Parameter& param = info_.params[std::size_t(i)];
    PyObject* object = slots_[i];
    if (!object && param.is_required) RefuseMissing(info_, param);
    if (!object) return LiteralArgument(param.default_value);
    if (object == Py_None && param.is_optional) return {};
    if (param.kind == ParamKind::kTensor) {
      return ValueArgument(Tensor(param.name, object, param.is_mut));
    }
    if (param.kind == ParamKind::kTensors) return Tensors(param, object);
    if (IsTraced(object)) return Number(param, object);
    return Other(param, object);
  }

  GraphArgument Tensors(const Parameter& param, PyObject* object) {
    if (!PyTuple_Check(object) && !PyList_Check(object)) {
      ThrowTypeError(info_.Message(ToText(param.name, "a name") + " is " + Repr(object) +
                                   ", but must be a list of tensors."));
    }
    std::vector<int> ids;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(object); ++k) {
      ids.push_back(Tensor(param.name, PySequence_Fast_GET_ITEM(object, k), param.is_mut));
    }
    return ValuesArgument(std::move(ids));
  }

  GraphArgument Number(const Parameter& param, PyObject* object) {
    CheckTracer(param.name, object);
    const int id = reinterpret_cast<TracedObject*>(object)->id;
    const bool is_number = param.kind == ParamKind::kInt || param.kind == ParamKind::kFloat ||
                           param.kind == ParamKind::kBool;
    if (!is_number) RefuseTraced(param);
    return id >= 0 ? ValueArgument(id) : SizeArgument(ToSize(*trace_, object));
  }

  GraphArgument Other(const Parameter& param, PyObject* object) {
    if (HostOfTensor(object)) RefuseArray(param, object);
    if (FindTracer({&object, 1})) RefuseTraced(param);
    CallMemory memory(nullptr, nullptr);
    anyop_value value{};
    ConvertOther(info_, param, object, memory, value);
    return LiteralArgument(value);
  }

  // An array where a number belongs would be read now, once. Its elements may be others when the
  // graph is called.
  [[noreturn]] void RefuseArray(const Parameter& param, PyObject* object) const {
    const std::string name = ToText(param.name, "a name");
    ThrowTypeError(info_.Message(
        name + " is " + Repr(object) +
        ", but must be part of the graph, which reads no array for it. Try numbers of "
        "Python: " +
        name + ".item() or .tolist()."));
  }
  [[noreturn]] void RefuseTraced(const Parameter& param) const {
    ThrowValueError(
        info_.Message(ToText(param.name, "a name") +
                      " depends on what only a call of the graph knows, but must be part of the "
                      "graph. Try fixed numbers."));
  }

  PyObject* Return(const std::vector<int>& ids, PyObject* const* given) {
    if (info_.n_results == 0) Py_RETURN_NONE;
    const auto result = [&](int r) {
      if (given[r] && given[r] != Py_False) return Ref::Borrow(given[r]);
      const int id = ids[std::size_t(r)];
      return id < 0 ? Ref::Borrow(Py_None) : MakeTraced(tracer_, id);
    };
    if (info_.n_results == 1) return result(0).release();
    PyTypeObject* type = ResultType(info_);
    Ref tuple = Checked(type->tp_alloc(type, info_.n_results));
    for (int r = 0; r < info_.n_results; ++r) {
      PyTuple_SET_ITEM(tuple.get(), r, result(r).release());
    }
    return tuple.release();
  }

  OperatorInfo& info_;
  const Slots& slots_;
  PyObject* const tracer_;  // borrowed
  Trace* const trace_;
};

class GraphTaker final : public CallTaker {
 public:
  bool TakesRefused(std::span<PyObject* const> arguments) const override {
    return FindTracer(arguments) != nullptr;
  }
  PyObject* CallElsewhere(OperatorInfo& info, const Slots& slots) const override {
    PyObject* tracer = nullptr;
    for (int i = 0; i <= info.n_params && !tracer; ++i) {  // the last is out
      PyObject* object = i < info.n_params ? slots[i] : slots.out;
      if (object) tracer = FindTracer({&object, 1});
    }
    return Recorder(info, slots, tracer).Record();
  }
  std::string refusal(PyObject* object) const override {
    if (!IsTraced(object)) return "";
    return "a value of a graph under construction is given, but only operators take these. Try it "
           "outside of the graph's function.";
  }
};

}  // namespace

PyObject* FindTracer(std::span<PyObject* const> arguments) {
  for (PyObject* object : arguments) {
    if (IsTraced(object)) return reinterpret_cast<TracedObject*>(object)->tracer;
    if (!PyTuple_Check(object) && !PyList_Check(object)) continue;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
      PyObject* element = PySequence_Fast_GET_ITEM(object, i);
      if (IsTraced(element)) return reinterpret_cast<TracedObject*>(element)->tracer;
    }
  }
  return nullptr;
}

const CallTaker* MakeRecorder() { return new GraphTaker; }

PyObject* RecordGraph(CompiledGraph& graph, PyObject* tracer, const Slots& slots) {
  return Recorder(graph.info, slots, tracer).Inline(graph);
}

}  // namespace anyop::python
