// SPDX-License-Identifier: Apache-2.0
// How an operator and the one that its .gradient names fit together, by the names of both.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/registry/operator.h"

namespace anyop {

// Where a parameter of the gradient comes from: the gradient of a result of the forward, a
// parameter of the forward, or a result. index: of that result or parameter.
struct GradientSource {
  enum Kind : std::uint8_t { kResultGradient, kParam, kResult } kind;
  int index;
};

struct GradientWiring {
  Operator* op;                         // the gradient
  std::vector<GradientSource> sources;  // per parameter of the gradient
  std::vector<int> targets;  // per result of the gradient: the forward's parameter it belongs to
  std::uint64_t differentiable_params = 0;   // the targets, by bit
  std::uint64_t differentiable_results = 0;  // the results whose gradients it takes, by bit
  // Parameters of the forward whose words the gradient does not all take.
  struct FewerWords {
    int param;
    const std::vector<std::string>* words;
  };
  std::vector<FewerWords> fewer_words;
};

// Null for an operator without .gradient. Wired when its library is registered; never changes.
inline const GradientWiring* GradientOf(const Operator& op) { return op.gradient.get(); }

// Wires `op` to `gradient`; throws InvalidArgument, naming both and what does not fit.
GradientWiring WireGradient(const Operator& op, Operator& gradient);

}  // namespace anyop
