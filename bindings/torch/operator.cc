// SPDX-License-Identifier: Apache-2.0
#include "operator.h"

#include <c10/util/Exception.h>

#include <new>

#include "signature/schema.h"

namespace anyop::torch_host {
namespace {

class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

std::vector<std::vector<int>> DTypeGroups(const Form& form) {
  std::vector<std::vector<int>> groups(form.dtype_vars.size());
  std::uint64_t refused = 0;
  for (std::size_t i = 0; i < form.params.size(); ++i) {
    const Param& p = form.params[i];
    if (!IsTensor(p.kind) || p.tensor.dtypes.kind != DTypes::kVariable) continue;
    const int variable = p.tensor.dtypes.index;
    groups[std::size_t(variable)].push_back(int(i));
    if (p.is_mut || p.kind == ParamKind::kTensors) refused |= 1ull << variable;
  }
  std::vector<std::vector<int>> kept;
  for (std::size_t v = 0; v < groups.size(); ++v) {
    if (groups[v].size() > 1 && !(refused >> v & 1)) kept.push_back(groups[v]);
  }
  return kept;
}

}  // namespace

TorchOperator::TorchOperator(Operator& the_op)
    : op(&the_op),
      n_params(the_op.n_params),
      n_results(the_op.n_results),
      name(the_op.display_name()),
      has_mask(HasOutputMask(*the_op.contract)),
      mut_params(0),
      has_tensor(false),
      dtype_groups(DTypeGroups(the_op.contract->forms[0])),
      wiring(GradientOf(the_op)) {
  for (int i = 0; i < n_params; ++i) {
    kinds[i] = param(i).kind;
    if (param(i).is_optional) optional_params |= 1ull << i;
    if (param(i).is_mut) mut_params |= 1ull << i;
    if (IsTensor(param(i).kind) && !param(i).is_optional) has_tensor = true;
  }
  for (int r = 0; r < n_results; ++r) {
    absent_declines[r] = ParamDeclining(*op->contract, r);
    if (result(r).is_optional) declinable_results |= 1ull << r;
  }
  if (!wiring) {
    differentiable_params = differentiable_results = ~0ull;
    return;
  }
  for (const int p : wiring->targets) differentiable_params |= 1ull << p;
  const Operator& g = *wiring->op;
  for (std::size_t i = 0; i < wiring->sources.size(); ++i) {
    const GradientSource& s = wiring->sources[i];
    if (s.kind == GradientSource::kResultGradient) differentiable_results |= 1ull << s.index;
    if (s.kind != GradientSource::kParam || kinds[s.index] != ParamKind::kWord) continue;
    const std::vector<std::string>& words = g.contract->words[i];
    const std::size_t n_known = op->contract->words[std::size_t(s.index)].size();
    if (words.size() < n_known) fewer_words.push_back({s.index, &words});
  }
  gradient = c10::Dispatcher::singleton().findSchemaOrThrow(
      (g.library + "::" + g.contract->name).c_str(), "");
}

void RaiseTorchError(int code, const std::string& text) {
  switch (code) {
    case ANYOP_INVALID_ARGUMENT:
      C10_THROW_ERROR(ValueError, text);
    case ANYOP_UNSUPPORTED:
      C10_THROW_ERROR(NotImplementedError, text);
    case ANYOP_OUT_OF_MEMORY:
      throw OutOfMemory(text);
    default:
      C10_THROW_ERROR(Error, text);
  }
}

}  // namespace anyop::torch_host
