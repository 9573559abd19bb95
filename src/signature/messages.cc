// SPDX-License-Identifier: Apache-2.0
#include "signature/messages.h"

#include "anyop/value.h"
#include "platform/error.h"
#include "signature/check.h"
#include "signature/comparison.h"
#include "signature/turn_around.h"

namespace anyop {
namespace {

std::string Name(const CallState& s, int param) { return std::string(s.param(param).name); }

// The place of a tensor in the list that is the argument; -1 where the argument is the tensor.
int ElementOf(const CallState& s, int param, const DLTensor& t) {
  const anyop_value& v = s.frame[param];
  for (std::uint32_t k = 0; v.tag == ANYOP_TENSORS && k < v.count; ++k) {
    if (v.ts[k] == &t) return int(k);
  }
  return -1;
}
std::string Element(const std::string& name, int k) {
  return k < 0 ? name : name + "[" + std::to_string(k) + "]";
}
// "x"; for an element of a list "caches[3]".
std::string Name(const CallState& s, int param, const DLTensor& t) {
  return Element(Name(s, param), ElementOf(s, param, t));
}

std::string ArticleKind(ParamKind kind) {
  constexpr const char* kNames[] = {
      "a tensor", "a list of tensors", "an integer",         "a float",         "a bool",
      "a word",   "a dtype",           "a list of integers", "a list of floats"};
  return kNames[int(kind)];
}

std::string OneOf(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    out += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + ("'" + words[i] + "'");
  }
  return out;
}

// The type of a parameter as the signature has it: "T[..., d]", "'nn' | 'nt'", "float".
std::string TypeText(const Param& p) {
  if (p.kind == ParamKind::kTensors) return std::string(p.tensor.text) + "*";
  if (p.kind == ParamKind::kTensor) return std::string(p.tensor.text);
  if (p.kind != ParamKind::kWord) return ArticleKind(p.kind);
  std::string out;
  for (const std::string_view w : p.words)
    out += (out.empty() ? "'" : " | '") + std::string(w) + "'";
  return out;
}

// "... because x is bf16[2, 4096] and features is 5": where a size or dtype comes from.
class Because {
 public:
  explicit Because(const CallState& s) : state_(s) {}
  // An argument that is wrong is not named as its own reason. In a list, the first element is the
  // reason why the others are wrong.
  Because(const CallState& s, int self) : state_(s), seen_(1ull << self) {}
  Because(const CallState& s, int self, const DLTensor& t)
      : state_(s),
        list_(ElementOf(s, self, t) > 0 ? self : -1),
        seen_(list_ < 0 ? 1ull << self : 0) {}
  void Param(int p) {
    if (p < 0 || (seen_ >> p & 1)) return;
    seen_ |= 1ull << p;
    const anyop_value& v = state_.frame[p];
    text_ += (text_.empty() ? " because " : " and ") +
             Element(Name(state_, p), p == list_ ? 0 : -1) + " is " +
             (p == list_ ? Show(*v.ts[0]) : Show(v));
  }
  void Node(int node) {
    const anyop::Node& n = state_.form().node(node);
    for (int p = 0; p < kMaxParams; ++p) {
      if (n.params >> p & 1) Param(p);
    }
    for (int v = 0; v < kMaxVars; ++v) {
      if ((n.vars & state_.bindings.bound) >> v & 1) Param(state_.bindings.var_by[v]);
    }
  }
  void DType(const DTypes& d) {
    if (d.kind == DTypes::kParameter) Param(d.index);
    if (d.kind == DTypes::kVariable && (state_.bindings.dtype_bound >> d.index & 1)) {
      Param(state_.bindings.dtype_by[d.index]);
    }
  }
  const std::string& text() const { return text_; }

