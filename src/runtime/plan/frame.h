// SPDX-License-Identifier: Apache-2.0
// What the entries of a call's frame are: an operator's parameters, then its results.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/registry/operator.h"

namespace anyop {

// The name of entry i. Names are the same in all forms, so that no form need be known.
inline std::string_view EntryName(const Operator& op, int i) {
  const Form& form = op.contract->forms[0];
  return i < op.n_params ? form.params[std::size_t(i)].name
                         : form.results[std::size_t(i - op.n_params)].name;
}

// The name of the tensor that entry i is, "x", or of the k-th one of its list, "xs[2]".
inline std::string TensorName(const Operator& op, const anyop_value* frame, int i,
                              std::uint32_t k) {
  const std::string name(EntryName(op, i));
  return frame[i].tag == ANYOP_TENSORS ? name + "[" + std::to_string(k) + "]" : name;
}

inline bool IsWritten(const Operator& op, const Plan& plan, int i) {
  return i >= op.n_params ||
         op.contract->forms[std::size_t(plan.form)].params[std::size_t(i)].is_mut;
}

// f(tensor, k) for the tensor that a value is (k = 0), or for each of a list; for no other value.
template <class F>
void ForTensors(const anyop_value& v, F&& f) {
  if (v.tag == ANYOP_TENSOR) f(*v.t, 0u);
  if (v.tag != ANYOP_TENSORS) return;
  for (std::uint32_t k = 0; k < v.count; ++k) f(*v.ts[k], k);
}

// The lists of a frame whose tensors are replaced.
using TensorLists = std::deque<std::vector<const DLTensor*>>;
// Replaces every tensor of n values by f(tensor, i), where i is the value that it belongs to; if f
// returns null, the tensor stays. The caller's lists are not changed: `lists` gets copies.
template <class F>
void ReplaceTensors(anyop_value* values, int n, TensorLists* lists, F&& f) {
  const auto replaced = [&](const DLTensor* t, int i) {
    const DLTensor* made = f(*t, i);
    return made ? made : t;
  };
  for (int i = 0; i < n; ++i) {
    anyop_value& v = values[i];
    if (v.tag == ANYOP_TENSOR) v.t = replaced(v.t, i);
    if (v.tag != ANYOP_TENSORS) continue;
    auto& list = lists->emplace_back(v.ts, v.ts + v.count);
    for (const DLTensor*& t : list) t = replaced(t, i);
    v.ts = list.data();
  }
}

// The dtypes of the call's tensors, which a reference's context has (anyop/reference.h): a
// reference itself gets floats as f64, and could not tell what they were.
struct CallDTypes {
  CallDTypes(const Operator& op, const anyop_value* frame) {
    for (int i = 0; i < op.n_params + op.n_results; ++i) {
      of_entry[i] = 255;
      ForTensors(frame[i], [&](const DLTensor& t, std::uint32_t k) {
        if (k == 0) of_entry[i] = std::uint8_t(FromDL(t.dtype));
      });
    }
  }
  std::uint8_t of_entry[kMaxParams + kMaxResults];
};

// The name of the kernel that runs, or "means". It is looked up in the plan's own operator: a
// caller may still hold one that was replaced, whose list has other kernels at the same places.
inline std::string_view KernelName(const Plan& plan) {
  return plan.kernel < 0 ? "means"
                         : std::string_view(plan.op->kernels[std::size_t(plan.kernel)].name);
}

// The library of a device that brought the kernel; "" where it is the operator's own.
inline std::string KernelFile(const Plan& plan) {
  return plan.kernel < 0 ? "" : plan.op->kernels[std::size_t(plan.kernel)].file;
}

}  // namespace anyop
