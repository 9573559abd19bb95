// SPDX-License-Identifier: Apache-2.0
#include "signature/binding.h"
#include "signature/symbolic.h"

namespace anyop {
namespace {

// Keeps of `a` what `b` says too.
bool Merge(ResultShape* a, const ResultShape& b) {
  if (a->dtype != b.dtype) return false;
  if (a->rank != b.rank) a->rank = -1;
  for (int i = 0; i < a->rank; ++i) {
    if (a->shape[i] != b.shape[i]) a->shape[i] = -1, a->bytes = 0;
  }
  if (a->rank < 0) a->bytes = 0;
  return true;
}

}  // namespace

int InferPartial(const Contract& contract, const anyop_value* frame, std::uint64_t unknown_params,
                 ResultShape* results, std::string* error) {
  if (!CheckKinds(contract, frame, error)) return -1;
  int found = -1;
  std::string first_error;
  for (int form = 0; form < int(contract.forms.size()); ++form) {
    if (contract.forms.size() > 1 && !FormFits(contract, form, frame, unknown_params)) continue;
    Bindings bindings;
    ResultShape shapes[kMaxResults];
    std::string text;
    if (!CheckForm(contract, form, frame, &bindings, &text, unknown_params) ||
        !InferResults(contract, form, bindings, frame, shapes, &text, true)) {
      if (first_error.empty()) first_error = text;
      continue;
    }
    for (int i = 0; i < contract.n_results(); ++i) {
      if (found < 0) {
        results[i] = shapes[i];
      } else if (!Merge(&results[i], shapes[i])) {
        *error = "the dtype of " + std::string(contract.forms[0].results[std::size_t(i)].name) +
                 " depends on what is not known yet.";
        return -1;
      }
    }
    if (found < 0) found = form;
  }
  if (found >= 0) return found;
  if (first_error.empty()) {
    Bindings bindings;
    Check(contract, frame, &bindings, &first_error, unknown_params);
  }
  *error = first_error;
  return -1;
}

}  // namespace anyop
