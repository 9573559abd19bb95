// SPDX-License-Identifier: Apache-2.0
// The parser of expressions and conditions, the language of sizes, `where` and `.when`. constexpr:
// an operator's file runs it when it is compiled, the runtime when a library is loaded.
#pragma once
#include "anyop/signature.h"

namespace anyop::parse {

inline constexpr char kUnknownName[] =  // an array: compared by address
    "unknown name: neither a parameter nor a variable that some dimension of an input binds";

constexpr bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }
constexpr bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// Not constexpr: called while compiling, it stops the compiler at the line that holds the text.
[[noreturn]] inline void Fail(const char* what, std::size_t position) {
  throw SignatureError{what, position};
}

struct Literal {
  bool is_float = false;
  std::int64_t i = 0;
  double f = 0;
};

struct Lexer {
  std::string_view text;
  std::size_t at = 0;

  [[noreturn]] void FailHere(const char* what) const { Fail(what, at); }
  constexpr char Peek(std::size_t ahead = 0) const {
    return at + ahead < text.size() ? text[at + ahead] : '\0';
  }
  constexpr void Skip() {
    while (at < text.size() && IsSpace(text[at])) ++at;
  }
  // The first letter is compared first: most tokens are not there, and compile time counts.
  constexpr bool At(std::string_view token) {
    Skip();
    return Peek() == token[0] && (token.size() == 1 || text.substr(at).starts_with(token));
  }
  constexpr bool Eat(std::string_view token) {
    if (!At(token)) return false;
    at += token.size();
    return true;
  }
  constexpr void Need(std::string_view token, const char* what) {
    if (!Eat(token)) FailHere(what);
  }
  // The name that comes next, or "".
  constexpr std::string_view PeekName() {
    Skip();
    std::size_t end = at;
    if (end < text.size() && IsLetter(text[end])) {
      while (end < text.size() && (IsLetter(text[end]) || IsDigit(text[end]))) ++end;
    }
    return text.substr(at, end - at);
  }
  constexpr bool EatName(std::string_view name) {
    Skip();
    if (Peek() != name[0] || PeekName() != name) return false;
    at += name.size();
    return true;
  }
  constexpr std::string_view Name(const char* what) {
    const std::string_view name = PeekName();
    if (name.empty()) FailHere(what);
    at += name.size();
    return name;
  }
  constexpr std::string_view Word() {
    Need("'", "expected a 'word'");
    const std::size_t begin = at;
    while (Peek() >= ' ' && Peek() <= '~' && Peek() != '\'' && Peek() != '"' && Peek() != '\\')
      ++at;
    if (Peek() != '\'')
      Fail("this word does not end: expected ' after printable characters", begin - 1);
    if (at == begin) FailHere("a word may not be empty");
    return text.substr(begin, at++ - begin);
  }
  constexpr int DType() {
    const std::string_view name = PeekName();
    const int d = FindDType(name);
    if (d < 0) {
      FailHere(
          "expected a dtype: f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i16, i8, u8, bool");
    }
    at += name.size();
    return d;
  }
  constexpr std::uint32_t DTypeSet() {
    std::uint32_t mask = 0;
    do {
      Skip();
      const std::size_t start = at;
      const std::uint32_t bit = 1u << DType();
      if (mask & bit) Fail("this dtype is listed twice", start);
      mask |= bit;
    } while (Eat("|"));
    return mask;
  }
  constexpr std::int64_t Digits() {
    if (!IsDigit(Peek())) FailHere("expected a number");
    std::int64_t v = 0;
    for (; IsDigit(Peek()); ++at) {
      if (v > (INT64_MAX - (Peek() - '0')) / 10) FailHere("this number needs more than 63 bits");
      v = v * 10 + (Peek() - '0');
    }
    return v;
  }
  // Exact where the digits fit 2^53 and the exponent 22, as all reasonable constants do: one
  // rounding, of the division or multiplication by an exact power of ten.
  constexpr Literal Number() {
    Skip();
    const bool negative = Peek() == '-';
    if (negative) ++at;
    Literal n;
    n.i = Digits();
    int exponent = 0;
    if (Peek() == '.' && IsDigit(Peek(1))) {
      n.is_float = true;
      for (++at; IsDigit(Peek()); ++at, --exponent) {
        if (n.i > (INT64_MAX - 9) / 10) FailHere("this number has too many digits");
        n.i = n.i * 10 + (Peek() - '0');
      }
    }
    if (Peek() == 'e' && (IsDigit(Peek(1)) || (Peek(1) == '-' && IsDigit(Peek(2))))) {
      n.is_float = true;
      ++at;
      const bool down = Peek() == '-';
      if (down) ++at;
      const std::int64_t e = Digits();
      if (e > 300) FailHere("this exponent is beyond 300");
      exponent += int(down ? -e : e);
    }
    double power = 1;
    for (int k = exponent < 0 ? -exponent : exponent; k > 0; --k) power *= 10;
    n.f = exponent < 0 ? double(n.i) / power : double(n.i) * power;
    if (negative) n.i = -n.i, n.f = -n.f;
    return n;
  }
};

