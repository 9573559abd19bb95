// SPDX-License-Identifier: Apache-2.0
// Contracts for hosts that do not know every size: inference with unknown and symbolic ones, and
// the contract as data.
#pragma once
#include <string>

#include "signature/check.h"

namespace anyop {

// Check and InferResults with unknown parts: sizes of -1, ranks (ndim) of -1, and the given
// arguments of unknown_params, whose value is not looked at. Returns the form, or -1 and a text.
// Where several forms may still fit, the first one is returned; a result has the rank and sizes
// on which all of them that accept the call agree. symbols: computes with sizes and numbers of
// the call that are symbols, and gets the requirements on them.
int InferPartial(const Contract& contract, const anyop_value* frame, std::uint64_t unknown_params,
                 ResultShape* results, std::string* error, Symbols* symbols = nullptr);

// The whole contract as JSON: parameters with kinds and defaults, and per form the dimensions,
// results and conditions, whose expressions are texts; facts (facts.h). dtypes is {"set": [...]},
// {"var": name} or {"param": name}.
std::string ContractJson(const Contract& contract);

}  // namespace anyop
