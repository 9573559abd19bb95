// SPDX-License-Identifier: Apache-2.0
#include "signature/defaults.h"

#include "signature/fitted.h"

namespace anyop {

bool DefaultValue(const Contract& contract, int i, anyop_value* value) {
  const Param& p = contract.forms[0].params[std::size_t(i)];
  *value = {};
  if (!p.has_default) return false;
  if (p.default_is_none) return true;
  switch (p.kind) {
    case ParamKind::kFloat:
      *value = FloatValue(p.default_float);
      break;
    case ParamKind::kWord: {
      const std::string_view word = p.words[std::size_t(p.default_int)];
      *value = WordValue(word, contract.word(i, word));
      break;
    }
    case ParamKind::kInts:
      *value = IntsValue(p.default_ints.data(), p.default_ints.size());
      break;
    case ParamKind::kFloats:
      *value = FloatsValue(p.default_floats.data(), p.default_floats.size());
      break;
    default:  // bool, int, dtype
      *value = WholeValue(TagOf(p.kind), p.default_int);
  }
  return true;
}

}  // namespace anyop
