// SPDX-License-Identifier: Apache-2.0
#include "operator.h"

#include <c10/util/Exception.h>

#include <new>

namespace anyop::torch_host {
namespace {

class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

}  // namespace

TorchOperator::TorchOperator(Operator& the_op)
    : op(&the_op),
      n_params(the_op.n_params),
      n_results(the_op.n_results),
      facts(FactsOf(*the_op.contract)),
      name(the_op.display_name()),
      wiring(GradientOf(the_op)) {
  for (int i = 0; i < n_params; ++i) {
    kinds[i] = param(i).kind;
    if (param(i).is_optional) optional_params |= 1ull << i;
  }
  for (int r = 0; r < n_results; ++r) {
    if (result(r).is_optional) declinable_results |= 1ull << r;
  }
  if (!wiring) return;
  gradient_takes_mask = FactsOf(*wiring->op->contract).takes_mask;
  const Operator& g = *wiring->op;
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
