// SPDX-License-Identifier: Apache-2.0
// Makes the conditions of a drawn call true, by changing the parts that are not fixed.
#pragma once
#include "signature/generate.h"

namespace anyop {

// A call before its shapes are built: every variable has a value.
struct Draft {
  explicit Draft(const Contract& c) : contract(&c), call(c) {}

  const Contract* contract;
  int form = 0;
  OwnedCall call;  // tensors are present or not, but have no shapes yet
  Bindings bindings;
  std::uint32_t dtypes[kMaxDTypeVars] = {};  // what each dtype variable may be
  int list_length = 0;                       // of tensor lists; 0: not drawn yet

  Number Eval(int node) const { return Evaluate(*contract, form, node, bindings, call.frame()); }
};

// The parts that the options have fixed, by bit.
struct FixedParts {
  std::uint64_t vars = 0, params = 0, presence = 0;
};

// Several rounds over all conditions, because one that is made true may make another false. If some
// stay false, the caller draws another call.
void Repair(Draft& draft, Random& random, const FixedParts& fixed);

}  // namespace anyop
