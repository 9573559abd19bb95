// SPDX-License-Identifier: Apache-2.0
#include "graph/ir/argument.h"

namespace anyop {
namespace {

GraphArgument Of(GraphArgument::Kind kind, std::int64_t i = 0) {
  GraphArgument a;
  a.kind = kind;
  a.i = i;
  return a;
}

}  // namespace

GraphArgument LiteralArgument(const anyop_value& v) {
  switch (v.tag) {
    case ANYOP_BOOL:
      return BoolArgument(v.i);
    case ANYOP_INT:
      return IntArgument(v.i);
    case ANYOP_FLOAT:
      return FloatArgument(v.f);
    case ANYOP_WORD:
      return WordArgument({v.s, v.count});
    case ANYOP_DTYPE:
      return DTypeArgument(DType(v.i));
    case ANYOP_INTS:
      return IntsArgument({v.is, v.is + v.count});
    case ANYOP_FLOATS:
      return FloatsArgument({v.fs, v.fs + v.count});
    default:
      return {};
  }
}

GraphArgument ValueArgument(int value) { return ValuesArgument({value}, GraphArgument::kValue); }
GraphArgument ValuesArgument(std::vector<int> values, GraphArgument::Kind kind) {
  GraphArgument a = Of(kind);
  a.values = std::move(values);
  return a;
}
GraphArgument BoolArgument(bool b) { return Of(GraphArgument::kBool, b); }
GraphArgument IntArgument(std::int64_t i) { return Of(GraphArgument::kInt, i); }
GraphArgument FloatArgument(double f) {
  GraphArgument a = Of(GraphArgument::kFloat);
  a.f = f;
  return a;
}
GraphArgument WordArgument(std::string_view word) {
  GraphArgument a = Of(GraphArgument::kWord);
  a.word = word;
  return a;
}
GraphArgument DTypeArgument(DType dtype) { return Of(GraphArgument::kDType, int(dtype)); }
GraphArgument IntsArgument(std::vector<std::int64_t> ints) {
  GraphArgument a = Of(GraphArgument::kInts);
  a.ints = std::move(ints);
  return a;
}
GraphArgument FloatsArgument(std::vector<double> floats) {
  GraphArgument a = Of(GraphArgument::kFloats);
  a.floats = std::move(floats);
  return a;
}
GraphArgument SizeArgument(Size size) {
  if (size.is_constant()) return IntArgument(size.constant());
  GraphArgument a = Of(GraphArgument::kSize);
  a.size = std::move(size);
  return a;
}

}  // namespace anyop
