// SPDX-License-Identifier: Apache-2.0
// The parser of signatures, constexpr, and the rules that a signature obeys whatever the call.
#pragma once
#include "anyop/parse_expression.h"
#include "anyop/signature.h"

namespace anyop::parse {

struct Range {
  std::size_t from, to;
};

struct SignatureParser : ExpressionParser {
  std::vector<Range> sizes, rules;  // nodes of dimensions, and of below and offsets

  using ExpressionParser::ExpressionParser;

  constexpr void ParseForm() {
    Skip();
    const std::size_t start = at;
    form.name = Name("expected the operator's name");
    Need("(", "expected ( after the operator's name");
    if (!Eat(")")) {
      do ParseParam();
      while (Eat(","));
      Need(")", "expected , or ) after a parameter");
    }
    for (Param& p : form.params) BindDTypes(p.tensor.dtypes, IsTensor(p.kind));
    for (const Range r : sizes) Resolve(r.from, r.to, Unbound::kBind);
    for (const Range r : rules) Resolve(r.from, r.to, Unbound::kRefuse);
    CheckParams();
    Need("->", "expected -> and the results");
    Need("(", "expected ( before the results");
    if (!Eat(")")) {
      do ParseResult();
      while (Eat(","));
      Need(")", "expected , or ) after a result");
    }
    if (EatName("where")) {
      do ParseWhere();
      while (Eat(","));
    }
    std::size_t end = at;
    while (end > start && IsSpace(text[end - 1])) --end;
    form.text = text.substr(start, end - start);
    CheckSolvable();
    CheckIndices();
  }

