// SPDX-License-Identifier: Apache-2.0
#include "graph/ir/frame.h"

#include <bit>

#include "runtime/registry/operator.h"
#include "signature/fitted.h"

namespace anyop {
namespace {

// The value as the parameter takes it. A symbol, of a graph whose sizes are not known, keeps its
// bits, also as a float: converted, it would be a number.
anyop_value ValueFor(ParamKind kind, anyop_value v, bool has_symbols) {
  const bool is_symbol = has_symbols && v.tag == ANYOP_INT && IsSymbol(v.i);
  if (is_symbol && kind == ParamKind::kFloat) return FloatValue(std::bit_cast<double>(v.i));
  return Fitted(kind, v);
}

class FrameFiller {
 public:
  FrameFiller(const FrameSource& source, const Operator& op, const DLTensor** lists)
      : source_(source), op_(op), lists_(lists) {}

  anyop_value ValueOf(const GraphArgument& a, int place) {
    if (a.kind == GraphArgument::kValue) {
      const std::size_t i = std::size_t(a.values[0]);
      return source_.tensors[i] ? TensorValue(source_.tensors[i]) : source_.scalars[i];
    }
    if (a.kind == GraphArgument::kValues) {
      const DLTensor** const list = lists_;
      for (const int i : a.values) *lists_++ = source_.tensors[std::size_t(i)];
      return TensorsValue(list, a.values.size());
    }
    if (a.kind == GraphArgument::kSize) {
      return IntValue(source_.numbers ? source_.numbers->Bits(a.size) : a.size.At(source_.symbols));
    }
    if (a.kind == GraphArgument::kWord) return WordValue(a.word, op_.contract->word(place, a.word));
    return LiteralOf(a);
  }

 private:
  const FrameSource& source_;
  const Operator& op_;
  const DLTensor** lists_;
};

}  // namespace

anyop_value LiteralOf(const GraphArgument& a) {
  switch (a.kind) {
    case GraphArgument::kBool:
      return WholeValue(ANYOP_BOOL, a.i);
    case GraphArgument::kInt:
      return IntValue(a.i);
    case GraphArgument::kDType:
      return DTypeValue(DType(a.i));
    case GraphArgument::kFloat:
      return FloatValue(a.f);
    case GraphArgument::kWord:
      return WordValue(a.word, 0);
    case GraphArgument::kInts:
      return IntsValue(a.ints.data(), a.ints.size());
    case GraphArgument::kFloats:
      return FloatsValue(a.floats.data(), a.floats.size());
    default:
      return {};
  }
}

void FillFrame(const FrameSource& source, const GraphNode& node, anyop_value* frame,
               const DLTensor** lists) {
  const Operator& op = *node.op;
  FrameFiller filler(source, op, lists);
  for (int i = 0; i < op.n_params; ++i) {
    const ParamKind kind = op.contract->forms[0].params[std::size_t(i)].kind;
    frame[i] = ValueFor(kind, filler.ValueOf(node.arguments[std::size_t(i)], i),
                        source.numbers != nullptr);
  }
  for (int r = 0; r < op.n_results; ++r) {
    frame[op.n_params + r] = {};
    if (!IsInto(node, r)) continue;
    const int value = node.results[std::size_t(r)];
    frame[op.n_params + r] = TensorValue(source.tensors[std::size_t(value)]);
  }
}

std::size_t ListElements(const GraphNode& node) {
  std::size_t n = 0;
  for (const GraphArgument& a : node.arguments) {
    if (a.kind == GraphArgument::kValues) n += a.values.size();
  }
  return n;
}

std::uint64_t ScalarParams(const Graph& graph, const GraphNode& node) {
  std::uint64_t params = 0;
  for (std::size_t i = 0; i < node.arguments.size(); ++i) {
    const GraphArgument& a = node.arguments[i];
    if (a.kind != GraphArgument::kValue) continue;
    params |= std::uint64_t(graph.value(a.values[0]).kind == GraphValue::kScalar) << i;
  }
  return params;
}

}  // namespace anyop
