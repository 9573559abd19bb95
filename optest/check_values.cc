// SPDX-License-Identifier: Apache-2.0
// Kernels against the reference.
#include <algorithm>
#include <set>

#include "optest/compare.h"
#include "optest/exact.h"
#include "optest/failures.h"
#include "optest/findings.h"
#include "optest/kernel_run.h"
#include "optest/session.h"

namespace anyop::optest {
namespace {

// One kernel on one call, in every arrangement.
class KernelCheck {
 public:
  KernelCheck(const OpTest& test, Call& call, const Results& exact, const Terms& terms,
              const OperatorKernel& kernel, Findings* findings)
      : test_(test),
        call_(call),
        exact_(exact),
        terms_(terms),
        kernel_(kernel),
        findings_(*findings) {}

  // Ends at the first defect: what follows may come from it.
  void Run() {
    if (!RunAndCompare("dense memory", {}, &first_) || !CheckWritten()) return;
    Arrangement page_end;
    page_end.layout = [](int) { return Layout::kPageEnd; };
    if (!RunAndCompare("memory at the end of pages", page_end)) return;
    const Arrangement mixed = MixedArrangement(call_);
    if (!RunAndCompare("strided and misaligned memory", mixed)) return;
    Arrangement shared, expanded, fewer;
    if (Shares(&shared) && !RunAndCompare("results over inputs", shared)) return;
    expanded.layout = [](int) { return Layout::kExpanded; };
    if (HasRepeatedDims() && !RunAndCompare("inputs with stride 0", expanded)) return;
    if (Declines(&fewer)) RunAndCompare("some results declined", fewer);
  }

 private:
  // False if the kernel does not take the call, or is wrong.
  bool RunAndCompare(const std::string& how, const Arrangement& arrangement,
                     Results* results = nullptr) {
    const KernelRun run = RunKernel(call_.op(), kernel_, call_.arguments(), arrangement);
    if (!run.is_taken) return false;
    Tally& tally = TheSession().tally;
    ++tally.calls;
    ++tally.ran[call_.op().display_name() + " " + kernel_.name];
    if (run.defect) return Finds(run.defect, how);
    const Comparison c = Compare(test_, call_, run.results, exact_, terms_);
    if (results) *results = run.results;
    if (!c.failure.empty()) {
      if (results && !CheckWritten()) return false;  // which says why it is wrong
      return Finds({"values of " + FirstName(c.failure), c.failure}, how);
    }
    tally.elements += c.elements;
    return true;
  }

  // A second run over other bytes gives the same: all was written, and nothing depends on what
  // results, workspace and guard zones held.
  bool CheckWritten() {
    Arrangement other;
    other.poison = kOtherPoison;
    const KernelRun run = RunKernel(call_.op(), kernel_, call_.arguments(), other);
    const std::string difference = FindDifference(first_, run.results);
    if (difference.empty()) return true;
    return Finds({"unwritten " + FirstName(difference),
                  difference +
                      " in two runs that find other bytes there and in the workspace: the element "
                      "is not written, or depends on what was there before"});
  }

  bool Finds(const Defect& defect, const std::string& how = "") {
    findings_.Add(defect, kernel_, call_, how);
    return false;
  }

  bool HasRepeatedDims() const {
    for (const Argument& argument : call_.arguments()) {
      const auto* array = std::get_if<Array>(&argument);
      if (!array) continue;
      const std::vector<bool> repeated = RepeatedDims(*array);
      if (std::find(repeated.begin(), repeated.end(), true) != repeated.end()) return true;
    }
    return false;
  }

  // Declines some results that may be declined, but not all results.
  bool Declines(Arrangement* arrangement) {
    const auto& results = call_.op().contract->forms[0].results;
    std::uint64_t all = (std::uint64_t(1) << results.size()) - 1, may = 0;
    for (std::size_t r = 0; r < results.size(); ++r) {
      may |= std::uint64_t(results[r].is_optional) << r;
    }
    if (may == 0 || all == 1) return false;
    while (arrangement->declined == 0 || arrangement->declined == all) {
      arrangement->declined = may & std::uint64_t(call_.Draw(1, std::int64_t(all)));
    }
    return true;
  }

