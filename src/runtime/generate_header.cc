// SPDX-License-Identifier: Apache-2.0
// A header with one typed function per operator, made of the signatures.
#include <cmath>
#include <string>

#include "anyop/runtime.h"
#include "runtime/run/call.h"
#include "signature/expression.h"

namespace anyop {
namespace {

// The name of an operator or parameter in C++. Signatures may use what C++ reserves.
std::string SafeName(std::string_view name) {
  for (std::string_view word : {"and", "or", "not", "xor", "default", "switch", "case", "auto",
                                "new", "delete", "this", "operator", "template", "register"}) {
    if (name == word) return std::string(name) + "_";
  }
  return std::string(name);
}

std::string TypeOf(const Param& p) {
  const char* types[] = {"const Array&",
                         "std::span<const Array>",
                         "std::int64_t",
                         "double",
                         "bool",
                         "std::string_view",
                         "DType",
                         "const std::vector<std::int64_t>&",
                         "const std::vector<double>&"};
  const std::string type = types[int(p.kind)];
  // An Array that is none is an absent tensor: it needs no std::optional.
  if (!p.is_optional || p.kind == ParamKind::kTensor) return type;
  if (p.kind == ParamKind::kInts) return "std::optional<std::vector<std::int64_t>>";
  if (p.kind == ParamKind::kFloats) return "std::optional<std::vector<double>>";
  return "std::optional<" + type + ">";
}

std::string FloatText(double v) {
  if (!std::isinf(v)) return ExactFloat(v);
  return std::string(v < 0 ? "-" : "") + "std::numeric_limits<double>::infinity()";
}

std::string ListText(const Param& p) {
  std::string text =
      p.kind == ParamKind::kInts ? "std::vector<std::int64_t>{" : "std::vector<double>{";
  for (std::int64_t i : p.default_ints) text += std::to_string(i) + ",";
  for (double f : p.default_floats) text += FloatText(f) + ",";
  return text + "}";
}

std::string DefaultOf(const Param& p) {
  if (!p.has_default) return "";
  if (p.default_is_none) return p.kind == ParamKind::kTensor ? " = Array()" : " = std::nullopt";
  switch (p.kind) {
    case ParamKind::kFloat:
      return " = " + FloatText(p.default_float);
    case ParamKind::kBool:
      return p.default_int ? " = true" : " = false";
    case ParamKind::kWord:
      return " = \"" + std::string(p.words[std::size_t(p.default_int)]) + "\"";
    case ParamKind::kDType:
      return " = DType(" + std::to_string(p.default_int) + ")";
    case ParamKind::kInts:
    case ParamKind::kFloats:
      return " = " + ListText(p);
    default:
      return " = " + std::to_string(p.default_int);
  }
}

std::string Parameters(const Form& form, bool with_defaults) {
  const std::size_t first = with_defaults ? FirstWithDefaults(form) : form.params.size();
  std::string text;
  for (std::size_t i = 0; i < form.params.size(); ++i) {
    const Param& p = form.params[i];
    text += (i ? ", " : "") + TypeOf(p) + " " + SafeName(p.name);
    if (i >= first) text += DefaultOf(p);
  }
  return text;
}

std::string Function(const Operator& op) {
  const Form& form = op.contract->forms[0];
  const std::size_t n = form.results.size();
  const char* type = n == 0 ? "void" : n == 1 ? "Array" : "std::vector<Array>";
  std::string text;
  std::string signature = op.contract->text;
  for (std::size_t begin = 0; begin < signature.size();) {
    const std::size_t end = std::min(signature.find('\n', begin), signature.size());
    text += "// " + signature.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  text += "inline " + std::string(type) + " " + SafeName(form.name) + "(" +
          Parameters(form, /*with_defaults=*/true) + ") {\n";
  text += "  static Operator* const op = Find(\"" + op.name + "\");\n  ";
  text += n == 0 ? "Call(op" : "return Call(op";
  for (const Param& p : form.params) text += ", " + SafeName(p.name);
  return text + (n == 0 ? ").run();\n}\n" : n == 1 ? ");\n}\n" : ").run();\n}\n");
}

}  // namespace

std::string GenerateHeader() {
  std::string text =
      "// Generated from the signatures of the loaded operators.\n"
      "#pragma once\n#include <limits>\n\n#include \"anyop/runtime.h\"\n\n";
  for (const Operator* op : Operators()) {
    text += "namespace anyop::" + op->library + "_ops {\n" + Function(*op) +
            "}  // namespace anyop::" + op->library + "_ops\n\n";
  }
  return text;
}

}  // namespace anyop
