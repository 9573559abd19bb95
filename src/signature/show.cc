// SPDX-License-Identifier: Apache-2.0
// Texts of values, expressions and what they use.
#include <charconv>
#include <cmath>
#include <cstdio>

#include "signature/expression.h"
#include "signature/messages.h"

namespace anyop {
namespace {

// How tightly an operator binds, as the parser has it (parse_expression.h): or 1, and 2, not 3,
// comparisons 4, sums 5, products 6, rest 7. Parentheses are written where this asks for them.
int Strength(NodeOp op) {
  switch (op) {
    case NodeOp::kOr:
      return 1;
    case NodeOp::kAnd:
      return 2;
    case NodeOp::kNot:
      return 3;
    case NodeOp::kIn:
      return 4;
    case NodeOp::kAdd:
    case NodeOp::kSub:
      return 5;
    case NodeOp::kMul:
    case NodeOp::kDiv:
    case NodeOp::kMod:
      return 6;
    default:
      return IsComparison(op) ? 4 : 7;
  }
}

std::string ShowWithin(const Form& form, int node, int strength) {
  const std::string text = Show(form, node);
  return Strength(form.node(node).op) < strength ? "(" + text + ")" : text;
}

std::string ShowDouble(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.15g", v);  // as written: 17 digits would make 0.1 longer
  std::string s = text;
  if (s.find_first_of(".en") == std::string::npos) s += ".0";
  return s;
}

template <class F>
std::string ShowList(std::uint32_t count, F&& element) {
  std::string out = "[";
  for (std::uint32_t i = 0; i < count; ++i) {
    if (i == 8 && count > 9) return out + ", ... " + std::to_string(count) + " in all]";
    out += (i ? ", " : "") + element(i);
  }
  return out + "]";
}

// An operator as it stands between its operands: with blanks if it binds less than a sum.
std::string Spaced(NodeOp op) {
  const std::string symbol(Symbol(op));
  return Strength(op) < Strength(NodeOp::kAdd) ? " " + symbol + " " : symbol;
}

}  // namespace

std::string_view Symbol(NodeOp op) {
  switch (op) {
    case NodeOp::kOr:
      return "or";
    case NodeOp::kAnd:
      return "and";
    case NodeOp::kEq:
      return "==";
    case NodeOp::kNe:
      return "!=";
    case NodeOp::kLt:
      return "<";
    case NodeOp::kLe:
      return "<=";
    case NodeOp::kGt:
      return ">";
    case NodeOp::kGe:
      return ">=";
    case NodeOp::kAdd:
      return "+";
    case NodeOp::kSub:
      return "-";
    case NodeOp::kMul:
      return "*";
    case NodeOp::kDiv:
      return "/";
    case NodeOp::kMod:
      return "%";
    case NodeOp::kCeilDiv:
      return "ceil_div";
    case NodeOp::kMin:
      return "min";
    case NodeOp::kMax:
      return "max";
    case NodeOp::kSize:
      return "size";
    case NodeOp::kRank:
      return "rank";
    case NodeOp::kRows:
      return "rows";
    case NodeOp::kBytes:
    case NodeOp::kBytesOfDType:
      return "bytes";
    case NodeOp::kLen:
      return "len";
    case NodeOp::kSum:
      return "sum";
    case NodeOp::kGiven:
      return "given";
    default:
      return "?";
  }
}

std::string OneLine(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool space = parse::IsSpace(c);
    if (space && !out.empty() && out.back() == ' ') continue;
    out += space ? ' ' : c;
  }
  return out;
}

std::string Show(const Form& form, int node) {
  const Node& n = form.node(node);
  switch (n.op) {
    case NodeOp::kInt:
      return std::to_string(n.i);
    case NodeOp::kWord:
      return "'" + std::string(n.text) + "'";
    case NodeOp::kThreads:
      return "threads";
    case NodeOp::kElement:
      return std::string(n.text) + "[" + std::to_string(n.i) + "]";
    case NodeOp::kLen:
    case NodeOp::kSum:
    case NodeOp::kGiven:
    case NodeOp::kSize:
    case NodeOp::kRank:
    case NodeOp::kRows:
    case NodeOp::kBytes:
    case NodeOp::kBytesOfDType:
      return std::string(Symbol(n.op)) + "(" + std::string(n.text) + ")";
    case NodeOp::kCeilDiv:
    case NodeOp::kMin:
    case NodeOp::kMax:
      return std::string(Symbol(n.op)) + "(" + Show(form, n.a) + ", " + Show(form, n.b) + ")";
    case NodeOp::kNeg:
      return "-" + ShowWithin(form, n.a, 7);
    case NodeOp::kNot:
      return "not " + ShowWithin(form, n.a, 3);
    case NodeOp::kIn: {
      std::string set;
      for (int d = 0; d < kDTypes; ++d) {
        if (n.i >> d & 1) set += (set.empty() ? "" : " | ") + std::string(Name(DType(d)));
      }
      return Show(form, n.a) + " in " + set;
    }
    default:
      break;
  }
  if (!IsBinary(n.op)) return std::string(n.text);
  const int strength = Strength(n.op);
  return ShowWithin(form, n.a, strength) + Spaced(n.op) + ShowWithin(form, n.b, strength + 1);
}

