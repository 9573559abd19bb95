// SPDX-License-Identifier: Apache-2.0
#include "graph/ir/frame.h"

#include <bit>

#include "runtime/operator.h"

namespace anyop {
namespace {

anyop_value TensorValue(const DLTensor* t) {
  anyop_value v{};
  v.tag = ANYOP_TENSOR;
  v.t = t;
  return v;
}

// A whole number for a float parameter, a bool for a whole one: as the parameter wants it.
anyop_value Fitted(ParamKind kind, anyop_value v, bool has_symbols) {
  if (kind == ParamKind::kFloat && v.tag == ANYOP_INT) {
    v.f = has_symbols && IsSymbol(v.i) ? std::bit_cast<double>(v.i) : double(v.i);
    v.tag = ANYOP_FLOAT;
  }
  return v;
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
    anyop_value v = LiteralOf(a);
    if (a.kind == GraphArgument::kValues) {
      v.tag = ANYOP_TENSORS;
      v.count = std::uint32_t(a.values.size());
      v.ts = lists_;
      for (const int i : a.values) *lists_++ = source_.tensors[std::size_t(i)];
    } else if (a.kind == GraphArgument::kSize) {
      v.tag = ANYOP_INT;
      v.i = source_.numbers ? source_.numbers->Bits(a.size) : a.size.At(source_.symbols);
    } else if (a.kind == GraphArgument::kWord) {
      v.index = std::uint16_t(op_.contract->word(place, a.word));
    }
    return v;
  }

 private:
  const FrameSource& source_;
  const Operator& op_;
  const DLTensor** lists_;
};

}  // namespace

anyop_value LiteralOf(const GraphArgument& a) {
  anyop_value v{};
  switch (a.kind) {
    case GraphArgument::kBool:
      v.tag = ANYOP_BOOL;
      v.i = a.i;
      break;
    case GraphArgument::kInt:
      v.tag = ANYOP_INT;
      v.i = a.i;
      break;
    case GraphArgument::kDType:
      v.tag = ANYOP_DTYPE;
      v.i = a.i;
      break;
    case GraphArgument::kFloat:
      v.tag = ANYOP_FLOAT;
      v.f = a.f;
      break;
    case GraphArgument::kWord:
      v.tag = ANYOP_WORD;
      v.count = std::uint32_t(a.word.size());
      v.s = a.word.c_str();
      break;
    case GraphArgument::kInts:
      v.tag = ANYOP_INTS;
      v.count = std::uint32_t(a.ints.size());
      v.is = a.ints.data();
      break;
    case GraphArgument::kFloats:
      v.tag = ANYOP_FLOATS;
      v.count = std::uint32_t(a.floats.size());
      v.fs = a.floats.data();
      break;
    default:
      break;
  }
  return v;
}

void FillFrame(const FrameSource& source, const GraphNode& node, anyop_value* frame,
               const DLTensor** lists) {
  const Operator& op = *node.op;
  FrameFiller filler(source, op, lists);
  for (int i = 0; i < op.n_params; ++i) {
    const ParamKind kind = op.contract->forms[0].params[std::size_t(i)].kind;
    frame[i] =
        Fitted(kind, filler.ValueOf(node.arguments[std::size_t(i)], i), source.numbers != nullptr);
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
