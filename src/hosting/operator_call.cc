// SPDX-License-Identifier: Apache-2.0
#include "hosting/operator_call.h"

#include <algorithm>
#include <array>
#include <bit>

#include "anyop/value.h"
#include "platform/error.h"
#include "runtime/registry/gradient.h"
#include "runtime/run/call.h"
#include "signature/binding.h"
#include "signature/symbolic.h"

namespace anyop {
namespace {

class OperatorCall : public BoundCall {
 public:
  OperatorCall(OperatorText text, const ScopeState& scope)
      : BoundCall(scope), own_(std::move(text)), op_(*own_.op) {
    const Contract& contract = *op_.contract;
    std::string error;
    if (!CheckKinds(contract, own_.call.frame(), &error)) {
      Fail(ANYOP_INVALID_ARGUMENT, op_.Message(error));
    }
    text_ = TextOfCall(op_, own_.call.frame(), own_.wanted, scope);
    AddInputs();
    AddResults();
    n_values_ = std::size_t(op_.n_params + op_.n_results);
    std::copy_n(own_.call.frame(), n_values_, frame_.begin());
    for (const int r : wanted_) {
      frame_[std::size_t(op_.n_params + r)] = TensorValue(nullptr);
    }
  }

  std::span<const anyop_value> arguments() const override {
    return {own_.call.frame(), std::size_t(op_.n_params)};
  }
  std::string_view contract() const override { return op_.contract->hash; }
  std::string shown_name() const override { return op_.display_name(); }

 private:
  // An input's place: a parameter, or an element of one that is a list.
  struct Place {
    int param, element;  // element -1: the parameter itself
  };

  const Form& form() const { return op_.contract->forms[0]; }
  const Param& param(int i) const { return form().params[std::size_t(i)]; }

  void AddInput(int i, int element, const DLTensor& t) {
    const std::string name(param(i).name);
    places_.push_back({i, element});
    inputs_.push_back({element < 0 ? name : name + "[" + std::to_string(element) + "]",
                       DType(FromDL(t.dtype)), param(i).is_mut});
  }
  void AddInputs() {
    for (int i = 0; i < op_.n_params; ++i) {
      const anyop_value& v = own_.call[i];
      if (v.tag == ANYOP_TENSOR) AddInput(i, -1, *v.t);
      for (std::uint32_t k = 0; v.tag == ANYOP_TENSORS && k < v.count; ++k) {
        AddInput(i, int(k), *v.ts[k]);
      }
      if (v.tag == ANYOP_TENSORS) n_elements_ += v.count;
    }
  }
  void AddResults() {
    ResultShape shapes[kMaxResults];
    std::string error;
    // This may fail: either the dtypes depend on ranks, which the text does not have, or the call
    // is wrong, which the first inference will say.
    const bool is_known = InferPartial(*op_.contract, own_.call.frame(), 0, shapes, &error) >= 0;
    for (int r = 0; r < op_.n_results; ++r) {
      if (!(own_.wanted >> r & 1)) continue;
      wanted_.push_back(r);
      BoundResult result{std::string(form().results[std::size_t(r)].name), -1, {}};
      if (is_known) {
        result.dtype = int(shapes[r].dtype);
        result.over = InputsUnder(r, shapes[r].dtype);
      }
      results_.push_back(std::move(result));
    }
  }
  // The inputs whose memory a result may take in every form that the call may have: the ranks may
  // choose another form each time.
  std::vector<int> InputsUnder(int result, DType dtype) const {
    std::uint64_t over = ~0ull;
    for (int f = 0; f < int(op_.contract->forms.size()); ++f) {
      if (FormFits(*op_.contract, f, own_.call.frame(), 0) != Fit::kNo) {
        over &= op_.contract->forms[std::size_t(f)].results[std::size_t(result)].over;
      }
    }
    std::vector<int> found;
    for (std::size_t k = 0; k < places_.size(); ++k) {
      const bool is_over = over >> places_[k].param & 1 && places_[k].element < 0;
      if (is_over && Bytes(inputs_[k].dtype) == Bytes(dtype)) found.push_back(int(k));
    }
    return found;
  }