enum class Unbound : bool { kRefuse, kBind };  // what an unknown name in an expression does

// Adds nodes to a form. Names are resolved after parsing, because a dimension may name a parameter
// that follows.
struct ExpressionParser : Lexer {
  Form& form;
  bool allow_threads = false;
  int depth = 0;

  constexpr ExpressionParser(std::string_view t, Form& f) : Lexer{t}, form(f) {}

  constexpr int Add(Node n, std::size_t position) {
    n.position = std::uint32_t(position);
    form.nodes.push_back(n);
    return int(form.nodes.size()) - 1;
  }
  constexpr int Add(NodeOp op, int a, int b, std::size_t position) {
    return Add(Node{.op = op, .a = a, .b = b}, position);
  }
  constexpr void Enter() {
    if (++depth > 64) FailHere("this expression is nested too deeply");
  }

  constexpr int ParseCondition() { return ParseOr(); }
  constexpr int ParseOr() {
    Enter();
    int a = ParseAnd();
    for (std::size_t start = at; EatName("or"); start = at)
      a = Add(NodeOp::kOr, a, ParseAnd(), start);
    --depth;
    return a;
  }
  constexpr int ParseAnd() {
    int a = ParseNot();
    for (std::size_t start = at; EatName("and"); start = at)
      a = Add(NodeOp::kAnd, a, ParseNot(), start);
    return a;
  }
  constexpr int ParseNot() {
    const std::size_t start = at;
    if (!EatName("not")) return ParseComparison();
    Enter();
    const int a = ParseNot();
    --depth;
    return Add(NodeOp::kNot, a, -1, start);
  }
  constexpr NodeOp EatComparison() {
    if (Eat("==")) return NodeOp::kEq;
    if (Eat("!=")) return NodeOp::kNe;
    if (Eat("<=")) return NodeOp::kLe;
    if (Eat(">=")) return NodeOp::kGe;
    if (Eat("<")) return NodeOp::kLt;
    if (Eat(">")) return NodeOp::kGt;
    return NodeOp::kName;
  }
  constexpr int ParseComparison() {
    const int a = ParseSum();
    Skip();
    const std::size_t start = at;
    if (EatName("in")) {
      const std::uint32_t mask = DTypeSet();
      return Add(Node{.op = NodeOp::kIn, .type = Type::kBool, .a = a, .i = mask}, start);
    }
    const NodeOp op = EatComparison();
    if (op == NodeOp::kName) return a;
    const int node = Add(op, a, ParseSum(), start);
    if (EatComparison() != NodeOp::kName) {
      Fail("comparisons do not chain: write a <= b and b <= c", start);
    }
    return node;
  }
  constexpr int ParseSum() {
    int a = ParseProduct();
    for (;;) {
      Skip();
      const std::size_t start = at;
      if (Eat("+")) {
        a = Add(NodeOp::kAdd, a, ParseProduct(), start);
      } else if (!At("->") && Eat("-")) {
        a = Add(NodeOp::kSub, a, ParseProduct(), start);
      } else {
        return a;
      }
    }
  }
  constexpr int ParseProduct() {
    int a = ParsePrimary();
    for (;;) {
      Skip();
      const std::size_t start = at;
      const NodeOp op = Eat("*")   ? NodeOp::kMul
                        : Eat("/") ? NodeOp::kDiv
                        : Eat("%") ? NodeOp::kMod
                                   : NodeOp::kName;
      if (op == NodeOp::kName) return a;
      a = Add(op, a, ParsePrimary(), start);
    }
  }
  constexpr int ParsePrimary() {
    Skip();
    const std::size_t start = at;
    if (Eat("(")) {
      const int e = ParseOr();
      Need(")", "expected )");
      return e;
    }
    if (Peek() == '\'') {
      const std::string_view word = Word();
      return Add(Node{.op = NodeOp::kWord, .type = Type::kWord, .text = word}, start);
    }
    if (IsDigit(Peek())) {
      const Literal n = Number();
      return Add(Node{.op = n.is_float ? NodeOp::kFloat : NodeOp::kInt,
                      .type = n.is_float ? Type::kFloat : Type::kInt,
                      .i = n.i,
                      .f = n.f,
                      .text = text.substr(start, at - start)},
                 start);
    }
    if (Eat("-")) {
      Enter();
      const int a = ParsePrimary();
      --depth;
      return Add(NodeOp::kNeg, a, -1, start);
    }
    const std::string_view name = Name("expected an expression: a name, a number, a 'word' or (");
    if (Eat("(")) return ParseFunction(name, start);
    if (Eat("[")) {
      const std::int64_t i = Digits();
      Need("]", "expected ]");
      return Add(Node{.op = NodeOp::kElement, .i = i, .text = name}, start);
    }
    if (name == "threads") {
      if (!allow_threads) Fail("threads is known in .workspace only", start);
      return Add(Node{.op = NodeOp::kThreads}, start);
    }
    return Add(Node{.op = NodeOp::kName, .text = name}, start);
  }
  constexpr int ParseFunction(std::string_view name, std::size_t start) {
    const NodeOp two = name == "ceil_div" ? NodeOp::kCeilDiv
                       : name == "min"    ? NodeOp::kMin
                       : name == "max"    ? NodeOp::kMax
                                          : NodeOp::kName;
    if (two != NodeOp::kName) {
      Enter();
      const int a = ParseSum();
      Need(",", "expected , : this function takes two numbers");
      const int b = ParseSum();
      --depth;
      Need(")", "expected )");
      return Add(two, a, b, start);
    }
    const NodeOp one = name == "given"   ? NodeOp::kGiven
                       : name == "size"  ? NodeOp::kSize
                       : name == "rank"  ? NodeOp::kRank
                       : name == "rows"  ? NodeOp::kRows
                       : name == "bytes" ? NodeOp::kBytes
                       : name == "len"   ? NodeOp::kLen
                       : name == "sum"   ? NodeOp::kSum
                                         : NodeOp::kName;
    if (one == NodeOp::kName) {
      Fail(
          "unknown function: there are ceil_div, min, max, size, rank, rows, bytes, len, sum, "
          "given",
          start);
    }
    const std::string_view argument = Name("expected a name");
    Need(")", "expected )");
    return Add(
        Node{.op = one, .type = one == NodeOp::kGiven ? Type::kBool : Type::kInt, .text = argument},
        start);
  }

