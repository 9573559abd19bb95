// SPDX-License-Identifier: Apache-2.0
// The text of a bound call, read and written. Its grammar, with blanks wherever a word ends:
//
//   text    = "anyop.call/1 " (operator | graph) ["in" scope {"," scope}]
//   operator= name "(" [argument {"," argument}] ")" ["->" result {"," result}]
//   argument= parameter "=" (dtype | number | True | False | None | 'word' | "[" ... "]")
//   result  = name | "_"                              one for each result of the operator
//   graph   = ("graph" "(" string | "saved" "(" path "," name "," digest)
//             {"," input "=" number} ")"
//   scope   = "strict" | "batch_invariant" | "threads" "=" number | "policy" "=" string
//   string  = '"' with \\ \" \n and \xNN for what is no printable ASCII '"'
//
// A text that anyop writes names every parameter in order and operators by their full names. Its
// numbers read back as they were, bit for bit (but for the payload of a NaN).
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "anyop/lexer.h"
#include "anyop/scope.h"
#include "hosting/bound_call.h"
#include "runtime/registry/operator.h"
#include "signature/owned_call.h"

namespace anyop {

// A call of an operator. Tensors of the frame have a dtype, a rank of -1 and no memory.
struct OperatorText {
  explicit OperatorText(Operator& o) : op(&o), call(*o.contract) {}
  Operator* op;
  OwnedCall call;
  std::uint32_t wanted = 0;  // results, by bit
  std::deque<DLTensor> tensors;
  std::deque<std::vector<const DLTensor*>> lists;
};

struct GraphNumber {
  std::string name;
  anyop_value value;  // bool, int or float
};
// A call of a graph: its text, or where it is saved.
struct GraphText {
  std::string graph;               // as Print wrote it; "" for a saved one
  std::string path, name, digest;  // of the folder, the graph in it, the folder's manifest
  std::vector<GraphNumber> numbers;
};

struct CallText {
  std::unique_ptr<OperatorText> op;  // or else
  std::unique_ptr<GraphText> graph;
  ScopeState scope;
};

// Throws NotAvailable: another version, an operator that is not there. InvalidArgument: the rest.
CallText ReadCallText(std::string_view text);

std::string ShowCallText(const GraphText& graph, const ScopeState& scope);
// How a text ends that was bound in this scope: " in strict, threads = 2"; "" for the default one.
std::string ScopeText(const ScopeState& scope);
// A number that reads back as it is.
std::string ShowExact(const anyop_value& number);

}  // namespace anyop
