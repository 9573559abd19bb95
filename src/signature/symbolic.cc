// SPDX-License-Identifier: Apache-2.0
#include "signature/symbolic.h"

#include <cmath>
#include <cstdio>

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

template <class List, class F>
std::string Array(const List& list, F&& item) {
  std::string out = "[";
  for (const auto& x : list) out += (out.size() > 1 ? ", " : "") + item(x);
  return out + "]";
}

std::string DTypeNames(std::uint32_t mask) {
  std::string out;
  for (int d = 0; d < kDTypes; ++d) {
    if (mask >> d & 1) out += (out.empty() ? "" : ", ") + Quoted(Name(DType(d)));
  }
  return "[" + out + "]";
}

std::string DTypesJson(const DTypes& d) {
  if (d.kind == DTypes::kSet) return "{\"set\": " + DTypeNames(d.mask) + "}";
  return (d.kind == DTypes::kVariable ? "{\"var\": " : "{\"param\": ") + Quoted(d.name) + "}";
}

std::string ExpressionJson(const Form& form, int node) { return Quoted(Show(form, node)); }

std::string TensorJson(const Form& form, const TensorType& t) {
  return "\"dtypes\": " + DTypesJson(t.dtypes) + ", \"dots\": " + (t.has_dots ? "true" : "false") +
         ", \"dims\": " + Array(t.dims, [&](int d) { return ExpressionJson(form, d); }) +
         ", \"text\": " + Quoted(OneLine(t.text));
}

// JSON has no infinity: a number beyond all doubles is read as one.
std::string JsonFloat(double v) {
  return std::isinf(v) ? (v < 0 ? "-1e999" : "1e999") : ExactFloat(v);
}

std::string DefaultJson(const Param& p) {
  if (p.default_is_none) return "null";
  switch (p.kind) {
    case ParamKind::kInt:
      return std::to_string(p.default_int);
    case ParamKind::kFloat:
      return JsonFloat(p.default_float);
    case ParamKind::kBool:
      return p.default_int ? "true" : "false";
    case ParamKind::kWord:
      return Quoted(p.words[std::size_t(p.default_int)]);
    case ParamKind::kDType:
      return Quoted(Name(DType(p.default_int)));
    case ParamKind::kInts:
      return Array(p.default_ints, [](std::int64_t v) { return std::to_string(v); });
    default:
      return Array(p.default_floats, JsonFloat);
  }
}

std::string ParamJson(const Contract& c, std::size_t i) {
  constexpr const char* kKinds[] = {"tensor", "tensors", "int",  "float", "bool",
                                    "word",   "dtype",   "ints", "floats"};
  const Param& p = c.forms[0].params[i];
  std::string out = "{\"name\": " + Quoted(p.name) + ", \"kind\": \"" + kKinds[int(p.kind)] + "\"";
  if (p.is_optional) out += ", \"optional\": true";
  if (p.is_mut) out += ", \"mut\": true";
  if (p.is_planned) out += ", \"planned\": true";
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
         ", \"by_keyword\": " + group(facts.by_keyword) +
         ", \"dtype_groups\": " + Array(facts.dtype_groups, group) + "}";
}

// What a form says about a parameter; {} where it says nothing.
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
  const auto measure = [](const Measure& m) {
    return "[" + Quoted(m.name) + ", " + std::to_string(m.tensor) + "]";
  };
  const auto condition = [](const Condition& c) { return Quoted(OneLine(c.text)); };
  return "{\"params\": " + Array(form.params, param) +
         ",\n   \"results\": " + Array(form.results, result) +
         ",\n   \"conditions\": " + Array(form.conditions, condition) +
         ",\n   \"measures\": " + Array(MeasuresOf(form), measure) + "}";
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
