// SPDX-License-Identifier: Apache-2.0
// Makes a graph call by call; each is checked by the operator's signature as it is made.
//
//   GraphBuilder b;
//   const int x = b.Input("x", "f32[n, 64]"), w = b.State("w", weight, /*is_frozen=*/true);
//   const int y = b.Call(*Find("rms_norm"), {Value(x), Value(w)})[0];
//   b.Output(y);
//   Graph graph = b.Finish();
//
// Every function throws Error. The text for a wrong call is that of a single call, with the place
// in the user's program behind it.
#pragma once
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/argument.h"
#include "graph/ir/graph.h"

namespace anyop {

struct Contract;
struct Expression;
class GraphPoints;
class GraphProof;
struct InferredResult;

class GraphBuilder {
 public:
  GraphBuilder();
  ~GraphBuilder();

  // The symbol of this name, made if it is new.
  Size Symbol(std::string_view name);
  // The number of a symbol that is there, or -1.
  int FindSymbol(std::string_view name) const;
  // "2*n + 1": sums, differences and products of whole numbers and symbols; new symbols are made.
  Size ParseSize(std::string_view text);

  // A tensor of each call. Every free symbol must be the whole size of some input's dimension, or
  // occur alone and linearly in one ("2*n + 1").
  int Input(std::string_view name, DType dtype, std::vector<Size> shape);
  int Input(std::string_view name, std::string_view type);  // "bf16[n, 576]"
  // A number of each call: kInt, kFloat or kBool. A whole number is a symbol too.
  int Scalar(std::string_view name, ParamKind kind);
  // Memory of the caller, read and written at its own address for as long as the graph lives.
  // is_frozen: nobody changes it, so that it may be packed or folded.
  int State(std::string_view name, const Array& array, bool is_frozen = false);
  // A contiguous copy, made now.
  int Constant(std::string_view name, const Array& array);

  // Views. Bounds and shapes are any sizes over the symbols; a reshape that needs a copy is
  // refused. end: at most the dimension's size.
  int Slice(int value, int dimension, const Size& begin, const Size& end);
  int Reshape(int value, std::vector<Size> shape);
  int Transpose(int value, int a, int b);

  struct CallOptions {
    std::uint32_t declined = 0;  // optional results that are not computed, by bit
    std::vector<int> into;       // per result: a value to write, or -1 for a new one; may be short
    std::string name;            // of the first result; "" for v0, v1, ...
  };
  // Arguments in signature order; those left out have their defaults. Returns a value per result,
  // -1 for a declined one. A `mut` argument is changed in place: an input, a state, or a result.
  std::vector<int> Call(Operator& op, std::vector<GraphArgument> arguments,
                        const CallOptions& options);
  std::vector<int> Call(Operator& op, std::vector<GraphArgument> arguments) {
    return Call(op, std::move(arguments), CallOptions());
  }
  std::vector<int> Call(std::string_view op, std::vector<GraphArgument> arguments) {
    return Call(*Find(op), std::move(arguments), CallOptions());
  }

  // Adds a result to what a call of the graph returns; name "" takes the value's. Any tensor may be
  // one, an input too: it is returned in memory of its own.
  void Output(int value, std::string_view name = "");

  // The user's place for the nodes and views that follow: "model.py:31".
  void SetPlace(std::string place) { place_ = std::move(place); }
  void SetPlaceOfView(int view, std::string place) { graph_.value(view).place = std::move(place); }

  // The default of parameter i. Refuses where the parameter must be given.
  GraphArgument Default(const Operator& op, int i) const;
  // Another name for a view or result, where it is free.
  void Rename(int value, std::string_view name);

  // This name, or one after it that no value has: "w", "w_2", "w_3".
  std::string FreeName(std::string_view name) const;
  // Makes a state that was just added a constant, without a copy.
  void MakeConstant(int state) { graph_.value(state).kind = GraphValue::kConstant; }
  // An expression over the sizes of a call; contract: that it was compiled for. Throws Error where
  // it has no whole value, or no polynomial.
  GraphArgument Evaluated(const Contract& contract, const GraphNode& call,
                          const Expression& expression) const;

  // The concrete sizes at which everything so far is right.
  const GraphPoints& points() const { return *points_; }

  // The graph so far, with the shapes of its values.
  const Graph& graph() const { return graph_; }
  std::vector<std::string> symbol_names() const;
  Graph Finish();  // the builder is empty after it

 private:
  static constexpr int kMostViews = 1000;

  int Add(GraphValue value, std::string_view name);
  int AddView(int base, GraphView view);
  std::string Infer(const GraphNode& node, std::vector<InferredResult>* results);
  int AddResult(int number, int result, const InferredResult& inferred, std::string_view name);
  int NewSymbol(std::string name, int value, int dimension);
  void Complete(const Operator& op, std::vector<GraphArgument>* arguments) const;
  void CheckValue(int value, const char* what) const;
  void CheckDimension(int value, int dimension) const;
  void CheckKind(const Operator& op, int param, const GraphArgument& argument) const;
  void CheckWritten(const Operator& op, std::string_view what, int value) const;
  [[noreturn]] void Refuse(const std::string& text) const;

  Graph graph_;
  std::map<std::string, int, std::less<>> names_;    // of values
  std::map<std::string, int, std::less<>> symbols_;  // by name
  std::map<int, std::vector<int>> sizes_of_;         // by value: symbols that are its sizes
  std::string place_;
  std::unique_ptr<GraphProof> proof_;
  std::unique_ptr<GraphPoints> points_;
};

}  // namespace anyop
