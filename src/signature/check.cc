// SPDX-License-Identifier: Apache-2.0
#include "signature/check.h"

#include <bit>
#include <cstring>

#include "signature/binding.h"
#include "signature/fitted.h"
#include "signature/messages.h"
#include "signature/turn_around.h"

namespace anyop {
namespace {

// dtype numbers by code and bytes of an element; -1 where anyop has no name.
constexpr int kCodes = 18, kMostBytes = 16;
struct DTypeTable {
  std::int8_t number[kCodes][kMostBytes + 1];
  constexpr DTypeTable() {
    for (auto& row : number) {
      for (auto& n : row) n = -1;
    }
    for (int d = 0; d < kDTypes; ++d) {
      number[ToDL(DType(d)).code][Bytes(DType(d))] = std::int8_t(d);
    }
  }
};
constexpr DTypeTable kTable;

int DTypeOf(const DLTensor& t) {
  const DLDataType d = t.dtype;
  const int bytes = Bytes(d),
            n = d.code < kCodes && bytes <= kMostBytes ? kTable.number[d.code][bytes] : -1;
  return n >= 0 && std::bit_cast<std::uint32_t>(ToDL(DType(n))) == std::bit_cast<std::uint32_t>(d)
             ? n
             : -1;
}

bool RankFits(const TensorType& t, int rank, int* lead) {
  if (rank < 0) return true;
  const int rest = rank - int(t.dims.size());
  if (!t.has_dots) return rest == 0;
  if (rest < 0 || (*lead >= 0 && rest != *lead)) return false;
  *lead = rest;
  return true;
}

class Checker {
 public:
  Checker(const Contract& c, int form_index, const anyop_value* frame, Bindings* b,
          std::string* error)
      : form_(c.forms[std::size_t(form_index)]),
        frame_(frame),
        b_(*b),
        error_(*error),
        state_{c, form_index, *b, frame} {}

  bool Run() {
    const int n = int(form_.params.size());
    for (int i = 0; i < n; ++i) {
      const Param& p = form_.params[std::size_t(i)];
      if (p.kind == ParamKind::kWord && !CheckWord(i, p)) return false;
    }
    // A size with two unbound variables waits until another argument, which may follow, binds one.
    std::uint64_t before;
    do {
      before = b_.bound;
      pending_ = false;
      if (b_.symbols) b_.symbols->requirements.clear();  // the next pass finds them again
      for (int i = 0; i < n; ++i) {
        if (frame_[i].tag && !CheckParam(i)) return false;
      }
    } while (pending_ && b_.bound != before);
    for (std::size_t i = 0; i < form_.conditions.size(); ++i) {
      const Number v = Eval(form_.conditions[i].node);
      if (v.fault == Fault::kNone && (v.known ? v.i != 0 : v.symbol == 0)) continue;
      if (v.symbol) {
        b_.symbols->requirements.push_back({v, RequiredCondition(state_, int(i))});
        continue;
      }
      error_ = b_.symbols && v.fault == Fault::kNone ? RequiredCondition(state_, int(i))
                                                     : WrongCondition(state_, int(i), v.fault);
      return false;
    }
    return CheckNamed();
  }