  // ---- Parameters
  constexpr void CheckNewName(std::string_view name, std::size_t start) {
    if (form.param(name) >= 0) Fail("two parameters have this name", start);
    if (form.result(name) >= 0) Fail("two results have this name", start);
    for (const std::string_view word : {"out", "policy", "like", "self"}) {
      if (name == word)
        Fail("hosts use the names out, policy, like and self: choose another", start);
    }
    for (const std::string_view word :
         {"in", "and", "or", "not", "threads", "True", "False", "None"}) {
      if (name == word) Fail("this word belongs to the language: choose another name", start);
    }
    if (FindDType(name) >= 0 || name == "int" || name == "float" || name == "dtype") {
      Fail("the name of a type is no parameter's name", start);
    }
  }
  constexpr void ParseParam() {
    Skip();
    const std::size_t start = at;
    if (form.params.size() == kMaxParams) FailHere("an operator may have 40 parameters");
    Param p;
    p.name = Name("expected a parameter's name");
    CheckNewName(p.name, start);
    Need(":", "expected : and the parameter's type");
    p.is_mut = EatName("mut");
    p.is_dense = EatName("dense");
    const std::size_t type = (Skip(), at), from = form.nodes.size();
    ParseType(p);
    sizes.push_back({from, form.nodes.size()});
    if ((p.is_mut || p.is_dense) && !IsTensor(p.kind)) Fail("only a tensor is mut or dense", type);
    p.is_optional = Eat("?");
    const std::size_t rule = (Skip(), at);
    if (EatName("below")) p.rule = IndexRule::kBelow;
    if (EatName("offsets")) p.rule = IndexRule::kOffsets;
    if (p.rule != IndexRule::kNone) {
      if (p.kind != ParamKind::kTensor) Fail("only a tensor has indices", rule);
      const std::size_t begin = form.nodes.size();
      p.bound = ParseSum();
      rules.push_back({begin, form.nodes.size()});
    }
    if (Eat("=")) ParseDefault(p);
    form.params.push_back(p);
  }
  constexpr void ParseType(Param& p) {
    if (Peek() == '\'') {
      p.kind = ParamKind::kWord;
      do {
        Skip();
        const std::size_t start = at;
        const std::string_view word = Word();
        for (const std::string_view w : p.words) {
          if (w == word) Fail("this word is listed twice", start);
        }
        p.words.push_back(word);
      } while (Eat("|"));
      return;
    }
    const std::string_view name = PeekName();
    const bool is_list = Peek(name.size()) == '[';
    if (name == "int" || name == "float") {
      at += name.size();
      p.kind = name == "int" ? ParamKind::kInt : ParamKind::kFloat;
      if (!Eat("[")) return;
      p.kind = name == "int" ? ParamKind::kInts : ParamKind::kFloats;
      if (Eat("]")) return;
      p.size = ParseSum();
      Need("]", "expected ]");
    } else if (name == "dtype" || (name == "bool" && !is_list)) {
      at += name.size();
      p.kind = name == "bool" ? ParamKind::kBool : ParamKind::kDType;
    } else {
      p.tensor = ParseTensor();
      p.kind = Eat("*") ? ParamKind::kTensors : ParamKind::kTensor;
    }
  }
  constexpr TensorType ParseTensor() {
    Skip();
    const std::size_t start = at;
    TensorType t;
    t.dtypes.name = PeekName();
    if (t.dtypes.name.empty()) {
      FailHere("expected a type: T[n, d], int, float, bool, dtype, int[2] or 'word' | 'word'");
    }
    if (FindDType(t.dtypes.name) >= 0) {
      t.dtypes.mask = DTypeSet();
    } else {
      at += t.dtypes.name.size();
      t.dtypes.kind = DTypes::kVariable;
    }
    Need("[", "expected [ and the dimensions");
    if (!Eat("]")) {
      do {
        if (!Eat("...")) {
          t.dims.push_back(ParseSum());
        } else if (t.has_dots || !t.dims.empty()) {
          FailHere("... must come first");
        } else {
          t.has_dots = true;
        }
      } while (Eat(","));
      Need("]", "expected , or ] after a dimension");
    }
    if (t.dims.size() > kMaxRank) Fail("a tensor has at most 8 dimensions", start);
    t.text = text.substr(start, at - start);
    return t;
  }
  constexpr void ParseDefault(Param& p) {
    Skip();
    const std::size_t start = at;
    p.has_default = true;
    if (EatName("None")) {
      p.default_is_none = true;
      if (!p.is_optional) Fail("None needs an optional parameter: write ? after the type", start);
    } else if (!ParseValue(p, start)) {
      Fail("this default does not fit the parameter's type", start);
    }
    p.default_text = text.substr(start, at - start);
  }
  constexpr bool ParseValue(Param& p, std::size_t start) {
    switch (p.kind) {
      case ParamKind::kBool:
        p.default_int = EatName("True");
        return p.default_int || EatName("False");
      case ParamKind::kInt:
      case ParamKind::kFloat: {
        const Literal n = Number();
        p.default_int = n.i, p.default_float = n.f;
        return !n.is_float || p.kind == ParamKind::kFloat;
      }
      case ParamKind::kWord: {
        const std::string_view word = Word();
        for (const std::string_view w : p.words) {
          if (w == word) return true;
          ++p.default_int;
        }
        Fail("this default is not one of the words", start);
      }
      case ParamKind::kDType:
        p.default_int = DType();
        return true;
      case ParamKind::kInts:
      case ParamKind::kFloats:
        Need("[", "expected a list: [1, 1]");
        if (Eat("]")) return true;
        do {
          const Literal n = Number();
          if (n.is_float && p.kind == ParamKind::kInts) return false;
          p.kind == ParamKind::kInts ? p.default_ints.push_back(n.i)
                                     : p.default_floats.push_back(n.f);
        } while (Eat(","));
        return Eat("]");
      default:
        return false;
    }
  }
  constexpr void BindDTypes(DTypes& d, bool bind) {
    if (d.kind != DTypes::kVariable) return;
    const std::size_t position = std::size_t(d.name.data() - text.data());
    if (const int p = form.param(d.name); p >= 0) {
      if (!IsDTypeParam(d.name)) Fail("this parameter is not a dtype", position);
      d.kind = DTypes::kParameter, d.index = p;
      return;
    }
    d.index = form.dtype_var(d.name);
    if (d.index >= 0) return;
    if (!bind) Fail("no argument has this dtype", position);
    if (form.dtype_vars.size() == kMaxDTypeVars)
      Fail("a form may have 8 dtype variables", position);
    d.index = int(form.dtype_vars.size());
    form.dtype_vars.push_back(d.name);
  }
  // Sizes are integers; a trailing "?" implies a default.
  constexpr void CheckParams() {
    for (std::size_t i = form.params.size(); i-- > 0;) {
      Param& p = form.params[i];
      if (p.size >= 0 && form.node(p.size).is_list)
        Fail("a list is no size", form.node(p.size).position);
      for (const int d : p.tensor.dims) CheckSize(d);
      if (p.has_default || !p.is_optional) continue;
      if (i + 1 < form.params.size() && !form.params[i + 1].has_default) continue;
      p.has_default = p.default_is_none = true;
    }
  }
  constexpr void CheckSize(int node) {
    const Node& n = form.node(node);
    if (n.is_list || n.type == Type::kFloat || !IsNumber(n.type)) {
      Fail("a dimension must be an integer", n.position);
    }
  }

