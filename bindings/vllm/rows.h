// SPDX-License-Identifier: Apache-2.0
// What the names of vLLM's extension `_C` mean here. The table is python/anyop/vllm/_rows.py; a row
// says which operator of ours is called with which of vLLM's arguments, or that a function of this
// folder, of the same name, makes of them what our operators take.
#pragma once
#include <ATen/core/stack.h>

#include <string_view>

#include "call.h"

namespace anyop::vllm_host {

// vLLM's arguments, by position. A function returns what its schema says, several tensors as a
// tuple, or None.
using Function = c10::IValue (*)(const c10::IValue* arguments);

struct NamedFunction {
  const char* name;
  Function function;
};
// Null where no function has the name.
Function FindFunction(std::string_view name);

// attention.cc
c10::IValue CpuAttnHasIsa(const c10::IValue* arguments);
c10::IValue GetSchedulerMetadata(const c10::IValue* arguments);
c10::IValue ReshapeAndCache(const c10::IValue* arguments);
c10::IValue AttentionWithKvCache(const c10::IValue* arguments);
c10::IValue ComputeSlotMapping(const c10::IValue* arguments);
c10::IValue MlaDecode(const c10::IValue* arguments);
// layers.cc
c10::IValue RotaryEmbedding(const c10::IValue* arguments);
c10::IValue CreateMatrix(const c10::IValue* arguments);
c10::IValue MultiplyMatrix(const c10::IValue* arguments);
c10::IValue ConvertWeightPacked(const c10::IValue* arguments);
c10::IValue WeightPackedLinear(const c10::IValue* arguments);
c10::IValue ReleaseMatrix(const c10::IValue* arguments);
c10::IValue PrepackMoeWeight(const c10::IValue* arguments);
c10::IValue FusedMoe(const c10::IValue* arguments);
// quantized.cc
c10::IValue GemmWna16(const c10::IValue* arguments);
c10::IValue ConvertU4(const c10::IValue* arguments);
c10::IValue MultiplyU4(const c10::IValue* arguments);
// sampling.cc
c10::IValue FusedGumbelArgmax(const c10::IValue* arguments);

}  // namespace anyop::vllm_host
