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
  bool has_in_place;             // which may take the first parameter's memory in every form
  bool takes_mask;               // there are several results, and a caller may decline some of them
  bool needs_tensor;             // some tensor must be given
  std::uint64_t mut_params = 0;  // what a call writes, by bit
  std::vector<int> by_keyword;   // what only a call by keyword leaves out: a required one follows
  std::vector<int> declined_without;  // per result: the parameter without which it is left out; -1
  // Parameters of one dtype variable, two or more, all of them read-only tensors: where they come
  // in several dtypes, casting these makes the call right.
  std::vector<std::vector<int>> dtype_groups;
};

Facts FactsOf(const Contract& contract);

// How large a tensor with leading "..." is as a whole, where a form's sizes, bounds or conditions
// ask: more leading dimensions would change it. tensor: a parameter, or their number + a result.
struct Measure {
  std::string_view name;  // "size", "rank", "rows", "bytes"
  int tensor;
};
std::vector<Measure> MeasuresOf(const Form& form);

// What a name is the gradient of: "x" of "dx"; "" of a name without a d. This is the rule by which
// the parameters and results of gradients are understood.
inline std::string_view PrimalOf(std::string_view name) {
  return name.starts_with('d') ? name.substr(1) : std::string_view();
}

}  // namespace anyop
