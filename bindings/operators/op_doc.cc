// SPDX-License-Identifier: Apache-2.0
// The texts of an operator for help() and inspect.signature, all from signature and doc comment.
#include "op_object.h"

namespace anyop::python {
namespace {

std::string ShowDefault(const Param& param) {
  if (!param.has_default || param.default_is_none) return "None";
  switch (param.kind) {
    case ParamKind::kBool:
      return param.default_int ? "True" : "False";
    case ParamKind::kInt:
      return std::to_string(param.default_int);
    case ParamKind::kWord:
      return "'" + std::string(param.words[std::size_t(param.default_int)]) + "'";
    case ParamKind::kDType:
      return "'" + std::string(Name(DType(param.default_int))) + "'";
    default:
      break;
  }
  std::string text(param.default_text);  // of numbers; Python's inspect takes literals only
  for (std::size_t at; (at = text.find("inf")) != text.npos;) text.replace(at, 3, "1e999");
  return text;
}

bool IsPythonKeyword(PyObject* name) {
  const Ref keyword = Checked(PyImport_ImportModule("keyword"));
  const Ref answer = Checked(PyObject_CallMethod(keyword.get(), "iskeyword", "O", name));
  return answer.get() == Py_True;
}

}  // namespace

std::string TextSignature(const OperatorInfo& info) {
  const Form& form = info.op->contract->forms[0];
  std::string text = "(";
  for (std::size_t i = 0; i < info.params.size(); ++i) {
    if (IsPythonKeyword(info.params[i].name)) return "";
    text += std::string(form.params[i].name);
    if (i >= FirstWithDefaults(form)) text += "=" + ShowDefault(form.params[i]);
    text += ", ";
  }
  text += "*, ";
  if (info.n_results) text += "out=None, ";
  text += "policy=None";
  if (info.takes_like) text += ", like=None";
  return text + ")";
}

std::string DocText(const Operator& op) {
  std::string summary = op.doc.substr(0, op.doc.find('\n'));
  std::string rest = op.doc.size() > summary.size() ? op.doc.substr(summary.size() + 1) : "";
  const std::string prefix = op.contract->name + ": ";
  if (summary.starts_with(prefix)) {
    summary = summary.substr(prefix.size());
    if (summary[0] >= 'a' && summary[0] <= 'z') summary[0] = char(summary[0] - 'a' + 'A');
  }
  std::string text = summary.empty() ? op.name + "." : summary;
  text += "\n\n";
  for (const Form& form : op.contract->forms) text += "    " + std::string(form.text) + "\n";
  if (!rest.empty()) text += rest.starts_with('\n') ? rest : "\n" + rest;
  return text;
}

}  // namespace anyop::python
