// SPDX-License-Identifier: Apache-2.0
// The value of an expression, three-valued: a number that nothing gives is unknown, and 0 * unknown
// is 0. The one place that knows what an operator of the language means, for every kind of number.
#include <bit>

#include "signature/binding.h"
#include "signature/expression.h"

namespace anyop {
namespace {

bool IsZero(const Number& n) { return n.known && !n.is_float && n.i == 0; }

Number OfInts(NodeOp op, std::int64_t x, std::int64_t y) {
  if (!IsArithmetic(op)) return Int(Holds(op, x, y));
  const WholeNumber result = Compute(op, x, y);
  return result.fault == Fault::kNone ? Int(result.value) : Unknown(result.fault);
}

Number OfFloats(NodeOp op, double x, double y) {
  switch (op) {
    case NodeOp::kAdd:
      return Float(x + y);
    case NodeOp::kSub:
      return Float(x - y);
    case NodeOp::kMul:
      return Float(x * y);
    case NodeOp::kMin:
      return Float(x < y ? x : y);
    case NodeOp::kMax:
      return Float(x > y ? x : y);
    case NodeOp::kDiv:
      return y == 0 ? Unknown(Fault::kDivisionByZero) : Float(x / y);
    default:
      return Int(Holds(op, x, y));
  }
}

// The value of an operation whose operands are not both known.
Number Symbolic(Symbols* symbols, NodeOp op, const Number& x, const Number& y) {
  if (x.is_unknown() || y.is_unknown()) return Unknown();
  Number n = symbols->Compute(op, x, y);
  n.is_float |= IsArithmetic(op) && (x.is_float || y.is_float);
  return n;
}

struct Evaluator {
  const Form& form;
  const Bindings& bindings;
  const anyop_value* frame;
  int threads;

