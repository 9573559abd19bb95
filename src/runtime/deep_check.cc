// SPDX-License-Identifier: Apache-2.0
#include "runtime/deep_check.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>

#include "anyop/tensor.h"
#include "runtime/call.h"
#include "runtime/check_mode.h"
#include "runtime/copy.h"
#include "runtime/run.h"

namespace anyop {
namespace {

// Above this many elements of all results, a reference in plain loops would take minutes.
constexpr std::int64_t kMostElements = 1 << 22;
// A kernel may round as it likes within this: units in the last place of the result's dtype at the
// exact value, and of f32 at the largest one of the result (sums that cancel).
constexpr double kUnits = 16, kUnitsOfLargest = 256;

bool IsFloat(const DLTensor& t) {
  return t.dtype.code == 2 || t.dtype.code == 4 || t.dtype.code > 6;
}

// The elements of a tensor of floats, in row-major order.
std::vector<double> Elements(const DLTensor& t) {
  std::vector<char> packed(std::size_t(PackedBytes(t)));
  CopyToPacked(t, packed.data());
  std::vector<double> values(packed.size() / (t.dtype.bits / 8));
  Visit(static_cast<const Tensor&>(t).type(), [&](auto zero) {
    using E = decltype(zero);
    const E* from = reinterpret_cast<const E*>(packed.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_class_v<E>) {
        values[i] = double(float(from[i]));
      } else {
        values[i] = double(from[i]);
      }
    }
  });
  return values;
}

int MantissaBits(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 52;
    case DType::kF32:
      return 23;
    case DType::kF16:
      return 10;
    case DType::kBF16:
      return 7;
    case DType::kF8E4M3:
      return 3;
    default:
      return 2;
  }
}

// The spacing of the dtype's numbers at x.
double Ulp(DType dtype, double x) {
  const int exponent = x == 0 || !std::isfinite(x) ? -126 : std::max(std::ilogb(x), -126);
  return std::ldexp(1.0, exponent - MantissaBits(dtype));
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

template <class F>
void ForTensors(const anyop_value& v, F&& f) {
  if (v.tag == ANYOP_TENSOR) f(*v.t);
  if (v.tag != ANYOP_TENSORS) return;
  for (std::uint32_t k = 0; k < v.count; ++k) f(*v.ts[k]);
}

std::string ShowNumber(double x) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", x);
  return text;
}

}  // namespace

DeepCheck::DeepCheck(const Operator& op, const Plan& plan, const anyop_value* frame)
    : op_(op), plan_(plan), exact_(std::size_t(op.n_params + op.n_results)) {
  for (int i = 0; i < op.n_params; ++i) {
    ForTensors(frame[i], [&](const DLTensor& t) {
      if (!IsFloat(t)) return;
      const Values values = Elements(t);
      inputs_are_finite_ &=
          std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
    });
  }
  std::int64_t elements = 0;
  for (int r = 0; r < op.n_results; ++r) {
    ForTensors(frame[op.n_params + r],
               [&](const DLTensor& t) { elements += static_cast<const Tensor&>(t).size(); });
  }
  if (elements > kMostElements) return;
  LoadReferencesOf(op);
  RunReference(frame);
}

void DeepCheck::RunReference(const anyop_value* frame) {
  const anyop_reference* const reference = FindReference(op_);
  if (!reference) return;
  std::deque<Wide> memory;
  std::deque<std::vector<const DLTensor*>> lists;
  const auto widen = [&](const DLTensor& t, bool has_values) -> const DLTensor* {
    Wide& wide = memory.emplace_back();
    wide.tensor = t;
    wide.tensor.strides = nullptr;
    wide.tensor.byte_offset = 0;
    wide.memory.resize(std::size_t(PackedBytes(t)));
    if (has_values) CopyToPacked(t, wide.memory.data());
    if (IsFloat(t)) {
      const Values values = Elements(t);
      wide.tensor.dtype = ToDL(DType::kF64);
      wide.memory.assign(values.size() * sizeof(double), 0);
      if (has_values) std::memcpy(wide.memory.data(), values.data(), wide.memory.size());
    }
    wide.tensor.data = wide.memory.data();
    return &wide.tensor;
  };
  anyop_value call[kMaxParams + kMaxResults];
  for (int i = 0; i < op_.n_params + op_.n_results; ++i) {
    call[i] = frame[i];
    if (call[i].tag == ANYOP_TENSOR) call[i].t = widen(*frame[i].t, i < op_.n_params);
    if (call[i].tag != ANYOP_TENSORS) continue;
    auto& list = lists.emplace_back();
    for (std::uint32_t k = 0; k < call[i].count; ++k) list.push_back(widen(*frame[i].ts[k], true));
    call[i].ts = list.data();
  }
  RunState state(plan_);
  const anyop_context context = MakeContext(plan_, nullptr, &state);
  if (reference->run(&context, call)) return;  // refuses what kernels refuse themselves
  has_reference_ = true;
  const Form& form = op_.contract->forms[std::size_t(plan_.form)];
  for (int i = 0; i < op_.n_params + op_.n_results; ++i) {
    const bool is_written = i >= op_.n_params || form.params[std::size_t(i)].is_mut;
    if (is_written && call[i].tag == ANYOP_TENSOR && IsFloat(*frame[i].t)) {
      exact_[std::size_t(i)] = Elements(*call[i].t);
    }
  }
}

void DeepCheck::Compare(const anyop_value* after) const {
  const Form& form = op_.contract->forms[std::size_t(plan_.form)];
  for (int i = 0; i < op_.n_params + op_.n_results; ++i) {
    const bool is_written = i >= op_.n_params || form.params[std::size_t(i)].is_mut;
    if (is_written && after[i].tag == ANYOP_TENSOR && IsFloat(*after[i].t)) {
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
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string element = "element " + std::to_string(i) + " of " + name + ", ";
    if (std::isnan(values[i]) && inputs_are_finite_ && !(has_exact && std::isnan(exact[i]))) {
      throw Finding("nan", "wrote NaN into " + element +
                               "although every float that the call reads is finite");
    }
    if (!has_exact || !std::isfinite(exact[i]) || !std::isfinite(values[i])) continue;
    const double error = std::fabs(values[i] - exact[i]), ulp = Ulp(dtype, exact[i]);
    if (error <= kUnits * ulp + kUnitsOfLargest * 0x1p-24 * largest) continue;
    throw Finding("inaccurate", "wrote " + ShowNumber(values[i]) + " into " + element +
                                    "where the reference in double has " + ShowNumber(exact[i]) +
                                    ": " + ShowNumber(std::round(error / ulp)) +
                                    " units in the last place of " + std::string(Name(dtype)));
  }
}

}  // namespace anyop