  // Gives the nodes [from, to) their meaning and type.
  constexpr void Resolve(std::size_t from, std::size_t to, Unbound unbound) {
    for (std::size_t k = from; k < to; ++k) {
      Node& n = form.nodes[k];
      switch (n.op) {
        case NodeOp::kName:
          ResolveName(n, unbound);
          break;
        case NodeOp::kElement:
        case NodeOp::kLen:
        case NodeOp::kSum:
          ResolveList(n);
          break;
        case NodeOp::kGiven:
        case NodeOp::kSize:
        case NodeOp::kRank:
        case NodeOp::kRows:
        case NodeOp::kBytes:
          ResolveTensor(n);
          break;
        default:
          ResolveOperator(n);
          break;
      }
      if (n.a >= 0 && n.op >= NodeOp::kAdd) Join(n, form.node(n.a));
      if (n.b >= 0) Join(n, form.node(n.b));
    }
  }
  constexpr void Join(Node& n, const Node& child) {
    n.params |= child.params, n.vars |= child.vars, n.dtype_vars |= child.dtype_vars;
  }
  constexpr void ResolveName(Node& n, Unbound unbound) {
    if (const int p = form.param(n.text); p >= 0) {
      const ParamKind kind = form.params[std::size_t(p)].kind;
      if (IsTensor(kind)) {
        Fail("a tensor is not a number: variables and parameters may not share a name", n.position);
      }
      n.op = NodeOp::kParam, n.i = p, n.params = 1ull << p, n.is_list = IsNumberList(kind);
      n.type = kind == ParamKind::kFloat || kind == ParamKind::kFloats ? Type::kFloat
               : kind == ParamKind::kBool                              ? Type::kBool
               : kind == ParamKind::kWord                              ? Type::kWord
               : kind == ParamKind::kDType                             ? Type::kDType
                                                                       : Type::kInt;
    } else if (const int t = form.dtype_var(n.text); t >= 0) {
      n.op = NodeOp::kDTypeVar, n.type = Type::kDType, n.i = t, n.dtype_vars = 1ull << t;
    } else if (const int d = FindDType(n.text); d >= 0) {
      n.op = NodeOp::kDType, n.type = Type::kDType, n.i = d;
    } else {
      int v = form.var(n.text);
      if (v < 0) {
        if (unbound == Unbound::kRefuse) Fail(kUnknownName, n.position);
        v = int(form.vars.size());
        if (v == kMaxVars) Fail("a form may have 48 variables", n.position);
        form.vars.push_back(n.text);
      }
      n.op = NodeOp::kVar, n.i = v, n.vars = 1ull << v;
    }
  }
  constexpr void ResolveList(Node& n) {
    n.a = form.param(n.text);
    if (n.a < 0) Fail(kUnknownName, n.position);
    const ParamKind kind = form.params[std::size_t(n.a)].kind;
    if (!IsNumberList(kind) && !(n.op == NodeOp::kLen && kind == ParamKind::kTensors)) {
      Fail("this parameter is not a list", n.position);
    }
    n.params = 1ull << n.a;
    n.type = kind == ParamKind::kFloats && n.op != NodeOp::kLen ? Type::kFloat : Type::kInt;
  }
  constexpr void ResolveTensor(Node& n) {
    if (n.op == NodeOp::kBytes) {
      Node dtype{.op = NodeOp::kName, .text = n.text, .position = n.position};
      if (form.dtype_var(n.text) >= 0 || FindDType(n.text) >= 0 || IsDTypeParam(n.text)) {
        ResolveName(dtype, Unbound::kRefuse);
        n.op = NodeOp::kDTypeBytes, n.i = dtype.i, n.params = dtype.params;
        n.dtype_vars = dtype.dtype_vars;
        n.a = dtype.op == NodeOp::kDType      ? DTypes::kSet
              : dtype.op == NodeOp::kDTypeVar ? DTypes::kVariable
                                              : DTypes::kParameter;
        return;
      }
    }
    n.a = form.param(n.text);
    if (n.a >= 0) {
      const ParamKind kind = form.params[std::size_t(n.a)].kind;
      const bool one = n.op == NodeOp::kRank || n.op == NodeOp::kRows;
      if (n.op != NodeOp::kGiven && !(one ? kind == ParamKind::kTensor : IsTensor(kind))) {
        Fail("this parameter is not a tensor", n.position);
      }
      n.params = 1ull << n.a;
      return;
    }
    const int r = form.result(n.text);
    if (r < 0 || n.op == NodeOp::kGiven) Fail(kUnknownName, n.position);
    n.a = int(form.params.size()) + r;
    for (const int d : form.results[std::size_t(r)].tensor.dims) Join(n, form.node(d));
  }
  constexpr bool IsDTypeParam(std::string_view name) const {
    const int p = form.param(name);
    return p >= 0 && form.params[std::size_t(p)].kind == ParamKind::kDType;
  }
  constexpr void ResolveOperator(Node& n) {
    const Type a = n.a >= 0 ? form.node(n.a).type : Type::kInt;
    const Type b = n.b >= 0 ? form.node(n.b).type : Type::kInt;
    const bool a_list = n.a >= 0 && form.node(n.a).is_list,
               b_list = n.b >= 0 && form.node(n.b).is_list;
    if ((a_list || b_list) && (!IsComparison(n.op) || (a_list && b_list))) {
      Fail("a list stands for its elements only where it is compared with a number", n.position);
    }
    if (IsArithmetic(n.op) || n.op == NodeOp::kNeg) {
      if (!IsNumber(a) || !IsNumber(b)) Fail("arithmetic needs numbers", n.position);
      n.type = a == Type::kFloat || b == Type::kFloat ? Type::kFloat : Type::kInt;
      if (n.type == Type::kFloat && (n.op == NodeOp::kMod || n.op == NodeOp::kCeilDiv)) {
        Fail("% and ceil_div need integers", n.position);
      }
    } else if (IsComparison(n.op)) {
      if (IsNumber(a) != IsNumber(b) || (!IsNumber(a) && a != b)) {
        Fail("these two cannot be compared", n.position);
      }
      if (!IsNumber(a) && n.op != NodeOp::kEq && n.op != NodeOp::kNe) {
        Fail("words and dtypes have no order: use == or !=", n.position);
      }
      n.type = Type::kBool;
    } else if (n.op == NodeOp::kAnd || n.op == NodeOp::kOr || n.op == NodeOp::kNot) {
      if (a != Type::kBool || (n.b >= 0 && b != Type::kBool)) {
        Fail("and, or, not need conditions", n.position);
      }
      n.type = Type::kBool;
    } else if (n.op == NodeOp::kIn && a != Type::kDType) {
      Fail("in needs a dtype variable or a dtype parameter on its left", n.position);
    }
  }

  // One whole expression that ends at a comma or at the end of the text.
  constexpr int ParseResolved(Unbound unbound) {
    const std::size_t from = form.nodes.size();
    const int node = ParseOr();
    Resolve(from, form.nodes.size(), unbound);
    if (form.node(node).is_list) Fail("a list is not a number", form.node(node).position);
    return node;
  }
};

}  // namespace anyop::parse
