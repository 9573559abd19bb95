// SPDX-License-Identifier: Apache-2.0
#include "signature/binding.h"
#include "signature/symbolic.h"

namespace anyop {
namespace {

// Makes unknown in `a` what `b` says otherwise; false if the dtypes differ, which may not be
// unknown.
bool Merge(ResultShape* a, const ResultShape& b) {
  if (a->dtype != b.dtype) return false;
  if (a->rank != b.rank) a->rank = -1;
  for (int i = 0; i < a->rank; ++i) {
    if (a->shape[i] != b.shape[i]) a->shape[i] = -1, a->bytes = 0;
  }
  if (a->rank < 0) a->bytes = 0;
  return true;
}

// Why no form takes the words and ranks of a call.
std::string RefusedByAll(const Contract& contract, const anyop_value* frame,
                         std::uint64_t unknown_params) {
  Bindings bindings;
  std::string error;
  Check(contract, frame, &bindings, &error, unknown_params);
  return error;
}

}  // namespace

int InferPartial(const Contract& contract, const anyop_value* frame, std::uint64_t unknown_params,
                 ResultShape* results, std::string* error, Symbols* symbols) {
  if (!CheckKinds(contract, frame, error)) return -1;
  int found = -1, tried = 0;
  std::string first_error;
  for (int form = 0; form < int(contract.forms.size()); ++form) {
    const Fit fit = FormFits(contract, form, frame, unknown_params);
    if (fit == Fit::kNo) continue;
    ++tried;
    Bindings bindings;
    ResultShape shapes[kMaxResults];
    std::string text;
    const bool is_right =
        CheckForm(contract, form, frame, &bindings, &text, unknown_params, symbols) &&
        InferResults(contract, form, bindings, frame, shapes, &text, true);
    if (!is_right && first_error.empty()) first_error = text;
    for (int i = 0; is_right && i < contract.n_results(); ++i) {
      if (found < 0) {
        results[i] = shapes[i];
      } else if (!Merge(&results[i], shapes[i])) {
        *error = "the dtype of " + std::string(contract.forms[0].results[std::size_t(i)].name) +
                 " depends on what is not known yet.";
        return -1;
      }
    }
    if (is_right && found < 0) found = form;
    if (fit == Fit::kYes) break;  // no later form takes these words and ranks
  }
  // With several forms, the requirements are those of a form that the call may not have.
  if (symbols && tried > 1) symbols->requirements.clear();
  if (found >= 0) return found;
  *error = !first_error.empty() ? first_error
           : symbols            ? "no form takes these words and ranks."
                                : RefusedByAll(contract, frame, unknown_params);
  return -1;
}

}  // namespace anyop
