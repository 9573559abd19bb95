// SPDX-License-Identifier: Apache-2.0
// A signature as data: what the parser (parse.h) makes of its text. One Form per signature of an
// operator; expressions and conditions are trees of nodes, held by index.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "anyop/dtype.h"

namespace anyop {

// Sets of parameters and results are 64 bits.
inline constexpr int kMaxRank = 8, kMaxVars = 48, kMaxDTypeVars = 8, kMaxResults = 8,
                     kMaxParams = 56, kMaxWords = 64, kMaxForms = 32, kMaxConditions = 64,
                     kMaxListDefault = 64;
static_assert(kMaxParams + kMaxResults <= 64 && kDTypes <= 32);
// Everything that reads an expression recurses. Without a bound a chain of 60,000 terms ends a
// process, and one of 1,000 is too deep for Python.
inline constexpr int kMaxExpressionDepth = 100;
inline constexpr std::size_t kMaxName = 100, kMaxText = 65536;  // characters

// What the parser throws: a sentence, and the byte of the text that it is about.
struct SignatureError {
  const char* what;
  std::size_t position;
};

// The order matters: IsTensor and IsNumberList are ranges of it, and KernelLetters indexes by it.
enum class ParamKind : std::uint8_t {
  kTensor,
  kTensors,
  kInt,
  kFloat,
  kBool,
  kWord,
  kDType,
  kInts,
  kFloats
};

// The type of a node's value. The order matters (IsNumber): numbers come first, of which a bool is
// one, 0 or 1.
enum class Type : std::uint8_t { kInt, kFloat, kBool, kWord, kDType };

// The order matters: IsComparison, IsArithmetic and IsBinary are ranges of it, and from kAdd on `a`
// is a node, before that none.
enum class NodeOp : std::uint8_t {
  kInt,
  kFloat,
  kWord,
  kDType,  // literals
  kName,   // what names are until they are resolved
  kVar,
  kParam,
  kDTypeVar,  // i: index
  kElement,   // a: parameter, i: which element
  kLen,
  kSum,
  kGiven,  // a: parameter
  kSize,
  kRank,
  kRows,
  kBytes,         // a: parameter, or number of parameters + result
  kBytesOfDType,  // a: DTypes::Kind, i: dtype, variable or parameter
  kThreads,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMod,
  kCeilDiv,
  kMin,
  kMax,  // a, b: nodes
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kAnd,
  kOr,
  kNeg,
  kNot,  // a: node
  kIn    // a: node, i: set of dtypes, bit by number
};

struct Node {
  NodeOp op;
  Type type = Type::kInt;
  bool is_list = false;  // a whole list; in a comparison it stands for each of its elements
  int a = -1, b = -1;
  std::int64_t i = 0;
  double f = 0;
  std::string_view text{};                             // of a literal or a name
  std::uint32_t position = 0;                          // in the text that was parsed
  std::uint32_t depth = 1;                             // nodes on the longest path to a leaf
  std::uint64_t params = 0, vars = 0, dtype_vars = 0;  // those that the tree below uses, by bit
};

struct DTypes {
  enum Kind : std::uint8_t { kSet, kVariable, kParameter } kind = kSet;
  int index = -1;          // of the variable or parameter
  std::uint32_t mask = 0;  // of a set: bit by number
  std::string_view name{};
};

struct TensorType {
  DTypes dtypes;
  bool has_dots = false;  // begins with "...": the same leading dimensions everywhere
  std::vector<int> dims;  // nodes
  std::string_view text{};
};

enum class IndexRule : std::uint8_t { kNone, kBelow, kOffsets };

struct Param {
  std::string_view name;
  ParamKind kind = ParamKind::kInt;
  bool is_mut = false, is_dense = false, is_optional = false;
  bool is_planned = false;  // in the host's memory, on whatever device the call is
  TensorType tensor{};      // of tensors and tensor lists
  int size = -1;            // node: the length of a list of numbers; -1: any
  IndexRule rule = IndexRule::kNone;
  int bound = -1;  // node of the rule
  std::vector<std::string_view> words{};
  std::uint64_t word_mask = 0;  // the words by number over all forms; set by ParseContract
  bool has_default = false, default_is_none = false;
  std::int64_t default_int = 0;  // bool, int, dtype; a word's place in `words`
  double default_float = 0;
  std::vector<std::int64_t> default_ints{};
  std::vector<double> default_floats{};
  std::string_view default_text{};
};

struct Result {
  std::string_view name;
  TensorType tensor{};
  bool is_optional = false;  // the caller may decline it
  std::uint64_t over = 0;    // parameters whose memory it may take, by bit
};

struct Condition {
  int node;
  std::string_view text;
};

struct Form {
  std::string_view name, text;
  // The dtypes that a call may have at all: the first ones, and those that the text names.
  std::uint32_t dtypes = (1u << kFirstDTypes) - 1;
  std::vector<Param> params;
  std::vector<Result> results;
  std::vector<Condition> conditions;
  std::vector<Node> nodes;
  std::vector<std::string_view> vars, dtype_vars;