std::string TryCast(const DLTensor& given, DType wanted) {
  const bool fits = FromDL(given.dtype) == int(wanted);
  return fits ? "" : " Try a cast to " + std::string(Name(DType(wanted))) + ".";
}

std::string Show(const DLTensor& t) {
  const int d = FromDL(t.dtype);
  std::string out = d >= 0 ? std::string(Name(DType(d)))
                           : "dtype(code " + std::to_string(t.dtype.code) + ", " +
                                 std::to_string(t.dtype.bits) + " bits, " +
                                 std::to_string(t.dtype.lanes) + " lanes)";
  if (t.ndim < 0) return out + "[...]";
  return out + ShowList(std::uint32_t(t.ndim), [&](std::uint32_t i) {
           return t.shape[i] < 0 ? "?" : std::to_string(t.shape[i]);
         });
}

std::string Show(const anyop_value& v) {
  switch (v.tag) {
    case ANYOP_BOOL:
      return v.i ? "True" : "False";
    case ANYOP_INT:
      return std::to_string(v.i);
    case ANYOP_FLOAT:
      return ShowDouble(v.f);
    case ANYOP_WORD:
      return "'" + std::string(v.s, v.count) + "'";
    case ANYOP_DTYPE:
      return v.i >= 0 && v.i < kDTypes ? std::string(Name(DType(v.i))) : "?";
    case ANYOP_TENSOR:
      return Show(*v.t);
    case ANYOP_TENSORS:
      return ShowList(v.count, [&](std::uint32_t i) { return Show(*v.ts[i]); });
    case ANYOP_INTS:
      return ShowList(v.count, [&](std::uint32_t i) { return std::to_string(v.is[i]); });
    case ANYOP_FLOATS:
      return ShowList(v.count, [&](std::uint32_t i) { return ShowDouble(v.fs[i]); });
    default:
      return "None";
  }
}

std::string ShowDTypes(std::uint32_t mask) {
  std::string out;
  for (int d = 0, left = __builtin_popcount(mask); d < kDTypes; ++d) {
    if (!(mask >> d & 1)) continue;
    out += Name(DType(d));
    --left;
    out += left > 1 ? ", " : left == 1 ? " or " : "";
  }
  return out;
}

std::string ShowUses(const Contract& contract, int form_index, int node, const Bindings& b,
                     const anyop_value* frame, bool with_origin) {
  const Form& form = contract.forms[std::size_t(form_index)];
  const Node& n = form.node(node);
  std::string out;
  const auto put = [&](std::string_view name, const std::string& value, int by) {
    out += (out.empty() ? "" : ", ") + std::string(name) + " is " + value;
    if (with_origin && by >= 0) {
      out += " (" + std::string(form.params[std::size_t(by)].name) + " is " + Show(frame[by]) + ")";
    }
  };
  for (std::size_t i = 0; i < form.params.size(); ++i) {
    if (!(n.params >> i & 1)) continue;
    put(form.params[i].name, b.unknown_params >> i & 1 ? "unknown" : Show(frame[i]), -1);
  }
  for (std::size_t i = 0; i < form.vars.size(); ++i) {
    if (!(n.vars >> i & 1)) continue;
    const bool known = (b.bound >> i & 1) && b.var[i] >= 0;
    put(form.vars[i], known ? std::to_string(b.var[i]) : "unknown", known ? b.var_by[i] : -1);
  }
  for (std::size_t i = 0; i < form.dtype_vars.size(); ++i) {
    if (!(n.dtype_vars >> i & 1)) continue;
    const bool known = b.dtype_bound >> i & 1;
    put(form.dtype_vars[i], known ? std::string(Name(DType(b.dtype[i]))) : "unknown",
        known ? b.dtype_by[i] : -1);
  }
  return out;
}

std::string Describe(const Contract& contract, int form, const Expression& condition,
                     const Bindings& bindings, const anyop_value* frame) {
  const std::string text = OneLine(condition.text);
  const int node = condition.node[std::size_t(form)];
  if (node < 0) return text + " names what this form lacks";
  const Number v = Evaluate(contract, form, node, bindings, frame);
  const std::string is = v.fault == Fault::kDivisionByZero ? " divides by zero"
                         : v.fault == Fault::kOverflow     ? " goes beyond 63 bits"
                         : !v.known                        ? " is unknown"
                         : v.i                             ? " is true"
                                                           : " is false";
  const std::string uses = ShowUses(contract, form, node, bindings, frame, false);
  return text + is + (uses.empty() ? "" : ", ") + uses;
}

std::string ExactFloat(double v) {
  if (std::isnan(v)) return "nan";
  char text[40];
  std::string out(text, std::to_chars(text, text + sizeof text, v).ptr);
  if (out.find_first_of(".en") == out.npos) out += ".0";  // "inf" has an n
  return out;
}

}  // namespace anyop
