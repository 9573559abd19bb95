// SPDX-License-Identifier: Apache-2.0
// The composition as a fallback: each statement is a call of its own.
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "anyop/tensor.h"
#include "runtime/call.h"
#include "runtime/copy.h"
#include "runtime/overlap.h"
#include "runtime/registry.h"
#include "runtime/run.h"
#include "signature/defaults.h"

namespace anyop {
namespace {

constexpr int kMaxDepth = 16;  // of compositions made of compositions

// A tensor that the composition made.
struct Made {
  DLTensor tensor;
  std::int64_t shape[kMaxRank];
  std::unique_ptr<Workspace> memory;
};

class CompositionRun {
 public:
  CompositionRun(Operator& op, const Plan& plan, const anyop_value* frame)
      : op_(op),
        plan_(plan),
        frame_(frame),
        composition_(op.compositions[op.compositions.size() == 1 ? 0 : std::size_t(plan.form)]),
        locals_(composition_.locals.size()),
        results_(std::size_t(op.n_results)) {}
  ~CompositionRun() {
    while (!made_.empty()) made_.pop_back();  // workspaces nest: the last one goes first
  }

  void Run() {
    for (int r = 0; r < op_.n_results; ++r) PlaceResult(r);
    for (const Statement& s : composition_.statements) {
      try {
        RunStatement(s);
      } catch (const Error& e) {
        throw Error(e.code, std::string(e.what()) + "\n  in .means of " + op_.display_name() +
                                ", which calls " + s.op);
      }
    }
    for (int r = 0; r < op_.n_results; ++r) {
      const anyop_value& given = frame_[op_.n_params + r];
      const anyop_value& computed = results_[std::size_t(r)];
      if (given.tag == ANYOP_TENSOR && given.t != computed.t) {
        CopyFromPacked(computed.t->data, *given.t);
      }
    }
  }

 private:
  // Where the statements write result r: a later statement may still read what its memory meets.
  void PlaceResult(int r) {
    const anyop_value& given = frame_[op_.n_params + r];
    results_[std::size_t(r)] = given;
    if (given.tag != ANYOP_TENSOR) return;
    for (int i = 0; i < op_.n_params; ++i) {
      if (frame_[i].tag == ANYOP_TENSOR && MayShareMemory(*given.t, *frame_[i].t)) {
        results_[std::size_t(r)] = Make(plan_.results[r]);
        return;
      }
    }
  }

  anyop_value Make(const ResultShape& shape) {
    auto made = std::make_unique<Made>();
    std::memcpy(made->shape, shape.shape, sizeof made->shape);
    made->memory = std::make_unique<Workspace>(std::uint64_t(shape.bytes));
    made->tensor = {made->memory->data(), {1, 0},  shape.rank, ToDL(shape.dtype),
                    made->shape,          nullptr, 0};
    anyop_value v{};
    v.tag = ANYOP_TENSOR;
    v.t = &made->tensor;
    made_.push_back(std::move(made));
    return v;
  }

  void RunStatement(const Statement& s) {
    Operator& inner =
        *Find(op_.library == "anyop" || s.op.find('.') != s.op.npos ? s.op : Qualified(s.op));
    const Form& form = inner.contract->forms[0];
    anyop_value call[kMaxParams + kMaxResults] = {};
    for (int i = 0; i < inner.n_params; ++i) call[i] = Default(inner, i);
    for (std::size_t k = 0; k < s.arguments.size(); ++k) {
      const StatementArgument& a = s.arguments[k];
      const int place = a.keyword.empty() ? int(k) : form.param(a.keyword);
      if (place < 0 || place >= inner.n_params) FailStatement(s, "no parameter " + a.text);
      call[place] = ValueOf(inner, place, a);
      const bool is_missing = call[place].tag == ANYOP_NONE;
      if (is_missing && !form.params[std::size_t(place)].is_optional) return;  // is skipped
    }
    for (std::size_t r = 0; r < s.results.size(); ++r) {
      if (s.results[r].is_result) {
        call[inner.n_params + int(r)] = results_[std::size_t(s.results[r].index)];
      }
    }
    Plan* plan = GetPlan(inner, call);
    for (int r = 0; r < inner.n_results; ++r) {
      anyop_value& v = call[inner.n_params + r];
      if (v.tag == ANYOP_NONE) v = Make(plan->results[r]);
      if (std::size_t(r) < s.results.size()) Assign(s.results[std::size_t(r)], v);
    }
    anyop::Run(inner, *plan, call);
  }

