// SPDX-License-Identifier: Apache-2.0
// apply_token_bitmask: sets the logits of tokens that a grammar forbids to -inf, in place.
//
//   logits[rows[a], j] = -inf     where bit j % 32 (lowest first) of bitmask[a, j / 32] is 0
//
//   bitmask  one bit per token, 1 allowed; bits beyond the vocabulary are ignored
//   rows     the logits row of each mask row (absent: the same); -1 skips the mask row
//
// Numerics  Allowed logits keep their bits. Of two masks of one row both apply.
// Source    xgrammar, apply_token_bitmask_inplace.
#include <algorithm>
#include <bit>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

constexpr std::int64_t kWord = 32;

// Words [begin, end) of one mask row; minus_infinity: its bits in the logits' format.
template <class U>
void MaskWords(U* logits, std::int64_t v, const std::uint32_t* mask, std::int64_t begin,
               std::int64_t end, U minus_infinity) {
  for (std::int64_t i = begin; i < end; ++i) {
    std::uint32_t forbidden = ~mask[i];
    if (forbidden == 0) continue;
    U* to = logits + i * kWord;
    const std::int64_t count = std::min(kWord, v - i * kWord);
    if (forbidden == ~0u) {
      std::fill_n(to, count, minus_infinity);
      continue;
    }
    for (; forbidden; forbidden &= forbidden - 1) {
      const int j = std::countr_zero(forbidden);
      if (j < count) to[j] = minus_infinity;
    }
  }
}

template <class U>
void MaskRows(const Context& ctx, const Tensor& logits, const Tensor& bitmask, const Tensor* rows,
              U minus_infinity) {
  const std::int64_t v = logits.dim(1), masks = bitmask.dim(0);
  // Parts are ranges of tokens, so that two masks of one row never meet in two threads.
  const std::int64_t grain = 2000 / (5 * masks + 1) + 1;
  ctx.ParallelFor((v + kWord - 1) / kWord, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t a = 0; a < masks; ++a) {
      const std::int64_t r = rows ? ReadIndex(*rows, a) : a;
      if (r < 0) continue;
      MaskWords(logits.base<U>() + r * logits.stride(0), v,
                bitmask.base<const std::uint32_t>() + a * bitmask.stride(0), begin, end,
                minus_infinity);
    }
  });
}

void Run(const Context& ctx, const Tensor& logits, const Tensor& bitmask, const Tensor* rows) {
  switch (logits.type()) {
    case DType::kF32:
      return MaskRows<std::uint32_t>(ctx, logits, bitmask, rows, 0xff800000u);
    case DType::kF16:
      return MaskRows<std::uint16_t>(ctx, logits, bitmask, rows, 0xfc00);
    default:
      return MaskRows<std::uint16_t>(ctx, logits, bitmask, rows, 0xff80);
  }
}

}  // namespace

ANYOP_KERNEL(apply_token_bitmask){.run = Bind<&Run>()};

extern constinit const Op apply_token_bitmask{
    .signature =
        "apply_token_bitmask(logits: mut T[n, v], bitmask: i32[m, w], rows: I[m]? below n) -> () "
        "where T in f32 | f16 | bf16, I in i32 | i64, w >= ceil_div(v, 32), "
        "given(rows) or m == n",
    .bytes = "m * v / 8 + m * v * bytes(T)",
};

}  // namespace anyop::ops
