// SPDX-License-Identifier: Apache-2.0
#include "torch_schema.h"

#include "signature/facts.h"

namespace anyop::python {
namespace {

class Writer {
 public:
  Writer(const Contract& c, SchemaKind kind) : contract_(c), facts_(FactsOf(c)), kind_(kind) {}

  std::string Write() {
    const Form& form = contract_.forms[0];
    if (kind_ == SchemaKind::kOut && !facts_.has_out) return "";
    if (kind_ == SchemaKind::kInPlace && !facts_.has_in_place) return "";
    std::string args;
    for (int i = 0; i < contract_.n_params(); ++i) Add(args, Parameter(i));
    if (kind_ != SchemaKind::kInPlace && facts_.takes_mask) {
      Add(args, "bool[" + std::to_string(contract_.n_results()) + "]? output_mask=None");
    }
    if (kind_ == SchemaKind::kOut) {
      Add(args, "*");
      for (const Result& r : form.results) {
        const std::string suffix = form.results.size() == 1 ? "" : "_" + std::string(r.name);
        Add(args, "Tensor" + Alias() + " out" + suffix);
      }
    }
    const char* suffix[] = {"", ".out", "_"};
    return contract_.name + suffix[int(kind_)] + "(" + args + ") -> " + Returns();
  }

 private:
  static void Add(std::string& list, const std::string& item) {
    list += (list.empty() ? "" : ", ") + item;
  }
  // torch.compile refuses results that alias arguments, except the only result of an operator that
  // writes nothing else.
  std::string Returns() const {
    const std::vector<Result>& results = contract_.forms[0].results;
    if (kind_ != SchemaKind::kFunctional) return facts_.has_lone_result ? "Tensor(a!)" : "()";
    if (results.size() == 1) return "Tensor";
    std::string list;
    for (const Result& r : results) Add(list, "Tensor " + std::string(r.name));
    return "(" + list + ")";
  }
  std::string Alias() { return std::string("(") + letter_++ + "!)"; }

  // "[2]" where every form has that literal length, else "[]", an open one: the schema is the union
  // of the forms.
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
  // Schemas of torch know no infinity: there a parameter that is one by default must be given, and
  // with it those before it.
  static std::size_t FirstDefault(const Form& form) {
    std::size_t first = FirstWithDefaults(form);
    for (std::size_t i = first; i < form.params.size(); ++i) {
      if (form.params[i].default_text.find("inf") != std::string_view::npos &&
          form.params[i].kind != ParamKind::kWord) {
        first = i + 1;
      }
    }
    return first;
  }
  static std::string DefaultOf(const Param& p) {
    if (p.default_is_none) return "None";
    if (p.kind == ParamKind::kWord)
      return "\"" + std::string(p.words[std::size_t(p.default_int)]) + "\"";
    if (p.kind == ParamKind::kDType)
      return kDTypeRows[p.default_int].long_name;  // torch reads these as a ScalarType
    return std::string(p.default_text);
  }
  std::string Parameter(int i) {
    const Param& p = contract_.forms[0].params[std::size_t(i)];
    return TypeOf(i) + (p.is_optional ? "? " : " ") + std::string(p.name) +
           (std::size_t(i) >= first_default_ ? "=" + DefaultOf(p) : "");
  }

  const Contract& contract_;
  const Facts facts_;
  const SchemaKind kind_;
  const std::size_t first_default_ = FirstDefault(contract_.forms[0]);
  char letter_ = 'a';
};

}  // namespace

std::string TorchSchema(const Contract& contract, SchemaKind kind) {
  return Writer(contract, kind).Write();
}

}  // namespace anyop::python