  constexpr const Node& node(int i) const { return nodes[std::size_t(i)]; }
  constexpr int param(std::string_view n) const { return Find(params, n); }
  constexpr int result(std::string_view n) const { return Find(results, n); }
  constexpr int var(std::string_view n) const { return FindName(vars, n); }
  constexpr int dtype_var(std::string_view n) const { return FindName(dtype_vars, n); }

 private:
  template <class T>
  static constexpr int Find(const std::vector<T>& list, std::string_view name) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].name == name) return int(i);
    }
    return -1;
  }
  static constexpr int FindName(const std::vector<std::string_view>& list, std::string_view name) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i] == name) return int(i);
    }
    return -1;
  }
};

// The parameter from which on all have defaults. A None before it can be left out by keyword only.
constexpr std::size_t FirstWithDefaults(const Form& form) {
  std::size_t first = form.params.size();
  while (first > 0 && form.params[first - 1].has_default) --first;
  return first;
}

constexpr bool IsTensor(ParamKind k) { return k <= ParamKind::kTensors; }
constexpr bool IsNumberList(ParamKind k) { return k >= ParamKind::kInts; }
constexpr bool IsNumber(Type t) { return t <= Type::kBool; }
constexpr bool IsComparison(NodeOp op) { return op >= NodeOp::kEq && op <= NodeOp::kGe; }
constexpr bool IsArithmetic(NodeOp op) { return op >= NodeOp::kAdd && op <= NodeOp::kMax; }
constexpr bool IsBinary(NodeOp op) { return op >= NodeOp::kAdd && op <= NodeOp::kOr; }
// The operations that a call turns around to learn a variable from a size.
constexpr bool BindsSizes(NodeOp op) {
  return op == NodeOp::kAdd || op == NodeOp::kSub || op == NodeOp::kMul;
}

// One letter per C++ parameter that a kernel of this form must have; see Bind in op.h.
constexpr std::string KernelLetters(const Form& form) {
  std::string letters;
  for (const Param& p : form.params) {
    const char c = "tlifbwdjg"[int(p.kind)];
    letters += p.is_optional ? char(c - 'a' + 'A') : c;
  }
  for (const Result& r : form.results) letters += r.is_optional ? 'T' : 't';
  return letters;
}
// Whether a check with these letters fits parameters whose letters are `wanted`. It may take the
// shape alone (s S m M) of a tensor (t T l L): then a call on a device copies no data to the host.
constexpr bool IsCheckOf(std::string_view letters, std::string_view wanted) {
  if (letters.size() != wanted.size()) return false;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    const char c = letters[i], shape_of = c == 's'   ? 't'
                                          : c == 'S' ? 'T'
                                          : c == 'm' ? 'l'
                                          : c == 'M' ? 'L'
                                                     : c;
    if (shape_of != wanted[i]) return false;
  }
  return true;
}

}  // namespace anyop