 private:
  bool IsNamed(std::int64_t d) const { return form_.dtypes >> d & 1; }
  // What no condition has refused: a dtype that the signature does not name at all.
  bool CheckNamed() {
    for (int v = 0; v < int(form_.dtype_vars.size()); ++v) {
      if (!(b_.dtype_bound >> v & 1) || IsNamed(b_.dtype[v])) continue;
      const int i = b_.dtype_by[v];
      const DLTensor& t = frame_[i].tag == ANYOP_TENSOR ? *frame_[i].t : *frame_[i].ts[0];
      return Refuse(i, [&] { return UnnamedDType(state_, i, t); });
    }
    for (int i = 0; i < int(form_.params.size()); ++i) {
      if (frame_[i].tag != ANYOP_DTYPE || (b_.unknown_params >> i & 1)) continue;
      if (!IsNamed(frame_[i].i)) return Refuse(i, [&] { return UnnamedDType(state_, i); });
    }
    return true;
  }
  // i: the parameter that is wrong. For a call with symbols the text says only what the argument
  // must be, because its sizes have no numbers that a sentence could compare.
  template <class Text>
  bool Refuse(int i, Text&& text) {
    error_ = b_.symbols ? RequiredArgument(state_, i) : text();
    return false;
  }
  Number Eval(int node) const {
    return Evaluate(state_.contract, state_.form_index, node, b_, frame_);
  }
  bool CheckWord(int i, const Param& p) {
    const anyop_value& v = frame_[i];
    if (!v.tag || (b_.unknown_params >> i & 1)) return true;
    if (v.index < 64 && (p.word_mask >> v.index & 1)) return true;
    return Refuse(i, [&] { return WrongWord(state_, i); });
  }
  bool CheckParam(int i) {
    const Param& p = form_.params[std::size_t(i)];
    const anyop_value& v = frame_[i];
    if (p.kind == ParamKind::kTensor) return CheckTensor(i, p.tensor, *v.t);
    if (p.kind == ParamKind::kTensors) {
      for (std::uint32_t k = 0; k < v.count; ++k) {
        if (!CheckTensor(i, p.tensor, *v.ts[k])) return false;
      }
      return true;
    }
    if (p.size < 0 || (b_.unknown_params >> i & 1)) return true;
    switch (CheckSize(i, p.size, v.count)) {
      case Solved::kYes:
        return true;
      case Solved::kFault:
        error_ = FaultIn(state_, p.size, fault_);
        return false;
      default:
        return Refuse(i, [&] { return WrongLength(state_, i); });
    }
  }
  bool CheckDType(int i, const DTypes& want, const DLTensor& t) {
    const int d = DTypeOf(t);
    bool fits = true;
    if (d < 0) {
      fits = false;
    } else if (want.kind == DTypes::kSet) {
      fits = want.mask >> d & 1;
    } else if (want.kind == DTypes::kParameter) {
      const bool is_free = frame_[want.index].tag == ANYOP_NONE;
      if (is_free && !IsNamed(d)) return Refuse(i, [&] { return UnnamedDType(state_, i, t); });
      fits = is_free || frame_[want.index].i == d || (b_.unknown_params >> want.index & 1);
    } else if (b_.dtype_bound >> want.index & 1) {
      fits = b_.dtype[want.index] == d;
    } else {
      b_.dtype_bound |= 1ull << want.index;
      b_.dtype[want.index] = std::uint8_t(d);
      b_.dtype_by[want.index] = std::uint8_t(i);
    }
    return fits || Refuse(i, [&] { return WrongDType(state_, i, t); });
  }
  // A known size of the leading dimensions replaces an unknown one.
  bool CheckLead(int i, const DLTensor& t, int lead) {
    if (b_.n_lead < 0) {
      b_.n_lead = lead, b_.lead_by = i;
      for (int k = 0; k < lead; ++k) b_.lead[k] = t.shape[k];
      return true;
    }
    bool fits = b_.n_lead == lead;
    for (int k = 0; fits && k < lead; ++k) {
      if (IsUnknown(b_.lead[k])) b_.lead[k] = t.shape[k], b_.lead_by = i;
      fits = IsUnknown(t.shape[k]) || IsEqual(i, t.shape[k], b_.lead[k]);
    }
    return fits || Refuse(i, [&] { return WrongLead(state_, i, t); });
  }
  bool CheckTensor(int i, const TensorType& type, const DLTensor& t) {
    if (!CheckDType(i, type.dtypes, t)) return false;
    if (t.ndim < 0) return true;
    const int n = int(type.dims.size()), lead = t.ndim - n;
    if (t.ndim > kMaxRank || (type.has_dots ? lead < 0 : lead != 0)) {
      return Refuse(i, [&] { return WrongRank(state_, i, t); });
    }
    if (type.has_dots && !CheckLead(i, t, lead)) return false;
    for (int k = 0; k < n; ++k) {
      switch (CheckSize(i, type.dims[std::size_t(k)], t.shape[lead + k])) {
        case Solved::kYes:
          break;
        case Solved::kWrong:
          return Refuse(i, [&] { return WrongSize(state_, i, t, k); });
        case Solved::kInexact:
          return Refuse(i, [&] { return Inexact(state_, i, t, k); });
        case Solved::kFault:
          error_ = FaultIn(state_, type.dims[std::size_t(k)], fault_);
          return false;
      }
    }
    return true;
  }
  // Whether a size is unknown. Not every size below 0 is: a symbol is below 0, too.
  bool IsUnknown(std::int64_t size) const { return size < 0 && SizeNumber(b_, size).symbol == 0; }
  // Whether two numbers that argument i gives are equal, or required to be. Out of line, as Solve:
  // most sizes bind a variable or are compared as integers.
  [[gnu::noinline]] bool IsEqual(int i, const Number& a, const Number& b) {
    if (a.known && b.known) return a.i == b.i && !a.is_float && !b.is_float;
    if (a.is_unknown() || b.is_unknown() || b_.symbols->IsSame(a, b)) return true;
    return IsRequired(i, Compute(b_.symbols, NodeOp::kEq, a, b));
  }
  bool IsEqual(int i, std::int64_t a, std::int64_t b) {
    return a == b || ((a < 0 || b < 0) && IsEqual(i, SizeNumber(b_, a), SizeNumber(b_, b)));
  }
  // False if a requirement of argument i is false.
  bool IsRequired(int i, const Number& holds) {
    if (holds.symbol) b_.symbols->requirements.push_back({holds, RequiredArgument(state_, i)});
    return !holds.known || holds.i;
  }
  void BindVar(int var, std::int64_t size, int by) {
    b_.var[var] = size;
    b_.bound |= 1ull << var;
    b_.var_by[var] = std::uint8_t(by);
  }
  enum class Solved { kYes, kWrong, kInexact, kFault };
  Solved CheckSize(int i, int node, std::int64_t size) {
    if (IsUnknown(size)) return Solved::kYes;
    const Node& n = form_.node(node);
    if (n.op == NodeOp::kVar) {
      if (b_.bound >> n.i & 1) {
        return IsEqual(i, size, b_.var[n.i]) ? Solved::kYes : Solved::kWrong;
      }
      BindVar(int(n.i), size, i);
      return Solved::kYes;
    }
    if (n.op == NodeOp::kInt) return IsEqual(i, size, n.i) ? Solved::kYes : Solved::kWrong;
    const std::uint64_t open = n.vars & ~b_.bound;
    if (open & (open - 1)) {
      pending_ = true;
      return Solved::kYes;
    }
    if (open) return Solve(i, node, open, SizeNumber(b_, size));
    const Number v = Eval(node);
    fault_ = v.fault;
    if (v.fault != Fault::kNone) return Solved::kFault;
    return IsEqual(i, SizeNumber(b_, size), v) ? Solved::kYes : Solved::kWrong;
  }
  // Turns sums and products around until the one unbound variable stands alone.
  [[gnu::noinline]] Solved Solve(int i, int node, std::uint64_t open, Number size) {
    const auto compute = [&](NodeOp op, const Number& a, const Number& b) {
      return Compute(b_.symbols, op, a, b);
    };
    while (!size.is_unknown()) {
      const Node& n = form_.node(node);
      if (n.op == NodeOp::kVar) {
        const bool fits =
            size.known ? size.i >= 0 : IsRequired(i, compute(NodeOp::kGe, size, Int(0)));
        if (!fits) return Solved::kInexact;
        BindVar(int(n.i), size.known ? size.i : BitsOfSymbol(size.symbol), i);
        return Solved::kYes;
      }
      if (n.op == NodeOp::kNeg) {
        size = Negative(b_.symbols, size), node = n.a;
        continue;
      }
      if (!BindsSizes(n.op)) break;
      const bool in_a = form_.node(n.a).vars & open;
      const Number other = Eval(in_a ? n.b : n.a);
      fault_ = other.fault;
      if (other.fault != Fault::kNone) return Solved::kFault;
      if (other.is_unknown()) break;
      if (n.op == NodeOp::kMul) {
        const bool is_zero = other.known && other.i == 0;
        const Number rest = is_zero ? size : compute(NodeOp::kMod, size, other);
        if (!IsEqual(i, rest, Int(0))) return Solved::kInexact;
        if (is_zero) return Solved::kYes;  // whatever the variable is
      }
      size = TurnedAround(b_.symbols, n.op, in_a, size, other);
      if (size.fault != Fault::kNone) return Solved::kInexact;
      node = in_a ? n.a : n.b;
    }
    pending_ = true;  // another argument may still give the variable
    return Solved::kYes;
  }

