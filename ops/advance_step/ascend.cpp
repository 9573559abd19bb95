// SPDX-License-Identifier: Apache-2.0
// Blocks take parts of the rows: states are copied in, advanced by the scalar unit, which looks up
// the blocks in global memory, and copied out.
#include "ops/common/ascend.h"

namespace anyop::ops {
namespace {

constexpr uint32_t kRows = 256;  // of a part

struct Tiling {
  uint32_t n, queries;
  int64_t table_width, block_size;
  bool has_wide_table;
};

// I: of tokens and positions, S: of lengths, M: of slots.
template <class I, class S, class M>
class AdvanceStep {
 public:
  __aicore__ inline void Init(GM_ADDR tokens, GM_ADDR sampled, GM_ADDR positions, GM_ADDR lengths,
                              GM_ADDR slots, GM_ADDR table, const Tiling& tiling) {
    t_ = tiling;
    tokens_.SetGlobalBuffer((__gm__ I*)tokens);
    sampled_.SetGlobalBuffer((__gm__ I*)sampled);
    positions_.SetGlobalBuffer((__gm__ I*)positions);
    lengths_.SetGlobalBuffer((__gm__ S*)lengths);
    slots_.SetGlobalBuffer((__gm__ M*)slots);
    table_.Init(table, t_.has_wide_table);
    pipe_.InitBuffer(tokens_here_, kRows * sizeof(I));
    pipe_.InitBuffer(positions_here_, kRows * sizeof(I));
    pipe_.InitBuffer(lengths_here_, kRows * sizeof(S));
    pipe_.InitBuffer(slots_here_, kRows * sizeof(M));
  }

  __aicore__ inline void Process() {
    for (uint32_t row = GetBlockIdx() * kRows; row < t_.n; row += GetBlockNum() * kRows) {
      Advance(row, min(kRows, t_.n - row));
    }
  }

 private:
  __aicore__ inline void Advance(uint32_t row, uint32_t n) {
    LocalTensor<I> tokens = tokens_here_.Get<I>(), positions = positions_here_.Get<I>();
    LocalTensor<S> lengths = lengths_here_.Get<S>();
    LocalTensor<M> slots = slots_here_.Get<M>();
    const uint32_t used = row < t_.queries ? min(n, t_.queries - row) : 0;
    if (used) CopyIn(tokens, sampled_[row], used);
    if (used) CopyIn(lengths, lengths_[row], used);
    Wait<HardEvent::MTE2_S>();
    for (uint32_t i = 0; i < n; ++i) {
      const int64_t position = i < used ? int64_t{lengths.GetValue(i)} : -1;
      if (position < 0) {
        tokens.SetValue(i, 0);
        positions.SetValue(i, 0);
        slots.SetValue(i, -1);
        continue;
      }
      const int64_t column = position / t_.block_size;
      const int64_t block = table_[uint64_t(row + i) * t_.table_width + column];
      positions.SetValue(i, position);
      lengths.SetValue(i, position + 1);
      slots.SetValue(i, block < 0 ? -1 : block * t_.block_size + position % t_.block_size);
    }
    Wait<HardEvent::S_MTE3>();
    CopyOut(tokens_[row], tokens, n);
    CopyOut(positions_[row], positions, n);
    CopyOut(slots_[row], slots, n);
    if (used) CopyOut(lengths_[row], lengths, used);
    Wait<HardEvent::MTE3_MTE2>();  // the next part takes the same buffers
    Wait<HardEvent::MTE3_S>();
  }

  Tiling t_{};
  TPipe pipe_;
  TBuf<TPosition::VECCALC> tokens_here_, positions_here_, lengths_here_, slots_here_;
  GlobalTensor<I> tokens_, sampled_, positions_;
  GlobalTensor<S> lengths_;
  GlobalTensor<M> slots_;
  Indices table_;
};

template <class I, class S, class M>
__global__ __aicore__ void advance_step(GM_ADDR tokens, GM_ADDR sampled, GM_ADDR positions,
                                        GM_ADDR lengths, GM_ADDR slots, GM_ADDR table,
                                        const Tiling* tiling) {
  AdvanceStep<I, S, M> op;
  op.Init(tokens, sampled, positions, lengths, slots, table, *tiling);
  op.Process();
}

void Run(const Context& ctx, const Tensor& tokens, const Tensor& sampled, const Tensor& positions,
         const Tensor& lengths, const Tensor& slots, const Tensor& table, std::int64_t block_size,
         std::optional<std::int64_t> num_queries) {
  const std::int64_t n = tokens.dim(0);
  if (n == 0) return;
  const Tiling tiling{ascend::Count(n), ascend::Count(num_queries.value_or(n)), table.dim(1),
                      block_size, table.type() == DType::kI64};
  const auto blocks = ascend::Blocks((n + kRows - 1) / kRows);
  ascend::Visit<int32_t, int64_t>(tokens.type(), [&](auto of_tokens) {
    ascend::Visit<int32_t, int64_t>(lengths.type(), [&](auto of_lengths) {
      ascend::Visit<int32_t, int64_t>(slots.type(), [&](auto of_slots) {
        ascend::Launch(ctx, {.blocks = blocks},
                       &advance_step<decltype(of_tokens), decltype(of_lengths), decltype(of_slots)>,
                       tokens, sampled, positions, lengths, slots, table, tiling);
      });
    });
  });
}

}  // namespace

ANYOP_ASCEND_KERNEL(advance_step){.run = ascend::Bind<&Run>(),
                                  .accepts = ascend::AreContiguous<&Run>()};

}  // namespace anyop::ops