 private:
  const CallState& state_;
  const int list_ = -1;
  std::uint64_t seen_ = 0;
  std::string text_;
};

std::string WantedDType(const CallState& s, const DTypes& d) {
  if (d.kind == DTypes::kSet) return ShowDTypes(d.mask);
  if (d.kind == DTypes::kParameter) return Show(s.frame[d.index]);
  const bool known = s.bindings.dtype_bound >> d.index & 1;
  return std::string(known ? Name(DType(s.bindings.dtype[d.index])) : d.name);
}

// The type that a tensor should have, with all known sizes and dtypes filled in. Dimensions that no
// other argument fixes show the tensor's own size, except the wrong one (bad).
std::string Wanted(const CallState& s, const TensorType& type, const DLTensor& t, int bad) {
  const Form& form = s.form();
  std::string dims;
  const auto put = [&](const std::string& d) { dims += (dims.empty() ? "" : ", ") + d; };
  const int lead = t.ndim - int(type.dims.size());
  if (type.has_dots) {
    if (s.bindings.n_lead < 0) put("...");
    for (int i = 0; i < s.bindings.n_lead; ++i) {
      put(s.bindings.lead[i] < 0 ? "?" : std::to_string(s.bindings.lead[i]));
    }
  }
  for (std::size_t i = 0; i < type.dims.size(); ++i) {
    const Number v = Evaluate(s.contract, s.form_index, type.dims[i], s.bindings, s.frame);
    const bool own = !v.known && bad != int(i) && lead >= 0 && t.shape[lead + int(i)] >= 0;
    put(v.known ? std::to_string(v.i)
        : own   ? std::to_string(t.shape[lead + int(i)])
                : Show(form, type.dims[i]));
  }
  return WantedDType(s, type.dtypes) + "[" + dims + "]";
}

// Of a dtype beyond the first ones, which a call may have only where its form names it.
std::string NotNamed(DType d) {
  return ", but the signature names no " + std::string(Name(d)) + ". Try ";
}

std::string IsButMustBe(const std::string& name, const DLTensor& t, const std::string& wanted) {
  return name + " is " + Show(t) + ", but must be " + wanted;
}

std::string WhichDimension(const DLTensor& t, int i) {
  return i + 1 == t.ndim ? "the last dimension" : "dimension " + std::to_string(i);
}

// Says which sizes an expression with one unbound variable can have, where it cannot be `size`:
// "2*d, a multiple of 2"; "3*(b+1), where b would be -1".
std::string PossibleSize(const CallState& s, int node, std::int64_t size) {
  const Form& form = s.form();
  const std::string text = Show(form, node);
  std::int64_t would = size;
  for (int at = node;;) {
    const Node& n = form.node(at);
    const auto value = [&](int side) {
      return Evaluate(s.contract, s.form_index, side, s.bindings, s.frame);
    };
    const Number left = IsBinary(n.op) ? value(n.a) : Number{};
    const Number other = left.known || !IsBinary(n.op) ? left : value(n.b);
    const int open = left.known ? n.b : n.a;
    const auto end = [&](const std::string& top) {
      return text + (at == node
                         ? top
                         : ", where " + Show(form, at) + " would be " + std::to_string(would));
    };
    if (n.op == NodeOp::kNeg) {
      would = -would;
    } else {
      if (!BindsSizes(n.op) || !other.known) return end("");
      if (n.op == NodeOp::kMul && other.i == 0) return end(", which is 0");
      if (n.op == NodeOp::kMul && would % other.i) {
        return end(", a multiple of " + std::to_string(other.i));
      }
      if (n.op == NodeOp::kAdd && would < other.i && at == node &&
          form.node(open).op == NodeOp::kVar) {
        return end(", at least " + std::to_string(other.i));
      }
      const Number side = TurnedAround(nullptr, n.op, !left.known, Int(would), other);
      if (!side.known) return end("");
      would = side.i;
    }
    at = open;
  }
}

std::string Joined(const std::vector<std::string>& parts) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    out += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  }
  return out;
}

}  // namespace

std::string WrongKind(const CallState& s, int param) {
  const Param& p = s.param(param);
  const anyop_value& v = s.frame[param];
  if (v.tag == ANYOP_NONE) return Name(s, param) + " is missing, but must be " + TypeText(p) + ".";
  return Name(s, param) + " is " + Show(v) + ", but must be " + ArticleKind(p.kind) + ".";
}

std::string WrongWord(const CallState& s, int param) {
  const anyop_value& v = s.frame[param];
  std::vector<std::string> words(s.param(param).words.begin(), s.param(param).words.end());
  const std::string_view given(v.s, v.count);
  return Name(s, param) + " is " + Show(v) + ", but must be " + OneOf(words) + "." +
         DidYouMean(given, words);
}

std::string WrongRank(const CallState& s, int param, const DLTensor& t) {
  const TensorType& type = s.param(param).tensor;
  return Name(s, param, t) + " is " + Show(t) + " of rank " + std::to_string(t.ndim) +
         ", but must be " + std::string(type.text) +
         (type.has_dots ? " of rank at least " : " of rank ") + std::to_string(type.dims.size()) +
         (t.ndim > kMaxRank ? " and at most " + std::to_string(kMaxRank) : "") + ".";
}

