// SPDX-License-Identifier: Apache-2.0
// Calls of the C++ API: arguments become a frame.
#include "anyop/runtime.h"
#include "runtime/run/call.h"
#include "signature/defaults.h"
#include "signature/fitted.h"

namespace anyop {

void Argument::SetArrays(std::span<const Array> list) {
  tensors_ = std::make_shared<const DLTensor*[]>(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) tensors_[i] = &list[i].tensor();
  value_ = TensorsValue(tensors_.get(), list.size());
}

namespace detail {
namespace {

// An argument as its parameter takes it: words with their number, integers as floats, and so on.
inline anyop_value ValueFor(const Operator& op, const Param& p, int i, anyop_value v) {
  if (v.tag == ANYOP_TENSOR) return v;
  if (p.kind == ParamKind::kWord && v.tag == ANYOP_WORD) {
    const std::string_view word(v.s, v.count);
    const int number = op.contract->word(i, word);
    if (number < 0) {
      Fail(ANYOP_INVALID_ARGUMENT, op.Message(WordError(*op.contract, i, word)));
    }
    return WordValue(word, number);
  }
  if (p.kind == ParamKind::kTensors && v.tag == ANYOP_NONE && !p.is_optional) {
    return TensorsValue(nullptr, 0);
  }
  return Fitted(p.kind, v);
}

void FillArguments(const Operator& op, std::span<const Argument> args, anyop_value* frame) {
  const Form& form = op.contract->forms[0];
  std::uint64_t given = 0;
  for (std::size_t k = 0; k < args.size(); ++k) {
    int place = int(k);
    if (const char* name = args[k].name()) {
      place = form.param(name);
      if (place < 0) {
        std::vector<std::string> known;
        for (const Param& p : form.params) known.emplace_back(p.name);
        Fail(ANYOP_INVALID_ARGUMENT, op.Message("there is no argument '" + std::string(name) +
                                                "'." + NearOrAll(name, known)));
      }
    }
    if (place >= op.n_params) {
      Fail(ANYOP_INVALID_ARGUMENT,
           op.Message(std::to_string(args.size()) + " arguments are given, but there are " +
                      std::to_string(op.n_params) + "."));
    }
    if (given >> place & 1) {
      Fail(ANYOP_INVALID_ARGUMENT,
           op.Message(std::string(form.params[std::size_t(place)].name) + " is given twice."));
    }
    given |= 1ull << place;
    frame[place] = ValueFor(op, form.params[std::size_t(place)], place, args[k].value());
  }
  for (int i = 0; i < op.n_params; ++i) {
    if (given >> i & 1 || DefaultValue(*op.contract, i, &frame[i])) continue;
    Fail(ANYOP_INVALID_ARGUMENT,
         op.Message(std::string(form.params[std::size_t(i)].name) + " is missing."));
  }
}

}  // namespace

void RunCall(Operator& op, std::span<const Argument> args, std::span<const Array* const> given,
             std::vector<Array>* results) {
  anyop_value frame[kMaxParams + kMaxResults];
  FillArguments(op, args, frame);
  const Form& form = op.contract->forms[0];
  if (int(given.size()) > op.n_results || (!results && int(given.size()) < op.n_results)) {
    Fail(ANYOP_INVALID_ARGUMENT,
         op.Message(std::to_string(given.size()) + " results are given, but there are " +
                    std::to_string(op.n_results) + "."));
  }
  for (int r = 0; r < op.n_results; ++r) {
    anyop_value& v = frame[op.n_params + r];
    v = {};
    if (std::size_t(r) >= given.size()) continue;
    if (given[std::size_t(r)]->is_none()) {
      if (form.results[std::size_t(r)].is_optional) continue;
      Fail(ANYOP_INVALID_ARGUMENT,
           op.Message("the result " + std::string(form.results[std::size_t(r)].name) +
                      " cannot be declined."));
    }
    v = TensorValue(&given[std::size_t(r)]->tensor());
  }
  const HeldPlan plan = GetPlan(op, frame);
  if (results) {
    results->reserve(std::size_t(op.n_results));  // the frame points into it, so it must not move
    for (int r = 0; r < op.n_results; ++r) {
      const ResultShape& s = plan->results[r];
      results->push_back(
          Array::Empty(Array::Shape(s.shape, std::size_t(s.rank)), s.dtype, plan->device));
      frame[op.n_params + r] = TensorValue(&results->back().tensor());
    }
  }
  Run(op, *plan, frame);
}

std::string ExplainCall(Operator& op, std::span<const Argument> args) {
  anyop_value frame[kMaxParams + kMaxResults] = {};
  FillArguments(op, args, frame);
  return Explain(op, frame).text();
}

}  // namespace detail
}  // namespace anyop
