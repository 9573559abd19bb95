// SPDX-License-Identifier: Apache-2.0
// A row whose arguments go to one operator as they are. Which of vLLM's arguments a parameter takes
// follows from the two signatures:
//
// - a parameter that the row gives a constant takes that;
// - else it takes the argument of its own name, or else the first of its kind (tensor, number,
// word)
//   that is left; where none is left, its default;
// - what vLLM's schema returns is the operator's first result. Where it returns nothing, results go
//   to the arguments that it writes, in order. These are read, too, where the operator needs more
//   tensors than the others are.
//
// An argument that nothing takes is an error, so that no call ignores what its caller gave.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "call.h"

namespace anyop::vllm_host {

// "kind = 'tanh', scale = 0.5": words, numbers, True, False and None by their names.
std::map<std::string, c10::IValue, std::less<>> ReadConstants(std::string_view text);

class Mapping {
 public:
  Mapping() = default;
  Mapping(const c10::FunctionSchema& schema, const TorchOperator& op, std::string_view constants);
  c10::IValue Run(const c10::IValue* arguments) const;

 private:
  struct Source {
    int argument = -1;  // of vLLM's; else the constant
    c10::IValue constant;
  };

  const TorchOperator* op_ = nullptr;
  std::vector<Source> params_;
  std::vector<int> results_;  // arguments of vLLM's; -1: returned
};

}  // namespace anyop::vllm_host
