// SPDX-License-Identifier: Apache-2.0
// Runs a composition: each statement is a call of its own, or a view.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "anyop/tensor.h"
#include "runtime/device/device.h"
#include "runtime/memory/copy.h"
#include "runtime/memory/layout.h"
#include "runtime/memory/overlap.h"
#include "runtime/plan/frame.h"
#include "runtime/run/call.h"
#include "runtime/run/device_copy.h"
#include "runtime/run/follow_composition.h"
#include "runtime/run/run.h"
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

// A view: a tensor in the memory of another one.
struct Seen {
  DLTensor tensor;
  Layout layout;
};

class CompositionRun : public CompositionFollower<anyop_value> {
 public:
  CompositionRun(Operator& op, const Plan& plan, const anyop_value* frame)
      : CompositionFollower(
            op, op.compositions[op.compositions.size() == 1 ? 0 : std::size_t(plan.form)]),
        plan_(plan),
        frame_(frame) {}
  ~CompositionRun() override {
    while (!made_.empty()) made_.pop_back();  // workspaces nest: the last one goes first
  }

  void Run() {
    for (int r = 0; r < op_.n_results; ++r) PlaceResult(r);
    Follow();
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
  bool FollowStatement(const Statement& s) override {
    try {
      return CompositionFollower::FollowStatement(s);
    } catch (const Error& e) {
      const bool is_view = s.view.kind != StatementView::kNone;
      throw Error(e.code, std::string(e.what()) + "\n  in .means of " + op_.display_name() +
                              (is_view ? ", " + s.text : ", which calls " + s.op));
    }
  }

  // Decides where the statements write result r. If its memory meets that of an argument (`over`),
  // they write elsewhere, because a later statement may still read the argument.
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

  bool VisitCall(const Statement& s, Operator& inner, std::vector<Given> given) override {
    anyop_value call[kMaxParams + kMaxResults] = {};
    for (int i = 0; i < inner.n_params; ++i) call[i] = given[std::size_t(i)].value;
    for (std::size_t r = 0; r < s.results.size(); ++r) {
      if (s.results[r].is_result) {
        call[inner.n_params + int(r)] = results_[std::size_t(s.results[r].index)];
      }
    }
    const HeldPlan plan = GetPlanOn(plan_.device, inner, call, ~std::uint64_t{0});
    for (int r = 0; r < inner.n_results; ++r) {
      anyop_value& v = call[inner.n_params + r];
      if (v.tag == ANYOP_NONE) v = Make(plan->results[r]);
      if (std::size_t(r) >= s.results.size()) continue;
      const StatementResult& to = s.results[std::size_t(r)];
      if (to.is_result) assigned_ |= 1u << to.index;
      Assign(to, v);
    }
    anyop::Run(inner, *plan, call);
    return true;
  }

  // A view of an argument that is absent is absent as well.
  bool VisitView(const Statement& s) override {
    anyop_value v = ValueOf(s.view.base);
    if (v.tag == ANYOP_TENSOR) {
      auto seen = std::make_unique<Seen>();
      seen->layout = LayoutOf(*v.t);
      See(s.view, &seen->layout);
      seen->tensor = TensorOf(seen->layout, BaseOf(*v.t));
      seen->tensor.device = v.t->device;
      v.t = &seen->tensor;
      seen_.push_back(std::move(seen));
    }
    Assign(s.results[0], v);
    return true;
  }

  void See(const StatementView& view, Layout* layout) const {
    const int most = std::max(view.a, view.b);
    if (view.kind != StatementView::kReshape && most >= layout->rank) {
      Fail(ANYOP_INVALID_ARGUMENT,
           op_.Message(view.base.text + " is " + Show(TensorOf(*layout, nullptr)) +
                       ", but must have a dimension " + std::to_string(most) +
                       ", because .means names it."));
    }
    std::int64_t sizes[kMaxRank];
    for (std::size_t i = 0; i < view.sizes.size(); ++i) sizes[i] = SizeOf(view.sizes[i]);
    try {
      *layout = view.kind == StatementView::kTranspose ? Transposed(*layout, view.a, view.b)
                : view.kind == StatementView::kSlice
                    ? Sliced(*layout, view.a, sizes[0], sizes[1])
                    : Reshaped(*layout, {sizes, view.sizes.size()});
    } catch (const Error& e) {
      throw Error(e.code, op_.Message(e.what()));
    }
  }

  std::int64_t SizeOf(const Expression& size) const {
    const anyop_value v = NumberOf(size);
    if (v.tag == ANYOP_INT) return v.i;
    Fail(ANYOP_INVALID_ARGUMENT,
         op_.Message(size.text + " has no whole value in this call, but .means makes a view of "
                                 "it."));
  }

  [[noreturn]] void FailResult(int r) {
    Fail(ANYOP_UNSUPPORTED,
         op_.Message(".means does not compute " + std::string(EntryName(op_, op_.n_params + r)) +
                     " in this call, because the statement that does needs an argument "
                     "that is absent."));
  }

  anyop_value Parameter(int i) const override { return frame_[i]; }
  anyop_value Literal(DType dtype) const override { return DTypeValue(dtype); }
  anyop_value Literal(std::string_view word) const override { return WordValue(word, 0); }
  anyop_value Literal(const std::vector<std::int64_t>& list) const override {
    return IntsValue(list.data(), list.size());
  }
  anyop_value Computed(const StatementArgument& a) const override {
    if (a.kind == StatementArgument::kExpression) return NumberOf(a.expression);
    const int var = op_.contract->forms[std::size_t(plan_.form)].dtype_var(a.text);
    if (var < 0 || !(plan_.bindings.dtype_bound >> var & 1)) return {};
    return DTypeValue(DType(plan_.bindings.dtype[var]));
  }
  bool Default(const Operator& inner, int i, anyop_value* v) const override {
    if (!DefaultValue(*inner.contract, i, v)) *v = {};
    return true;
  }
  bool IsNone(const anyop_value& v) const override { return v.tag == ANYOP_NONE; }
  anyop_value Fitted(const Operator& inner, int i, anyop_value v) const override {
    if (v.tag == ANYOP_WORD) {
      const std::string_view word(v.s, v.count);
      return WordValue(word, inner.contract->word(i, word));
    }
    return FittedExpression(ParamOf(inner, i).kind, v);
  }

  anyop_value NumberOf(const Expression& expression) const {
    const int node = expression.node[std::size_t(plan_.form)];
    if (node < 0) return {};
    const Number n = Evaluate(*op_.contract, plan_.form, node, plan_.bindings, frame_);
    if (n.fault != Fault::kNone) {
      Fail(ANYOP_INVALID_ARGUMENT,
           op_.Message(expression.text + ", which .means uses, " +
                       (n.fault == Fault::kOverflow ? "is beyond 63 bits in this call."
                                                    : "divides by zero in this call.")));
    }
    if (!n.known) return {};
    return n.is_float ? FloatValue(n.f) : IntValue(n.i);
  }

  const Plan& plan_;
  const anyop_value* frame_;
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
    Fail(ANYOP_INTERNAL, op.Message(".means leads back to itself."));
  }
  CompositionRun(op, plan, frame).Run();
}

}  // namespace anyop
