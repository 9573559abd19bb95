// SPDX-License-Identifier: Apache-2.0
// Cuts an attention call into items and runs them.
//
// An item is some rows of one sequence: up to 16 of some key heads (few), or 64 of one (many).
// Threads claim items from a counter, each with its own scratch. Which kernel takes a row depends
// on its sequence alone, so results do not depend on the number of threads.
#pragma once
#include <algorithm>
#include <cstdint>

#include "ops/common/attention/few_dot.h"
#include "ops/common/attention/few_float.h"
#include "ops/common/attention/many.h"
#include "ops/common/attention/run.h"
#include "ops/common/claim.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Calls f with a value of the type of keys and values. Kernels with dot instructions take queries
// of bf16, beside which keys are bf16 or bytes.
template <class F>
[[gnu::always_inline]] inline void VisitStorage(DType type, F&& f) {
  switch (type) {
#if !defined(__AVX512BF16__)
    case DType::kF32:
      return f(float{});
    case DType::kF16:
      return f(F16{});
#endif
    case DType::kBF16:
      return f(BF16{});
    case DType::kI8:
      return f(std::int8_t{});
    default:
      return f(F8E4M3{});
  }
}
// On processors with tiles a dot instruction takes as long as four multiply-adds, which do twice as
// much: few rows of bf16 do without it there (RunItem). One query of 1,024 keys takes 42 us instead
// of 48, 9/3 heads of 64.
#if defined(__AVX512BF16__)
template <class C>
using FewOf = DotRows<C>;
#else
template <class C>
using FewOf = FloatRows<C>;
#endif

class AttentionRun {
 public:
  AttentionRun(const Context& ctx, const AttentionCall& call)
      : ctx_(ctx),
        call_(call),
        threads_(ThreadsOf(ctx)),
        dk_(call.query.dim(2)),
        dv_(call.y.dim(2)),
        layout_(SizesOf(ctx, call)) {
    const Placed placed(ctx, layout_);
    counter_ = placed[layout_.counter], starts_ = placed[layout_.starts];
    scratch_ = placed[layout_.scratch], parts_ = placed[layout_.parts];
    PlanItems();
  }

  void Run() {
    ClearPadding();
    const auto run = [&](std::int64_t i, std::int64_t slot) {
      RunItem(i, scratch_ + slot * layout_.item_bytes);
    };
    ClaimItems(ctx_, counter_, starts_[call_.sequences], work_ns_, run);
    if (is_split_) MergeParts();
  }

 private:
  struct Item {
    QueryRows rows;
    bool is_few;
    std::int64_t split, unit;  // unit: counts chunks and splits of all sequences
  };

  std::int64_t Rows(const Sequence& s) const { return s.queries * call_.group(); }
  // Few and many rows sum in other orders. In batch-invariant mode all rows go the same way, so
  // that a row has the bits that it has alone.
  bool IsFew(const Sequence& s) const { return Rows(s) <= kFewQueries || ctx_.batch_invariant(); }
  std::int64_t Chunks(const Sequence& s) const {
    const std::int64_t rows = IsFew(s) ? kFewQueries : kManyRows;
    return (Rows(s) + rows - 1) / rows;
  }
  std::int64_t Splits(const Sequence& s) const {
    return is_split_ ? std::max<std::int64_t>((s.keys + kSplit - 1) / kSplit, 1) : 1;
  }
  // The parts that the key heads of a chunk of rows are cut into, and the heads of a part.
  std::int64_t HeadParts(bool is_few) const {
    const std::int64_t heads = is_few ? few_heads_ : 1;
    return (call_.store.heads() + heads - 1) / heads;
  }
  double WorkNs(const Sequence& s) const {
    // Per pair: 4 flops per element at 50 a ns for each query head, and reading the key.
    return double(s.keys) * double(dk_ + dv_) * (double(Rows(s)) * 0.04 + 0.05);
  }

  // starts_[s] is the first item of sequence s. Returns their number.
  std::int64_t CountItems() {
    std::int64_t items = 0;
    for (std::int64_t i = 0; i < call_.sequences; ++i) {
      const Sequence s = call_.sequence(i);
      starts_[i] = items;
      items += Chunks(s) * HeadParts(IsFew(s)) * Splits(s);
    }
    return starts_[call_.sequences] = items;
  }
  // Few rows take as many heads together as leave every thread four items. Keys are split where
  // sequences alone do not occupy the threads.
  void PlanItems() {
    bool all_few = true;
    double longest_ns = 0;
    for (std::int64_t i = 0; i < call_.sequences; ++i) {
      const Sequence s = call_.sequence(i);
      all_few = all_few && IsFew(s);
      work_ns_ += WorkNs(s);
      if (IsFew(s))
        longest_ns = std::max(longest_ns, WorkNs(s) / double(std::max(Chunks(s), std::int64_t{1})));
    }
    few_heads_ = std::min<std::int64_t>(call_.store.heads(), kFewHeads);
    const std::int64_t wanted = 4 * threads_;
    std::int64_t items = CountItems();
    if (threads_ == 1 || work_ns_ <= kInlineNs) return;
    if (all_few && items < wanted) {
      is_split_ = true;
      items = CountItems();
    }
    // One chunk of rows is more than two shares of the work: its heads become items of their own.
    const bool is_uneven = !is_split_ && longest_ns * double(wanted) > 2 * work_ns_;
    if (items >= wanted && !is_uneven) return;
    few_heads_ = is_uneven ? 1 : std::max<std::int64_t>(few_heads_ * items / wanted, 1);
    CountItems();
  }

