// SPDX-License-Identifier: Apache-2.0
// Checks a call against its contract: chooses the form, binds variables, infers results. Errors are
// the sentences of messages.h, without the operator's name in front.
#pragma once
#include <string>

#include "signature/contract.h"
#include "signature/expression.h"

namespace anyop {

// bytes: of a contiguous tensor; 0 if a size is unknown.
struct ResultShape {
  DType dtype;
  int rank;                      // -1: unknown (symbolic calls only)
  std::int64_t shape[kMaxRank];  // -1: unknown; a symbol of Bindings::symbols (symbolic calls only)
  std::int64_t bytes;
};

// Checks the parameters of a frame; returns the form, or -1 and a text. Allocates nothing unless it
// refuses. A size of -1 is unknown and so is a rank of -1: nothing that depends on them is checked.
// unknown_params: given arguments whose value the host does not know yet, by bit.
int Check(const Contract& contract, const anyop_value* frame, Bindings* bindings,
          std::string* error, std::uint64_t unknown_params = 0);

// dtype and shape of every result; compares the results that the caller gives with them. Refuses
// sizes below 0, beyond 63 bits, or unknown ones, which only a symbolic call may have (as -1).
bool InferResults(const Contract& contract, int form, const Bindings& bindings,
                  const anyop_value* frame, ResultShape* results, std::string* error,
                  bool symbolic = false);

// The conditions on numbers that are in no key (Contract::scalar_checks): for each call of a plan.
bool CheckScalars(const Contract& contract, int form, const anyop_value* frame, std::string* error);

// "activation is 'sillu', but must be 'none', 'silu' or 'gelu'. Did you mean 'silu'?"
std::string WordError(const Contract& contract, int param, std::string_view given);

}  // namespace anyop