  // ---- Results and conditions
  constexpr void ParseResult() {
    Skip();
    const std::size_t start = at;
    if (form.results.size() == kMaxResults) FailHere("an operator may have 8 results");
    Result r;
    r.name = Name("expected a result's name");
    CheckNewName(r.name, start);
    Need(":", "expected : and the result's type");
    const std::size_t type = (Skip(), at), from = form.nodes.size();
    r.tensor = ParseTensor();
    BindDTypes(r.tensor.dtypes, false);
    const std::uint32_t mask = r.tensor.dtypes.mask;
    if (mask & (mask - 1))
      Fail("a result has one dtype: a name, a dtype parameter or a variable", type);
    Resolve(from, form.nodes.size(), Unbound::kRefuse);
    for (const int d : r.tensor.dims) CheckSize(d);
    r.is_optional = Eat("?");
    if (EatName("over")) {
      do {
        Skip();
        const std::size_t name = at;
        const int p = form.param(Name("expected a parameter's name"));
        if (p < 0 || form.params[std::size_t(p)].kind != ParamKind::kTensor) {
          Fail("over names a tensor parameter", name);
        }
        r.over |= 1ull << p;
      } while (Eat("|"));
    }
    form.results.push_back(r);
  }
  constexpr void ParseWhere() {
    Skip();
    const std::size_t start = at;
    const int node = ParseResolved(Unbound::kRefuse);
    if (form.node(node).type != Type::kBool) Fail("a condition must be true or false", start);
    std::size_t end = at;
    while (end > start && IsSpace(text[end - 1])) --end;
    form.conditions.push_back({node, text.substr(start, end - start)});
  }