  Item At(std::int64_t index) const {
    const std::int64_t *first = starts_, *end = first + call_.sequences + 1;
    const std::int64_t s = std::upper_bound(first, end, index) - first - 1;
    const Sequence sequence = call_.sequence(s);
    const bool is_few = IsFew(sequence);
    const std::int64_t splits = Splits(sequence), chunks = Chunks(sequence);
    const std::int64_t head_parts = HeadParts(is_few), heads = is_few ? few_heads_ : 1;
    index -= starts_[s];
    const std::int64_t split = index % splits, part = index / splits % head_parts;
    // The last rows see the most keys: they go first.
    const std::int64_t chunk = chunks - 1 - index / splits / head_parts;
    const std::int64_t size = is_few ? kFewQueries : kManyRows;
    const Range rows{chunk * size, std::min((chunk + 1) * size, Rows(sequence))};
    const Range of_heads{part * heads, std::min((part + 1) * heads, call_.store.heads())};
    const std::int64_t unit = starts_[s] / head_parts + chunk * splits + split;
    return {{sequence, of_heads, rows}, is_few, split, unit};
  }

  void RunItem(std::int64_t index, char* scratch) {
    const Item item = At(index);
    VisitStorage(call_.store.keys.type(), [&](auto zero) {
      using C = decltype(zero);
      if (!item.is_few) return ManyRows<C>(call_, item.rows, scratch).Run();
      if constexpr (!std::is_same_v<FewOf<C>, FloatRows<C>> && std::is_same_v<C, BF16>) {
        if (call_.tiles) return RunFew(item, FloatRows<C>(call_, item.rows, scratch));
      }
      RunFew(item, FewOf<C>(call_, item.rows, scratch));
    });
  }
  template <class Few>
  void RunFew(const Item& item, Few few) {
    if (!is_split_) return RunSplits(item.rows, few);
    few.RunSplit(item.split);
    ForRows(item.rows, [&](int head, int row) {
      float* part = Part(item.unit, item.rows.heads.begin + head, row);
      part[0] = few.state(head, row).largest;
      part[1] = few.state(head, row).sum;
      std::copy_n(few.sums(head, row), FewRow(dv_), part + kPad);
    });
  }

  template <class F>
  static void ForRows(const QueryRows& rows, F&& f) {
    for (int head = 0; head < int(rows.heads.size()); ++head) {
      for (int row = 0; row < int(rows.rows.size()); ++row) f(head, row);
    }
  }

  // All splits of an item in turn.
  template <class Few>
  void RunSplits(const QueryRows& item, Few& few) const {
    const Range all = few.all();
    if (all.end - all.begin / kSplit * kSplit <= kSplit) {
      few.RunSplit(all.begin / kSplit);
      return ForRows(item, [&](int head, int row) {
        Finish(item, head, row, few.state(head, row), few.sums(head, row));
      });
    }
    RowSum total[kFewHeads * kFewQueries];
    for (std::int64_t split = all.begin / kSplit; split * kSplit < all.end; ++split) {
      few.RunSplit(split);
      ForRows(item, [&](int head, int row) {
        Merge(few.state(head, row), few.sums(head, row), &total[head * kFewQueries + row],
              few.total(head, row), FewRow(dv_));
      });
    }
    ForRows(item, [&](int head, int row) {
      Finish(item, head, row, total[head * kFewQueries + row], few.total(head, row));
    });
  }

  void MergeParts() const {
    const std::int64_t items = starts_[call_.sequences];
    float* sums = reinterpret_cast<float*>(scratch_);
    for (std::int64_t i = 0; i < items;) {
      const Item item = At(i);
      const std::int64_t splits = Splits(item.rows.sequence);
      ForRows(item.rows, [&](int head, int row) {
        RowSum total;
        for (std::int64_t k = item.unit; k < item.unit + splits; ++k) {
          const float* part = Part(k, item.rows.heads.begin + head, row);
          Merge(RowSum{part[0], part[1]}, part + kPad, &total, sums, FewRow(dv_));
        }
        Finish(item.rows, head, row, total, sums);
      });
      i += splits;
    }
  }

  float* Part(std::int64_t unit, std::int64_t head, int row) const {
    return parts_ +
           ((unit * call_.store.heads() + head) * layout_.part_rows + row) * layout_.part_row;
  }
  void Finish(const QueryRows& item, int head, int r, const RowSum& row, const float* sums) const {
    const std::int64_t group = call_.group(), at = item.rows.begin + r;
    FinishRow(call_, item.sequence.query_begin + at / group,
              (item.heads.begin + head) * group + at % group, row, sums);
  }

  // Tokens that belong to no sequence: y is 0 and lse -inf. A sink would make lse finite.
  void ClearPadding() const {
    AttentionOptions options = call_.options;
    options.sinks = nullptr;
    const AttentionCall padding{options, call_.store, call_.query, nullptr, 0, call_.y, call_.lse};
    for (std::int64_t token = call_.tokens(); token < call_.query.dim(0); ++token) {
      for (std::int64_t h = 0; h < call_.heads(); ++h) {
        FinishRow(padding, token, h, RowSum{}, reinterpret_cast<float*>(scratch_));
      }
    }
  }

  const Context& ctx_;
  const AttentionCall& call_;
  std::int64_t threads_;
  std::int64_t dk_, dv_;
  AttentionWorkspace<std::int64_t> layout_;
  std::int64_t *counter_, *starts_;
  char* scratch_;
  float* parts_;
  double work_ns_ = 0;
  bool is_split_ = false;
  std::int64_t few_heads_ = 1;  // key heads of an item of few rows
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