  // Puts tensors in their places of a frame. list: room for n_elements_ pointers.
  void Fill(const DLTensor* inputs, const DLTensor** list, anyop_value* frame) const {
    std::copy_n(frame_.begin(), n_values_, frame);
    for (std::size_t k = 0; k < places_.size(); ++k) {
      const Place& place = places_[k];
      if (place.element < 0) {
        frame[place.param].t = &inputs[k];
        continue;
      }
      if (place.element == 0) frame[place.param].ts = list;
      *list++ = &inputs[k];
    }
  }

  void DoRun(const DLTensor* inputs, const DLTensor* results) const override {
    constexpr std::size_t kFew = 32;  // so many elements of lists need no allocation
    anyop_value frame[kMaxParams + kMaxResults];
    const DLTensor* few[kFew];
    if (n_elements_ <= kFew) {
      Fill(inputs, few, frame);
      return Call(frame, results);
    }
    std::vector<const DLTensor*> many(n_elements_);
    Fill(inputs, many.data(), frame);
    Call(frame, results);
  }
  void Call(anyop_value* frame, const DLTensor* results) const {
    for (const int r : wanted_) frame[op_.n_params + r].t = results++;
    anyop::Run(op_, *GetPlan(op_, frame), frame);
  }

  void DoInfer(std::span<const DLTensor> inputs, ResultShape* results) const override {
    anyop_value frame[kMaxParams + kMaxResults];
    std::vector<const DLTensor*> list(n_elements_);
    Fill(inputs.data(), list.data(), frame);
    for (int r = 0; r < op_.n_results; ++r) frame[op_.n_params + r] = {};
    ResultShape shapes[kMaxResults];
    std::string error;
    if (InferPartial(*op_.contract, frame, 0, shapes, &error) < 0) {
      Fail(ANYOP_INVALID_ARGUMENT, op_.Message(error));
    }
    for (const int r : wanted_) *results++ = shapes[r];
  }

  BoundGradient MakeGradient(std::span<const std::uint8_t> wanted,
                             std::span<const std::uint8_t> given) const override;
  friend class GradientMaker;

  const OperatorText own_;
  Operator& op_;
  std::vector<Place> places_;  // per input
  std::vector<int> wanted_;    // the results
  std::size_t n_elements_ = 0, n_values_ = 0;
  std::array<anyop_value, kMaxParams + kMaxResults> frame_;  // without tensors
};

// The call of the gradient that belongs to one of its forward's.
class GradientMaker {
 public:
  GradientMaker(const OperatorCall& forward, const GradientWiring& wiring,
                std::span<const std::uint8_t> given)
      : forward_(forward),
        op_(forward.op_),
        gradient_(*wiring.op),
        wiring_(wiring),
        needed_(forward.own_.wanted) {
    for (std::size_t k = 0; k < forward.wanted_.size(); ++k) {
      if (given.empty() || given[k]) given_ |= 1u << forward.wanted_[k];
    }
  }

  BoundGradient Make(std::span<const std::uint8_t> wanted) {
    const std::uint32_t results = FindTargets(wanted);
    InferForward();
    std::vector<anyop_value> frame;
    for (int i = 0; i < gradient_.n_params; ++i) frame.push_back(Argument(i));
    const ScopeState& scope = forward_.scope_;
    made_.forward = &FindBoundCall(TextOfCall(op_, forward_.own_.call.frame(), needed_, scope));
    made_.gradient = &FindBoundCall(TextOfCall(gradient_, frame.data(), results, scope));
    // Results are numbered as the operator has them, until it is known which ones are needed.
    for (anyop_source& s : made_.sources) {
      if (s.kind != ANYOP_SOURCE_INPUT) s.index = std::popcount(needed_ & ((1u << s.index) - 1));
    }
    return std::move(made_);
  }

