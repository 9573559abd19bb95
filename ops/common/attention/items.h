// SPDX-License-Identifier: Apache-2.0
// Cuts an attention call into items and runs them.
//
// An item is some rows of one sequence that share a key head: up to 16 (few) or 64 (many). Threads
// claim items from a counter, each with its own scratch. Which kernel takes a row depends on its
// sequence alone, so results do not depend on the number of threads.
#pragma once
#include <algorithm>
#include <cstdint>

#include "ops/common/attention/claim.h"
#include "ops/common/attention/few.h"
#include "ops/common/attention/many.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

template <class F>
[[gnu::always_inline]] inline void VisitStorage(DType type, F&& f) {
  switch (type) {
    case DType::kF32:
      return f(float{});
    case DType::kF16:
      return f(F16{});
    case DType::kBF16:
      return f(BF16{});
    case DType::kI8:
      return f(std::int8_t{});
    default:
      return f(F8E4M3{});
  }
}

class AttentionRun {
 public:
  AttentionRun(const Context& ctx, const AttentionCall& call)
      : ctx_(ctx),
        call_(call),
        dk_(call.query.dim(2)),
        dv_(call.y.dim(2)),
        part_rows_(std::min<std::int64_t>(kFewRows, call.query.dim(0) * call.group())),
        part_row_(Padded(dv_) + kPad),
        starts_(ctx.Workspace<std::int64_t>(64)) {
    const std::int64_t starts_bytes = (8 * (call.sequences + 1) + 63) / 64 * 64;
    scratch_ = ctx.Workspace<float>(std::size_t(64 + starts_bytes));
    scratch_floats_ = ManyScratchFloats(dk_, dv_);
    parts_ = scratch_ + std::max(ctx.threads, 1) * scratch_floats_;
    PlanItems();
  }

  void Run() {
    ClearPadding();
    ClaimItems(ctx_, starts_[call_.sequences], work_ns_, [&](std::int64_t i, std::int64_t slot) {
      RunItem(i, scratch_ + slot * scratch_floats_);
    });
    if (is_split_) MergeParts();
  }

 private:
  struct Item {
    QueryRows rows;
    bool is_few;
    std::int64_t split;
  };

  std::int64_t Rows(const Sequence& s) const { return s.queries * call_.group(); }
  bool IsFew(const Sequence& s) const { return Rows(s) <= kFewRows || ctx_.batch_invariant(); }
  std::int64_t Chunks(const Sequence& s) const {
    const std::int64_t rows = IsFew(s) ? kFewRows : kManyRows;
    return (Rows(s) + rows - 1) / rows;
  }
  static std::int64_t Splits(const Sequence& s) {
    return std::max<std::int64_t>((s.keys + kSplit - 1) / kSplit, 1);
  }

  // starts_[s] is the first item of sequence s. Keys are split where heads and sequences alone do
  // not occupy the threads.
  void PlanItems() {
    std::int64_t items = 0;
    bool all_few = true;
    for (std::int64_t i = 0; i < call_.sequences; ++i) {
      const Sequence s = call_.sequence(i);
      starts_[i] = items;
      items += Chunks(s) * call_.store.heads();
      all_few = all_few && IsFew(s);
      // Per pair: 4 flops per element at 50 a ns for each query head, and reading the key.
      work_ns_ += double(s.keys) * double(dk_ + dv_) * (double(Rows(s)) * 0.04 + 0.05);
    }
    starts_[call_.sequences] = items;
    is_split_ = all_few && ctx_.threads > 1 && items < 4 * ctx_.threads && work_ns_ > kInlineNs;
    if (!is_split_) return;
    items = 0;
    for (std::int64_t i = 0; i < call_.sequences; ++i) {
      const Sequence s = call_.sequence(i);
      starts_[i] = items;
      items += Chunks(s) * call_.store.heads() * Splits(s);
    }
    starts_[call_.sequences] = items;
  }

