// SPDX-License-Identifier: Apache-2.0
// Runs a composition: each statement is a call of its own, or a view.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "anyop/tensor.h"
#include "runtime/call.h"
#include "runtime/copy.h"
#include "runtime/device.h"
#include "runtime/device_call.h"
#include "runtime/frame.h"
#include "runtime/layout.h"
#include "runtime/overlap.h"
#include "runtime/registry.h"
#include "runtime/run.h"
#include "signature/defaults.h"
#include "signature/fitted.h"

namespace anyop {
namespace {

constexpr int kMaxDepth = 16;  // of compositions made of compositions

// A tensor that the composition made.
struct Made {
  DLTensor tensor;
  std::int64_t shape[kMaxRank];
  std::unique_ptr<Workspace> memory;
  std::optional<DeviceMemory> device_memory;  // in its place on a device
};

// A tensor that lies in the memory of another.
struct Seen {
  DLTensor tensor;
  Layout layout;
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
        s.view.kind == StatementView::kNone ? RunStatement(s) : RunView(s);
      } catch (const Error& e) {
        const bool is_view = s.view.kind != StatementView::kNone;
        throw Error(e.code, std::string(e.what()) + "\n  in .means of " + op_.display_name() +
                                (is_view ? ", " + s.text : ", which calls " + s.op));
      }
    }
    for (int r = 0; r < op_.n_results; ++r) {
      const anyop_value& given = frame_[op_.n_params + r];
      if (given.tag == ANYOP_TENSOR && !(assigned_ >> r & 1)) FailResult(r);
      const anyop_value& computed = results_[std::size_t(r)];
      if (given.tag == ANYOP_TENSOR && given.t != computed.t) {
        plan_.device_kind ? UnpackOnDevice(computed.t->data, *given.t)
                          : CopyFromPacked(computed.t->data, *given.t);
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
    if (plan_.device_kind) {
      made->device_memory.emplace(*plan_.device_kind, plan_.device.device_id,
                                  std::uint64_t(std::max<std::int64_t>(shape.bytes, 1)));
    } else {
      made->memory = std::make_unique<Workspace>(std::uint64_t(shape.bytes));
    }
    void* const data = made->memory ? made->memory->data() : made->device_memory->data();
    FillTensor(&made->tensor, data, plan_.device, ToDL(shape.dtype), shape.rank, made->shape);
    const anyop_value v = TensorValue(&made->tensor);
    made_.push_back(std::move(made));
    return v;
  }

  // Throws NotAvailable.
  Operator& InnerOf(const Statement& s) const {
    Operator* own =
        s.op.find('.') == s.op.npos ? FindRegistered(op_.library + "." + s.op) : nullptr;
    return own ? *own : *Find(s.op);
  }

  void RunStatement(const Statement& s) {
    Operator& inner = InnerOf(s);
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
    const HeldPlan plan = GetPlan(inner, call);
    for (int r = 0; r < inner.n_results; ++r) {
      anyop_value& v = call[inner.n_params + r];
      if (v.tag == ANYOP_NONE) v = Make(plan->results[r]);
      if (std::size_t(r) < s.results.size()) Assign(s.results[std::size_t(r)], v);
    }
    anyop::Run(inner, *plan, call);
  }

  // None of an absent argument.
  void RunView(const Statement& s) {
    anyop_value v = Value(s.view.base);
    if (v.tag == ANYOP_TENSOR) {
      auto seen = std::make_unique<Seen>();
      seen->layout = LayoutOf(*v.t);
      See(s.view, &seen->layout);
      seen->tensor = TensorOf(seen->layout, static_cast<char*>(v.t->data) + v.t->byte_offset);
      seen->tensor.device = v.t->device;
      v.t = &seen->tensor;
      seen_.push_back(std::move(seen));
    }
    Assign(s.results[0], v);
  }

  void See(const StatementView& view, Layout* layout) const {
    const int most = std::max(view.a, view.b);
    if (view.kind != StatementView::kReshape && most >= layout->rank) {
      Fail(ANYOP_INVALID_ARGUMENT, op_.display_name() + ": " + view.base.text + " is " +
                                       Show(TensorOf(*layout, nullptr)) +
                                       ", but must have a dimension " + std::to_string(most) +
                                       ", because .means names it.");
    }
    std::int64_t sizes[kMaxRank];
    for (std::size_t i = 0; i < view.sizes.size(); ++i) sizes[i] = SizeOf(view.sizes[i]);
    try {
      *layout = view.kind == StatementView::kTranspose ? Transposed(*layout, view.a, view.b)
                : view.kind == StatementView::kSlice
                    ? Sliced(*layout, view.a, sizes[0], sizes[1])
                    : Reshaped(*layout, {sizes, view.sizes.size()});
    } catch (const Error& e) {
      throw Error(e.code, op_.display_name() + ": " + e.what());
    }
  }

  std::int64_t SizeOf(const Expression& size) const {
    const anyop_value v = NumberOf(size);
    if (v.tag == ANYOP_INT) return v.i;
    Fail(ANYOP_INVALID_ARGUMENT, op_.display_name() + ": " + size.text +
                                     " has no whole value in this call, but .means makes a view of "
                                     "it.");
  }

  void Assign(const StatementResult& to, const anyop_value& v) {
    if (to.is_result) assigned_ |= 1u << to.index;
    (to.is_result ? results_ : locals_)[std::size_t(to.index)] = v;
  }

  static anyop_value Default(const Operator& op, int i) {
    anyop_value v;
    if (!DefaultValue(*op.contract, i, &v)) v = {};
    return v;
  }

  [[noreturn]] void FailResult(int r) {
    Fail(ANYOP_UNSUPPORTED, op_.display_name() + ": .means does not compute " +
                                std::string(EntryName(op_, op_.n_params + r)) +
                                " in this call, because the statement that does needs an argument "
                                "that is absent.");
  }
  [[noreturn]] void FailStatement(const Statement& s, const std::string& what) {
    Fail(ANYOP_INTERNAL, op_.display_name() + ": .means calls " + s.op + " with " + what + ".");
  }

  // As the inner operator's parameter wants it.
  anyop_value ValueOf(const Operator& inner, int place, const StatementArgument& a) const {
    const anyop_value v = Value(a);
    if (v.tag == ANYOP_WORD) {
      const std::string_view word(v.s, v.count);
      return WordValue(word, inner.contract->word(place, word));
    }
    return FittedExpression(inner.contract->forms[0].params[std::size_t(place)].kind, v);
  }

  anyop_value Value(const StatementArgument& a) const {
    switch (a.kind) {
      case StatementArgument::kNone:
        break;
      case StatementArgument::kParameter:
        return frame_[a.index];
      case StatementArgument::kResult:
        return results_[std::size_t(a.index)];
      case StatementArgument::kLocal:
        return locals_[std::size_t(a.index)];
      case StatementArgument::kExpression:
        return NumberOf(a.expression);
      case StatementArgument::kDType:
        return DTypeValue(DType(a.index));
      case StatementArgument::kDTypeVar: {
        const int var = op_.contract->forms[std::size_t(plan_.form)].dtype_var(a.text);
        if (var < 0 || !(plan_.bindings.dtype_bound >> var & 1)) break;
        return DTypeValue(DType(plan_.bindings.dtype[var]));
      }
      case StatementArgument::kWord:  // without its quotes; the inner operator numbers it
        return WordValue(std::string_view(a.text).substr(1, a.text.size() - 2), 0);
      case StatementArgument::kList:
        return IntsValue(a.list.data(), a.list.size());
    }
    return {};
  }

  anyop_value NumberOf(const Expression& expression) const {
    const int node = expression.node[std::size_t(plan_.form)];
    if (node < 0) return {};
    const Number n = Evaluate(*op_.contract, plan_.form, node, plan_.bindings, frame_);
    if (n.fault != Fault::kNone) {
      Fail(ANYOP_INVALID_ARGUMENT,
           op_.display_name() + ": " + expression.text + ", which .means uses, " +
               (n.fault == Fault::kOverflow ? "is beyond 63 bits in this call."
                                            : "divides by zero in this call."));
    }
    if (!n.known) return {};
    return n.is_float ? FloatValue(n.f) : IntValue(n.i);
  }

  Operator& op_;
  const Plan& plan_;
  const anyop_value* frame_;
  const Composition& composition_;
  std::vector<anyop_value> locals_, results_;
  unsigned assigned_ = 0;  // results, by bit
  std::vector<std::unique_ptr<Made>> made_;
  std::vector<std::unique_ptr<Seen>> seen_;
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
