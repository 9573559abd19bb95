// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/probe.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "anyop/storage.h"
#include "platform/arena.h"
#include "platform/error.h"
#include "runtime/plan/make_plan.h"
#include "runtime/plan/services.h"
#include "signature/generate.h"

namespace anyop {
namespace {

// Rounds of both kernels in turns. With another process on the core, one round chose the slower
// kernel in up to 48 % of trials, two rounds in 12 %, three in none.
constexpr int kRounds = 10;
constexpr double kRefused = 1e18;  // longer than any call

// Calls that one measurement stands for.
struct CallKind {
  int form;
  std::map<std::string, DType> dtypes;  // of the variables that every call binds
  bool has_optionals = false;
};

// What to generate: a form, the dtypes of its variables, whether optional arguments are there, and
// numbers as .probe states them, "n = 256, rows = 8". Words and other numbers have their defaults.
GenerateOptions OptionsFor(const CallKind& kind, std::string_view probe) {
  GenerateOptions o;
  o.form = kind.form;
  o.dtypes = kind.dtypes;
  o.optional_chance = kind.has_optionals ? 1 : 0;
  o.default_chance = 1;
  for (std::size_t begin = 0; begin < probe.size();) {
    const std::size_t end = std::min(probe.find(',', begin), probe.size());
    std::string_view item = probe.substr(begin, end - begin);
    item.remove_prefix(std::min(item.find_first_not_of(' '), item.size()));
    const std::size_t name_end = item.find_first_of(" =");
    const std::size_t value = item.find_first_of("-0123456789", item.find('='));
    if (name_end != item.npos && value != item.npos) {
      double number = 0;
      std::from_chars(item.data() + value, item.data() + item.size(), number);
      o.numbers[std::string(item.substr(0, name_end))] = number;
    }
    begin = end + 1;
  }
  if (const auto rows = o.numbers.find("rows"); rows != o.numbers.end()) {
    o.lead = Shape{std::int64_t(rows->second)};
  }
  return o;
}

// Private memory for a generated call. Floats are small and alike. Integers are 0. Offsets
// rise evenly up to their limit, and a tensor that .probe names has that number everywhere: with
// zeros for the lengths of sequences, for instance, every kernel would be equally fast.
class PrivateCall {
 public:
  PrivateCall(const Operator& op, GeneratedCall generated,
              const std::map<std::string, double>& numbers)
      : generated_(std::move(generated)) {
    const Contract& c = *op.contract;
    for (int r = 0; r < op.n_results; ++r) {
      const ResultShape& s = generated_.results[r];
      generated_.call.SetTensor(c.n_params() + r, s.dtype, Shape(s.shape, s.shape + s.rank));
    }
    for (int i = 0; i < op.n_params + op.n_results; ++i) {
      anyop_value& v = generated_.call[i];
      if (v.tag == ANYOP_TENSOR) Fill(const_cast<DLTensor&>(*v.t));
      for (std::uint32_t k = 0; v.tag == ANYOP_TENSORS && k < v.count; ++k) {
        Fill(const_cast<DLTensor&>(*v.ts[k]));
      }
    }
    const Form& form = c.forms[std::size_t(generated_.form)];
    for (int i = 0; i < op.n_params; ++i) {
      const Param& p = form.params[std::size_t(i)];
      const anyop_value& v = generated_.call[i];
      if (v.tag != ANYOP_TENSOR) continue;
      const auto number = numbers.find(std::string(p.name));
      if (number != numbers.end()) FillIntegers(*v.t, std::int64_t(number->second), false);
      if (p.rule == IndexRule::kOffsets) {
        const Number limit = Evaluate(c, generated_.form, p.bound, generated_.bindings, frame());
        FillIntegers(*v.t, limit.i, true);
      }
    }
  }
  const GeneratedCall& generated() const { return generated_; }
  anyop_value* frame() { return generated_.call.frame(); }

 private:
  void Fill(DLTensor& t) {
    std::int64_t n = 1;
    for (int d = 0; d < t.ndim; ++d) n *= t.shape[d];
    const std::size_t bytes = std::size_t(n * Bytes(t.dtype)) + 64;
    memory_.push_back(std::make_unique<char[]>(bytes + 64));
    char* p = memory_.back().get();
    p += 64 - reinterpret_cast<std::uintptr_t>(p) % 64;
    std::memset(p, 0, bytes);
    t.data = p;
    const DType dtype = DType(FromDL(t.dtype));
    if (IsFloat(dtype)) FillFloats(p, n, dtype);
  }
  // Everywhere `most`, or rising from 0 to it.
  static void FillIntegers(const DLTensor& t, std::int64_t most, bool rises) {
    std::int64_t n = 1;
    for (int d = 0; d < t.ndim; ++d) n *= t.shape[d];
    const auto at = [&](std::int64_t i) {
      return rises ? most * i / std::max<std::int64_t>(n - 1, 1) : most;
    };
    const DType dtype = DType(FromDL(t.dtype));
    for (std::int64_t i = 0; i < n; ++i) {
      if (dtype == DType::kI32) static_cast<std::int32_t*>(t.data)[i] = std::int32_t(at(i));
      if (dtype == DType::kI64) static_cast<std::int64_t*>(t.data)[i] = at(i);
    }
  }
  static void FillFloats(char* p, std::int64_t n, DType dtype) {
    VisitStorage(dtype, [&](auto zero) {
      using E = decltype(zero);
      for (std::int64_t i = 0; i < n; ++i) {
        const float value = float(i % 13 - 6) / 8;
        if constexpr (std::is_same_v<E, double>) {
          reinterpret_cast<E*>(p)[i] = value;
        } else if constexpr (requires { float(E{}); }) {
          reinterpret_cast<E*>(p)[i] = E(value);
        }
      }
    });
  }