std::string WrongDType(const CallState& s, int param, const DLTensor& t) {
  const TensorType& type = s.param(param).tensor;
  Because because(s, param, t);
  because.DType(type.dtypes);
  const std::uint32_t mask = type.dtypes.mask;
  if (mask & (mask - 1)) {
    return Name(s, param, t) + " is " + Show(t) + ", but its dtype must be " + ShowDTypes(mask) +
           ". Try a cast.";
  }
  return IsButMustBe(Name(s, param, t), t, Wanted(s, type, t, -1)) + because.text() +
         ". Try a cast to " + WantedDType(s, type.dtypes) + ".";
}

std::string UnnamedDType(const CallState& s, int param, const DLTensor& t) {
  return Name(s, param, t) + " is " + Show(t) + NotNamed(DType(FromDL(t.dtype))) + "a cast.";
}
std::string UnnamedDType(const CallState& s, int param) {
  return Name(s, param) + " is " + Show(s.frame[param]) + NotNamed(DType(s.frame[param].i)) +
         "another dtype.";
}

std::string WrongLead(const CallState& s, int param, const DLTensor& t) {
  Because because(s, param, t);
  because.Param(s.bindings.lead_by);
  return IsButMustBe(Name(s, param, t), t, Wanted(s, s.param(param).tensor, t, -1)) +
         because.text() + ".";
}

std::string WrongSize(const CallState& s, int param, const DLTensor& t, int dim) {
  const TensorType& type = s.param(param).tensor;
  Because because(s, param, t);
  because.Node(type.dims[std::size_t(dim)]);
  return IsButMustBe(Name(s, param, t), t, Wanted(s, type, t, dim)) + because.text() + ".";
}

std::string Inexact(const CallState& s, int param, const DLTensor& t, int dim) {
  const TensorType& type = s.param(param).tensor;
  const int i = t.ndim - int(type.dims.size()) + dim, node = type.dims[std::size_t(dim)];
  Because because(s, param, t);
  because.Node(node);
  return WhichDimension(t, i) + " of " + Name(s, param, t) + " is " + std::to_string(t.shape[i]) +
         ", but must be " + PossibleSize(s, node, t.shape[i]) + because.text() + ".";
}

std::string WrongLength(const CallState& s, int param) {
  const Param& p = s.param(param);
  const Number v = Evaluate(s.contract, s.form_index, p.size, s.bindings, s.frame);
  Because because(s, param);
  because.Node(p.size);
  return Name(s, param) + " is " + Show(s.frame[param]) + ", but must have length " +
         (v.known ? std::to_string(v.i) : PossibleSize(s, p.size, s.frame[param].count)) +
         because.text() + ".";
}

std::string FaultIn(const CallState& s, int node, Fault fault) {
  if (s.bindings.symbols) {
    return fault == Fault::kDivisionByZero ? "division by zero." : "a number goes beyond 63 bits.";
  }
  const std::string uses = ShowUses(s.contract, s.form_index, node, s.bindings, s.frame, true);
  return Show(s.form(), node) +
         (fault == Fault::kDivisionByZero ? " divides by zero" : " goes beyond 63 bits") +
         (uses.empty() ? "" : ": ") + uses + ".";
}

// "stride[1] is 0, " where a list is compared and this element is the first that does not fit.
static std::string WrongElement(const CallState& s, const Node& n) {
  const Form& form = s.form();
  if (!IsComparison(n.op) || !(form.node(n.a).is_list || form.node(n.b).is_list)) return "";
  const bool left = form.node(n.a).is_list;
  const std::int64_t p = form.node(left ? n.a : n.b).i;
  const anyop_value& v = s.frame[p];
  const Number other = Evaluate(s.contract, s.form_index, left ? n.b : n.a, s.bindings, s.frame);
  const NodeOp op = left ? n.op : Mirrored(n.op);
  for (std::uint32_t k = 0; k < v.count; ++k) {
    const bool is_float = v.tag == ANYOP_FLOATS;
    if (is_float || other.is_float ? Holds(op, is_float ? v.fs[k] : double(v.is[k]), other.f)
                                   : Holds(op, v.is[k], other.i)) {
      continue;
    }
    const anyop_value one = is_float ? FloatValue(v.fs[k]) : IntValue(v.is[k]);
    return Element(Name(s, int(p)), int(k)) + " is " + Show(one) + ", ";
  }
  return "";
}

