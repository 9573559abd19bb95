// SPDX-License-Identifier: Apache-2.0
// PyTorch's view of an operator: what its kernels need at hand, computed once at registration.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "runtime/registry/gradient.h"
#include "runtime/run/call.h"
#include "signature/facts.h"

namespace anyop::torch_host {

// The three torch operators of an operator; see bindings/torch_unlinked/torch_schema.h.
enum class Variant : std::uint8_t { kFunctional, kOut, kInPlace };

struct TorchOperator {
  Operator* op;
  int n_params, n_results;
  Facts facts;
  ParamKind kinds[kMaxParams];
  std::uint64_t optional_params = 0;     // by bit
  std::uint64_t declinable_results = 0;  // by bit
  std::string name;                      // as messages begin

  const GradientWiring* wiring;
  std::optional<c10::OperatorHandle> gradient;
  bool gradient_takes_mask = false;

  explicit TorchOperator(Operator& op);
  const Param& param(int i) const { return op->contract->forms[0].params[std::size_t(i)]; }
  const Result& result(int r) const { return op->contract->forms[0].results[std::size_t(r)]; }
  int n_arguments(Variant v) const {
    return n_params + (facts.takes_mask && v != Variant::kInPlace) +
           (v == Variant::kOut ? n_results : 0);
  }
  // The place of result r's out argument among the arguments.
  int out_argument(int r) const { return n_params + facts.takes_mask + r; }
  std::string out_name(int r) const {
    return n_results == 1 ? "out" : "out_" + std::string(result(r).name);
  }
  // Without a gradient, every result leads to an error in backward.
  bool IsDifferentiable(int r) const { return !wiring || wiring->differentiable_results >> r & 1; }
  bool writes(Variant v) const { return v != Variant::kFunctional || facts.mut_params; }
};

// The arguments of a call: the last n of the stack.
inline c10::IValue* Arguments(torch::jit::Stack& stack, int n) {
  return stack.data() + stack.size() - std::size_t(n);
}

// Calls f(tensor, parameter, element) for each defined tensor of the parameters. element: in a
// list, else -1.
template <class F>
void ForTensors(const TorchOperator& op, const c10::IValue* arguments, F&& f) {
  for (int i = 0; i < op.n_params; ++i) {
    const c10::IValue& value = arguments[i];
    if (value.isTensor()) {
      if (value.toTensor().defined()) f(value.toTensor(), i, -1);
    } else if (value.isList() && op.kinds[i] == ParamKind::kTensors) {
      int element = 0;
      for (const c10::IValue& v : value.toListRef()) f(v.toTensor(), i, element++);
    }
  }
}

// Raises what torch turns into the Python exception of an error's code, with its text.
[[noreturn]] void RaiseTorchError(int code, const std::string& text);

}  // namespace anyop::torch_host