  GeneratedCall generated_;
  std::vector<std::unique_ptr<char[]>> memory_;
};

// One kernel on a private call, planned as if the policy had pinned it.
class ProbedKernel {
 public:
  ProbedKernel(const Operator& op, int kernel, PrivateCall& call) : call_(call) {
    Policy policy{0, true, true, {}, ""};
    policy.items.push_back({op.name, PolicyItem::kPinned, op.kernels[std::size_t(kernel)].name});
    ScopeState scope;
    scope.threads = 1;
    MakePlan(op, call.frame(), scope, policy, &plan_);
    is_the_one_ = plan_.kernel == kernel;
    workspace_ = std::make_unique<Workspace>(plan_.workspace_bytes);
  }
  bool is_the_one() const { return is_the_one_; }
  // In nanoseconds; kRefused if the kernel failed.
  double Time() {
    using Clock = std::chrono::steady_clock;
    RunState state(plan_);
    const anyop_context context = MakeContext(plan_, workspace_->data(), &state);
    const auto begin = Clock::now();
    const int code = plan_.run(&context, call_.frame());
    const std::chrono::duration<double, std::nano> time = Clock::now() - begin;
    return code ? kRefused : time.count();
  }

 private:
  PrivateCall& call_;
  Plan plan_;
  bool is_the_one_ = false;
  std::unique_ptr<Workspace> workspace_;
};

// Fills in both times; false if these kernels do not both take such a call.
bool MeasurePair(const Operator& op, const CallKind& kind, int first, int second,
                 TunedChoice* choice) {
  Random random(1);
  const GenerateOptions options = OptionsFor(kind, op.kernels[std::size_t(first)].data.probe);
  std::optional<GeneratedCall> generated = Generate(*op.contract, random, options);
  if (!generated) return false;
  choice->call = TunedCall(*op.contract, generated->form, generated->bindings);
  PrivateCall call(op, std::move(*generated), options.numbers);
  ProbedKernel a(op, first, call), b(op, second, call);
  if (!a.is_the_one() || !b.is_the_one()) return false;
  choice->first_ns = a.Time();  // the warm-up, which the first round replaces
  choice->second_ns = b.Time();
  for (int i = 0; i < kRounds; ++i) {
    const double ta = a.Time(), tb = b.Time();
    choice->first_ns = i ? std::min(choice->first_ns, ta) : ta;
    choice->second_ns = i ? std::min(choice->second_ns, tb) : tb;
  }
  return choice->first_ns < kRefused && choice->second_ns < kRefused;
}

// Every form with every combination of dtypes that it allows to the variables that each of its
// calls binds.
std::vector<CallKind> KindsOf(const Contract& contract) {
  std::vector<CallKind> kinds;
  for (int f = 0; f < int(contract.forms.size()); ++f) {
    const Form& form = contract.forms[std::size_t(f)];
    const std::uint64_t required = RequiredDTypeVars(form);
    std::vector<CallKind> of_form{{f, {}}};
    for (int v = 0; v < int(form.dtype_vars.size()); ++v) {
      if (!(required >> v & 1)) continue;
      const std::uint32_t allowed = AllowedDTypes(form, NodeOp::kDTypeVar, v);
      std::vector<CallKind> longer;
      for (int d = 0; d < kDTypes; ++d) {
        if (!(allowed >> d & 1)) continue;
        for (CallKind kind : of_form) {
          kind.dtypes[std::string(form.dtype_vars[std::size_t(v)])] = DType(d);
          longer.push_back(std::move(kind));
        }
      }
      of_form = std::move(longer);
    }
    kinds.insert(kinds.end(), of_form.begin(), of_form.end());
  }
  return kinds;
}

// MeasurePair without optional arguments, or with them where the kernels take no other calls.
bool MeasureKind(const Operator& op, CallKind kind, int first, int second, TunedChoice* choice) {
  for (const bool has_optionals : {false, true}) {
    kind.has_optionals = has_optionals;
    try {
      if (MeasurePair(op, kind, first, second, choice)) return true;
    } catch (const Error&) {  // a kernel declines these calls
    }
  }
  return false;
}

bool WantsMeasuring(const OperatorKernel& k) {
  return k.is_for_host && k.is_built && k.has_features && *k.data.probe;
}

std::vector<std::pair<int, int>> PairsOf(const Operator& op) {
  std::vector<std::pair<int, int>> pairs;
  for (int i = 0; i < int(op.kernels.size()); ++i) {
    for (int j = i + 1; j < int(op.kernels.size()); ++j) {
      if (WantsMeasuring(op.kernels[std::size_t(i)]) &&
          WantsMeasuring(op.kernels[std::size_t(j)])) {
        pairs.emplace_back(i, j);
      }
    }
  }
  return pairs;
}

}  // namespace

bool HasPairs(const Operator& op) { return !PairsOf(op).empty(); }

std::vector<TunedChoice> MeasurePairs(const Operator& op) {
  std::vector<TunedChoice> found;
  for (const auto& [first, second] : PairsOf(op)) {
    TunedChoice choice{op.name,
                       TunedVersion(op),
                       op.contract->hash,
                       "",
                       op.kernels[std::size_t(first)].name,
                       op.kernels[std::size_t(second)].name};
    for (const CallKind& kind : KindsOf(*op.contract)) {
      if (MeasureKind(op, kind, first, second, &choice)) found.push_back(choice);
    }
  }
  return found;
}

}  // namespace anyop
