// SPDX-License-Identifier: Apache-2.0
#include "signature/repair.h"

#include <algorithm>

#include "signature/comparison.h"
#include "signature/turn_around.h"

namespace anyop {
namespace {

class Repairer {
 public:
  Repairer(Draft& d, Random& random, const FixedParts& fixed)
      : draft_(d), form_(d.contract->forms[std::size_t(d.form)]), random_(random), fixed_(fixed) {}

  // False if nothing was changed.
  bool Round() {
    bool changed = false;
    for (const Condition& c : form_.conditions) changed |= Make(c.node, true);
    return changed;
  }

 private:
  bool Holds(int node, bool truth) const {
    const Number v = draft_.Eval(node);
    return v.fault == Fault::kNone && (!v.known || (v.i != 0) == truth);
  }
  // Makes a condition true (or false); returns whether it changed anything.
  bool Make(int node, bool truth) {
    if (Holds(node, truth)) return false;
    const Node& n = form_.node(node);
    switch (n.op) {
      case NodeOp::kNot:
        return Make(n.a, !truth);
      case NodeOp::kAnd:
      case NodeOp::kOr:
        // A true `and`, as a false `or`, needs both sides: | makes both, where || would make one.
        if ((n.op == NodeOp::kAnd) == truth) return Make(n.a, truth) | Make(n.b, truth);
        return random_() % 2 ? Make(n.a, truth) : Make(n.b, truth);
      case NodeOp::kGiven:
        return SetPresence(n.a, truth);
      case NodeOp::kIn:
        return truth && MakeIn(form_.node(n.a), std::uint32_t(n.i));
      default:
        return IsComparison(n.op) && MakeComparison(n, truth);
    }
  }
  bool SetPresence(int p, bool present) {
    const Param& param = form_.params[std::size_t(p)];
    if (!param.is_optional || (fixed_.presence >> p & 1)) return false;
    if (!present) {
      draft_.call.Clear(p);
    } else if (param.kind == ParamKind::kTensor) {
      draft_.call.SetTensor(p, DType::kF32, {});
    } else if (param.kind == ParamKind::kFloats) {
      draft_.call.SetFloats(p, {1.0});
    } else if (param.kind == ParamKind::kInts) {
      draft_.call.SetInts(p, {1});
    } else if (param.kind == ParamKind::kInt) {
      draft_.call.SetInt(p, 1);
    } else if (param.kind == ParamKind::kFloat) {
      draft_.call.SetFloat(p, 1);
    } else {
      return false;
    }
    return true;
  }
  bool SetDType(const Node& n, DType d) {
    if (n.op == NodeOp::kDTypeVar) {
      if (!(draft_.dtypes[n.i] >> int(d) & 1)) return false;
      draft_.bindings.dtype[n.i] = std::uint8_t(d);
      return true;
    }
    if (n.op != NodeOp::kParam || (fixed_.params >> n.i & 1)) return false;
    draft_.call.SetDType(int(n.i), d);
    return true;
  }
  bool MakeIn(const Node& n, std::uint32_t mask) {
    if (n.op == NodeOp::kDTypeVar) mask &= draft_.dtypes[n.i];
    if (!mask) return false;
    for (;;) {
      const int d = int(random_() % kDTypes);
      if (mask >> d & 1) return SetDType(n, DType(d));
    }
  }
  static NodeOp Negated(NodeOp op) {
    switch (op) {
      case NodeOp::kEq:
        return NodeOp::kNe;
      case NodeOp::kNe:
        return NodeOp::kEq;
      case NodeOp::kLt:
        return NodeOp::kGe;
      case NodeOp::kLe:
        return NodeOp::kGt;
      case NodeOp::kGt:
        return NodeOp::kLe;
      default:
        return NodeOp::kLt;
    }
  }
  bool MakeComparison(const Node& n, bool truth) {
    const NodeOp op = truth ? n.op : Negated(n.op);
    const Node &a = form_.node(n.a), &b = form_.node(n.b);
    if (a.type == Type::kWord) return MakeWord(a, b, op == NodeOp::kEq);
    if (a.type == Type::kDType) {
      if (op != NodeOp::kEq) return false;
      const Number x = draft_.Eval(n.a), y = draft_.Eval(n.b);
      return (random_() % 2 && SetDType(a, DType(y.i))) || SetDType(b, DType(x.i)) ||
             SetDType(a, DType(y.i));
    }
    if (a.op == NodeOp::kGiven && b.op == NodeOp::kGiven) {
      const bool present = draft_.Eval(n.a).i != 0;
      return SetPresence(b.a, present == (op == NodeOp::kEq));
    }
    const bool left = random_() % 2;
    return left ? MakeSide(n.a, op, n.b) || MakeSide(n.b, Mirrored(op), n.a)
                : MakeSide(n.b, Mirrored(op), n.a) || MakeSide(n.a, op, n.b);
  }
  bool MakeWord(const Node& a, const Node& b, bool equal) {
    const Node &param = a.op == NodeOp::kParam ? a : b, &word = a.op == NodeOp::kParam ? b : a;
    if (fixed_.params >> param.i & 1) return false;
    const auto& words = form_.params[std::size_t(param.i)].words;
    for (std::size_t k = 0, start = random_() % words.size(); k < words.size(); ++k) {
      const std::string_view w = words[(start + k) % words.size()];
      if ((w == word.text) != equal) continue;
      draft_.call.SetWord(int(param.i), w);
      return true;
    }
    return false;
  }
  // Changes something in `node` so that node <op> other.
  bool MakeSide(int node, NodeOp op, int other) {
    const Number want = draft_.Eval(other);
    if (!want.known) return false;
    const Node& n = form_.node(node);
    if (n.type == Type::kFloat && n.op == NodeOp::kParam && !n.is_list) {
      return MakeFloat(int(n.i), op, want.f);
    }
    std::int64_t target = want.is_float ? std::int64_t(want.f) : want.i;
    const std::int64_t slack = random_() % 2 ? 0 : std::int64_t(random_() % 4);
    switch (op) {
      case NodeOp::kLt:
        target -= 1 + slack;
        break;
      case NodeOp::kLe:
        target -= slack;
        break;
      case NodeOp::kGt:
        target += 1 + slack;
        break;
      case NodeOp::kGe:
        target += slack;
        break;
      case NodeOp::kNe:
        target += 1;
        break;
      default:
        break;
    }
    if (n.is_list) return SetList(int(n.i), Shape(draft_.call[int(n.i)].count, target));
    if (n.op == NodeOp::kSum) return SetSum(n.a, target);
    if (n.op == NodeOp::kLen) return SetLength(n.a, target);
    return SetTo(node, op, target);
  }
  bool MakeFloat(int p, NodeOp op, double want) {
    if (fixed_.params >> p & 1) return false;
    const bool up = op == NodeOp::kGt || op == NodeOp::kGe || op == NodeOp::kNe;
    draft_.call.SetFloat(p, op == NodeOp::kEq ? want : up ? want + 0.5 : want - 0.5);
    return true;
  }
  bool SetList(int p, Shape values) {
    if ((fixed_.params >> p & 1) || draft_.call[p].tag != ANYOP_INTS) return false;
    draft_.call.SetInts(p, std::move(values));
    return true;
  }
  bool SetSum(int p, std::int64_t sum) {
    const Param& param = form_.params[std::size_t(p)];
    const Number size = param.size >= 0 ? draft_.Eval(param.size) : Number{};
    const std::int64_t n = size.known ? size.i : draft_.call[p].count;
    if (n < 1 || n > 64 || sum < 0) return false;
    Shape values(std::size_t(n), sum / n);
    values[0] += sum % n;
    return SetList(p, std::move(values));
  }
  bool SetLength(int p, std::int64_t n) {
    if ((fixed_.params >> p & 1) || n < 0 || n > 4096) return false;
    const ParamKind kind = form_.params[std::size_t(p)].kind;
    if (kind == ParamKind::kFloats) {
      draft_.call.SetFloats(p, std::vector<double>(std::size_t(n), 1.0));
    } else if (kind == ParamKind::kInts) {
      draft_.call.SetInts(p, Shape(std::size_t(n), 1));
    } else {
      draft_.call.SetTensors(p, DType::kF32, std::vector<Shape>(std::size_t(n)));
    }
    return true;
  }
  bool CanChange(int node) const {
    const Node& n = form_.node(node);
    if (n.op == NodeOp::kVar) return !(fixed_.vars >> n.i & 1);
    if (n.op == NodeOp::kParam) {
      return n.type == Type::kInt && !n.is_list && !(fixed_.params >> n.i & 1) &&
             draft_.call[int(n.i)].tag == ANYOP_INT;
    }
    return n.op >= NodeOp::kAdd && ((n.a >= 0 && CanChange(n.a)) || (n.b >= 0 && CanChange(n.b)));
  }
  bool Assign(const Node& n, std::int64_t value) {
    if (n.op == NodeOp::kVar) {
      if (value < 0) return false;
      draft_.bindings.var[n.i] = value;
    } else {
      draft_.call.SetInt(int(n.i), value);
    }
    return true;
  }
  // Changes one side of every operator, at random where both can change.
  bool SetTo(int node, NodeOp op, std::int64_t target) {
    const Node& n = form_.node(node);
    if (!CanChange(node)) return false;
    if (n.op == NodeOp::kVar || n.op == NodeOp::kParam) return Assign(n, target);
    if (!IsArithmetic(n.op)) return false;
    const bool free_a = CanChange(n.a), free_b = CanChange(n.b);
    const bool in_a = free_a && (!free_b || random_() % 2);
    const Number side = Invert(n.op, in_a, op, target, draft_.Eval(in_a ? n.b : n.a));
    const bool is_negated = n.op == NodeOp::kSub && !in_a;
    return side.known && SetTo(in_a ? n.a : n.b, is_negated ? Mirrored(op) : op, side.i);
  }
  // The value of one side with which `side operation other` is, or compares with, `target`; unknown
  // where there is none.
  Number Invert(NodeOp operation, bool is_left, NodeOp op, std::int64_t target,
                const Number& other) const {
    // Sums and products of these fit; no generated call needs larger ones.
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    if (!other.known || other.is_float) return Unknown();
    if (std::max(target, other.i) > kMost || std::min(target, other.i) < -kMost) return Unknown();
    switch (operation) {
      case NodeOp::kMul:
        if (other.i == 0 || (op == NodeOp::kEq && target % other.i)) return Unknown();
        if (op == NodeOp::kGe || op == NodeOp::kGt) {
          return Compute(nullptr, NodeOp::kCeilDiv, Int(target), other);
        }
        break;
      case NodeOp::kMod: {  // a multiple, which stays small
        const std::int64_t k = 1 + std::int64_t(random_() % 3);
        const bool has_one = is_left && op == NodeOp::kEq && other.i != 0;
        return has_one ? Int(other.i * k + target) : Unknown();
      }
      case NodeOp::kMin:
      case NodeOp::kMax:
        return Int(target);
      default:
        break;
    }
    return TurnedAround(nullptr, operation, is_left, Int(target), other);
  }

  Draft& draft_;
  const Form& form_;
  Random& random_;
  const FixedParts& fixed_;
};

}  // namespace

void Repair(Draft& draft, Random& random, const FixedParts& fixed) {
  Repairer repairer(draft, random, fixed);
  for (int round = 0; round < 16 && repairer.Round(); ++round) {
  }
}

}  // namespace anyop
