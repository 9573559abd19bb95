// SPDX-License-Identifier: Apache-2.0
// Sizes of a graph as numbers that signatures are evaluated over. What holds for them holds at
// every size that a call of the graph may have.
#pragma once
#include <cstdint>
#include <vector>

#include "graph/ir/size.h"
#include "signature/symbols.h"

namespace anyop {

class SizeNumbers : public Symbols {
 public:
  // Sums, differences, products, exact quotients, min and max of sizes whose order is known. All
  // else is unknown, as is a comparison that holds at some sizes only.
  Number Compute(NodeOp op, const Number& a, const Number& b) override;
  bool IsSame(const Number& a, const Number& b) override;

  // A symbol of the graph that is never below 0.
  void AddSizeSymbol(int symbol);
  // 64 bits that stand for a size in a call; a constant is itself.
  std::int64_t Bits(const Size& size);
  Size ToSize(const Number& n) const;
  bool IsAtLeast(const Size& size, std::int64_t least) const;

  // Forgets the sizes from number `first` on, and makes is_sure true again.
  void Forget(std::size_t first);
  std::size_t size() const { return sizes_.size(); }
  // Whether every result since Forget holds at all sizes.
  bool is_sure() const { return is_sure_; }

 private:
  Number ToNumber(const Size& size);
  Number Unsure();
  Number Compare(NodeOp op, const Size& x, const Size& y);
  Number Divide(NodeOp op, const Size& x, const Size& y);

  std::vector<Size> sizes_;  // by symbol, from 1
  std::vector<bool> is_size_symbol_;
  bool is_sure_ = true;
};

}  // namespace anyop
