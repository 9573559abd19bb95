// SPDX-License-Identifier: Apache-2.0
#include "graph/ir/size.h"

#include <algorithm>
#include <iterator>

#include "platform/error.h"

namespace anyop {
namespace {

[[noreturn]] void FailBeyond() {
  Fail(ANYOP_INVALID_ARGUMENT, "a size of the graph is beyond 63 bits.");
}

// Products of sums of many symbols grow without bound, and a text may hold any: the sizes that
// programs write are far below these.
constexpr std::size_t kMostTerms = 1000, kMostFactors = 64;

void CheckLength(std::size_t terms, std::size_t factors) {
  if (terms <= kMostTerms && factors <= kMostFactors) return;
  Fail(ANYOP_INVALID_ARGUMENT,
       "a size of the graph is a sum of more than 1000 products, or a product of more than 64 "
       "sizes.");
}

}  // namespace

void Size::Add(SizeTerm term) {
  const auto at =
      std::lower_bound(terms_.begin(), terms_.end(), term,
                       [](const SizeTerm& a, const SizeTerm& b) { return a.symbols < b.symbols; });
  if (at == terms_.end() || at->symbols != term.symbols) {
    if (term.factor) terms_.insert(at, std::move(term));
    return;
  }
  if (__builtin_add_overflow(at->factor, term.factor, &at->factor)) FailBeyond();
  if (!at->factor) terms_.erase(at);
}

Size operator+(const Size& a, const Size& b) {
  Size sum = a;
  for (const SizeTerm& t : b.terms_) sum.Add(t);
  CheckLength(sum.terms_.size(), 0);
  return sum;
}

Size operator*(const Size& a, const Size& b) {
  Size product;
  for (const SizeTerm& x : a.terms_) {
    for (const SizeTerm& y : b.terms_) {
      SizeTerm t;
      if (__builtin_mul_overflow(x.factor, y.factor, &t.factor)) FailBeyond();
      std::merge(x.symbols.begin(), x.symbols.end(), y.symbols.begin(), y.symbols.end(),
                 std::back_inserter(t.symbols));
      CheckLength(product.terms_.size(), t.symbols.size());
      product.Add(std::move(t));
    }
  }
  return product;
}

namespace {

// The term of the highest degree, the last of several. The leading term of a product is then the
// product of the leading terms, which division relies on.
const SizeTerm& Leading(const Size& size) {
  return *std::max_element(
      size.terms().begin(), size.terms().end(), [](const SizeTerm& a, const SizeTerm& b) {
        return a.symbols.size() != b.symbols.size() ? a.symbols.size() < b.symbols.size()
                                                    : a.symbols < b.symbols;
      });
}

}  // namespace

bool DivideExactly(const Size& a, const Size& b, Size* quotient) {
  Size rest = a, q;
  while (!rest.terms().empty()) {
    const SizeTerm &x = Leading(rest), &y = Leading(b);
    if (x.factor == INT64_MIN || x.factor % y.factor) return false;  // INT64_MIN / -1 overflows
    SizeTerm term{x.factor / y.factor, {}};
    std::set_difference(x.symbols.begin(), x.symbols.end(), y.symbols.begin(), y.symbols.end(),
                        std::back_inserter(term.symbols));
    if (term.symbols.size() + y.symbols.size() != x.symbols.size()) return false;
    const Size part(std::move(term));
    rest = rest - part * b;
    q = q + part;
  }
  *quotient = q;
  return true;
}

std::int64_t Size::At(std::span<const std::int64_t> symbols) const {
  std::int64_t sum = 0;
  bool overflows = false;
  for (const SizeTerm& t : terms_) {
    std::int64_t product = t.factor;
    for (const int s : t.symbols) {
      overflows |= __builtin_mul_overflow(product, symbols[std::size_t(s)], &product);
    }
    overflows |= __builtin_add_overflow(sum, product, &sum);
  }
  if (overflows) FailBeyond();
  return sum;
}

std::string Show(const Size& size, const std::function<const std::string&(int)>& name) {
  if (size.is_constant()) return std::to_string(size.constant());
  std::string text;
  const auto add = [&](const SizeTerm& t) {
    const bool is_negative = t.factor < 0;
    if (!text.empty()) text += is_negative ? " - " : " + ";
    if (text.empty() && is_negative) text += "-";
    const std::uint64_t factor =
        is_negative ? 0 - std::uint64_t(t.factor) : std::uint64_t(t.factor);
    std::string product = factor == 1 && !t.symbols.empty() ? "" : std::to_string(factor);
    for (const int s : t.symbols) {
      product += (product.empty() ? "" : "*") + name(s);
    }
    text += product;
  };
  for (const SizeTerm& t : size.terms()) {
    if (!t.symbols.empty()) add(t);
  }
  for (const SizeTerm& t : size.terms()) {
    if (t.symbols.empty()) add(t);
  }
  return text;
}

}  // namespace anyop
