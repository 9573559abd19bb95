// SPDX-License-Identifier: Apache-2.0
// The parser of expressions and conditions, the language of sizes, `where` and `.when`. constexpr:
// an operator's file runs it when it is compiled, the runtime when a library is loaded.
#pragma once
#include "anyop/arithmetic.h"
#include "anyop/lexer.h"
#include "anyop/parse_operators.h"

namespace anyop::parse {

enum class Unbound : bool { kRefuse, kBind };  // what an unknown name in an expression does

// Adds nodes to a form, children before their parents. Names are resolved after parsing, because a
// dimension may name a parameter that follows.
struct ExpressionParser : Lexer {
  Form& form;
  bool allow_threads = false;
  int depth = 0;

  constexpr ExpressionParser(std::string_view t, Form& f) : Lexer{t}, form(f) {}

  constexpr int Add(Node n, std::size_t position) {
    n.position = std::uint32_t(position);
    for (const int child : {n.a, n.b}) {
      if (child >= 0 && form.node(child).depth >= n.depth) n.depth = form.node(child).depth + 1;
    }
    if (n.depth > kMaxExpressionDepth) {
      Fail("this expression is too deep: at most 100 operators, in a chain or in parentheses",
           position);
    }
    form.nodes.push_back(n);
    return int(form.nodes.size()) - 1;
  }
  constexpr int Add(NodeOp op, int a, int b, std::size_t position) {
    return Add(Node{.op = op, .a = a, .b = b}, position);
  }
  // Bounds the recursion of the parser itself, which comes before there are nodes with a depth.
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
      form.dtypes |= mask;
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
      } else if (!At("->") && Eat("-")) {  // the arrow before the results is no minus
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
    if (IsDigit(Peek()) || (Peek() == '.' && IsDigit(Peek(1)))) {
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

  struct Constant {
    bool known = false;
    std::int64_t value = 0;
  };
  // The value of an expression of whole numbers, resolved or not.
  constexpr Constant ConstantOf(int node) const {
    if (node < 0) return {};
    const Node& n = form.node(node);
    if (n.op == NodeOp::kInt) return {true, n.i};
    if (!IsArithmetic(n.op) && n.op != NodeOp::kNeg) return {};
    const Constant a = ConstantOf(n.a), b = n.op == NodeOp::kNeg ? Constant{true} : ConstantOf(n.b);
    if (!a.known || !b.known) return {};
    if (n.op == NodeOp::kNeg) return {true, -a.value};
    const WholeNumber result = Compute(n.op, a.value, b.value);
    if (result.fault == Fault::kDivisionByZero) Fail("this divides by zero", n.position);
    if (result.fault == Fault::kOverflow) Fail("this goes beyond 63 bits", n.position);
    return {true, result.value};
  }

  // Gives the nodes [from, to) their meaning and type, in their order: children lie before parents,
  // whose type depends on theirs.
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
      // Before kAdd, `a` is a parameter or a kind of dtype, and no node.
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
      form.dtypes |= 1u << d;
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
    const Constant size = ConstantOf(form.params[std::size_t(n.a)].size);
    if (n.op == NodeOp::kElement && size.known && n.i >= size.value) {
      Fail("the list has no such element: its length is in its type", n.position);
    }
    n.params = 1ull << n.a;
    n.type = kind == ParamKind::kFloats && n.op != NodeOp::kLen ? Type::kFloat : Type::kInt;
  }
  constexpr void ResolveTensor(Node& n) {
    if (n.op == NodeOp::kBytes) {
      Node dtype{.op = NodeOp::kName, .text = n.text, .position = n.position};
      if (form.dtype_var(n.text) >= 0 || FindDType(n.text) >= 0 || IsDTypeParam(n.text)) {
        ResolveName(dtype, Unbound::kRefuse);
        n.op = NodeOp::kBytesOfDType, n.i = dtype.i, n.params = dtype.params;
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
    if (n.op < NodeOp::kAdd) return;  // a literal, or threads
    const Node &a = form.node(n.a), &b = n.b < 0 ? a : form.node(n.b);
    const Operands operands{a.type, b.type, a.is_list, b.is_list};
    if (const char* error = WrongOperands(n.op, operands)) Fail(error, n.position);
    n.type = ValueType(n.op, operands);
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
