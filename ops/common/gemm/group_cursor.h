// SPDX-License-Identifier: Apache-2.0
// Where a product of packed rows stands in a group of row blocks.
#pragma once
#include <cstdint>

#include "ops/common/gemm/math.h"
#include "ops/common/gemm/tile.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Goes from row block to row block, for each panel of each chunk: what a block prefetches
// meanwhile, and where its sums wait for the chunks that follow.
template <TileMath M>
class GroupCursor {
  using Weight = typename M::Weight;

 public:
  // partial: [panels][blocks][block][kPartialSums], where there are several chunks.
  GroupCursor(std::int64_t blocks, std::int64_t block, typename M::Sum* partial)
      : partial_(partial), block_sums_(block * kPartialSums<M>) {
    // The blocks share the prefetch in whole lines for each step of k: all, a half, a quarter.
    for (std::int64_t n = 2; n <= blocks && share_ > 64; n *= 2) share_ /= 2;
  }

  void StartChunk(bool is_first, bool is_last) {
    const bool is_only = is_first && is_last;
    sums_ = {is_only ? nullptr : partial_, is_first, is_last};
  }
  // weights: of the panel, for so many steps of the chunk. next: as many bytes, wanted soon, or
  // null.
  void StartPanel(const Weight* weights, const Weight* next, std::int64_t steps) {
    weights_ = reinterpret_cast<const char*>(weights);
    ahead_ = next ? reinterpret_cast<const char*>(next) : weights_;
    ahead_end_ = ahead_ + steps * kStepBytesOf<M>;
    step_ = next ? share_ : 0;
    steps_ = steps;
  }
  void NextBlock() {
    if (sums_.sums) sums_.sums += block_sums_;
    ahead_ += steps_ * step_;
    // All is asked for: the blocks that are left touch what they read anyway.
    if (ahead_ >= ahead_end_) step_ = 0, ahead_ = weights_;
  }

  // The block brings step() bytes from ahead() on with each step of k.
  const char* ahead() const { return ahead_; }
  std::int64_t step() const { return step_; }
  PartialSums<M> sums() const { return sums_; }

 private:
  typename M::Sum* const partial_;
  const std::int64_t block_sums_;
  std::int64_t share_ = kStepBytesOf<M>;  // of a block, of each step
  PartialSums<M> sums_{};
  const char *weights_ = nullptr, *ahead_ = nullptr, *ahead_end_ = nullptr;
  std::int64_t step_ = 0, steps_ = 0;
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
