// SPDX-License-Identifier: Apache-2.0
// The public header's functions.
#include "anyop/graph.h"

#include <algorithm>

#include "graph/builder/builder.h"
#include "graph/executable.h"
#include "graph/ir/text.h"
#include "graph/saved/load.h"
#include "graph/saved/save.h"
#include "platform/error.h"
#include "runtime/registry/operator.h"

namespace anyop {

struct CompiledGraph::Shared {
  Shared(std::string own_name, Graph graph, bool is_tuple, CompileOptions options)
      : name(std::move(own_name)),
        // `name` is declared, and so made, before this.
        executable(std::move(graph), (options.name = name, std::move(options))),
        returns_tuple(is_tuple) {}
  const std::string name;
  Executable executable;
  const bool returns_tuple;  // kept for hosts that know tuples
};

namespace {

std::shared_ptr<const GraphArgument> Share(GraphArgument argument) {
  return std::make_shared<const GraphArgument>(std::move(argument));
}

}  // namespace

GraphOperand::GraphOperand(GraphTensor tensor) : argument_(Share(ValueArgument(tensor.id_))) {}
GraphOperand::GraphOperand(std::span<const GraphTensor> list) {
  std::vector<int> ids;
  for (const GraphTensor& t : list) ids.push_back(t.id_);
  argument_ = Share(ValuesArgument(std::move(ids)));
}
GraphOperand::GraphOperand(const GraphSize& size) : size_(size.text()) {}
GraphOperand::GraphOperand(const Array& array) : argument_(Share({})), array_(array) {}
GraphOperand::GraphOperand(const Named& literal) : name_(literal.name()) {
  const anyop_value& v = literal.value();
  // A Named points to its array without keeping it alive; the state of a graph must live on.
  if (v.tag == ANYOP_TENSOR || v.tag == ANYOP_TENSORS) {
    Fail(ANYOP_INVALID_ARGUMENT,
         name_ + " is named, but an array of a graph's call becomes state. Try NamedOperand.");
  }
  argument_ = Share(LiteralArgument(v));
}

GraphRecorder::GraphRecorder(std::string name)
    : name_(std::move(name)), builder_(std::make_unique<GraphBuilder>()) {}
GraphRecorder::~GraphRecorder() = default;

GraphTensor GraphRecorder::Input(std::string_view name, std::string_view type) {
  if (type == "int") return GraphTensor(builder_->Scalar(name, ParamKind::kInt));
  if (type == "float") return GraphTensor(builder_->Scalar(name, ParamKind::kFloat));
  if (type == "bool") return GraphTensor(builder_->Scalar(name, ParamKind::kBool));
  return GraphTensor(builder_->Input(name, type));
}

GraphTensor GraphRecorder::State(std::string_view name, const Array& array, bool is_frozen) {
  return GraphTensor(builder_->State(name, array, is_frozen));
}

GraphTensor GraphRecorder::Slice(GraphTensor t, int dimension, const GraphSize& begin,
                                 const GraphSize& end) {
  return GraphTensor(builder_->Slice(t.id_, dimension, builder_->ParseSize(begin.text()),
                                     builder_->ParseSize(end.text())));
}
GraphTensor GraphRecorder::Reshape(GraphTensor t, std::initializer_list<GraphSize> shape) {
  std::vector<Size> sizes;
  for (const GraphSize& s : shape) sizes.push_back(builder_->ParseSize(s.text()));
  return GraphTensor(builder_->Reshape(t.id_, std::move(sizes)));
}
GraphTensor GraphRecorder::Transpose(GraphTensor t, int a, int b) {
  return GraphTensor(builder_->Transpose(t.id_, a, b));
}

std::vector<GraphTensor> GraphRecorder::Record(std::string_view op_name,
                                               std::span<const GraphOperand> operands) {
  Operator& op = *Find(op_name);
  std::vector<GraphArgument> arguments(std::size_t(op.n_params));
  std::uint64_t given = 0;
  const auto refuse = [&](const std::string& what) {
    Fail(ANYOP_INVALID_ARGUMENT, op.Message(what));
  };
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const GraphOperand& o = operands[k];
    const int i = o.name_.empty() ? int(k) : op.contract->param(o.name_);
    if (i < 0) refuse("there is no parameter '" + o.name_ + "'.");
    if (i >= op.n_params) {
      refuse(std::to_string(operands.size()) + " arguments are given, but there are " +
             std::to_string(op.n_params) + ".");
    }
    const std::string param(op.contract->forms[0].params[std::size_t(i)].name);
    if (given >> i & 1) refuse(param + " is given twice.");
    given |= 1ull << i;
    GraphArgument& a = arguments[std::size_t(i)];
    if (!o.array_.is_none()) {
      a = ValueArgument(builder_->State(builder_->FreeName(param), o.array_));
    } else {
      a = o.argument_ ? *o.argument_ : SizeArgument(builder_->ParseSize(o.size_));
    }
  }
  for (int i = 0; i < op.n_params; ++i) {
    if (!(given >> i & 1)) arguments[std::size_t(i)] = builder_->Default(op, i);
  }
  std::vector<GraphTensor> results;
  for (const int id : builder_->Call(op, std::move(arguments))) {
    results.push_back(GraphTensor(id));
  }
  return results;
}

