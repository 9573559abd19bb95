// SPDX-License-Identifier: Apache-2.0
// Expressions over the sizes and arguments of a call: .when, .workspace, .flops, .bytes, and the
// evaluation that checks and results use. Three-valued: a value that nothing gives is unknown.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "signature/contract.h"
#include "signature/symbols.h"

namespace anyop {

// The variables that a call has bound. An unknown size (-1) binds nothing; a known one that comes
// later does.
struct Bindings {
  std::int64_t var[kMaxVars];  // at least 0, or a symbol
  std::uint64_t bound = 0;     // variables, by bit
  std::uint64_t dtype_bound = 0;
  std::uint64_t unknown_params = 0;  // given, but of a value that the host does not know yet
  std::uint8_t dtype[kMaxDTypeVars];
  std::uint8_t var_by[kMaxVars], dtype_by[kMaxDTypeVars];  // the parameter that bound it
  std::int64_t lead[kMaxRank];                             // "..."; as the sizes of a shape
  int n_lead = -1;                                         // -1: nothing gives them
  int lead_by = -1;
  Symbols* symbols = nullptr;  // computes with the numbers of the call that are symbols
};

// An expression compiled for every form. text: as written.
struct Expression {
  std::vector<int> node;  // per form; -1: names a thing that this form lacks
  std::string text;
};

enum class ThreadsName : bool { kUnknown, kKnown };  // whether an expression may use `threads`

// .workspace (which may use `threads`), .flops, .bytes. Throw Error (InvalidArgument) that points
// into the text. The parameters that an expression uses join the contract's key_params.
Expression CompileExpression(Contract& contract, std::string_view text,
                             ThreadsName threads = ThreadsName::kUnknown);
// .when: conditions, separated by commas; none for an empty text.
std::vector<Expression> CompileConditions(Contract& contract, std::string_view text);

// A size, bound or of a shape: below 0, it is a symbol or unknown.
inline Number SizeNumber(const Bindings& b, std::int64_t size) {
  if (size >= 0) return Int(size);
  Number n;
  if (b.symbols && IsSymbol(size)) n.symbol = SymbolOf(size);
  return n;
}

// The value of `a op b`, of arithmetic or a comparison. symbols: may be null where none is a
// symbol.
Number Compute(Symbols* symbols, NodeOp op, const Number& a, const Number& b);
Number Negative(Symbols* symbols, const Number& a);

// The value of a node. frame: the parameters (results are not read); threads: what `threads` means.
Number Evaluate(const Contract& contract, int form, int node, const Bindings& bindings,
                const anyop_value* frame, int threads = 1);

// For a condition that is not true: "d % 16 == 0 is false, d is 100", "n >= 8 is unknown, n is
// unknown", "d / k > 2 divides by zero, d is 8, k is 0".
std::string Describe(const Contract& contract, int form, const Expression& condition,
                     const Bindings& bindings, const anyop_value* frame);
// The names that a node uses with their values: "offset is 40, d is 64 (query is f32[4, 2, 64])".
std::string ShowUses(const Contract& contract, int form, int node, const Bindings& bindings,
                     const anyop_value* frame, bool with_origin);

// An expression as text, with as few parentheses as it needs: "ceil_div(n, 32)", "2*d".
std::string Show(const Form& form, int node);
// The text of an operation in a signature: "+", "==", "or", "min"; "?" for a node that is none.
std::string_view Symbol(NodeOp op);
// "bf16[2, 4096]"; an unknown size is "?", an unknown rank "bf16[...]".
std::string Show(const DLTensor& tensor);
// " Try a cast to f32." for a tensor of another dtype than this; else "".
std::string TryCast(const DLTensor& given, DType wanted);
// "3", "0.5", "True", "None", "'neox'", "[1, 1]", "f32", "f32[2, 3]".
std::string Show(const anyop_value& value);
// The shortest text that is read back as the same number, with a point or an exponent.
std::string ExactFloat(double v);
// "f32, f16 or bf16"
std::string ShowDTypes(std::uint32_t mask);

}  // namespace anyop