  // ---- Rules
  // True if `node` is made of sums and products that hold the variable once.
  constexpr bool CanSolve(int node, std::uint64_t var) const {
    const Node& n = form.node(node);
    if (n.op == NodeOp::kVar) return true;
    if (n.op == NodeOp::kNeg) return CanSolve(n.a, var);
    if (n.op != NodeOp::kAdd && n.op != NodeOp::kSub && n.op != NodeOp::kMul) return false;
    const bool in_a = form.node(n.a).vars & var, in_b = form.node(n.b).vars & var;
    return in_a != in_b && CanSolve(in_a ? n.a : n.b, var);
  }
  constexpr bool BindSize(int node, std::uint64_t& bound) const {
    const std::uint64_t open = form.node(node).vars & ~bound;
    if (!open) return true;
    if ((open & (open - 1)) || !CanSolve(node, open)) return false;
    bound |= open;
    return true;
  }
  // Binds in the order of a call; returns the first dimension that cannot be solved, or -1.
  constexpr int BindAll(std::uint64_t& bound, bool with_optional) const {
    for (;;) {
      const std::uint64_t before = bound;
      int open = -1;
      for (const Param& p : form.params) {
        if (p.is_optional && !with_optional) continue;
        for (const int d : p.tensor.dims) {
          if (!BindSize(d, bound) && open < 0) open = d;
        }
        if (p.size >= 0 && !BindSize(p.size, bound) && open < 0) open = p.size;
      }
      if (open < 0 || bound == before) return open;
    }
  }
  constexpr void CheckSolvable() const {
    std::uint64_t all = 0, required = 0;
    if (const int open = BindAll(all, true); open >= 0) {
      Fail(
          "this size cannot be solved for its variables: no other argument gives them, and only "
          "sums and products with one unknown can be turned around",
          form.node(open).position);
    }
    BindAll(required, false);
    std::uint64_t dtypes = 0;
    bool dots = false;
    for (const Param& p : form.params) {
      if (p.is_optional || !IsTensor(p.kind)) continue;
      if (p.tensor.dtypes.kind == DTypes::kVariable) dtypes |= 1ull << p.tensor.dtypes.index;
      dots |= p.tensor.has_dots;
    }
    for (const Result& r : form.results) {
      const std::size_t position = std::size_t(r.tensor.text.data() - text.data());
      for (const int d : r.tensor.dims) {
        if (form.node(d).vars & ~required) {
          Fail("this size is given by an optional argument only", form.node(d).position);
        }
      }
      if (r.tensor.dtypes.kind == DTypes::kVariable && !(dtypes >> r.tensor.dtypes.index & 1)) {
        Fail("this dtype is given by an optional argument only", position);
      }
      if (r.tensor.dtypes.kind == DTypes::kParameter &&
          form.params[std::size_t(r.tensor.dtypes.index)].is_optional) {
        Fail("this dtype is given by an optional argument only", position);
      }
      if (r.tensor.has_dots && !dots)
        Fail("no required argument has leading dimensions ...", position);
    }
  }
  constexpr std::uint32_t DTypesOf(const DTypes& d) const {
    if (d.kind == DTypes::kSet) return d.mask;
    for (const Condition& c : form.conditions) {
      const Node& n = form.node(c.node);
      if (n.op != NodeOp::kIn) continue;
      const Node& left = form.node(n.a);
      const NodeOp op = d.kind == DTypes::kVariable ? NodeOp::kDTypeVar : NodeOp::kParam;
      if (left.op == op && left.i == d.index) return std::uint32_t(n.i);
    }
    return ~0u;
  }
  constexpr void CheckIndices() const {
    constexpr std::uint32_t kIndex = 1u << int(DType::kI64) | 1u << int(DType::kI32);
    for (const Param& p : form.params) {
      if (p.rule == IndexRule::kNone || !(DTypesOf(p.tensor.dtypes) & ~kIndex)) continue;
      Fail("indices are i32 or i64: write i64[...], or I[...] and the condition I in i32 | i64",
           std::size_t(p.tensor.text.data() - text.data()));
    }
  }
};

// ---- Rules over several forms
constexpr std::size_t PositionOf(std::string_view part, std::string_view text) {
  return std::size_t(part.data() - text.data());
}

constexpr void CheckSameNames(const Form& first, const Form& form, std::string_view text) {
  const std::size_t here = PositionOf(form.text, text);
  if (form.name != first.name) Fail("all forms of an operator have its name", here);
  if (form.params.size() != first.params.size() || form.results.size() != first.results.size()) {
    Fail("all forms have the same parameters and results", here);
  }
  for (std::size_t i = 0; i < form.params.size(); ++i) {
    const Param &p = form.params[i], &q = first.params[i];
    const std::size_t at = PositionOf(p.name, text);
    if (p.name != q.name) Fail("all forms have the same parameters, in the same order", at);
    if (p.kind != q.kind || p.is_optional != q.is_optional || p.is_mut != q.is_mut) {
      Fail("a parameter has the same kind in every form, and is mut or optional in all", at);
    }
    if (!p.default_text.empty() && p.default_text != q.default_text) {
      Fail("a default is that of the first form: write it there", at);
    }
  }
  for (std::size_t i = 0; i < form.results.size(); ++i) {
    const Result &r = form.results[i], &s = first.results[i];
    if (r.name != s.name || r.is_optional != s.is_optional) {
      Fail("all forms have the same results, in the same order", PositionOf(r.name, text));
    }
  }
}

constexpr bool HasWord(const Param& p, std::string_view word) {
  for (const std::string_view w : p.words) {
    if (w == word) return true;
  }
  return false;
}

// The ranks that a type takes when "..." stands for `lead` dimensions.
constexpr int RankOf(const TensorType& t, int lead) {
  return int(t.dims.size()) + (t.has_dots ? lead : 0);
}
constexpr bool SameRanks(const Form& a, int a_lead, const Form& b, int b_lead) {
  for (std::size_t i = 0; i < a.params.size(); ++i) {
    if (!IsTensor(a.params[i].kind)) continue;
    if (RankOf(a.params[i].tensor, a_lead) != RankOf(b.params[i].tensor, b_lead)) return false;
  }
  return true;
}
// True if every call that fits the words and ranks of `later` also fits those of `earlier`.
constexpr bool Hides(const Form& earlier, const Form& later) {
  for (std::size_t i = 0; i < later.params.size(); ++i) {
    for (const std::string_view w : later.params[i].words) {
      if (!HasWord(earlier.params[i], w)) return false;
    }
  }
  bool dots = false;
  for (const Param& p : later.params) dots |= p.tensor.has_dots;
  for (int lead = 0; lead <= (dots ? kMaxRank : 0); ++lead) {
    bool found = false;
    for (int other = 0; other <= kMaxRank && !found; ++other) {
      found = SameRanks(earlier, other, later, lead);
    }
    if (!found) return false;
  }
  return true;
}

// A word in a condition must be one that the parameter takes in some form.
constexpr void CheckWords(const std::vector<Form>& forms, const Form& form, std::size_t from = 0) {
  for (std::size_t k = from; k < form.nodes.size(); ++k) {
    const Node& n = form.nodes[k];
    if (!IsComparison(n.op) || form.node(n.a).type != Type::kWord) continue;
    const Node &a = form.node(n.a), &b = form.node(n.b);
    if (a.op == b.op) Fail("compare a parameter with a 'word'", n.position);
    const Node &param = a.op == NodeOp::kParam ? a : b, &word = a.op == NodeOp::kParam ? b : a;
    bool found = false;
    for (const Form& f : forms) found |= HasWord(f.params[std::size_t(param.i)], word.text);
    if (!found) Fail("this is none of the parameter's words", word.position);
  }
}

}  // namespace anyop::parse

