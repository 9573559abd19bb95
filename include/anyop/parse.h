// SPDX-License-Identifier: Apache-2.0
// The parser of signatures, constexpr, and the rules that a signature obeys whatever the call.
#pragma once
#include "anyop/parse_expression.h"
#include "anyop/parse_forms.h"

namespace anyop::parse {

struct Range {
  std::size_t from, to;
};

struct SignatureParser : ExpressionParser {
  std::vector<Range> sizes, rules;  // nodes of dimensions; nodes of `below` and `offsets`

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
    // All parameters are parsed: a type may name a dtype parameter that follows. Sizes come before
    // rules, because only a size binds a variable, and a rule may use it.
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
    CheckPlanned();
    CheckDTypeVariables();
  }

  // ---- Parameters
  constexpr void CheckNewName(std::string_view name, std::size_t start, bool is_result) {
    if (form.param(name) >= 0) {
      Fail(is_result ? "a parameter and a result have this name" : "two parameters have this name",
           start);
    }
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
    if (form.params.size() == kMaxParams) FailHere("an operator may have 56 parameters");
    Param p;
    p.name = Name("expected a parameter's name");
    CheckNewName(p.name, start, false);
    Need(":", "expected : and the parameter's type");
    p.is_planned = EatName("planned");
    p.is_mut = EatName("mut");
    p.is_dense = EatName("dense");
    const std::size_t type = (Skip(), at), from = form.nodes.size();
    ParseType(p);
    sizes.push_back({from, form.nodes.size()});
    if ((p.is_mut || p.is_dense) && !IsTensor(p.kind)) Fail("only a tensor is mut or dense", type);
    if (p.is_planned && p.kind != ParamKind::kTensor) Fail("only a tensor is planned", type);
    if (p.is_planned && p.is_mut) Fail("a planned tensor is only read", type);
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
        if (p.words.size() == kMaxWords) Fail("a parameter may have 64 words", start);
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
      form.dtypes |= t.dtypes.mask;
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
        form.dtypes |= 1u << p.default_int;
        return true;
      case ParamKind::kInts:
      case ParamKind::kFloats:
        Need("[", "expected a list: [1, 1]");
        if (Eat("]")) return true;
        do {
          const Literal n = Number();
          if (n.is_float && p.kind == ParamKind::kInts) return false;
          if (p.default_ints.size() + p.default_floats.size() == kMaxListDefault) {
            FailHere("a default list may have 64 numbers");
          }
          p.kind == ParamKind::kInts ? p.default_ints.push_back(n.i)
                                     : p.default_floats.push_back(n.f);
        } while (Eat(","));
        return Eat("]");
      default:
        return false;
    }
  }
  // A dtype variable begins with a capital letter and is not a dtype's name, whatever the case:
  // a misspelt dtype must not become one.
  static constexpr bool IsVariableName(std::string_view name) {
    std::string lower;
    for (const char c : name) lower += c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
    return name[0] >= 'A' && name[0] <= 'Z' && FindDType(lower) < 0;
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
    if (!IsVariableName(d.name)) Fail(kNoDTypeVariable, position);
    if (!bind) Fail("no argument has this dtype", position);
    if (form.dtype_vars.size() == kMaxDTypeVars)
      Fail("a form may have 8 dtype variables", position);
    d.index = int(form.dtype_vars.size());
    form.dtype_vars.push_back(d.name);
  }
  // Sizes are integers; "?" implies a default.
  constexpr void CheckParams() {
    for (std::size_t i = form.params.size(); i-- > 0;) {
      Param& p = form.params[i];
      if (p.size >= 0) CheckSize(p.size), CheckDefaultLength(p);
      if (p.bound >= 0) CheckSize(p.bound);
      for (const int d : p.tensor.dims) CheckSize(d);
      if (!p.has_default && p.is_optional) p.has_default = p.default_is_none = true;
    }
  }
  constexpr void CheckSize(int node) {
    const Node& n = form.node(node);
    if (n.is_list || n.type == Type::kFloat || !IsNumber(n.type)) {
      Fail("a size must be an integer", n.position);
    }
    const Constant size = ConstantOf(node);
    if (size.known && size.value < 0) Fail("a size is at least 0", n.position);
  }
  constexpr void CheckDefaultLength(const Param& p) const {
    const Constant size = ConstantOf(p.size);
    if (!size.known || p.default_text.empty() || p.default_is_none) return;
    if (std::int64_t(p.default_ints.size() + p.default_floats.size()) == size.value) return;
    Fail("this default has another length than the parameter's type says",
         std::size_t(p.default_text.data() - text.data()));
  }

  // ---- Results and conditions
  constexpr void ParseResult() {
    Skip();
    const std::size_t start = at;
    if (form.results.size() == kMaxResults) FailHere("an operator may have 8 results");
    Result r;
    r.name = Name("expected a result's name");
    CheckNewName(r.name, start, true);
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
        if (form.params[std::size_t(p)].is_planned) {
          Fail("a planned tensor is the host's, and no result lies over it", name);
        }
        if (r.over >> p & 1) Fail("this parameter is listed twice", name);
        r.over |= 1ull << p;
      } while (Eat("|"));
    }
    form.results.push_back(r);
  }
  constexpr void ParseWhere() {
    Skip();
    const std::size_t start = at;
    if (form.conditions.size() == kMaxConditions) FailHere("a form may have 64 conditions");
    const int node = ParseResolved(Unbound::kRefuse);
    if (form.node(node).type != Type::kBool) Fail("a condition must be true or false", start);
    std::size_t end = at;
    while (end > start && IsSpace(text[end - 1])) --end;
    form.conditions.push_back({node, text.substr(start, end - start)});
  }

  // ---- Rules
  // True if `node` is made of sums and products that hold the variable once: a call can then turn
  // it around until the variable stands alone.
  constexpr bool CanSolve(int node, std::uint64_t var) const {
    const Node& n = form.node(node);
    if (n.op == NodeOp::kVar) return true;
    if (n.op == NodeOp::kNeg) return CanSolve(n.a, var);
    if (!BindsSizes(n.op)) return false;
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
  // Binds in the order of a call (Checker::Run), again and again as long as that gives a variable.
  // Returns the first dimension that cannot be solved, or -1.
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
    // A result must be known where every optional argument is left out.
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
  // A dtype variable of one tensor that nothing else names would stand for any dtype. No kernel
  // takes any dtype, and a misspelt dtype looks the same, so that it is refused.
  constexpr void CheckDTypeVariables() const {
    for (std::size_t v = 0; v < form.dtype_vars.size(); ++v) {
      std::size_t uses = 0;
      const auto count = [&](const DTypes& d) {
        uses += d.kind == DTypes::kVariable && d.index == int(v);
      };
      for (const Param& p : form.params) count(p.tensor.dtypes);
      for (const Result& r : form.results) count(r.tensor.dtypes);
      for (const Node& n : form.nodes) uses += n.dtype_vars >> v & 1;
      if (uses < 2) {
        Fail(kLoneDTypeVariable, std::size_t(form.dtype_vars[v].data() - text.data()));
      }
    }
  }
  constexpr void CheckIndices() const {
    constexpr std::uint32_t kIndex = 1u << int(DType::kI64) | 1u << int(DType::kI32);
    for (const Param& p : form.params) {
      if (p.rule == IndexRule::kNone && !p.is_planned) continue;
      if (!(DTypesOf(p.tensor.dtypes) & ~kIndex)) continue;
      Fail(p.is_planned ? "planned tensors are i32 or i64: write i64[...], or I[...] and the "
                          "condition I in i32 | i64"
                        : "indices are i32 or i64: write i64[...], or I[...] and the condition I "
                          "in i32 | i64",
           std::size_t(p.tensor.text.data() - text.data()));
    }
  }
  // Planned tensors lie in the host's memory, so that they do not say on which device a call is:
  // another tensor must.
  constexpr void CheckPlanned() const {
    const Param* planned = nullptr;
    for (const Param& p : form.params) {
      if (p.is_planned) planned = &p;
      if (p.kind == ParamKind::kTensor && !p.is_planned && !p.is_optional) return;
    }
    if (!planned) return;
    Fail("planned needs a tensor beside it that is not planned, on whose device the call is",
         std::size_t(planned->name.data() - text.data()));
  }
};

}  // namespace anyop::parse

