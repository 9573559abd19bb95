// SPDX-License-Identifier: Apache-2.0
#include "signature/schema.h"

namespace anyop {
namespace {

// Names that torch's own schema parser reads as defaults of a ScalarType.
constexpr const char* kTorchDTypes[kDTypes] = {
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2",
    "int64",   "int32",   "int16",   "int8",     "uint8",         "bool"};

class Writer {
 public:
  Writer(const Contract& c, SchemaKind kind) : contract_(c), kind_(kind) {}

  std::string Write() {
    const Form& form = contract_.forms[0];
    if (kind_ == SchemaKind::kOut && form.results.empty()) return "";
    if (kind_ == SchemaKind::kInPlace && !MayBeInPlace()) return "";
    std::string args;
    for (int i = 0; i < contract_.n_params(); ++i) args += (i ? ", " : "") + Parameter(i);
    std::string returns;
    if (kind_ == SchemaKind::kOut) args += args.empty() ? "*" : ", *";
    for (const Result& r : form.results) {
      std::string type = "Tensor";
      if (kind_ == SchemaKind::kOut) {
        type += Alias();
        args += ", " + type + " " + std::string(r.name);
      } else if (kind_ == SchemaKind::kInPlace) {
        type += "(a!)";
      }
      returns += (returns.empty() ? "" : ", ") + type;
      if (kind_ == SchemaKind::kFunctional && form.results.size() > 1) {
        returns += " " + std::string(r.name);
      }
    }
    if (form.results.size() != 1) returns = "(" + returns + ")";
    const char* suffix[] = {"", ".out", "_"};
    return contract_.name + suffix[int(kind_)] + "(" + args + ") -> " + returns;
  }

 private:
  bool MayBeInPlace() const {
    if (contract_.n_results() != 1 || contract_.n_params() == 0) return false;
    for (const Form& form : contract_.forms) {
      if (!(form.results[0].over & 1)) return false;
      for (const Param& p : form.params) {
        if (p.is_mut) return false;
      }
    }
    return true;
  }
  std::string Alias() { return std::string("(") + letter_++ + "!)"; }

  // Every form agrees on a literal length, or the schema leaves it open.
  std::string ListLength(int i) const {
    std::string length;
    for (const Form& form : contract_.forms) {
      const Param& p = form.params[std::size_t(i)];
      if (p.size < 0 || form.node(p.size).op != NodeOp::kInt) return "[]";
      const std::string one = "[" + std::to_string(form.node(p.size).i) + "]";
      if (!length.empty() && one != length) return "[]";
      length = one;
    }
    return length;
  }
  std::string TypeOf(int i) {
    const Param& p = contract_.forms[0].params[std::size_t(i)];
    const bool mut = p.is_mut || (kind_ == SchemaKind::kInPlace && i == 0);
    switch (p.kind) {
      case ParamKind::kTensor:
        return mut ? "Tensor" + Alias() : "Tensor";
      case ParamKind::kTensors:
        return (mut ? "Tensor" + Alias() : "Tensor") + "[]";
      case ParamKind::kInt:
        return "SymInt";
      case ParamKind::kFloat:
        return "float";
      case ParamKind::kBool:
        return "bool";
      case ParamKind::kWord:
        return "str";
      case ParamKind::kDType:
        return "ScalarType";
      case ParamKind::kInts:
        return "SymInt" + ListLength(i);
      default:
        return "float" + ListLength(i);
    }
  }
  static std::string DefaultOf(const Param& p) {
    if (p.default_is_none) return "None";
    if (p.kind == ParamKind::kWord)
      return "\"" + std::string(p.words[std::size_t(p.default_int)]) + "\"";
    if (p.kind == ParamKind::kDType) return kTorchDTypes[p.default_int];
    return std::string(p.default_text);
  }
  std::string Parameter(int i) {
    const Param& p = contract_.forms[0].params[std::size_t(i)];
    return TypeOf(i) + (p.is_optional ? "? " : " ") + std::string(p.name) +
           (p.has_default ? "=" + DefaultOf(p) : "");
  }

  const Contract& contract_;
  const SchemaKind kind_;
  char letter_ = 'a';
};

}  // namespace

std::string TorchSchema(const Contract& contract, SchemaKind kind) {
  return Writer(contract, kind).Write();
}

}  // namespace anyop