  const Form& form_;
  const anyop_value* const frame_;
  Bindings& b_;
  std::string& error_;
  const CallState state_;
  bool pending_ = false;
  Fault fault_ = Fault::kNone;
};

}  // namespace

bool CheckKinds(const Contract& contract, const anyop_value* frame, std::string* error) {
  const auto& params = contract.forms[0].params;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const std::uint16_t tag = frame[i].tag;
    if (tag == TagOf(params[i].kind)) {
      if (tag != ANYOP_DTYPE || std::uint64_t(frame[i].i) < std::uint64_t(kDTypes)) continue;
    } else if (tag == ANYOP_NONE && params[i].is_optional) {
      continue;
    }
    Bindings none;
    *error = WrongKind({contract, 0, none, frame}, int(i));
    return false;
  }
  return true;
}

Fit FormFits(const Contract& contract, int form, const anyop_value* frame,
             std::uint64_t unknown_params) {
  int lead = -1;
  bool is_sure = true;
  const auto fits = [&](const Param& p, const DLTensor& t) {
    is_sure &= t.ndim >= 0;
    return RankFits(p.tensor, t.ndim, &lead);
  };
  const auto& params = contract.forms[std::size_t(form)].params;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const anyop_value& v = frame[i];
    const Param& p = params[i];
    if (v.tag == ANYOP_WORD) {
      const bool is_unknown = unknown_params >> i & 1;
      is_sure &= !is_unknown;
      if (!is_unknown && !(v.index < 64 && (p.word_mask >> v.index & 1))) return Fit::kNo;
    } else if (v.tag == ANYOP_TENSOR) {
      if (!fits(p, *v.t)) return Fit::kNo;
    } else if (v.tag == ANYOP_TENSORS) {
      for (std::uint32_t k = 0; k < v.count; ++k) {
        if (!fits(p, *v.ts[k])) return Fit::kNo;
      }
    }
  }
  return is_sure ? Fit::kYes : Fit::kMaybe;
}