void GraphRecorder::Output(GraphTensor t, std::string_view name) { builder_->Output(t.id_, name); }

CompiledGraph GraphRecorder::Compile() {
  return CompiledGraph(
      std::make_shared<CompiledGraph::Shared>(name_, builder_->Finish(), false, CompileOptions()));
}

const std::string& CompiledGraph::name() const { return graph_->name; }
std::string CompiledGraph::text() const { return Print(graph_->executable.graph()); }

std::vector<GraphPort> CompiledGraph::inputs() const {
  const Graph& graph = graph_->executable.graph();
  std::vector<GraphPort> ports;
  for (const int id : graph.inputs) {
    const GraphValue& v = graph.value(id);
    ports.push_back({v.name, ShowType(graph, id), v.kind != GraphValue::kScalar, v.dtype});
  }
  return ports;
}
std::vector<GraphPort> CompiledGraph::outputs() const {
  const Graph& graph = graph_->executable.graph();
  std::vector<GraphPort> ports;
  for (const GraphOutput& o : graph.outputs) {
    ports.push_back({o.name, ShowType(graph, o.value), true, graph.value(o.value).dtype});
  }
  return ports;
}

Array CompiledGraph::state(std::string_view name) const {
  std::vector<std::string> names;
  for (const GraphValue& v : graph_->executable.graph().values) {
    if (v.array.is_none()) continue;
    if (v.name == name) return v.array;
    names.push_back(v.name);
  }
  Fail(ANYOP_INVALID_ARGUMENT,
       graph_->name + " has no state '" + std::string(name) + "'." + NearOrAll(name, names));
}

std::vector<Array> CompiledGraph::Run(std::span<const Argument> arguments) const {
  std::vector<anyop_value> inputs;
  for (const Argument& a : arguments) inputs.push_back(a.value());
  const std::shared_ptr<Specialisation> s = graph_->executable.Prepare(inputs);
  std::vector<Array> outputs;
  std::vector<const DLTensor*> tensors;
  for (const ResultShape& r : OutputsOf(*s)) {
    outputs.push_back(
        Array::Empty(Array::Shape(r.shape, std::size_t(r.rank)), r.dtype, DeviceOf(*s)));
  }
  for (const Array& a : outputs) tensors.push_back(&a.tensor());
  graph_->executable.Replay(*s, inputs, tensors);
  return outputs;
}

void CompiledGraph::RunInto(std::span<const Argument> arguments,
                            std::span<const Array> outputs) const {
  std::vector<anyop_value> inputs;
  for (const Argument& a : arguments) inputs.push_back(a.value());
  std::vector<const DLTensor*> tensors;
  for (const Array& a : outputs) tensors.push_back(&a.tensor());
  graph_->executable.Replay(*graph_->executable.Prepare(inputs), inputs, tensors);
}

void CompiledGraph::Save(const std::string& path, const SaveOptions& options) const {
  SaveGraphs(path, std::span(this, 1), options);
}

void SaveGraphs(const std::string& path, std::span<const CompiledGraph> graphs,
                const SaveOptions& options) {
  std::vector<GraphToSave> all;
  for (const CompiledGraph& g : graphs) {
    all.push_back({g.name(), &g.graph_->executable.graph(), g.graph_->returns_tuple});
  }
  WriteGraphs(path, all, options);
}

std::vector<CompiledGraph> LoadGraphs(const std::string& path, std::string* metadata,
                                      const LoadOptions& options) {
  return CompiledGraph::Compile(ReadGraphs(path, options), metadata);
}

CompiledGraph LoadGraph(const std::string& path, std::string_view name, std::string* metadata,
                        const LoadOptions& options) {
  return CompiledGraph::Compile(ReadGraph(path, std::string(name), options), metadata)[0];
}

std::vector<CompiledGraph> CompiledGraph::Compile(LoadedGraphs loaded, std::string* metadata) {
  if (metadata) *metadata = std::move(loaded.metadata);
  std::vector<CompiledGraph> graphs;
  for (LoadedGraph& g : loaded.graphs) {
    graphs.push_back(CompiledGraph(std::make_shared<Shared>(std::move(g.name), std::move(g.graph),
                                                            g.returns_tuple, LoadedOptions())));
  }
  return graphs;
}

}  // namespace anyop