  Number Operate(NodeOp op, const Number& x, const Number& y) const {
    return anyop::Compute(bindings.symbols, op, x, y);
  }
  Number Size(std::int64_t size) const { return SizeNumber(bindings, size); }
  // A number of the frame, by its bits.
  bool IsGivenSymbol(std::int64_t bits, Number* n) const {
    if (!bindings.symbols || !IsSymbol(bits)) return false;
    n->symbol = SymbolOf(bits);
    return true;
  }
  Number GivenInt(std::int64_t v) const {
    Number n;
    if (IsGivenSymbol(v, &n)) return n;
    return v == INT64_MIN ? Unknown(Fault::kOverflow) : Int(v);  // as Compute refuses it
  }
  Number GivenFloat(double v) const {
    Number n;
    n.is_float = true;
    return IsGivenSymbol(std::bit_cast<std::int64_t>(v), &n) ? n : Float(v);
  }
  bool Unset(std::int64_t p) const {
    return frame[p].tag == ANYOP_NONE || (bindings.unknown_params >> p & 1);
  }
  Number Param(const Node& n) const {
    if (Unset(n.i)) return Unknown();
    const anyop_value& v = frame[n.i];
    if (v.tag == ANYOP_FLOAT) return GivenFloat(v.f);
    return v.tag == ANYOP_WORD ? Int(v.index) : GivenInt(v.i);
  }
  Number ListElement(int p, std::int64_t i) const {
    const anyop_value& v = frame[p];
    if (Unset(p) || i >= v.count) return Unknown();
    return v.tag == ANYOP_FLOATS ? GivenFloat(v.fs[i]) : GivenInt(v.is[i]);
  }
  Number Sum(int p) const {
    Number sum = Unset(p) ? Unknown() : Int(0);
    for (std::int64_t i = 0; !sum.is_unknown() && i < frame[p].count; ++i) {
      sum = Operate(NodeOp::kAdd, sum, ListElement(p, i));
    }
    return sum;
  }
  // Elements of a shape; all but the last dimension for rows.
  Number Count(const DLTensor& t, bool rows) const {
    if (t.ndim < 0) return Unknown();
    Number n = Int(1);
    for (int i = 0; i < t.ndim - rows; ++i) {
      n = Operate(NodeOp::kMul, n, Size(t.shape[i]));
    }
    return n;
  }
  Number Measure(const DLTensor& t, NodeOp op) const {
    if (op == NodeOp::kRank) return t.ndim < 0 ? Unknown() : Int(t.ndim);
    const Number n = Count(t, op == NodeOp::kRows);
    if (op != NodeOp::kBytes) return n;
    const int d = FromDL(t.dtype);
    return d < 0 ? Unknown() : Operate(NodeOp::kMul, n, Int(Bytes(DType(d))));
  }
  Number DTypeOf(const DTypes& d) const {
    if (d.kind == DTypes::kSet) return Int(__builtin_ctz(d.mask));
    if (d.kind == DTypes::kParameter) return Unset(d.index) ? Unknown() : Int(frame[d.index].i);
    return bindings.dtype_bound >> d.index & 1 ? Int(bindings.dtype[d.index]) : Unknown();
  }
  Number BytesOf(const Number& dtype) const {
    return dtype.known ? Int(Bytes(DType(dtype.i))) : Unknown();
  }
  // A result is not allocated yet, so that its sizes are computed from its type.
  Number MeasureResult(const TensorType& t, NodeOp op) const {
    if (t.has_dots && bindings.n_lead < 0) return Unknown();
    const int lead = t.has_dots ? bindings.n_lead : 0, rank = lead + int(t.dims.size());
    if (op == NodeOp::kRank) return Int(rank);
    Number n = Int(1);
    for (int i = 0; i < rank - (op == NodeOp::kRows); ++i) {
      n = Operate(NodeOp::kMul, n,
                  i >= lead ? At(t.dims[std::size_t(i - lead)]) : Size(bindings.lead[i]));
    }
    return op == NodeOp::kBytes ? Operate(NodeOp::kMul, n, BytesOf(DTypeOf(t.dtypes))) : n;
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
      sum = Operate(NodeOp::kAdd, sum, Measure(*v.ts[i], n.op));
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
      const Number r = left ? Operate(n.op, e, other) : Operate(n.op, other, e);
      if (r.fault != Fault::kNone || (r.known && !r.i)) return r;
      all = Joined(NodeOp::kAnd, all, r);
    }
    return all;
  }
  // `and` or `or` of two truth values of which neither decides the result alone.
  Number Joined(NodeOp op, const Number& x, const Number& y) const {
    return x.known ? y : y.known ? x : Symbolic(bindings.symbols, op, x, y);
  }
  Number AndOr(const Node& n) const {
    // Where the left side decides, the right one is not evaluated: it may divide by zero there.
    const Number x = At(n.a);
    const bool decides = n.op == NodeOp::kOr;  // true decides an or, false an and
    if (x.fault != Fault::kNone || (x.known && (x.i != 0) == decides)) return x;
    const Number y = At(n.b);
    if (y.fault != Fault::kNone || (y.known && (y.i != 0) == decides)) return y;
    return Joined(n.op, x, y);
  }
  Number Not(const Number& x) const {
    return x.known ? Int(!x.i) : x.symbol ? bindings.symbols->Compute(NodeOp::kNot, x, x) : x;
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
        return bindings.bound >> n.i & 1 ? Size(bindings.var[n.i]) : Unknown();
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
      case NodeOp::kBytesOfDType:
        return BytesOf(DTypeOf({DTypes::Kind(n.a), int(n.i), 1u << n.i, {}}));
      case NodeOp::kThreads:
        return Int(threads);
      case NodeOp::kAnd:
      case NodeOp::kOr:
        return AndOr(n);
      case NodeOp::kNot:
        return Not(At(n.a));
      case NodeOp::kNeg:
        return Negative(bindings.symbols, At(n.a));
      case NodeOp::kIn: {
        const Number x = At(n.a);
        return x.known ? Int(n.i >> x.i & 1) : x;
      }
      case NodeOp::kName:
        return Unknown();
      default:
        break;
    }
    if (!IsArithmetic(n.op) && (form.node(n.a).is_list || form.node(n.b).is_list)) {
      return CompareList(n);
    }
    return Operate(n.op, At(n.a), At(n.b));
  }
};

}  // namespace

Number Compute(Symbols* symbols, NodeOp op, const Number& x, const Number& y) {
  const bool both_known = x.known && y.known;
  if (both_known && !x.is_float && !y.is_float) return OfInts(op, x.i, y.i);
  if (x.fault != Fault::kNone) return x;
  if (y.fault != Fault::kNone) return y;
  if (op == NodeOp::kMul && (IsZero(x) || IsZero(y))) return Int(0);
  if (both_known) return OfFloats(op, x.f, y.f);
  if (op == NodeOp::kDiv || op == NodeOp::kMod || op == NodeOp::kCeilDiv) {
    if (y.known && y.f == 0) return Unknown(Fault::kDivisionByZero);
    if (IsZero(x)) return Int(0);
  }
  return Symbolic(symbols, op, x, y);
}

Number Negative(Symbols* symbols, const Number& x) {
  if (x.symbol) return symbols->Compute(NodeOp::kNeg, x, x);
  return x.known ? (x.is_float ? Float(-x.f) : Int(-x.i)) : x;
}

Number Evaluate(const Contract& contract, int form, int node, const Bindings& bindings,
                const anyop_value* frame, int threads) {
  if (node < 0) return {};
  return Evaluator{contract.forms[std::size_t(form)], bindings, frame, threads}.At(node);
}

}  // namespace anyop
