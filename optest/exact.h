// SPDX-License-Identifier: Apache-2.0
// What a call gives in real numbers: by the operator's reference, or by its composition (.means)
// of operators that have one.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "optest/call.h"

namespace anyop::optest {

// A call as the signature sees it.
struct CheckedCall {
  int form = -1;
  Bindings bindings;
  ResultShape results[kMaxResults];
};
// Throws Error (InvalidArgument) if the signature refuses the arguments.
CheckedCall CheckArguments(const Operator& op, const std::vector<Argument>& arguments);

// Float results and `mut` arguments as f64, the others in their dtype.
// Throws std::runtime_error where the operator has neither a reference nor a composition.
Results ExactResults(const Operator& op, const std::vector<Argument>& arguments);

// The same in f64 throughout, nothing rounded on the way. The signature is checked with
// `arguments`; what is computed with are the values of `wide`, floats as f64. declined: results to
// leave out, by bit.
Results WideResults(const Operator& op, const std::vector<Argument>& arguments,
                    const std::vector<Argument>& wide, std::uint64_t declined = 0);
// Every float array as f64.
std::vector<Argument> WideArguments(std::vector<Argument> arguments);

// The arguments with every float made absolute: the call whose results are the S of sums.
std::vector<Argument> AbsoluteArguments(const std::vector<Argument>& arguments);

// The value of an expression of the signature language over a call; throws std::runtime_error if it
// is unknown.
double EvaluateOn(const Operator& op, const std::vector<Argument>& arguments,
                  std::string_view expression);

// Puts what a call wrote to `mut` parameters into its arguments.
void TakeWritten(const Operator& op, const Results& results, std::vector<Argument>* arguments);

}  // namespace anyop::optest
