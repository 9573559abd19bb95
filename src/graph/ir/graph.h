// SPDX-License-Identifier: Apache-2.0
// A graph as plain data: operator calls over values whose sizes are polynomials over symbols.
// Nodes are in the order in which they run, as the program wrote them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "anyop/runtime.h"
#include "anyop/signature.h"
#include "graph/ir/size.h"

namespace anyop {

struct GraphValue {
  enum Kind : std::uint8_t {
    kInput,     // a tensor of the call
    kScalar,    // a number of the call; `scalar` says which kind
    kState,     // bound by reference: a cache, a weight
    kConstant,  // owned by the graph and never written
    kResult,    // of node `node`, number `result`
    kView       // the memory of `base`, seen as `view` says
  };
  Kind kind = kResult;
  std::string name;  // unique; of letters, digits and _
  DType dtype = DType::kF32;
  std::vector<Size> shape;
  bool is_frozen = false;              // state that nobody changes: it may be packed
  ParamKind scalar = ParamKind::kInt;  // kInt, kFloat or kBool
  int symbol = -1;                     // kScalar, a whole number: the symbol that stands for it
  int node = -1, result = -1;          // kResult
  int base = -1, view = -1;            // kView: a value, and a number of Graph::views
  std::string place;                   // kView: of the user's program, as GraphNode::place
  Array array;                         // kState, kConstant
};

// A tensor seen in another shape or order, or a part of it.
struct GraphView {
  enum Kind : std::uint8_t { kSlice, kReshape, kTranspose } kind = kSlice;
  int a = 0, b = 0;         // kSlice: dimension a; kTranspose: dimensions a and b
  Size begin, end;          // kSlice
  std::vector<Size> shape;  // kReshape

  bool operator==(const GraphView&) const = default;
};

// An argument of a node. Numbers of the call (kScalar) are kValue; whole ones kSize.
struct GraphArgument {
  enum Kind : std::uint8_t {
    kNone,
    kValue,
    kValues,
    kBool,
    kInt,
    kFloat,
    kWord,
    kDType,
    kInts,
    kFloats,
    kSize
  };
  Kind kind = kNone;
  std::vector<int> values;         // kValue: one; kValues: a list of tensors
  std::int64_t i = 0;              // kBool, kInt, kDType
  double f = 0;                    // kFloat
  std::string word;                // kWord
  std::vector<std::int64_t> ints;  // kInts
  std::vector<double> floats;      // kFloats
  Size size;                       // kSize: a whole number made of symbols

  bool operator==(const GraphArgument&) const = default;
};

struct GraphNode {
  Operator* op = nullptr;
  std::vector<GraphArgument> arguments;  // one per parameter
  std::vector<int> results;              // values; -1: a declined result
  std::uint32_t into = 0;  // results by bit that are written into a value that exists already
  std::string place;       // of the user's program: "model.py:31"
};

// What a symbol is: free symbols are bound by the inputs of a call; the others are a size of a
// result that no polynomial over earlier symbols expresses.
struct GraphSymbol {
  std::string name;
  int value = kFree, dimension = -1;

  static constexpr int kFree = -1;
};

struct GraphOutput {
  std::string name;
  int value = -1;
};

struct Graph {
  std::vector<GraphValue> values;
  std::vector<GraphView> views;
  std::vector<GraphNode> nodes;
  std::vector<GraphSymbol> symbols;
  std::vector<int> inputs;  // tensors and numbers, in the order of a call
  std::vector<GraphOutput> outputs;

  GraphValue& value(int i) { return values[std::size_t(i)]; }
  const GraphValue& value(int i) const { return values[std::size_t(i)]; }
  // The value whose memory value i is: itself unless it is a view.
  int Root(int i) const {
    while (value(i).kind == GraphValue::kView) i = value(i).base;
    return i;
  }
};

// "bf16[n, 576]", "float".
std::string ShowType(const Graph& graph, int value);
// "y = anyop.rms_norm(x, w, eps=1e-06)"
std::string ShowNode(const Graph& graph, const GraphNode& node);

}  // namespace anyop