 private:
  // Which results of the gradient are wanted, by bit; throws where a wanted input has none.
  std::uint32_t FindTargets(std::span<const std::uint8_t> wanted) {
    std::uint32_t results = 0;
    std::vector<bool> is_found(wanted.size());
    for (std::size_t r = 0; r < wiring_.targets.size(); ++r) {
      for (std::size_t k = 0; k < wanted.size(); ++k) {
        if (!wanted[k] || forward_.places_[k].param != wiring_.targets[r]) continue;
        is_found[k] = true;
        results |= 1u << r;
        made_.targets.push_back(int(k));
      }
    }
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      if (!wanted[k] || is_found[k]) continue;
      Fail(ANYOP_UNSUPPORTED,
           op_.Message(forward_.inputs_[k].name + " has no gradient, but one is wanted: " +
                       gradient_.display_name() + " computes none for it."));
    }
    if (!results) {
      Fail(ANYOP_INVALID_ARGUMENT,
           op_.Message("no input's gradient is wanted, but at least one must be."));
    }
    return results;
  }

  void InferForward() {
    std::string error;
    if (InferPartial(*op_.contract, forward_.own_.call.frame(), 0, shapes_, &error) < 0) {
      Fail(ANYOP_INVALID_ARGUMENT, op_.Message(error));
    }
  }

  anyop_value Argument(int i) {
    const GradientSource& source = wiring_.sources[std::size_t(i)];
    const Param& p = gradient_.contract->forms[0].params[std::size_t(i)];
    const auto index = std::size_t(source.index);
    if (source.kind == GradientSource::kParam) return PassedOn(i, source.index);
    if (source.kind == GradientSource::kResultGradient) {
      if (p.is_optional && !(given_ >> index & 1)) return {};
      made_.sources.push_back({ANYOP_SOURCE_RESULT_GRADIENT, source.index});
    } else {
      made_.sources.push_back({ANYOP_SOURCE_RESULT, source.index});
    }
    needed_ |= 1u << index;
    DLTensor& t = results_[index];
    FillTensor(&t, nullptr, kHostDevice, ToDL(shapes_[index].dtype), -1, nullptr);
    return TensorValue(&t);
  }
  anyop_value PassedOn(int i, int param) {
    const anyop_value v = forward_.own_.call[param];
    for (std::size_t k = 0; k < forward_.places_.size(); ++k) {
      if (forward_.places_[k].param != param) continue;
      made_.sources.push_back({ANYOP_SOURCE_INPUT, int(k)});
    }
    if (v.tag == ANYOP_WORD) CheckWord(i, std::string_view(v.s, v.count));
    return v;
  }
  void CheckWord(int i, std::string_view word) const {
    if (gradient_.contract->word(i, word) >= 0) return;
    std::string known;
    for (const std::string& w : gradient_.contract->words[std::size_t(i)]) {
      known += (known.empty() ? "'" : " or '") + w + "'";
    }
    const Param& p = gradient_.contract->forms[0].params[std::size_t(i)];
    Fail(ANYOP_UNSUPPORTED,
         op_.Message(std::string(p.name) + " is '" + std::string(word) + "', but must be " + known +
                     " where a gradient is needed, because " + gradient_.display_name() +
                     " takes no other."));
  }

  const OperatorCall& forward_;
  const Operator &op_, &gradient_;
  const GradientWiring& wiring_;
  std::uint32_t needed_, given_ = 0;  // results of the forward, by bit
  ResultShape shapes_[kMaxResults];
  DLTensor results_[kMaxResults];
  BoundGradient made_{};
};

BoundGradient OperatorCall::MakeGradient(std::span<const std::uint8_t> wanted,
                                         std::span<const std::uint8_t> given) const {
  const GradientWiring* wiring = GradientOf(op_);
  if (!wiring) {
    Fail(ANYOP_UNSUPPORTED, op_.Message("it has no gradient, but one is wanted."));
  }
  return GradientMaker(*this, *wiring, given).Make(wanted);
}

}  // namespace

std::unique_ptr<BoundCall> MakeOperatorCall(OperatorText text, const ScopeState& scope) {
  return std::make_unique<OperatorCall>(std::move(text), scope);
}

}  // namespace anyop