  Item At(std::int64_t index) const {
    const std::int64_t *first = starts_, *end = first + call_.sequences + 1;
    const std::int64_t s = std::upper_bound(first, end, index) - first - 1;
    const Sequence sequence = call_.sequence(s);
    const std::int64_t splits = is_split_ ? Splits(sequence) : 1, chunks = Chunks(sequence);
    index -= starts_[s];
    const std::int64_t split = index % splits, head = index / splits / chunks;
    // The last rows see the most keys: they go first.
    const std::int64_t chunk = chunks - 1 - index / splits % chunks;
    const bool is_few = IsFew(sequence);
    const std::int64_t size = is_few ? kFewRows : kManyRows;
    const Range rows{chunk * size, std::min((chunk + 1) * size, Rows(sequence))};
    return {{sequence, head, rows}, is_few, split};
  }

  void RunItem(std::int64_t index, float* scratch) {
    const Item item = At(index);
    VisitStorage(call_.store.keys.type(), [&](auto zero) {
      using C = decltype(zero);
      if (!item.is_few) return ManyRows<C>(call_, item.rows, scratch).Run();
      FewRows<C> rows(call_, item.rows, scratch);
      if (!is_split_) return RunSplits(item.rows, rows, scratch + FewScratchFloats(dk_, dv_));
      rows.RunSplit(item.split);
      for (int r = 0; r < item.rows.rows.size(); ++r) {
        float* part = Part(index, r);
        part[0] = rows.state(r).largest;
        part[1] = rows.state(r).sum;
        std::copy_n(rows.sums(r), Padded(dv_), part + kPad);
      }
    });
  }

  // All splits of an item in turn.
  template <class C>
  void RunSplits(const QueryRows& item, FewRows<C>& rows, float* sums) const {
    const Range all = rows.all();
    const int n = int(item.rows.size());
    if (all.end - all.begin / kSplit * kSplit <= kSplit) {
      rows.RunSplit(all.begin / kSplit);
      for (int r = 0; r < n; ++r) Finish(item, r, rows.state(r), rows.sums(r));
      return;
    }
    RowSum total[kFewRows];
    for (std::int64_t split = all.begin / kSplit; split * kSplit < all.end; ++split) {
      rows.RunSplit(split);
      for (int r = 0; r < n; ++r) {
        Merge(rows.state(r), rows.sums(r), &total[r], sums + r * Padded(dv_), Padded(dv_));
      }
    }
    for (int r = 0; r < n; ++r) Finish(item, r, total[r], sums + r * Padded(dv_));
  }

  void MergeParts() const {
    const std::int64_t items = starts_[call_.sequences];
    for (std::int64_t i = 0; i < items;) {
      const Item item = At(i);
      const std::int64_t splits = Splits(item.rows.sequence);
      for (int r = 0; r < item.rows.rows.size(); ++r) {
        RowSum total;
        float* sums = scratch_;
        for (std::int64_t k = i; k < i + splits; ++k) {
          const float* part = Part(k, r);
          Merge(RowSum{part[0], part[1]}, part + kPad, &total, sums, Padded(dv_));
        }
        Finish(item.rows, r, total, sums);
      }
      i += splits;
    }
  }

  float* Part(std::int64_t item, int row) const {
    return parts_ + (item * part_rows_ + row) * part_row_;
  }
  void Finish(const QueryRows& item, int r, const RowSum& row, const float* sums) const {
    const std::int64_t group = call_.group(), at = item.rows.begin + r;
    FinishRow(call_, item.sequence.query_begin + at / group, item.head * group + at % group, row,
              sums);
  }

  // Tokens that belong to no sequence: y is 0 and lse -inf.
  void ClearPadding() const {
    AttentionOptions options = call_.options;
    options.sinks = nullptr;
    const AttentionCall padding{options, call_.store, call_.query, nullptr, 0, call_.y, call_.lse};
    for (std::int64_t token = call_.tokens(); token < call_.query.dim(0); ++token) {
      for (std::int64_t h = 0; h < call_.heads(); ++h) {
        FinishRow(padding, token, h, RowSum{}, scratch_);
      }
    }
  }

  const Context& ctx_;
  const AttentionCall& call_;
  std::int64_t dk_, dv_;
  std::int64_t part_rows_, part_row_;
  std::int64_t* starts_;  // [sequences + 1]
  float *scratch_, *parts_;
  std::int64_t scratch_floats_;
  double work_ns_ = 0;
  bool is_split_ = false;
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
