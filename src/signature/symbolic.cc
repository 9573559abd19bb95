// SPDX-License-Identifier: Apache-2.0
#include "signature/symbolic.h"

#include <cstdio>
#include <utility>

#include "signature/facts.h"
#include "signature/messages.h"

namespace anyop {
namespace {

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (std::uint8_t(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string Number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", v);
  std::string out = text;
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

template <class List, class F>
std::string Array(const List& list, F&& item) {
  std::string out = "[";
  for (const auto& x : list) out += (out.size() > 1 ? ", " : "") + item(x);
  return out + "]";
}

std::string DTypeNames(std::uint32_t mask) {
  std::string out;
  for (int d = 0; d < kDTypes; ++d) {
    if (mask >> d & 1) out += (out.empty() ? "" : ", ") + Quoted(kDTypeNames[d]);
  }
  return "[" + out + "]";
}

std::string DTypesJson(const DTypes& d) {
  if (d.kind == DTypes::kSet) return "{\"set\": " + DTypeNames(d.mask) + "}";
  return std::string(d.kind == DTypes::kVariable ? "{\"var\": " : "{\"param\": ") +
         std::to_string(d.index) + "}";
}

constexpr std::pair<NodeOp, std::string_view> kNames[] = {
    {NodeOp::kVar, "var"},     {NodeOp::kDTypeVar, "dtype_var"},
    {NodeOp::kLen, "len"},     {NodeOp::kSum, "sum"},
    {NodeOp::kGiven, "given"}, {NodeOp::kSize, "size"},
    {NodeOp::kRank, "rank"},   {NodeOp::kRows, "rows"},
    {NodeOp::kBytes, "bytes"}, {NodeOp::kAdd, "+"},
    {NodeOp::kSub, "-"},       {NodeOp::kMul, "*"},
    {NodeOp::kMod, "%"},       {NodeOp::kCeilDiv, "ceil_div"},
    {NodeOp::kMin, "min"},     {NodeOp::kMax, "max"},
    {NodeOp::kEq, "=="},       {NodeOp::kNe, "!="},
    {NodeOp::kLt, "<"},        {NodeOp::kLe, "<="},
    {NodeOp::kGt, ">"},        {NodeOp::kGe, ">="},
    {NodeOp::kAnd, "and"},     {NodeOp::kOr, "or"},
    {NodeOp::kNeg, "neg"},     {NodeOp::kNot, "not"},
};

std::string_view Name(const Node& n) {
  if (n.op == NodeOp::kParam) return n.is_list ? "list" : "param";
  if (n.op == NodeOp::kDiv) return n.type == Type::kFloat ? "/" : "//";
  for (const auto& [op, name] : kNames) {
    if (op == n.op) return name;
  }
  return "unknown";
}

std::string ExpressionJson(const Form& form, int node) {
  const Node& n = form.node(node);
  const auto sub = [&](int k) { return ExpressionJson(form, k); };
  const std::string name = Quoted(Name(n));
  switch (n.op) {
    case NodeOp::kInt:
      return std::to_string(n.i);
    case NodeOp::kFloat:
      return Number(n.f);
    case NodeOp::kWord:
      return "[\"word\", " + Quoted(n.text) + "]";
    case NodeOp::kDType:
      return "[\"dtype\", " + Quoted(kDTypeNames[n.i]) + "]";
    case NodeOp::kVar:
    case NodeOp::kParam:
    case NodeOp::kDTypeVar:
      return "[" + name + ", " + std::to_string(n.i) + "]";
    case NodeOp::kElement:
      return "[\"element\", " + std::to_string(n.a) + ", " + std::to_string(n.i) + "]";
    case NodeOp::kLen:
    case NodeOp::kSum:
    case NodeOp::kGiven:
    case NodeOp::kSize:
    case NodeOp::kRank:
    case NodeOp::kRows:
    case NodeOp::kBytes:
      return "[" + name + ", " + std::to_string(n.a) + "]";
    case NodeOp::kDTypeBytes: {
      const DTypes d{DTypes::Kind(n.a), int(n.i), n.a == DTypes::kSet ? 1u << n.i : 0, {}};
      return "[\"dtype_bytes\", " + DTypesJson(d) + "]";
    }
    case NodeOp::kIn:
      return "[\"in\", " + sub(n.a) + ", " + DTypeNames(std::uint32_t(n.i)) + "]";
    case NodeOp::kNeg:
    case NodeOp::kNot:
      return "[" + name + ", " + sub(n.a) + "]";
    default:
      return "[" + name + ", " + sub(n.a) + ", " + sub(n.b) + "]";
  }
}

std::string TensorJson(const Form& form, const TensorType& t) {
  return "\"dtypes\": " + DTypesJson(t.dtypes) + ", \"dots\": " + (t.has_dots ? "true" : "false") +
         ", \"dims\": " + Array(t.dims, [&](int d) { return ExpressionJson(form, d); }) +
         ", \"text\": " + Quoted(OneLine(t.text));
}

std::string DefaultJson(const Param& p) {
  if (p.default_is_none) return "null";
  switch (p.kind) {
    case ParamKind::kInt:
      return std::to_string(p.default_int);
    case ParamKind::kFloat:
      return Number(p.default_float);
    case ParamKind::kBool:
      return p.default_int ? "true" : "false";
    case ParamKind::kWord:
      return Quoted(p.words[std::size_t(p.default_int)]);
    case ParamKind::kDType:
      return Quoted(kDTypeNames[p.default_int]);
    case ParamKind::kInts:
      return Array(p.default_ints, [](std::int64_t v) { return std::to_string(v); });
    default:
      return Array(p.default_floats, Number);
  }
}

std::string ParamJson(const Contract& c, std::size_t i) {
  constexpr const char* kKinds[] = {"tensor", "tensors", "int",  "float", "bool",
                                    "word",   "dtype",   "ints", "floats"};
  const Param& p = c.forms[0].params[i];
  std::string out = "{\"name\": " + Quoted(p.name) + ", \"kind\": \"" + kKinds[int(p.kind)] + "\"";
  if (p.is_optional) out += ", \"optional\": true";
  if (p.is_mut) out += ", \"mut\": true";
  if (p.kind == ParamKind::kWord) out += ", \"words\": " + Array(c.words[i], Quoted);
  if (p.has_default) out += ", \"default\": " + DefaultJson(p);
  return out + "}";
}

std::string ResultJson(const Result& r, int declined_without) {
  std::string out = "{\"name\": " + Quoted(r.name);
  if (r.is_optional) out += ", \"optional\": true";
  if (declined_without >= 0) {
    out += ", \"declined_without\": " + std::to_string(declined_without);
  }
  return out + "}";
}

std::string FactsJson(const Facts& facts) {
  const auto flag = [](bool is) { return is ? "true" : "false"; };
  const auto index = [](int i) { return std::to_string(i); };
  const auto group = [&](const std::vector<int>& params) { return Array(params, index); };
  return std::string("{\"has_out\": ") + flag(facts.has_out) +
         ", \"has_lone_result\": " + flag(facts.has_lone_result) +
         ", \"has_in_place\": " + flag(facts.has_in_place) +
         ", \"takes_mask\": " + flag(facts.takes_mask) +
         ", \"needs_tensor\": " + flag(facts.needs_tensor) +
         ", \"dtype_groups\": " + Array(facts.dtype_groups, group) + "}";
}

// What a form says of a parameter: {} where that is nothing.
std::string FormParamJson(const Form& form, const Param& p) {
  std::string out;
  if (IsTensor(p.kind)) {
    out = TensorJson(form, p.tensor) + ", \"dense\": " + (p.is_dense ? "true" : "false");
  } else if (p.kind == ParamKind::kWord) {
    out = "\"words\": " + Array(p.words, Quoted);
  } else if (p.size >= 0) {
    out = "\"size\": " + ExpressionJson(form, p.size);
  }
  if (p.rule != IndexRule::kNone) {
    out += std::string(p.rule == IndexRule::kBelow ? ", \"below\": " : ", \"offsets\": ") +
           ExpressionJson(form, p.bound);
  }
  return "{" + out + "}";
}

std::string FormJson(const Form& form) {
  const auto param = [&](const Param& p) { return FormParamJson(form, p); };
  const auto result = [&](const Result& r) {
    std::string over;
    for (std::size_t i = 0; i < form.params.size(); ++i) {
      if (r.over >> i & 1) over += (over.empty() ? "" : ", ") + std::to_string(i);
    }
    return "{" + TensorJson(form, r.tensor) + ", \"over\": [" + over + "]}";
  };
  const auto condition = [&](const Condition& c) {
    return "{\"expr\": " + ExpressionJson(form, c.node) + ", \"text\": " + Quoted(OneLine(c.text)) +
           "}";
  };
  return "{\"vars\": " + Array(form.vars, Quoted) +
         ", \"dtype_vars\": " + Array(form.dtype_vars, Quoted) +
         ",\n   \"params\": " + Array(form.params, param) +
         ",\n   \"results\": " + Array(form.results, result) +
         ",\n   \"conditions\": " + Array(form.conditions, condition) + "}";
}

}  // namespace

std::string ContractJson(const Contract& contract) {
  std::string params, results;
  for (std::size_t i = 0; i < contract.forms[0].params.size(); ++i) {
    params += (i ? ", " : "") + ParamJson(contract, i);
  }
  const Facts facts = FactsOf(contract);
  for (std::size_t i = 0; i < contract.forms[0].results.size(); ++i) {
    results +=
        (i ? ", " : "") + ResultJson(contract.forms[0].results[i], facts.declined_without[i]);
  }
  return "{\"name\": " + Quoted(contract.name) + ", \"hash\": " + Quoted(contract.hash) +
         ",\n \"params\": [" + params + "],\n \"results\": [" + results +
         "],\n \"facts\": " + FactsJson(facts) +
         ",\n \"forms\": " + Array(contract.forms, FormJson) + "}";
}

}  // namespace anyop
