// SPDX-License-Identifier: Apache-2.0
#include "runtime/run/index_check.h"

#include <algorithm>
#include <limits>

#include "anyop/tensor.h"
#include "signature/expression.h"

namespace anyop {
namespace {

const Tensor& TensorOf(const anyop_value& v) { return *static_cast<const Tensor*>(v.t); }

// Calls f(typed span of a row, row number) for each row until it returns false.
template <class F>
bool ForIntegerRows(const Tensor& t, F&& f) {
  if (t.size() == 0) return true;  // [10^9, 0] has 10^9 rows, which took seconds
  return Visit(t.type(), [&](auto zero) {
    using E = decltype(zero);
    if constexpr (std::is_integral_v<E> && !std::is_same_v<E, bool>) {
      if (t.is_contiguous()) return f(std::span(t.base<const E>(), std::size_t(t.size())), 0);
      for (std::int64_t r = 0; r < t.rows(); ++r) {
        if (!f(t.row<const E>(r), r)) return false;
      }
    }
    return true;
  });
}

// Without a branch for each entry, so that the compiler vectorizes the loop. Negative entries mean
// none, and pass: only the largest one is compared.
template <class E>
bool AllBelow(std::span<const E> entries, std::int64_t limit) {
  E most = std::numeric_limits<E>::min();
  for (E e : entries) most = e > most ? e : most;
  return entries.empty() || std::int64_t(most) < limit;
}

// Offsets rise, so that the last one is the largest.
template <class E>
bool AreOffsets(std::span<const E> entries, std::int64_t limit) {
  if (entries.empty()) return true;
  bool falls = false;
  for (std::size_t i = 1; i < entries.size(); ++i) falls |= entries[i] < entries[i - 1];
  return entries.front() == 0 && !falls && std::int64_t(entries.back()) <= limit;
}

template <class E>
bool Holds(const IndexCheck& check, std::span<const E> entries) {
  return check.is_offsets ? AreOffsets(entries, check.limit) : AllBelow(entries, check.limit);
}

struct Offender {
  std::int64_t place = -1, value = 0, before = 0;
};

template <class E>
bool Find(const IndexCheck& check, std::span<const E> entries, std::int64_t first, Offender* out) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::int64_t v = entries[i], before = i ? std::int64_t(entries[i - 1]) : 0;
    const bool is_good = !check.is_offsets ? v < check.limit
                         : i == 0          ? v == 0
                                           : v >= before && v <= check.limit;
    if (is_good) continue;
    *out = {first + std::int64_t(i), v, before};
    return false;
  }
  return true;
}

// "[3]" or "[1, 0]": the place as indices of the tensor.
std::string PlaceText(const anyop_value& v, std::int64_t place) {
  if (v.tag == ANYOP_INT || (v.tag == ANYOP_TENSOR && v.t->ndim == 0)) return "";
  if (v.tag != ANYOP_TENSOR) return "[" + std::to_string(place) + "]";
  std::int64_t index[kMaxRank];
  for (int d = v.t->ndim - 1; d >= 0; --d) {
    index[d] = place % v.t->shape[d];
    place /= v.t->shape[d];
  }
  std::string text = "[";
  for (int d = 0; d < v.t->ndim; ++d) text += (d ? ", " : "") + std::to_string(index[d]);
  return text + "]";
}

std::span<const std::int64_t> ListOf(const anyop_value& v) {
  return v.tag == ANYOP_INT ? std::span(&v.i, 1) : std::span(v.is, v.count);
}

}  // namespace

bool IndicesHold(const IndexCheck& check, const anyop_value& v) {
  if (v.tag != ANYOP_TENSOR) return Holds(check, ListOf(v));
  if (check.is_offsets && !TensorOf(v).is_contiguous()) {  // neighbours may lie in two rows
    Offender ignored;
    return ForIntegerRows(TensorOf(v),
                          [&](auto row, std::int64_t) { return Find(check, row, 0, &ignored); });
  }
  return ForIntegerRows(TensorOf(v), [&](auto row, std::int64_t) { return Holds(check, row); });
}

std::string IndexBound(const IndexCheck& check, const Plan& plan, const anyop_value* frame) {
  const Contract& contract = *plan.op->contract;
  const Form& form = contract.forms[std::size_t(plan.form)];
  const Param& param = form.params[check.param];
  std::string bound = Show(form, param.bound);
  const Node& node = form.node(param.bound);
  if (node.op != NodeOp::kVar && node.op != NodeOp::kInt) {
    bound += ", " + ShowUses(contract, plan.form, param.bound, plan.bindings, frame, false);
  }
  const std::string why = node.op == NodeOp::kInt ? "." : " (" + bound + ").";
  return (check.is_offsets ? ", but must be at most " : ", but must be less than ") +
         std::to_string(check.limit) + why;
}

std::string IndexError(const IndexCheck& check, const Plan& plan, const anyop_value* frame) {
  const anyop_value& v = frame[check.param];
  const Param& param = plan.op->contract->forms[std::size_t(plan.form)].params[check.param];
  Offender bad;
  if (v.tag != ANYOP_TENSOR) {
    Find(check, ListOf(v), 0, &bad);
  } else {
    ForIntegerRows(TensorOf(v), [&](auto row, std::int64_t r) {
      return Find(check, row, r * TensorOf(v).row_size(), &bad);
    });
  }
  const std::string name(param.name), bound = IndexBound(check, plan, frame);
  std::string text = name + PlaceText(v, bad.place) + " is " + std::to_string(bad.value);
  if (!check.is_offsets) return text + bound;
  if (bad.place == 0) return text + ", but must be 0.";
  if (bad.value < bad.before) {
    return text + ", but must not be less than " + name + PlaceText(v, bad.place - 1) +
           ", which is " + std::to_string(bad.before) + ".";
  }
  return text + bound;
}

}  // namespace anyop
