// SPDX-License-Identifier: Apache-2.0
// .means and .prepack as data: statements `[results =] op(arguments)`, in .means also views
// `name = slice(tensor, dimension, begin, end)`, `reshape(tensor, [sizes])` and
// `transpose(tensor, dimension, dimension)`, in .prepack with `if` and conditions behind them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "anyop/abi.h"
#include "signature/expression.h"

namespace anyop {

// What an argument of a statement is.
struct StatementArgument {
  enum Kind : std::uint8_t {
    kNone,        // None
    kParameter,   // of the composition; index
    kResult,      // of the composition, computed by an earlier statement; index
    kLocal,       // an intermediate; index
    kExpression,  // a number
    kDType,       // a dtype; index
    kDTypeVar,    // a dtype variable; index per form
    kWord,        // text
    kList         // of whole numbers
  };
  Kind kind = kNone;
  int index = -1;
  std::string keyword;  // "" where the place says which parameter it is
  std::string text;
  Expression expression;
  std::vector<std::int64_t> list;
};

struct StatementResult {
  bool is_result = false;  // of the composition; else an intermediate
  int index = -1;
};

// A statement that makes no call: its result is the memory of `base` with other sizes and strides.
struct StatementView {
  enum Kind : std::uint8_t { kNone, kSlice, kReshape, kTranspose } kind = kNone;
  StatementArgument base;  // a parameter, a result or an intermediate
  int a = 0, b = 0;        // kSlice: dimension a; kTranspose: dimensions a and b
  // kSlice: begin and end; kReshape: the shape
  std::vector<Expression> sizes;
};

struct Statement {
  std::string text;    // as written
  std::string op;      // "add", "my_ops.scale", "slice"
  StatementView view;  // else a call
  std::vector<StatementArgument> arguments;
  std::vector<StatementResult> results;
  std::vector<Expression> conditions;  // it is left out unless all are true
};

struct Composition {
  std::string text;
  std::vector<Statement> statements;
  std::vector<std::string> locals;
};

// Only statements of .prepack may have conditions, as graphs find .means as a pattern, which has
// none; only those of .means may be views, as .prepack makes calls of a graph.
enum class CompositionField : bool { kMeans, kPrepack };

// One composition a line. Throws Error (InvalidArgument) that points into the text.
std::vector<Composition> ParseCompositions(Contract& contract, std::string_view text,
                                           CompositionField field = CompositionField::kMeans);

}  // namespace anyop
