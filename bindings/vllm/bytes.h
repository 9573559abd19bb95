// SPDX-License-Identifier: Apache-2.0
// Weights of bytes that pack_weight_int8 made.
#pragma once
#include "rows.h"

namespace anyop::vllm_host {

// A weight [features, inputs] packed: a tensor of its sizes, as vLLM reads them, over memory of all
// that the operator makes.
at::Tensor PackBytes(const TorchOperator& pack_weight_int8, const at::Tensor& weight);

}  // namespace anyop::vllm_host
