// SPDX-License-Identifier: Apache-2.0
// Contracts for hosts that do not know every size: inference with unknown ones, and the contract as
// data, from which a host computes with its own symbolic integers.
#pragma once
#include <string>

#include "signature/check.h"

namespace anyop {

// Check and InferResults with unknown parts: sizes of -1, ranks (ndim) of -1, and the given
// arguments of unknown_params, whose value is not looked at. Returns the form, or -1 and a text.
// Where several forms may still fit, the first one is returned; a result has the rank and sizes
// on which all of them that accept the call agree. symbols: what computes with sizes and numbers
// of the call that are symbols, and gets what is required of them.
int InferPartial(const Contract& contract, const anyop_value* frame, std::uint64_t unknown_params,
                 ResultShape* results, std::string* error, Symbols* symbols = nullptr);

// The whole contract as JSON: parameters with kinds and defaults, results, facts (facts.h), and per
// form the variables, dimensions, results and conditions. An expression is a number or an array:
//   ["var", v] ["param", p] ["list", p] ["dtype_var", t] ["word", "neox"] ["dtype", "f32"]
//   ["element", p, i] ["len", p] ["sum", p] ["given", p] ["in", e, ["f32", "bf16"]]
//   ["size", p] ["rank", p] ["rows", p] ["bytes", p]   p beyond the parameters: a result
//   ["dtype_bytes", dtypes] ["neg", e] ["not", e] ["and", e, e] ["or", e, e]
//   ["+", e, e] - * // / % ceil_div min max == != < <= > >=     "//" floors, "/" is of floats
// dtypes is {"set": [...]}, {"var": t} or {"param": p}.
std::string ContractJson(const Contract& contract);

}  // namespace anyop
