// SPDX-License-Identifier: Apache-2.0
// Sizes that are not known until a graph is called: polynomials over its symbols, "2*n + 1".
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace anyop {

// factor * symbols[0] * symbols[1] * ...; the symbols are numbers, in ascending order.
struct SizeTerm {
  std::int64_t factor = 0;
  std::vector<int> symbols;

  bool operator==(const SizeTerm&) const = default;
};

// A value type; equal polynomials are equal objects.
class Size {
 public:
  Size() = default;
  Size(std::int64_t constant) {
    if (constant) terms_.push_back({constant, {}});
  }
  static Size Symbol(int symbol) { return Size(SizeTerm{1, {symbol}}); }
  explicit Size(SizeTerm term) { terms_.push_back(std::move(term)); }  // its factor is not 0

  bool is_constant() const {
    return terms_.empty() || (terms_.size() == 1 && terms_[0].symbols.empty());
  }
  std::int64_t constant() const { return terms_.empty() ? 0 : terms_[0].factor; }  // if is_constant
  // The number of the symbol that this is; -1 for anything else.
  int symbol() const {
    const bool is_one =
        terms_.size() == 1 && terms_[0].factor == 1 && terms_[0].symbols.size() == 1;
    return is_one ? terms_[0].symbols[0] : -1;
  }
  // In lexicographic order of their symbols: the constant first.
  const std::vector<SizeTerm>& terms() const { return terms_; }

  // The value where symbol k is symbols[k]. Throws InvalidArgument beyond 63 bits.
  std::int64_t At(std::span<const std::int64_t> symbols) const;

  friend Size operator+(const Size& a, const Size& b);
  friend Size operator-(const Size& a, const Size& b) { return a + b * Size(-1); }
  friend Size operator*(const Size& a, const Size& b);
  bool operator==(const Size&) const = default;

 private:
  void Add(SizeTerm term);

  std::vector<SizeTerm> terms_;  // no factor is 0
};

// a = quotient * b with whole factors, at all sizes. False if there is no such quotient.
bool DivideExactly(const Size& a, const Size& b, Size* quotient);

// "2*n + 1"; name: of a symbol, by its number.
std::string Show(const Size& size, const std::function<const std::string&(int)>& name);

}  // namespace anyop
