// SPDX-License-Identifier: Apache-2.0
// What the fuzz tests of graphs share.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "anyop/runtime.h"
#include "graph/ir/graph.h"
#include "platform/testing/fuzz.h"

namespace anyop::fuzz {

// A graph's text, changed by token, by line or both. own: words to put in beside the language's.
inline std::string ChangedGraphText(const std::string& text, Random& random,
                                    const std::vector<std::string>& own) {
  static const std::vector<std::string> language = {
      "into ", "state ", "frozen ", "constant ", "input ", "output ", " as ",
      "_",     "slice",  "reshape", "(",         ")",      "[",       "]",
      ",",     ":",      "=",       "transpose", "\n",     "#",       "n",
      "2*n",   "-n",     "i64",     "n*n - 1",   "f32",    "bf16",    "int",
      "float", "bool",   "None",    "True",      "inf",    "end\n"};
  std::string changed = random() % 3 ? text : LinesMoved(text, random);
  if (random() % 4) changed = Mutated(changed, random, random() % 3 ? language : own);
  return changed;
}

// Arguments for a graph each of whose symbols is 3: zeros, and small numbers.
class SmallInputs {
 public:
  explicit SmallInputs(const Graph& graph) {
    for (const int id : graph.inputs) AddInput(graph, graph.value(id));
  }
  SmallInputs(const SmallInputs&) = delete;
  SmallInputs& operator=(const SmallInputs&) = delete;
  // False where a shape at these symbols is none, or too large to be made.
  bool are_made() const { return are_made_; }
  const std::vector<Argument>& arguments() const { return arguments_; }

 private:
  void AddInput(const Graph& graph, const GraphValue& v) {
    if (v.kind == GraphValue::kScalar) {
      if (v.scalar == ParamKind::kFloat) {
        arguments_.emplace_back(0.5);
      } else {
        arguments_.emplace_back(3);
      }
      return;
    }
    std::vector<std::int64_t> shape;
    std::int64_t elements = 1;
    for (const Size& s : v.shape) {
      shape.push_back(s.At(std::vector<std::int64_t>(graph.symbols.size(), 3)));
      are_made_ &= shape.back() >= 0 && shape.back() <= 4096;
      if (!are_made_) return;
      elements *= shape.back();
      are_made_ &= elements <= 1 << 20;
    }
    if (are_made_) arguments_.emplace_back(arrays_.emplace_back(Array::Zeros(shape, v.dtype)));
  }

  std::deque<Array> arrays_;  // arguments point into it
  std::vector<Argument> arguments_;
  bool are_made_ = true;
};

}  // namespace anyop::fuzz
