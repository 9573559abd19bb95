// SPDX-License-Identifier: Apache-2.0
#include "runtime/probe.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "platform/arena.h"
#include "platform/error.h"
#include "runtime/host.h"
#include "runtime/make_plan.h"
#include "signature/generate.h"

namespace anyop {
namespace {

constexpr int kPairs = 5;

// The dtypes of a call: what decides, beside the machine, which kernel is better.
std::uint64_t DTypesOf(const Bindings& b) {
  std::uint64_t key = 0;
  for (int i = 0; i < kMaxDTypeVars; ++i) {
    key = key << 8 | (b.dtype_bound >> i & 1 ? b.dtype[i] + 1u : 0u);
  }
  return key;
}

// "n = 256, rows = 8" as options of the generator; the dtypes and words are those of the call.
GenerateOptions OptionsFor(const Request& r, std::string_view text) {
  GenerateOptions o;
  o.form = r.form;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string_view item = text.substr(begin, end - begin);
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
  const Form& form = r.op.contract->forms[std::size_t(r.form)];
  for (std::size_t i = 0; i < form.dtype_vars.size(); ++i) {
    if (r.bindings.dtype_bound >> i & 1) {
      o.dtypes[std::string(form.dtype_vars[i])] = DType(r.bindings.dtype[i]);
    }
  }
  for (int i = 0; i < r.op.n_params; ++i) {
    const std::string name(form.params[std::size_t(i)].name);
    const anyop_value& v = r.frame[i];
    if (form.params[std::size_t(i)].is_optional) o.given[name] = v.tag != ANYOP_NONE;
    if (v.tag == ANYOP_WORD) o.words[name] = std::string(v.s, v.count);
    if (v.tag == ANYOP_DTYPE) o.dtypes[name] = DType(v.i);
    if (v.tag == ANYOP_BOOL) o.numbers[name] = double(v.i);
  }
  o.default_chance = 1;
  return o;
}

// Private memory for a generated call. Floats are small and alike. Integers are 0, offsets are
// evenly spaced up to their limit, and a tensor that the kernel's .probe names has that number
// everywhere.
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
    const std::size_t bytes = std::size_t(n * (t.dtype.bits / 8)) + 64;
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
    Visit(dtype, [&](auto zero) {
      using E = decltype(zero);
      for (std::int64_t i = 0; i < n; ++i) {
        const float value = float(i % 13 - 6) / 8;
        if constexpr (std::is_same_v<E, double>) {
          reinterpret_cast<E*>(p)[i] = value;
        } else if constexpr (std::is_constructible_v<E, float>) {
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
  ProbedKernel(const Request& r, int kernel, PrivateCall& call) : call_(call) {
    Policy policy{0, true, true, {}, ""};
    policy.items.push_back(
        {r.op.name, PolicyItem::kPinned, r.op.kernels[std::size_t(kernel)].name});
    ScopeState scope;
    scope.threads = 1;
    scope.is_batch_invariant = true;  // no probe within a probe
    MakePlan(r.op, call.frame(), scope, policy, &plan_);
    is_the_one_ = plan_.kernel == kernel;
    workspace_ = std::make_unique<Workspace>(plan_.workspace_bytes);
  }
  bool is_the_one() const { return is_the_one_; }
  // In nanoseconds, or a huge number if the kernel refused.
  double Time() {
    using Clock = std::chrono::steady_clock;
    RunState state(plan_);
    const anyop_context context = MakeContext(plan_, workspace_->data(), &state);
    const auto begin = Clock::now();
    const int code = plan_.run(&context, call_.frame());
    const std::chrono::duration<double, std::nano> time = Clock::now() - begin;
    return code ? 1e18 : time.count();
  }

 private:
  PrivateCall& call_;
  Plan plan_;
  bool is_the_one_ = false;
  std::unique_ptr<Workspace> workspace_;
};

ProbeTimes Measure(const Request& r, int first, int second) {
  Random random(1);
  const GenerateOptions options = OptionsFor(r, r.op.kernels[std::size_t(first)].data.probe);
  std::optional<GeneratedCall> generated = Generate(*r.op.contract, random, options);
  if (!generated) return {};
  PrivateCall call(r.op, std::move(*generated), options.numbers);
  ProbedKernel a(r, first, call), b(r, second, call);
  if (!a.is_the_one() || !b.is_the_one()) return {};
  ProbeTimes best{true, a.Time(), b.Time()};  // the warm-up, replaced below
  for (int i = 0; i < kPairs; ++i) {
    const double ta = a.Time(), tb = b.Time();
    best.first_ns = i ? std::min(best.first_ns, ta) : ta;
    best.second_ns = i ? std::min(best.second_ns, tb) : tb;
  }
  return best;
}

}  // namespace

ProbeTimes Probe(const Request& r, int first, int second) {
  struct Measured {
    std::mutex mutex;
    std::map<std::array<std::uint64_t, 4>, ProbeTimes> times;
  };
  static Measured* all = new Measured;
  const std::array<std::uint64_t, 4> key{std::uint64_t(r.op.index), std::uint64_t(first),
                                         std::uint64_t(second), DTypesOf(r.bindings)};
  std::lock_guard lock(all->mutex);  // a second thread waits: two at once would disturb each other
  const auto known = all->times.find(key);
  if (known != all->times.end()) return known->second;
  ProbeTimes times;
  try {
    times = Measure(r, first, second);
  } catch (const Error&) {  // a kernel that takes this call may decline the probe's sizes
  }
  return all->times[key] = times;
}

}  // namespace anyop