namespace anyop {

// The forms of an operator: one signature, or several, each beginning at the start of a line.
constexpr std::vector<Form> ParseForms(std::string_view text) {
  std::vector<Form> forms;
  parse::Lexer lexer{text};
  do {
    lexer.Skip();
    if (!forms.empty() && text[lexer.at - 1] != '\n') {
      lexer.FailHere("expected , between conditions, or the next form at the start of a line");
    }
    forms.emplace_back();
    parse::SignatureParser parser(text, forms.back());
    parser.at = lexer.at;
    parser.ParseForm();
    lexer.at = parser.at;
    const Form& form = forms.back();
    for (std::size_t i = 0; i + 1 < forms.size(); ++i) {
      parse::CheckSameNames(forms[0], form, text);
      if (parse::Hides(forms[i], form)) {
        parse::Fail("this form can never be reached: an earlier one has its words and ranks",
                    parse::PositionOf(form.text, text));
      }
    }
    lexer.Skip();
  } while (lexer.at < text.size());
  for (const Form& form : forms) parse::CheckWords(forms, form);
  for (std::size_t i = 1; i < forms[0].params.size(); ++i) {
    const Param& p = forms[0].params[i];
    if (!p.has_default && forms[0].params[i - 1].has_default) {
      parse::Fail("a parameter without a default follows one that has a default",
                  parse::PositionOf(p.name, text));
    }
  }
  return forms;
}

}  // namespace anyop
