// SPDX-License-Identifier: Apache-2.0
#include "signature/defaults.h"

namespace anyop {

bool DefaultValue(const Contract& contract, int i, anyop_value* value) {
  const Param& p = contract.forms[0].params[std::size_t(i)];
  *value = {};
  if (!p.has_default) return false;
  if (p.default_is_none) return true;
  switch (p.kind) {
    case ParamKind::kFloat:
      value->tag = ANYOP_FLOAT;
      value->f = p.default_float;
      break;
    case ParamKind::kWord: {
      const std::string_view word = p.words[std::size_t(p.default_int)];
      value->tag = ANYOP_WORD;
      value->s = word.data();
      value->count = std::uint32_t(word.size());
      value->index = std::uint16_t(contract.word(i, word));
      break;
    }
    case ParamKind::kInts:
      value->tag = ANYOP_INTS;
      value->is = p.default_ints.data();
      value->count = std::uint32_t(p.default_ints.size());
      break;
    case ParamKind::kFloats:
      value->tag = ANYOP_FLOATS;
      value->fs = p.default_floats.data();
      value->count = std::uint32_t(p.default_floats.size());
      break;
    default:  // bool, int, dtype
      value->tag = p.kind == ParamKind::kBool    ? ANYOP_BOOL
                   : p.kind == ParamKind::kDType ? ANYOP_DTYPE
                                                 : ANYOP_INT;
      value->i = p.default_int;
  }
  return true;
}

}  // namespace anyop
