// SPDX-License-Identifier: Apache-2.0
// What hosts make of a contract, stated once for all of them: which variants of a call there are,
// what it writes, and what may be left out. Python has it from ContractJson, under "facts".
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "signature/contract.h"

namespace anyop {

struct Facts {
  bool has_out;                  // a caller may give the memory of the results
  bool has_lone_result;          // there is one result, and a call writes nothing else
  bool has_in_place;             // that result may take the first parameter's memory in every form
  bool takes_mask;               // there are several results, and a caller may decline some of them
  bool needs_tensor;             // some tensor must be given
  std::uint64_t mut_params = 0;  // parameters that a call writes, by bit
  // Parameters with a default before one without: only a call by keyword can leave them out.
  std::vector<int> by_keyword;
  std::vector<int> declined_without;  // per result: the parameter without which it is left out; -1
  // Parameters of one dtype variable, two or more, all of them read-only tensors: where they come
  // in several dtypes, casting these makes the call right.
  std::vector<std::vector<int>> dtype_groups;
};

Facts FactsOf(const Contract& contract);

// A measure of a whole tensor with leading "..." that a form's sizes, bounds or conditions ask for:
// more leading dimensions (vmap) would change it. tensor: a parameter, or the number of parameters
// plus a result.
struct Measure {
  std::string_view name;  // "size", "rank", "rows", "bytes"
  int tensor;
};
std::vector<Measure> MeasuresOf(const Form& form);

// The name whose gradient this name is: "x" for "dx"; "" for a name that does not begin with d. By
// this rule alone the parameters and results of gradients are understood.
inline std::string_view PrimalOf(std::string_view name) {
  return name.starts_with('d') ? name.substr(1) : std::string_view();
}

}  // namespace anyop
