// SPDX-License-Identifier: Apache-2.0
// What the names of vLLM's extension `_C` mean here. The table is python/anyop/vllm/_rows.py: a row
// says which operators of ours compute a name. Which of vLLM's arguments they take follows from the
// two signatures (map.h), or a function of this folder, of the same name as the row, makes of them
// what our operators take. A function stands in the table at the end of its file.
#pragma once
#include <ATen/core/stack.h>

#include <span>
#include <string_view>

#include "call.h"

namespace anyop::vllm_host {

// One call of a row.
struct RowCall {
  const char* name;                 // of the row, with which messages begin
  const c10::IValue* arguments;     // vLLM's, by position
  const TorchOperator* const* ops;  // those that the row names
  const c10::IValue& operator[](int i) const { return arguments[i]; }
  const TorchOperator& op(int i = 0) const { return *ops[i]; }
};

// Returns what the schema of its row says, several tensors as a tuple, or None.
using Function = c10::IValue (*)(const RowCall& call);

struct NamedFunction {
  std::string_view name;
  Function function;
};
std::span<const NamedFunction> AttentionFunctions();
std::span<const NamedFunction> BytesFunctions();
std::span<const NamedFunction> LayerFunctions();
std::span<const NamedFunction> QuantizedFunctions();
std::span<const NamedFunction> SamplingFunctions();

}  // namespace anyop::vllm_host
