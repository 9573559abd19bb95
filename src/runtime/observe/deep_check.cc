// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/deep_check.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <mutex>
#include <set>

#include "anyop/storage.h"
#include "anyop/tensor.h"
#include "runtime/memory/copy.h"
#include "runtime/observe/check_mode.h"
#include "runtime/plan/frame.h"
#include "runtime/run/call.h"
#include "runtime/run/run.h"
#include "signature/float_format.h"

namespace anyop {
namespace {

// Above this many elements of all results, a reference in plain loops would take minutes.
constexpr std::int64_t kMostElements = 1 << 22;
// The error that no kernel is blamed for is the sum of these. kUnits: in units in the last place of
// the exact value. The others are for sums that cancel, whose error is relative to what was added:
// units of the result's largest element, in its dtype (kernels may multiply in it) and in f32, and
// of the largest input in f32.
constexpr double kUnits = 16, kUnitsOfLargest = 2, kF32UnitsOfLargest = 256, kF32UnitsOfInput = 32;

bool IsFloat(const DLTensor& t) { return IsFloat(static_cast<const Tensor&>(t).type()); }

// The elements of a tensor of floats, in row-major order.
std::vector<double> Elements(const DLTensor& t) {
  const std::vector<char> packed = Packed(t);
  std::vector<double> values(packed.size() / std::size_t(Bytes(t.dtype)));
  VisitStorage(static_cast<const Tensor&>(t).type(), [&](auto zero) {
    using E = decltype(zero);
    const E* from = reinterpret_cast<const E*>(packed.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = ToDouble(from[i]);
    }
  });
  return values;
}

// The references that a build or a wheel has beside the operators: "my_ops_reference.so".
void LoadReferencesOf(const Operator& op) {
  static auto& mutex = *new std::mutex;
  static auto& seen = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (!seen.insert(op.file).second || !op.file.ends_with(".so")) return;
  const std::string path = op.file.substr(0, op.file.size() - 3) + "_reference.so";
  if (access(path.c_str(), R_OK) == 0) LoadReferences(path);
}

std::string ShowNumber(double x) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", x);
  return text;
}

// A tensor in memory of its own: in double where it holds floats.
struct Wide {
  explicit Wide(const DLTensor& t) : tensor(t) {
    tensor.strides = nullptr;
    tensor.byte_offset = 0;
    memory = Packed(t);
    if (IsFloat(t)) {
      const std::vector<double> values = Elements(t);
      tensor.dtype = ToDL(DType::kF64);
      memory.resize(values.size() * sizeof(double));
      std::copy_n(reinterpret_cast<const char*>(values.data()), memory.size(), memory.begin());
    }
    tensor.data = memory.data();
  }
  DLTensor tensor;
  std::vector<char> memory;
};

}  // namespace

DeepCheck::DeepCheck(const Operator& op, const Plan& plan, const anyop_value* frame)
    : op_(op), plan_(plan), exact_(std::size_t(op.n_params + op.n_results)) {
  for (int i = 0; i < op.n_params; ++i) {
    ForTensors(frame[i], [&](const DLTensor& t, std::uint32_t) {
      if (!IsFloat(t)) return;
      const Values values = Elements(t);
      for (const double x : values) {
        inputs_are_finite_ &= std::isfinite(x);
        if (std::isfinite(x)) largest_input_ = std::max(largest_input_, std::fabs(x));
      }
    });
  }
  std::int64_t elements = 0;
  for (int r = 0; r < op.n_results; ++r) {
    ForTensors(frame[op.n_params + r], [&](const DLTensor& t, std::uint32_t) {
      elements += static_cast<const Tensor&>(t).size();
    });
  }
  if (elements > kMostElements) return;
  LoadReferencesOf(op);
  RunReference(frame);
}

// A reference reads arguments as they are, and reads and writes in double what the call writes.
void DeepCheck::RunReference(const anyop_value* frame) {
  const anyop_reference* const reference = FindReference(op_);
  if (!reference) return;
  std::deque<Wide> memory;
  std::deque<std::vector<const DLTensor*>> lists;
  anyop_value call[kMaxParams + kMaxResults];
  for (int i = 0; i < op_.n_params + op_.n_results; ++i) {
    call[i] = frame[i];
    if (!IsWritten(op_, plan_, i)) continue;
    if (call[i].tag == ANYOP_TENSOR) call[i].t = &memory.emplace_back(*frame[i].t).tensor;
    if (call[i].tag != ANYOP_TENSORS) continue;
    auto& list = lists.emplace_back();
    for (std::uint32_t k = 0; k < call[i].count; ++k) {
      list.push_back(&memory.emplace_back(*frame[i].ts[k]).tensor);
    }
    call[i].ts = list.data();
  }
  RunState state(plan_);
  const CallDTypes dtypes(op_, frame);
  anyop_context context = MakeContext(plan_, nullptr, &state);
  context.data = dtypes.of_entry;
  if (reference->run(&context, call)) return;  // refuses what kernels refuse themselves
  has_reference_ = true;
  for (int i = 0; i < op_.n_params + op_.n_results; ++i) {
    if (IsWritten(op_, plan_, i) && call[i].tag == ANYOP_TENSOR && IsFloat(*frame[i].t)) {
      exact_[std::size_t(i)] = Elements(*call[i].t);
    }
  }
}

void DeepCheck::Compare(const anyop_value* after) const {
  for (int i = 0; i < op_.n_params + op_.n_results; ++i) {
    if (IsWritten(op_, plan_, i) && after[i].tag == ANYOP_TENSOR && IsFloat(*after[i].t)) {
      CompareOne(i, *after[i].t);
    }
  }
}

void DeepCheck::CompareOne(int index, const DLTensor& got) const {
  const auto& form = op_.contract->forms[std::size_t(plan_.form)];
  const std::string name =
      std::string(index < op_.n_params ? form.params[std::size_t(index)].name
                                       : form.results[std::size_t(index - op_.n_params)].name) +
      ", " + Show(got);
  const DType dtype = static_cast<const Tensor&>(got).type();
  const Values values = Elements(got);
  const Values& exact = exact_[std::size_t(index)];
  const bool has_exact = has_reference_ && exact.size() == values.size();
  double largest = 0;
  for (const double x : exact)
    largest = std::isfinite(x) ? std::max(largest, std::fabs(x)) : largest;
  const double of_sums =
      kUnitsOfLargest * Ulp(dtype, largest) +
      0x1p-24 * (kF32UnitsOfLargest * largest + kF32UnitsOfInput * largest_input_);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string element = "element " + std::to_string(i) + " of " + name + ", ";
    if (std::isnan(values[i]) && inputs_are_finite_ && !(has_exact && std::isnan(exact[i]))) {
      throw Finding("nan", "wrote NaN into " + element +
                               "although every float that the call reads is finite");
    }
    if (!has_exact || !std::isfinite(exact[i]) || !std::isfinite(values[i])) continue;
    const double error = std::fabs(values[i] - exact[i]), ulp = Ulp(dtype, exact[i]);
    if (error <= kUnits * ulp + of_sums) continue;
    throw Finding("inaccurate", "wrote " + ShowNumber(values[i]) + " into " + element +
                                    "where the reference in double has " + ShowNumber(exact[i]) +
                                    ": " + ShowNumber(std::round(error / ulp)) +
                                    " units in the last place of " + std::string(Name(dtype)));
  }
}

}  // namespace anyop