std::string WrongCondition(const CallState& s, int condition, Fault fault) {
  const Form& form = s.form();
  const int node = form.conditions[std::size_t(condition)].node;
  if (fault != Fault::kNone) return FaultIn(s, node, fault);
  const Node& n = form.node(node);
  if (n.op == NodeOp::kIn) {
    const Node& left = form.node(n.a);
    const std::string set = ShowDTypes(std::uint32_t(n.i));
    if (left.op == NodeOp::kParam) {
      return Name(s, int(left.i)) + " is " + Show(s.frame[left.i]) + ", but must be " + set + ".";
    }
    const int by = s.bindings.dtype_by[left.i];
    const anyop_value& v = s.frame[by];
    return (v.tag == ANYOP_TENSORS ? Element(Name(s, by), 0) + " is " + Show(*v.ts[0])
                                   : Name(s, by) + " is " + Show(v)) +
           ", but " + std::string(left.text) + " must be " + set + ". Try a cast.";
  }
  const std::string element = WrongElement(s, n);
  const std::string uses = ShowUses(s.contract, s.form_index, node, s.bindings, s.frame, true);
  return OneLine(form.conditions[std::size_t(condition)].text) + " must hold, but " + element +
         uses + ".";
}

std::string WrongResult(const CallState& s, int result, const DLTensor& given, bool dtype_is_wrong,
                        int dim) {
  const Result& r = s.form().results[std::size_t(result)];
  Because because(s);
  const int lead = r.tensor.has_dots ? s.bindings.n_lead : 0;
  if (dtype_is_wrong) {
    because.DType(r.tensor.dtypes);
  } else {  // dim < 0: the rank is wrong
    if (dim < lead && r.tensor.has_dots) because.Param(s.bindings.lead_by);
    for (int i = 0; i < int(r.tensor.dims.size()); ++i) {
      if (dim < 0 || dim == lead + i) because.Node(r.tensor.dims[std::size_t(i)]);
    }
  }
  return IsButMustBe(std::string(r.name), given, Wanted(s, r.tensor, given, -2)) + because.text() +
         "." + (dtype_is_wrong ? " Try a tensor of " + WantedDType(s, r.tensor.dtypes) + "." : "");
}

std::string ImpossibleResult(const CallState& s, int result, int dim, const Number& size) {
  const Result& r = s.form().results[std::size_t(result)];
  const std::string name = "the result " + std::string(r.name);
  if (dim < 0) return name + " would be larger than 63 bits can count.";
  const int node = r.tensor.dims[std::size_t(dim)];
  if (size.fault != Fault::kNone) return name + ": " + FaultIn(s, node, size.fault);
  const std::string uses = ShowUses(s.contract, s.form_index, node, s.bindings, s.frame, true);
  return name + " has a dimension " + Show(s.form(), node) + " that " +
         (size.known ? "would be " + std::to_string(size.i) : "is not known") +
         (uses.empty() ? "" : ": ") + uses + ".";
}

std::string RequiredArgument(const CallState& s, int param) {
  const Param& p = s.param(param);
  if (IsTensor(p.kind)) return Name(s, param) + " must be " + OneLine(p.tensor.text) + ".";
  return Name(s, param) + " has " + std::to_string(s.frame[param].count) +
         " elements, which does not fit.";
}

std::string RequiredCondition(const CallState& s, int condition) {
  return OneLine(s.form().conditions[std::size_t(condition)].text) + " must hold.";
}

std::string NoForm(const Contract& contract, const anyop_value* frame) {
  const auto& forms = contract.forms;
  std::vector<std::string> given, all(forms.size());
  for (std::size_t i = 0; i < forms[0].params.size(); ++i) {
    if (!IsTensor(forms[0].params[i].kind) && forms[0].params[i].kind != ParamKind::kWord) continue;
    bool differs = false;
    for (const Form& f : forms) differs |= TypeText(f.params[i]) != TypeText(forms[0].params[i]);
    if (frame[i].tag == ANYOP_WORD && frame[i].index >= contract.words[i].size()) {
      return WordError(contract, int(i), std::string_view(frame[i].s, frame[i].count));
    }
    if (frame[i].tag && (differs || IsTensor(forms[0].params[i].kind))) {
      given.push_back(std::string(forms[0].params[i].name) + " is " + Show(frame[i]));
    }
    if (!differs && !IsTensor(forms[0].params[i].kind)) continue;
    for (std::size_t k = 0; k < forms.size(); ++k) {
      all[k] += (all[k].empty() ? "(" : ", ") + std::string(forms[0].params[i].name) + ": " +
                TypeText(forms[k].params[i]);
    }
  }
  for (std::string& form : all) form += ")";
  return "no form takes these words and ranks: " + Joined(given) + ". The forms are " +
         Joined(all) + ".";
}

std::string WordError(const Contract& contract, int param, std::string_view given) {
  const auto& words = contract.words[std::size_t(param)];
  return std::string(contract.forms[0].params[std::size_t(param)].name) + " is '" +
         std::string(given) + "', but must be " + OneOf(words) + "." + DidYouMean(given, words);
}

}  // namespace anyop
