// SPDX-License-Identifier: Apache-2.0
// Random calls from a signature alone: sizes, dtypes, words, numbers, optional arguments. They obey
// the contract. Their tensors have no data: the caller makes it (Param::rule says which indices an
// index tensor may hold).
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>

#include "signature/check.h"
#include "signature/owned_call.h"

namespace anyop {

struct GenerateOptions {
  int form = -1;  // -1: any
  // Fixed by name: variables, and integer, float and bool parameters.
  std::map<std::string, double> numbers;
  std::map<std::string, DType> dtypes;  // dtype variables and dtype parameters
  std::map<std::string, std::string> words;
  std::map<std::string, Shape> lists;  // lists of integers
  std::map<std::string, bool> given;   // optional arguments: present or not
  std::optional<Shape> lead;           // what "..." stands for
  double optional_chance = 0.5;        // that an optional argument is present
  double default_chance = 0.5;         // that a parameter has its default
  std::vector<std::int64_t> sizes = {1, 2, 3, 4, 5, 7, 8, 16, 17, 32};  // to draw variables from
  int tries = 300;
};

struct GeneratedCall {
  OwnedCall call;
  int form;
  Bindings bindings;  // as Check made them: Evaluate gives the bounds of index arguments
  ResultShape results[kMaxResults];
};

using Random = std::mt19937_64;

// The dtypes, by bit, that the top-level conditions of a form leave to a dtype variable (kDTypeVar)
// or to a dtype parameter (kParam).
std::uint32_t AllowedDTypes(const Form& form, NodeOp op, int index);

// A call that passes Check and InferResults, or nothing where the options leave none.
std::optional<GeneratedCall> Generate(const Contract& contract, Random& random,
                                      const GenerateOptions& options = {});

}  // namespace anyop
