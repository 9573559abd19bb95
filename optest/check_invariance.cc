// SPDX-License-Identifier: Apache-2.0
// Bits that must not depend on other rows.
#include <cstring>

#include "optest/compare.h"
#include "optest/exact.h"
#include "optest/failures.h"
#include "optest/findings.h"
#include "optest/kernel_run.h"
#include "optest/session.h"

namespace anyop::optest {
namespace {

// Which dimensions of a tensor count rows: none, the leading ones "...", or the first.
enum class Rows : std::uint8_t { kNone, kLead, kFirst };

class RowCut {
 public:
  RowCut(const OpTest& test, const Call& call)
      : call_(call), checked_(CheckArguments(call.op(), call.arguments())) {
    const Form& form = call.op().contract->forms[std::size_t(checked_.form)];
    form_ = &form;
    variable_ = form.var(test.row_variable);
    const int n_lead = checked_.bindings.n_lead;
    count_ = variable_ >= 0 ? checked_.bindings.var[variable_] : n_lead < 1 ? 0 : 1;
    for (int i = 0; variable_ < 0 && i < n_lead; ++i) count_ *= checked_.bindings.lead[i];
  }

  std::int64_t count() const { return count_; }

  Rows RowsOf(const TensorType& type) const {
    if (variable_ < 0) return type.has_dots ? Rows::kLead : Rows::kNone;
    if (type.has_dots || type.dims.empty()) return Rows::kNone;
    const Node& n = form_->node(type.dims[0]);
    return n.op == NodeOp::kVar && n.i == variable_ ? Rows::kFirst : Rows::kNone;
  }

  // Row r of an array, every counted dimension 1.
  Array Cut(const Array& whole, Rows rows, std::int64_t r) const {
    if (rows == Rows::kNone) return whole;
    std::vector<std::int64_t> shape = whole.shape();
    const int n = rows == Rows::kLead ? checked_.bindings.n_lead : 1;
    for (int i = 0; i < n; ++i) shape[std::size_t(i)] = 1;
    Array row(whole.dtype(), shape);
    std::memcpy(row.data<char>(), whole.data<char>() + r * row.bytes(), std::size_t(row.bytes()));
    return row;
  }

  std::vector<Argument> Arguments(std::int64_t r) const {
    std::vector<Argument> arguments = call_.arguments();
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      auto* array = std::get_if<Array>(&arguments[i]);
      if (array) *array = Cut(*array, RowsOf(form_->params[i].tensor), r);
    }
    return arguments;
  }

  // Row r of what has rows among the results.
  Results CutResults(const Results& whole, std::int64_t r) const {
    Results rows;
    for (const auto& [name, array] : whole) {
      const int p = form_->param(name), result = form_->result(name);
      if (p < 0 && result < 0) continue;
      const TensorType& type = p >= 0 ? form_->params[std::size_t(p)].tensor
                                      : form_->results[std::size_t(result)].tensor;
      if (RowsOf(type) != Rows::kNone) rows.emplace(name, Cut(array, RowsOf(type), r));
    }
    return rows;
  }

 private:
  const Call& call_;
  CheckedCall checked_;
  const Form* form_;
  int variable_;
  std::int64_t count_;
};

bool Fits(const Operator& op, const std::vector<Argument>& arguments) {
  try {
    CheckArguments(op, arguments);
    return CheckRefusal(op, arguments).empty();
  } catch (const Error&) {
    return false;
  }
}

// Returns the number of rows compared.
int CheckRows(const OpTest& test, const Call& call, const OperatorKernel& kernel,
              Findings* findings) {
  const RowCut cut(test, call);
  if (cut.count() < 2) return 0;
  const Operator& op = call.op();
  const KernelRun batch = RunKernel(op, kernel, call.arguments());
  if (!batch.is_taken || batch.defect) return 0;  // MatchesItsReference reports that
  int compared = 0;
  for (const std::int64_t r : {std::int64_t(0), cut.count() / 2, cut.count() - 1}) {
    const std::vector<Argument> arguments = cut.Arguments(r);
    if (!Fits(op, arguments)) continue;
    const KernelRun alone = RunKernel(op, kernel, arguments);
    if (!alone.is_taken) continue;
    const Results row = cut.CutResults(batch.results, r);
    const std::string difference = FindDifference(row, alone.results);
    if (!difference.empty()) {
      findings->Add({"rows of " + FirstName(difference),
                     difference + " in row " + std::to_string(r) + " in the batch and alone"},
                    kernel, call);
    }
    ++compared;
  }
  return compared;
}

}  // namespace

void CheckRowInvariance(const OpTest& test) {
  const Operator& op = *Find(test.op);
  if (!test.row_invariant && !op.data->rowwise) return;
  int compared = 0;
  const auto kernels = Kernels(op);
  Findings findings;
  ForEachCall(test, Purpose::kValues, [&](Call& call) {
    for (const OperatorKernel* kernel : kernels) {
      if (findings.AreEnoughOf(*kernel)) continue;
      compared += CheckRows(test, call, *kernel, &findings);
    }
  });
  findings.Report();
  if (HasFailed() || kernels.empty() || TheSession().only_call) return;
  if (compared == 0) Fail("no row was compared: state .row_variable");
}

}  // namespace anyop::optest
