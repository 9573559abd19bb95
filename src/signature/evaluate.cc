// SPDX-License-Identifier: Apache-2.0
// The value of an expression, three-valued: what nothing gives is unknown, and 0 * unknown is 0.
#include "signature/binding.h"
#include "signature/expression.h"

namespace anyop {
namespace {

Number Int(std::int64_t v) { return {true, false, v, double(v), Fault::kNone}; }
Number Float(double v) { return {true, true, 0, v, Fault::kNone}; }
Number Unknown(Fault fault = Fault::kNone) { return {false, false, 0, 0, fault}; }

// A value of INT64_MIN needs 64 bits: refused, so that negation and division cannot overflow.
Number Checked(bool overflow, std::int64_t v) {
  return overflow || v == INT64_MIN ? Unknown(Fault::kOverflow) : Int(v);
}

bool IsZero(const Number& n) { return n.known && !n.is_float && n.i == 0; }

Number Multiply(const Number& x, const Number& y) {
  if (x.fault != Fault::kNone) return x;
  if (y.fault != Fault::kNone) return y;
  if (IsZero(x) || IsZero(y)) return Int(0);
  if (!x.known || !y.known) return Unknown();
  if (x.is_float || y.is_float) return Float(x.f * y.f);
  std::int64_t v = 0;
  const bool overflow = __builtin_mul_overflow(x.i, y.i, &v);
  return Checked(overflow, v);
}

// Floors, as Python does. No fault but the division by zero: INT64_MIN never occurs (Checked).
std::int64_t FloorDiv(std::int64_t a, std::int64_t b) {
  const std::int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

Number Divide(NodeOp op, const Number& x, const Number& y) {
  if (y.known && y.f == 0) return Unknown(Fault::kDivisionByZero);
  if (!x.known || !y.known) return IsZero(x) ? Int(0) : Unknown();
  if (x.is_float || y.is_float) return Float(x.f / y.f);
  if (op == NodeOp::kMod) return Int(x.i - FloorDiv(x.i, y.i) * y.i);
  return Int(op == NodeOp::kCeilDiv ? -FloorDiv(-x.i, y.i) : FloorDiv(x.i, y.i));
}

Number Arithmetic(NodeOp op, const Number& x, const Number& y) {
  if (op == NodeOp::kMul) return Multiply(x, y);
  if (x.fault != Fault::kNone) return x;
  if (y.fault != Fault::kNone) return y;
  if (op == NodeOp::kDiv || op == NodeOp::kMod || op == NodeOp::kCeilDiv) return Divide(op, x, y);
  if (!x.known || !y.known) return Unknown();
  const bool is_float = x.is_float || y.is_float;
  std::int64_t v = 0;
  bool overflow = false;
  switch (op) {
    case NodeOp::kAdd:
      if (is_float) return Float(x.f + y.f);
      overflow = __builtin_add_overflow(x.i, y.i, &v);
      return Checked(overflow, v);
    case NodeOp::kSub:
      if (is_float) return Float(x.f - y.f);
      overflow = __builtin_sub_overflow(x.i, y.i, &v);
      return Checked(overflow, v);
    case NodeOp::kMin:
      return is_float ? Float(x.f < y.f ? x.f : y.f) : Int(x.i < y.i ? x.i : y.i);
    default:
      return is_float ? Float(x.f > y.f ? x.f : y.f) : Int(x.i > y.i ? x.i : y.i);
  }
}

Number Compare(NodeOp op, const Number& x, const Number& y) {
  if (x.fault != Fault::kNone) return x;
  if (y.fault != Fault::kNone) return y;
  if (!x.known || !y.known) return Unknown();
  return Int(x.is_float || y.is_float ? Holds(op, x.f, y.f) : Holds(op, x.i, y.i));
}

struct Evaluator {
  const Form& form;
  const Bindings& bindings;
  const anyop_value* frame;
  int threads;

  bool Unset(std::int64_t p) const {
    return frame[p].tag == ANYOP_NONE || (bindings.unknown_params >> p & 1);
  }
  Number Param(const Node& n) const {
    if (Unset(n.i)) return Unknown();
    const anyop_value& v = frame[n.i];
    if (v.tag == ANYOP_FLOAT) return Float(v.f);
    return v.tag == ANYOP_WORD ? Int(v.index) : Checked(false, v.i);
  }
  Number ListElement(int p, std::int64_t i) const {
    const anyop_value& v = frame[p];
    if (Unset(p) || i >= v.count) return Unknown();
    return v.tag == ANYOP_FLOATS ? Float(v.fs[i]) : Checked(false, v.is[i]);
  }
  Number Sum(int p) const {
    Number sum = Unset(p) ? Unknown() : Int(0);
    for (std::int64_t i = 0; sum.known && i < frame[p].count; ++i) {
      sum = Arithmetic(NodeOp::kAdd, sum, ListElement(p, i));
    }
    return sum;
  }
  // Elements of a shape; all but the last dimension for rows.
  static Number Count(const DLTensor& t, bool rows) {
    if (t.ndim < 0) return Unknown();
    Number n = Int(1);
    for (int i = 0; i < t.ndim - rows; ++i) {
      n = Multiply(n, t.shape[i] < 0 ? Unknown() : Int(t.shape[i]));
    }
    return n;
  }
  Number Measure(const DLTensor& t, NodeOp op) const {
    if (op == NodeOp::kRank) return t.ndim < 0 ? Unknown() : Int(t.ndim);
    const Number n = Count(t, op == NodeOp::kRows);
    if (op != NodeOp::kBytes) return n;
    const int d = FromDL(t.dtype);
    return d < 0 ? Unknown() : Multiply(n, Int(Bytes(DType(d))));
  }
  Number DTypeOf(const DTypes& d) const {
    if (d.kind == DTypes::kSet) return Int(__builtin_ctz(d.mask));
    if (d.kind == DTypes::kParameter) return Unset(d.index) ? Unknown() : Int(frame[d.index].i);
    return bindings.dtype_bound >> d.index & 1 ? Int(bindings.dtype[d.index]) : Unknown();
  }
  Number BytesOf(const Number& dtype) const {
    return dtype.known ? Int(Bytes(DType(dtype.i))) : Unknown();
  }
  // A result is not allocated yet: what it measures comes from its type.
  Number MeasureResult(const TensorType& t, NodeOp op) const {
    if (t.has_dots && bindings.n_lead < 0) return Unknown();
    const int lead = t.has_dots ? bindings.n_lead : 0, rank = lead + int(t.dims.size());
    if (op == NodeOp::kRank) return Int(rank);
    Number n = Int(1);
    for (int i = 0; i < rank - (op == NodeOp::kRows); ++i) {
      const Number size = i >= lead              ? At(t.dims[std::size_t(i - lead)])
                          : bindings.lead[i] < 0 ? Unknown()
                                                 : Int(bindings.lead[i]);
      n = Multiply(n, size);
    }
    return op == NodeOp::kBytes ? Multiply(n, BytesOf(DTypeOf(t.dtypes))) : n;
  }
  Number Tensor(const Node& n) const {
    const int n_params = int(form.params.size());
    if (n.a >= n_params) {
      return MeasureResult(form.results[std::size_t(n.a - n_params)].tensor, n.op);
    }
    if (Unset(n.a)) return Unknown();
    const anyop_value& v = frame[n.a];
    if (v.tag == ANYOP_TENSOR) return Measure(*v.t, n.op);
    Number sum = Int(0);
    for (std::uint32_t i = 0; i < v.count; ++i) {
      sum = Arithmetic(NodeOp::kAdd, sum, Measure(*v.ts[i], n.op));
    }
    return sum;
  }
  // A list stands for each of its elements: false if one is, else unknown if one is.
  Number CompareList(const Node& n) const {
    const bool left = form.node(n.a).is_list;
    const int p = int(form.node(left ? n.a : n.b).i);
    const Number other = At(left ? n.b : n.a);
    Number all = Unset(p) ? Unknown() : Int(1);
    for (std::uint32_t i = 0; !Unset(p) && i < frame[p].count; ++i) {
      const Number e = ListElement(p, i);
      const Number r = left ? Compare(n.op, e, other) : Compare(n.op, other, e);
      if (r.fault != Fault::kNone || (r.known && !r.i)) return r;
      if (!r.known) all = r;
    }
    return all;
  }
  Number AndOr(const Node& n) const {
    const Number x = At(n.a);
    const bool decides = n.op == NodeOp::kOr;  // true decides an or, false an and
    if (x.fault != Fault::kNone || (x.known && (x.i != 0) == decides)) return x;
    const Number y = At(n.b);
    if (y.fault != Fault::kNone || (y.known && (y.i != 0) == decides)) return y;
    return x.known ? y : x;
  }
  Number At(int k) const {
    const Node& n = form.node(k);
    switch (n.op) {
      case NodeOp::kInt:
      case NodeOp::kDType:
      case NodeOp::kWord:
        return Int(n.i);
      case NodeOp::kFloat:
        return Float(n.f);
      case NodeOp::kVar:
        return bindings.bound >> n.i & 1 ? Int(bindings.var[n.i]) : Unknown();
      case NodeOp::kParam:
        return Param(n);
      case NodeOp::kDTypeVar:
        return bindings.dtype_bound >> n.i & 1 ? Int(bindings.dtype[n.i]) : Unknown();
      case NodeOp::kElement:
        return ListElement(n.a, n.i);
      case NodeOp::kLen:
        return Unset(n.a) ? Unknown() : Int(frame[n.a].count);
      case NodeOp::kSum:
        return Sum(n.a);
      case NodeOp::kGiven:
        return Int(frame[n.a].tag != ANYOP_NONE);
      case NodeOp::kSize:
      case NodeOp::kRank:
      case NodeOp::kRows:
      case NodeOp::kBytes:
        return Tensor(n);
      case NodeOp::kDTypeBytes:
        return BytesOf(DTypeOf({DTypes::Kind(n.a), int(n.i), 1u << n.i, {}}));
      case NodeOp::kThreads:
        return Int(threads);
      case NodeOp::kAnd:
      case NodeOp::kOr:
        return AndOr(n);
      case NodeOp::kNot: {
        const Number x = At(n.a);
        return x.known ? Int(!x.i) : x;
      }
      case NodeOp::kNeg: {
        const Number x = At(n.a);
        return x.known ? (x.is_float ? Float(-x.f) : Int(-x.i)) : x;
      }
      case NodeOp::kIn: {
        const Number x = At(n.a);
        return x.known ? Int(n.i >> x.i & 1) : x;
      }
      case NodeOp::kName:
        return Unknown();
      default:
        break;
    }
    if (IsArithmetic(n.op)) return Arithmetic(n.op, At(n.a), At(n.b));
    if (form.node(n.a).is_list || form.node(n.b).is_list) return CompareList(n);
    return Compare(n.op, At(n.a), At(n.b));
  }
};

}  // namespace

Number Evaluate(const Contract& contract, int form, int node, const Bindings& bindings,
                const anyop_value* frame, int threads) {
  if (node < 0) return {};
  return Evaluator{contract.forms[std::size_t(form)], bindings, frame, threads}.At(node);
}

}  // namespace anyop