bool CheckForm(const Contract& contract, int form, const anyop_value* frame, Bindings* bindings,
               std::string* error, std::uint64_t unknown_params, Symbols* symbols) {
  bindings->bound = bindings->dtype_bound = 0;
  bindings->unknown_params = unknown_params;
  bindings->n_lead = bindings->lead_by = -1;
  bindings->symbols = symbols;
  return Checker(contract, form, frame, bindings, error).Run();
}

int Check(const Contract& contract, const anyop_value* frame, Bindings* bindings,
          std::string* error, std::uint64_t unknown_params) {
  if (!CheckKinds(contract, frame, error)) return -1;
  // A lone form is not asked whether it fits: the sentences of CheckForm say more than NoForm.
  int form = 0;
  if (const int n = int(contract.forms.size()); n > 1) {
    while (form < n && FormFits(contract, form, frame, unknown_params) == Fit::kNo) ++form;
    if (form == n) {
      *error = NoForm(contract, frame);
      return -1;
    }
  }
  return CheckForm(contract, form, frame, bindings, error, unknown_params) ? form : -1;
}

bool CheckScalars(const Contract& contract, int form, const anyop_value* frame,
                  std::string* error) {
  for (const ScalarCheck& s : contract.scalar_checks[std::size_t(form)]) {
    const anyop_value& v = frame[s.param];
    if (v.tag == ANYOP_NONE) continue;
    const bool holds = v.tag == ANYOP_INT && !s.is_float
                           ? Holds(s.op, v.i, s.i)
                           : Holds(s.op, v.tag == ANYOP_INT ? double(v.i) : v.f, s.f);
    if (holds) continue;
    Bindings none;
    *error = WrongCondition({contract, form, none, frame}, s.condition, Fault::kNone);
    return false;
  }
  return true;
}

}  // namespace anyop