  // Gives each result the memory of an input that its `over` names and that has its shape.
  bool Shares(Arrangement* arrangement) {
    const Operator& op = call_.op();
    const CheckedCall checked = CheckArguments(op, call_.arguments());
    const Form& form = op.contract->forms[std::size_t(checked.form)];
    std::set<int> taken;
    for (int r = 0; r < op.n_results; ++r) {
      const ResultShape& s = checked.results[r];
      arrangement->over.push_back(-1);
      for (int p = 0; p < op.n_params; ++p) {
        const auto* array = std::get_if<Array>(&call_.arguments()[std::size_t(p)]);
        if (!(form.results[std::size_t(r)].over >> p & 1) || !array || taken.count(p)) continue;
        const std::vector<std::int64_t> shape(s.shape, s.shape + s.rank);
        if (array->dtype() != s.dtype || array->shape() != shape) continue;
        arrangement->over.back() = p;
        taken.insert(p);
        break;
      }
    }
    return !taken.empty();
  }

  const OpTest& test_;
  Call& call_;
  const Results& exact_;
  const Terms& terms_;
  const OperatorKernel& kernel_;
  Findings& findings_;
  Results first_;
};

void CheckCalls(const OpTest& test, Purpose purpose) {
  const std::vector<const OperatorKernel*> kernels = Kernels(*Find(test.op));
  const Tally before = TheSession().tally;
  Findings findings;
  ForEachCall(test, purpose, [&](Call& call) {
    const auto is_told = [&](const OperatorKernel* kernel) {
      return findings.AreEnoughOf(*kernel);
    };
    if (std::ranges::all_of(kernels, is_told)) return;
    const Results exact = call.Exact();
    const LazyTerms terms(call, purpose == Purpose::kExtremeValues);
    for (const OperatorKernel* kernel : kernels) {
      if (findings.AreEnoughOf(*kernel)) continue;
      KernelCheck(test, call, exact, terms, *kernel, &findings).Run();
    }
  });
  if (findings.Report()) return;
  const Tally& after = TheSession().tally;
  if (kernels.empty()) return;  // .means alone: CheckDispatch compares it
  if (after.elements <= before.elements) Fail("nothing was compared");
  if (TheSession().only_call || HasFailed()) return;
  if (purpose == Purpose::kExtremeValues) return;
  for (const OperatorKernel* kernel : kernels) {
    const std::string name = Find(test.op)->display_name() + " " + kernel->name;
    const auto ran = after.ran.find(name), ran_before = before.ran.find(name);
    const int calls = (ran == after.ran.end() ? 0 : ran->second) -
                      (ran_before == before.ran.end() ? 0 : ran_before->second);
    if (calls <= 0) Fail(name + " took none of the calls: state .sizes for it");
  }
}

// A call of an operator without kernels, in every arrangement that its composition takes: strides
// that a view of it cannot say are refused.
void CheckComposition(const OpTest& test, Call& call, const Results& exact, const Terms& terms) {
  std::vector<Layout> mixed;
  for (int i = 0; i < kMaxParams + kMaxResults; ++i) {
    mixed.push_back(Layout(call.Draw(1, kLayouts - 1)));
  }
  const std::pair<const char*, std::function<Layout(int)>> layouts[] = {
      {"dense memory", [](int) { return Layout::kDense; }},
      {"memory at the end of pages", [](int) { return Layout::kPageEnd; }},
      {"strided and misaligned memory", [&](int i) { return mixed[std::size_t(i)]; }}};
  Tally& tally = TheSession().tally;
  for (const auto& [how, layout] : layouts) {
    Arrangement arrangement;
    arrangement.layout = layout;
    const std::string where = std::string(how) + "\n  " + Reproduce(call);
    try {
      const Comparison c = Compare(test, call, Call(call).Run(arrangement), exact, terms);
      if (!c.failure.empty()) Fail(c.failure + "\n  " + where);
      tally.elements += c.elements;
      ++tally.calls;
      ++tally.ran[call.op().display_name() + " means"];
    } catch (const Error& e) {
      const bool is_refused = std::string_view(e.what()).find(
                                  " without a copy, because its memory ") != std::string_view::npos;
      if (is_refused && layout(0) != Layout::kDense) continue;
      if (e.code == ANYOP_UNSUPPORTED && IsUnsupported(test, call)) continue;
      Fail(e.what() + ("\n  " + where));
    }
  }
}

// Whether a kernel does the same when it is run by itself: then its own test fails.
bool IsDefectOfKernel(const Call& call, const Results& dispatched) {
  for (const OperatorKernel& kernel : call.op().kernels) {
    if (!kernel.is_for_host) continue;
    const KernelRun run = RunKernel(call.op(), kernel, call.arguments());
    if (!run.is_taken) continue;
    if (run.defect || FindDifference(run.results, dispatched).empty()) return true;
  }
  return false;
}

// The call as dispatched.
void CheckDispatched(const OpTest& test, const Call& call, const Results& exact) {
  const LazyTerms terms(call);
  Results results;
  std::string wrong;
  try {
    Defect defect;
    results = Call(call).Run(Arrangement(), &defect);
    wrong = defect ? defect.text : Compare(test, call, results, exact, terms).failure;
    if (wrong.empty() && IsUnsupported(test, call)) {
      return Fail("it is supported\n  " + Reproduce(call));
    }
  } catch (const Error& e) {
    if (e.code == ANYOP_UNSUPPORTED && IsUnsupported(test, call)) return;
    wrong = e.what();
  }
  if (wrong.empty() || IsDefectOfKernel(call, results)) return;
  Fail(wrong + "\n  as dispatched\n  " + Reproduce(call));
}

}  // namespace

bool RunsOnHost(const Operator& op) { return HasHostKernel(op) || !op.compositions.empty(); }

bool IsUnsupported(const OpTest& test, const Call& call) {
  return !test.unsupported.empty() && call.value(test.unsupported) != 0;
}

void CheckValues(const OpTest& test) { CheckCalls(test, Purpose::kValues); }

void CheckExtremeValues(const OpTest& test) {
  if (!ExtremeParams(test).empty()) CheckCalls(test, Purpose::kExtremeValues);
}

void CheckDispatch(const OpTest& test) {
  int n = 0;
  if (!RunsOnHost(*Find(test.op))) return;
  const bool is_composition = !HasHostKernel(*Find(test.op));
  ForEachCall(test, Purpose::kValues, [&](Call& call) {
    if (++n % 4 && !is_composition && !TheSession().seeds.is_exhaustive) return;
    const Results exact = call.Exact();
    if (!is_composition) return CheckDispatched(test, call, exact);
    CheckComposition(test, call, exact, LazyTerms(call));
  });
}

void CheckPromises(const OpTest& test) {
  if (TheSession().only_call) return;
  Operator& op = *Find(test.op);
  if (!RunsOnHost(op)) return;
  int made = 0;
  for (const std::uint64_t seed : PromiseSeeds(test)) {
    const std::optional<Call> call = Generate(test, seed, Purpose::kPromises);
    if (!call) continue;  // the conditions leave no such combination
    ++made;
    Frame frame(op, call->arguments());
    try {
      GetPlan(op, frame.values());
    } catch (const Error& e) {
      if (e.code == ANYOP_UNSUPPORTED && IsUnsupported(test, *call)) continue;
      Fail(std::string("the signature promises this call: ") + e.what() + "\n  " +
           Reproduce(*call));
    }
    if (HasFailed()) return;
  }
  if (made == 0) Fail("no call was made");
}

void CheckAll(const OpTest& test) {
  void (*const checks[])(const OpTest&) = {
      CheckValues,   CheckExtremeValues, CheckRowInvariance, CheckThreadInvariance, CheckDispatch,
      CheckPromises, CheckWrongCalls,    CheckDevices,       CheckGradient};
  for (const auto check : checks) {
    check(test);
    if (HasFailed()) return;
  }
}

}  // namespace anyop::optest
