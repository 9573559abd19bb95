// SPDX-License-Identifier: Apache-2.0
// The sentences that refuse a call: "<what is wrong, with value>, but <what is expected>. <what to
// do>"; examples of them with their mends are in docs/faq.md.
#pragma once
#include <string>

#include "signature/expression.h"

namespace anyop {

// A call on its way through the checks.
struct CallState {
  const Contract& contract;
  int form_index;
  const Bindings& bindings;
  const anyop_value* frame;

  const Form& form() const { return contract.forms[std::size_t(form_index)]; }
  const Param& param(int i) const { return form().params[std::size_t(i)]; }
};

std::string WrongKind(const CallState&, int param);
std::string WrongWord(const CallState&, int param);
std::string WrongRank(const CallState&, int param, const DLTensor& tensor);
std::string WrongDType(const CallState&, int param, const DLTensor& tensor);
// Of a tensor, and of a parameter that is a dtype.
std::string UnnamedDType(const CallState& s, int param, const DLTensor& t);
std::string UnnamedDType(const CallState& s, int param);
std::string WrongLead(const CallState&, int param, const DLTensor& tensor);
// Dimension `dim` of the type's list (not counting "...") has another value than it must have.
std::string WrongSize(const CallState&, int param, const DLTensor& tensor, int dim);
// A dimension cannot be solved exactly for its one unbound variable.
std::string Inexact(const CallState&, int param, const DLTensor& tensor, int dim);
std::string WrongLength(const CallState&, int param);
std::string WrongCondition(const CallState&, int condition, Fault fault);
std::string FaultIn(const CallState&, int node, Fault fault);
std::string WrongResult(const CallState&, int result, const DLTensor& given, bool dtype_is_wrong,
                        int dim);
// Why a result has no size: below 0, unknown, too large.
std::string ImpossibleResult(const CallState&, int result, int dim, const Number& size);
// What an argument or a condition must be, for sizes that are symbols.
std::string RequiredArgument(const CallState&, int param);
std::string RequiredCondition(const CallState&, int condition);
// Runs of spaces and line ends as one space.
std::string OneLine(std::string_view text);
std::string NoForm(const Contract& contract, const anyop_value* frame);

}  // namespace anyop
