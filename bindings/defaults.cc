// SPDX-License-Identifier: Apache-2.0
#include "defaults.h"

namespace anyop::python {
namespace {

void SetWord(const Contract& contract, int param, const Param& p, anyop_value* value) {
  const std::string_view word = p.words[std::size_t(p.default_int)];
  const int number = contract.word(param, word);
  const std::string& text = contract.words[std::size_t(param)][std::size_t(number)];
  value->tag = ANYOP_WORD;
  value->index = std::uint16_t(number);
  value->count = std::uint32_t(text.size());
  value->s = text.c_str();
}

}  // namespace

bool DefaultValue(const Contract& contract, int param, anyop_value* value) {
  const std::vector<Param>& params = contract.forms[0].params;
  const Param& p = params[std::size_t(param)];
  *value = {};
  if (!p.has_default) {
    for (std::size_t i = std::size_t(param); i < params.size(); ++i) {
      if (!params[i].has_default && !params[i].is_optional) return false;
    }
    return true;
  }
  if (p.default_is_none) return true;
  constexpr std::uint16_t kTags[] = {ANYOP_TENSOR, ANYOP_TENSORS, ANYOP_INT,
                                     ANYOP_FLOAT,  ANYOP_BOOL,    ANYOP_WORD,
                                     ANYOP_DTYPE,  ANYOP_INTS,    ANYOP_FLOATS};
  value->tag = kTags[int(p.kind)];
  switch (p.kind) {
    case ParamKind::kFloat:
      value->f = p.default_float;
      break;
    case ParamKind::kWord:
      SetWord(contract, param, p, value);
      break;
    case ParamKind::kInts:
      value->count = std::uint32_t(p.default_ints.size());
      value->is = p.default_ints.data();
      break;
    case ParamKind::kFloats:
      value->count = std::uint32_t(p.default_floats.size());
      value->fs = p.default_floats.data();
      break;
    default:
      value->i = p.default_int;
      break;
  }
  return true;
}

}  // namespace anyop::python
