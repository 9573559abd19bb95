// SPDX-License-Identifier: Apache-2.0
// Graphs from C++: operator calls, compiled once, replayed without dispatch or allocation, saved
// and loaded. Every function throws anyop::Error.
//
//   GraphRecorder r("norm");
//   const GraphTensor x = r.Input("x", "f32[n, 64]");    // any n; planned once per n
//   r.Output(r.Call("rms_norm", x, weight, Named("eps", 1e-5))[0]);
//   const CompiledGraph g = r.Compile();
//   const Array y = g(array)[0];
//   g.Save("norm.anyop");
//   const CompiledGraph again = LoadGraph("norm.anyop");
#pragma once
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "anyop/runtime.h"

namespace anyop {

class CompiledGraph;
class GraphBuilder;
class GraphRecorder;
struct GraphArgument;
struct LoadedGraphs;

// A size of a graph under construction: a number, or a polynomial over names, "2*n + 1".
class GraphSize {
 public:
  template <std::integral T>
  GraphSize(T size) : text_(std::to_string(size)) {}
  GraphSize(const char* text) : text_(text) {}
  GraphSize(std::string text) : text_(std::move(text)) {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// A tensor or number that only a replay knows. Belongs to one recorder.
class GraphTensor {
 private:
  friend class GraphRecorder;
  friend class GraphOperand;
  explicit GraphTensor(int id) : id_(id) {}
  int id_;  // -1: a result that was declined
};

// An argument of GraphRecorder::Call: a GraphTensor, a list of them, a GraphSize, or what a call of
// an operator takes. An Array becomes state: each replay reads the values that it has at that time.
class GraphOperand {
 public:
  GraphOperand(GraphTensor tensor);
  GraphOperand(std::span<const GraphTensor> list);
  GraphOperand(const std::vector<GraphTensor>& list) : GraphOperand(std::span(list)) {}
  GraphOperand(const GraphSize& size);
  GraphOperand(const Array& array);
  GraphOperand(const Named& literal);
  template <class T>
  requires std::constructible_from<Argument, const T&> GraphOperand(const T& literal)
      : GraphOperand(Named("", literal)) {}

 private:
  friend class GraphRecorder;
  friend class NamedOperand;
  std::string name_;
  std::shared_ptr<const GraphArgument> argument_;
  std::string size_;  // of a GraphSize
  Array array_;
};

// An argument by its parameter's name, as Named, for arguments that are no literals.
class NamedOperand : public GraphOperand {
 public:
  NamedOperand(const char* name, GraphOperand operand) : GraphOperand(std::move(operand)) {
    name_ = name;
  }
};

// Makes a graph call by call; each is checked by its signature as it is made.
class GraphRecorder {
 public:
  explicit GraphRecorder(std::string name = "graph");
  ~GraphRecorder();

  // An input of the graph: a replay is given its inputs in the order of these calls.
  // type: "bf16[n, 576]", or "int", "float", "bool".
  GraphTensor Input(std::string_view name, std::string_view type);
  // Memory of the caller, read and written at its own address for as long as the graph lives.
  // is_frozen: nobody changes it, so that it may be packed.
  GraphTensor State(std::string_view name, const Array& array, bool is_frozen = false);

  // Views. end: at most the dimension's size.
  GraphTensor Slice(GraphTensor t, int dimension, const GraphSize& begin, const GraphSize& end);
  GraphTensor Reshape(GraphTensor t, std::initializer_list<GraphSize> shape);
  GraphTensor Transpose(GraphTensor t, int a, int b);

  // Arguments in signature order, then named ones; what is left out has its default. Returns a
  // tensor per result. `mut` arguments are changed in place.
  template <class... A>
  std::vector<GraphTensor> Call(std::string_view op, const A&... args) {
    // One more than there are, because no array has 0 elements.
    const GraphOperand operands[] = {GraphOperand(args)..., GraphOperand(std::nullopt)};
    return Record(op, std::span(operands, sizeof...(A)));
  }

  // An output of the graph: a replay returns them in the order of these calls. name: "" takes the
  // tensor's name.
  void Output(GraphTensor t, std::string_view name = "");

  // Runs the passes. The recorder is empty after it.
  CompiledGraph Compile();

 private:
  std::vector<GraphTensor> Record(std::string_view op, std::span<const GraphOperand> operands);

  std::string name_;
  std::unique_ptr<GraphBuilder> builder_;
};

// An input or output of a graph.
struct GraphPort {
  std::string name;
  std::string type;  // "bf16[n, 576]", "float"
  bool is_tensor = true;
  DType dtype = DType::kF32;  // of a tensor
};

// A file that is saved beside the graphs: a tokenizer, a licence.
struct SavedFile {
  std::string name, content;
};

struct SaveOptions {
  std::string metadata = "{}";  // JSON, given back when the graph is loaded
  std::vector<SavedFile> files;
  // Told about long writes.
  void (*progress)(void* data, std::int64_t written_bytes, std::int64_t all_bytes) = nullptr;
  void* progress_data = nullptr;
};

struct LoadOptions {
  // Compares every file and every tensor that is used with the digest that was saved. Reads all of
  // them once; without it, pages are read when they are touched first.
  bool verify = true;
};

// A graph that can be called, by any number of threads at once; state that it changes is theirs to
// guard. Copies are the same graph.
class CompiledGraph {
 public:
  CompiledGraph() = default;  // no graph: is_none()
  bool is_none() const { return !graph_; }

  const std::string& name() const;
  std::vector<GraphPort> inputs() const;
  std::vector<GraphPort> outputs() const;
  std::string text() const;  // after the passes
  // State or a constant, by its name in the text: the memory itself.
  Array state(std::string_view name) const;

  // Arguments in the order of the inputs. Returns new arrays, one per output.
  template <class... A>
  std::vector<Array> operator()(const A&... args) const {
    const Argument arguments[] = {Argument(args)..., Argument(std::nullopt)};
    return Run(std::span(arguments, sizeof...(A)));
  }
  std::vector<Array> Run(std::span<const Argument> arguments) const;
  // Writes contiguous arrays of the outputs' shapes, apart from inputs and state.
  void RunInto(std::span<const Argument> arguments, std::span<const Array> outputs) const;

  // Writes a folder: the graph as text, its state and constants as safetensors. Replaces a saved
  // graph that is there, in one step; refuses a link, or a folder that holds anything else.
  void Save(const std::string& path, const SaveOptions& options = {}) const;

 private:
  struct Shared;
  friend class GraphRecorder;
  friend std::vector<CompiledGraph> LoadGraphs(const std::string&, std::string*,
                                               const LoadOptions&);
  friend CompiledGraph LoadGraph(const std::string&, std::string_view, std::string*,
                                 const LoadOptions&);
  friend void SaveGraphs(const std::string&, std::span<const CompiledGraph>, const SaveOptions&);
  static std::vector<CompiledGraph> Compile(LoadedGraphs loaded, std::string* metadata);
  explicit CompiledGraph(std::shared_ptr<Shared> graph) : graph_(std::move(graph)) {}
  std::shared_ptr<Shared> graph_;
};

// Several graphs in one folder; memory that they share is saved once and shared when loaded.
void SaveGraphs(const std::string& path, std::span<const CompiledGraph> graphs,
                const SaveOptions& options = {});
// Maps the weights into memory. Operators of other libraries must be loaded before. metadata: null,
// or where the saved JSON goes.
std::vector<CompiledGraph> LoadGraphs(const std::string& path, std::string* metadata = nullptr,
                                      const LoadOptions& options = {});
// The graph of this name, "" the only one.
CompiledGraph LoadGraph(const std::string& path, std::string_view name = "",
                        std::string* metadata = nullptr, const LoadOptions& options = {});

}  // namespace anyop
