// SPDX-License-Identifier: Apache-2.0
// A signature as the runtime holds it: the parsed forms and what is derived from them once.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "anyop/parse.h"

namespace anyop {

// A condition `parameter <op> constant` on a number that is in no plan's key: checked per call.
struct ScalarCheck {
  int param, condition;
  NodeOp op;
  bool is_float;  // of the constant
  std::int64_t i;
  double f;
};

struct Contract {
  std::string text, name;
  std::vector<Form> forms;                      // their texts point into `text`
  std::vector<std::vector<std::string>> words;  // per parameter, numbered over all forms
  std::string hash;                             // 32 hexadecimal digits of the contract
  // Parameters whose value belongs into a plan's key, by bit: all but the numbers that occur in
  // nothing but top-level comparisons with a constant (an epsilon).
  std::uint64_t key_params = 0;
  std::vector<std::vector<ScalarCheck>> scalar_checks;  // per form: checked in each call
  std::deque<std::string> expression_texts;  // nodes point into them; a deque moves none of them

  int param(std::string_view n) const { return forms[0].param(n); }
  int result(std::string_view n) const { return forms[0].result(n); }
  int n_params() const { return int(forms[0].params.size()); }
  int n_results() const { return int(forms[0].results.size()); }
  // The number of a word of a parameter over all forms; -1 if there is none.
  int word(int param, std::string_view word) const;
};

// Parses and checks; throws Error (InvalidArgument) that points into the text with a caret.
// The hash is of the signature without its spaces, and of the gradient's name.
std::unique_ptr<Contract> ParseContract(std::string_view text, std::string_view gradient = "");

// Gives the words of the comparisons from node `from` on their numbers over all forms.
void NumberWordNodes(const Contract& contract, Form& form, std::size_t from);

// "line 2, column 14: expected a dtype\n    where T in f33\n               ^": for a text and a
// place in it. `what` is a sentence without its full stop.
std::string PointAt(std::string_view text, const SignatureError& error);

}  // namespace anyop
