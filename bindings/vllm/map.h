// SPDX-License-Identifier: Apache-2.0
// A row whose arguments go to one operator as they are: "gelu(input, 'tanh') -> out".
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "call.h"

namespace anyop::vllm_host {

class Mapping {
 public:
  Mapping() = default;
  // call: an operator of ours with names of vLLM's arguments, words, numbers, True, False or None;
  // then the arguments that the results go to, or "return" for a fresh tensor. Results that are not
  // named are declined. "nothing" does nothing; "False" or "True" is what is returned.
  Mapping(const c10::FunctionSchema& schema, const std::string& name, const std::string& call);
  c10::IValue Run(const c10::IValue* arguments) const;

 private:
  struct Source {
    int argument = -1;  // of vLLM's; else the constant
    c10::IValue constant;
  };
  Source Read(const c10::FunctionSchema& schema, std::string_view text) const;

  const TorchOperator* op_ = nullptr;  // none: what follows is all
  c10::IValue constant_;
  std::vector<Source> params_;
  std::vector<int> results_;  // arguments of vLLM's; -1: returned
};

}  // namespace anyop::vllm_host
