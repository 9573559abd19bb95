// SPDX-License-Identifier: Apache-2.0
// The steps of Check, for symbolic calls, which take them one by one.
#pragma once
#include <string>

#include "signature/comparison.h"
#include "signature/expression.h"

namespace anyop {

// Whether every argument is of its parameter's kind, and present unless optional.
bool CheckKinds(const Contract& contract, const anyop_value* frame, std::string* error);
// Whether the words and ranks of a call fit a form: kMaybe where some are unknown and the others
// fit.
enum class Fit : std::uint8_t { kNo, kMaybe, kYes };
Fit FormFits(const Contract& contract, int form, const anyop_value* frame,
             std::uint64_t unknown_params);
// Binds and solves; checks sizes, dtypes, conditions. symbols: may be null; gets the requirements.
bool CheckForm(const Contract& contract, int form, const anyop_value* frame, Bindings* bindings,
               std::string* error, std::uint64_t unknown_params, Symbols* symbols = nullptr);

}  // namespace anyop
