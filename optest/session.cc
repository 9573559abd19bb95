// SPDX-License-Identifier: Apache-2.0
#include "optest/session.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "optest/exact.h"
#include "optest/failures.h"
#include "optest/kernel_run.h"
#include "optest/running.h"
#include "runtime/plan/dispatch.h"
#include "runtime/plan/policy.h"

namespace anyop::optest {
namespace {

constexpr double kMostOperations = 2e7;  // of a call, unless --exhaustive: 0.1 s in the reference
#ifdef ANYOP_EMULATED
constexpr double kSlower = 10;
#else
constexpr double kSlower = 1;
#endif
// A call of more is a large one, of which OPTEST_LARGE may leave out some or all.
constexpr double kFewOperations = 5e5 / kSlower;
constexpr int kOneLargeOf = 8;  // the first one of each form is always among those that run
// Of a forward pass that is repeated for differences.
constexpr double kGradientOperations = 1e5 / kSlower;

Large ReadLarge() {
  const char* text = std::getenv("OPTEST_LARGE");
  const std::string_view which = text ? text : "all";
  if (which == "none") return Large::kNone;
  if (which == "some") return Large::kSome;
  if (which == "all") return Large::kAll;
  throw std::invalid_argument("OPTEST_LARGE is " + std::string(which) +
                              ", but must be none, some or all.");
}

double Operations(const Call& call) {
  const Operator& op = call.op();
  double elements = 0;
  for (const Argument& argument : call.arguments()) {
    if (const auto* array = std::get_if<Array>(&argument)) elements += double(array->size());
  }
  try {
    return *op.data->flops ? std::max(elements, call.value(op.data->flops)) : elements;
  } catch (const std::runtime_error&) {
    return elements;  // unknown in this form
  }
}

std::uint64_t ReadNumber(const std::string& flag, const std::string& value) {
  std::size_t used = 0;
  const std::uint64_t number = std::stoull(value, &used);
  if (used != value.size()) throw std::invalid_argument(flag + " needs a number");
  return number;
}

// Which of the calls that are made for a test run.
class ChosenCalls {
 public:
  explicit ChosenCalls(Purpose purpose) : is_gradient_(purpose == Purpose::kGradient) {}

  bool Takes(const Call& call, int form) {
    const Session& session = TheSession();
    const double operations = Operations(call);
    if (is_gradient_) return operations <= kGradientOperations;
    if (session.seeds.is_exhaustive || operations <= kFewOperations) return true;
    if (operations > kMostOperations || session.large == Large::kNone) return false;
    return session.large == Large::kAll || n_large_[form]++ % kOneLargeOf == 0;
  }

 private:
  bool is_gradient_;
  std::map<int, int> n_large_;  // form -> calls
};

}  // namespace

Session& TheSession() {
  static Session session;
  return session;
}

const Tally& ReadTally() { return TheSession().tally; }

void PrintTally() {
  const Tally& tally = ReadTally();
  std::printf("%d kernel runs, %lld elements compared", tally.calls, (long long)tally.elements);
  if (tally.left_out) std::printf("; %d large calls left out (--exhaustive)", tally.left_out);
  if (tally.directions) std::printf("; gradients along %d directions", tally.directions);
  std::printf("\n");
  for (const auto& [kernel, calls] : tally.ran) std::printf("  %s: %d\n", kernel.c_str(), calls);
  for (const auto& [kernel, reason] : tally.skipped) {
    std::printf("  %s: skipped, %s\n", kernel.c_str(), reason.c_str());
  }
}

void ReadFlags(int* argc, char** argv) {
  Session& session = TheSession();
  session.large = ReadLarge();
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    const std::string flag = argv[i];
    const std::size_t equals = std::min(flag.find('='), flag.size());
    const std::string name = flag.substr(0, equals);
    const std::string value = flag.substr(std::min(equals + 1, flag.size()));
    if (name == "--exhaustive") {
      session.seeds.is_exhaustive = true;
    } else if (name == "--seed") {
      session.seeds.seed = ReadNumber(name, value);
    } else if (name == "--call") {
      session.only_call = ReadNumber(name, value);
    } else if (name == "--kernel") {
      session.kernel = value;
    } else {
      argv[kept++] = argv[i];
    }
  }
  *argc = kept;
}

void ForEachCall(const OpTest& test, Purpose purpose, const std::function<void(Call&)>& body) {
  Session& session = TheSession();
  const std::vector<std::uint64_t> seeds =
      session.only_call ? std::vector{*session.only_call} : Seeds(test, purpose, session.seeds);
  std::map<int, int> made;  // form -> calls
  ChosenCalls chosen(purpose);
  for (const std::uint64_t seed : seeds) {
    std::optional<Call> call = Generate(test, seed, purpose);
    if (!call) continue;
    const int form = CheckArguments(call->op(), call->arguments()).form;
    const std::string refusal = CheckRefusal(call->op(), call->arguments());
    if (!refusal.empty()) {
      return Fail(refusal +
                  "\n  the operator's .check refuses a generated call: let .prepare repair "
                  "it\n  " +
                  Reproduce(*call));
    }
    ++made[form];
    if (!chosen.Takes(*call, form)) {
      session.tally.left_out += purpose != Purpose::kGradient;
      continue;
    }
    NoteCall(Reproduce(*call));
    body(*call);
    if (HasFailed()) return;
  }
  const std::size_t forms = Find(test.op)->contract->forms.size();
  if (session.only_call) return;
  if (made.size() != forms) Fail("no call was found for some form");
}

std::vector<const OperatorKernel*> Kernels(const Operator& op, const DeviceKind* device) {
  Session& session = TheSession();
  std::vector<const OperatorKernel*> kernels;
  for (const OperatorKernel& k : op.kernels) {
    if (!IsFor(k, device)) continue;
    const std::string name = op.display_name() + " " + k.name;
    if (!k.is_built) {
      session.tally.skipped[name] = "not built for this machine";
    } else if (!k.has_features) {
      session.tally.skipped[name] = "this machine has no " + k.missing;
    } else if (session.kernel.empty() || NameMatches(op, k.name, session.kernel)) {
      kernels.push_back(&k);
    } else {
      session.tally.skipped[name] = "--kernel asks for others";
    }
  }
  return kernels;
}

std::string Title(const OperatorKernel& kernel, const Call& call) {
  for (const Argument& argument : call.arguments()) {
    const auto* array = std::get_if<Array>(&argument);
    if (!array) continue;
    std::string sizes;
    for (const std::int64_t n : array->shape()) {
      sizes += (sizes.empty() ? "" : "x") + std::to_string(n);
    }
    return kernel.name + " " + std::string(Name(array->dtype())) + "_" + sizes;
  }
  return kernel.name;
}

void Report(const std::string& what, const OperatorKernel& kernel, const Call& call,
            const std::string& memory) {
  const std::string where = Title(kernel, call) + (memory.empty() ? "" : ", ") + memory;
  Fail(what + "\n  " + where + "\n  " + Reproduce(call));
}

bool IsQuick(const Call& call) { return Operations(call) <= kFewOperations; }

std::string Reproduce(const Call& call) {
  return call.Text() + "\n  run this call alone with --call=" + std::to_string(call.seed());
}

}  // namespace anyop::optest