namespace anyop {

// The forms of an operator: one signature, or several, each beginning at the start of a line.
constexpr std::vector<Form> ParseForms(std::string_view text) {
  std::vector<Form> forms;
  if (text.size() > kMaxText) parse::Fail("a signature has at most 65536 characters", kMaxText);
  parse::Lexer lexer{text};
  do {
    lexer.Skip();
    if (forms.size() == kMaxForms) lexer.FailHere("an operator may have 32 forms");
    if (!forms.empty() && text[lexer.at - 1] != '\n') {
      lexer.FailHere("expected , between conditions, or the next form at the start of a line");
    }
    forms.emplace_back();
    parse::SignatureParser parser(text, forms.back());
    parser.at = lexer.at;
    parser.ParseForm();
    lexer.at = parser.at;
    const Form& form = forms.back();
    if (forms.size() > 1) parse::CheckSameNames(forms[0], form, text);
    if (parse::HidesLast(forms)) {
      parse::Fail("this form can never be reached: earlier ones have its words and ranks",
                  parse::PositionOf(form.text, text));
    }
    lexer.Skip();
  } while (lexer.at < text.size());
  for (const Form& form : forms) parse::CheckWords(forms, form);
  bool has_default = false;  // a written one; None, which "?" implies, may stand anywhere
  for (const Param& p : forms[0].params) {
    if (!p.has_default && has_default) {
      parse::Fail("a parameter without a default follows one that has a default",
                  parse::PositionOf(p.name, text));
    }
    has_default |= !p.default_text.empty();
  }
  return forms;
}

}  // namespace anyop