  // An operator of the same library, else one of anyop's.
  std::string Qualified(const std::string& name) const {
    const std::string own = op_.library + "." + name;
    return FindRegistered(own) ? own : name;
  }

  void Assign(const StatementResult& to, const anyop_value& v) {
    (to.is_result ? results_ : locals_)[std::size_t(to.index)] = v;
  }

  static anyop_value Default(const Operator& op, int i) {
    anyop_value v;
    if (!DefaultValue(*op.contract, i, &v)) v = {};
    return v;
  }

  [[noreturn]] void FailStatement(const Statement& s, const std::string& what) {
    Fail(ANYOP_INTERNAL, op_.display_name() + ": .means calls " + s.op + " with " + what + ".");
  }

  anyop_value ValueOf(const Operator& inner, int place, const StatementArgument& a) {
    anyop_value v{};
    switch (a.kind) {
      case StatementArgument::kNone:
        break;
      case StatementArgument::kParameter:
        v = frame_[a.index];
        break;
      case StatementArgument::kResult:
        v = results_[std::size_t(a.index)];
        break;
      case StatementArgument::kLocal:
        v = locals_[std::size_t(a.index)];
        break;
      case StatementArgument::kExpression:
        v = NumberOf(a);
        break;
      case StatementArgument::kDType:
        v.tag = ANYOP_DTYPE;
        v.i = a.index;
        break;
      case StatementArgument::kDTypeVar: {
        const int var = op_.contract->forms[std::size_t(plan_.form)].dtype_var(a.text);
        if (var < 0 || !(plan_.bindings.dtype_bound >> var & 1)) break;
        v.tag = ANYOP_DTYPE;
        v.i = plan_.bindings.dtype[var];
        break;
      }
      case StatementArgument::kWord:
        v.tag = ANYOP_WORD;
        v.s = a.text.data() + 1;
        v.count = std::uint32_t(a.text.size() - 2);
        break;
      case StatementArgument::kList:
        v.tag = ANYOP_INTS;
        v.is = a.list.data();
        v.count = std::uint32_t(a.list.size());
        break;
    }
    return Fitted(inner, place, v);
  }

  anyop_value NumberOf(const StatementArgument& a) const {
    anyop_value v{};
    const int node = a.expression.node[std::size_t(plan_.form)];
    if (node < 0) return v;
    const Number n = Evaluate(*op_.contract, plan_.form, node, plan_.bindings, frame_);
    if (!n.known) return v;
    v.tag = n.is_float ? ANYOP_FLOAT : ANYOP_INT;
    if (n.is_float) {
      v.f = n.f;
    } else {
      v.i = n.i;
    }
    return v;
  }

  // As the inner operator's parameter wants it: a whole number as a float, its own word's number.
  static anyop_value Fitted(const Operator& inner, int place, anyop_value v) {
    const ParamKind kind = inner.contract->forms[0].params[std::size_t(place)].kind;
    if (kind == ParamKind::kFloat && v.tag == ANYOP_INT) {
      v.f = double(v.i);
      v.tag = ANYOP_FLOAT;
    }
    if (kind == ParamKind::kBool && v.tag == ANYOP_INT) v.tag = ANYOP_BOOL;
    if (kind == ParamKind::kInt && v.tag == ANYOP_BOOL) v.tag = ANYOP_INT;
    if (v.tag == ANYOP_WORD) {
      v.index = std::uint16_t(inner.contract->word(place, std::string_view(v.s, v.count)));
    }
    return v;
  }

  Operator& op_;
  const Plan& plan_;
  const anyop_value* frame_;
  const Composition& composition_;
  std::vector<anyop_value> locals_, results_;
  std::vector<std::unique_ptr<Made>> made_;
};

}  // namespace

void RunComposition(Operator& op, const Plan& plan, const anyop_value* frame) {
  static thread_local int depth = 0;
  struct Level {
    Level() { ++depth; }
    ~Level() { --depth; }
  } level;
  if (depth > kMaxDepth) {
    Fail(ANYOP_INTERNAL, op.display_name() + ": .means leads back to itself.");
  }
  CompositionRun(op, plan, frame).Run();
}

}  // namespace anyop
