// SPDX-License-Identifier: Apache-2.0
// Compositions (.means) as patterns: nodes of a graph that together are one operator.
#pragma once
#include <functional>
#include <vector>

#include "graph/ir/graph.h"
#include "runtime/registry/operator.h"

namespace anyop {

struct PatternArgument {
  enum Kind : std::uint8_t {
    kLiteral,    // a word, a dtype, a list, None, the default of an argument that is left out
    kParameter,  // of the composition; index
    kVariable,   // a result of an earlier statement; index
    kComputed    // an expression, or a dtype variable
  };
  Kind kind = kLiteral;
  int index = -1;
  GraphArgument literal;
  const StatementArgument* computed = nullptr;
};

struct PatternStatement {
  Operator* op = nullptr;
  std::vector<PatternArgument> arguments;  // one per parameter
  std::vector<int> results;                // one per result: a variable
};

// One composition of an operator, without the statements that absent parameters leave out.
struct Pattern {
  Operator* op = nullptr;
  int form = -1;             // the only one whose composition this is; -1: of all
  std::uint64_t absent = 0;  // parameters, by bit
  std::vector<PatternStatement> statements;
  std::vector<int> results;  // per result of the operator: a variable; -1: not computed
  int n_variables = 0;
};

// Of all operators that are registered, those of most statements first; none of a single one.
std::vector<Pattern> FindPatterns();

// Nodes that are a pattern, as far as names, literals and places tell.
struct PatternMatch {
  const Pattern* pattern;
  std::vector<int> nodes;                // per statement
  std::vector<int> values;               // per variable; -1: a declined result
  std::vector<GraphArgument> arguments;  // of the pattern's operator
  struct Computed {
    const StatementArgument* as;
    GraphArgument given;
  };
  std::vector<Computed> computed;  // must turn out to be equal
};

// Calls accept for every way in which nodes up to `last`, which is the last statement, are the
// pattern, until it returns true.
bool MatchPattern(const Graph& graph, const Pattern& pattern, int last,
                  const std::function<bool(const PatternMatch&)>& accept);

}  // namespace anyop
