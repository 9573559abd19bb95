// SPDX-License-Identifier: Apache-2.0
// Lengths and masks as MindSpore's PagedAttention takes them. Our operator takes no mask, so one
// that is given must be the causal one.
#include "plugin.h"

namespace anyop::mindspore {
namespace {

Array I64(const Array& x) { return As(Flat(x), DType::kI64); }

}  // namespace

Array StartsOf(const Given& given, const Array& lengths, const Array& context,
               std::int64_t n_tokens) {
  const std::int64_t n = context.dim(0);
  if (lengths.is_none() && n_tokens == n) return {};
  if (lengths.is_none() && (n == 0 || n_tokens % n)) {
    Refuse(given, std::to_string(n_tokens) + " tokens come with the lengths of " +
                      std::to_string(n) +
                      " contexts, but must be shared among them evenly. Try "
                      "q_seq_lens.");
  }
  const Array wide = lengths.is_none() ? Array() : I64(lengths);
  if (!wide.is_none() && wide.dim(0) != n) {
    Refuse(given, "q_seq_lens has " + std::to_string(wide.dim(0)) + " numbers, but must have " +
                      std::to_string(n) + ", as context_lens does.");
  }
  Array starts = Array::Zeros({n + 1}, DType::kI64);
  std::int64_t* at = starts.data<std::int64_t>();
  for (std::int64_t i = 0; i < n; ++i) {
    at[i + 1] = at[i] + (wide.is_none() ? n_tokens / n : wide.data<std::int64_t>()[i]);
  }
  return As(starts, context.dtype());
}

void MustBeCausal(const Given& given, const Array& mask, const Array& context, const Array& starts,
                  std::int64_t n_tokens) {
  if (mask.is_none()) return;
  const Array values = ToF32(Shaped(mask, {RowsOf(mask), LastOf(mask)})), lengths = I64(context);
  const Array begins = starts.is_none() ? Array() : I64(starts);
  const std::int64_t n_columns = values.dim(1);
  std::int64_t sequence = 0;
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    std::int64_t end = t + 1;
    if (!starts.is_none()) {
      const std::int64_t* at = begins.data<std::int64_t>();
      while (sequence + 1 < lengths.dim(0) && t >= at[sequence + 1]) ++sequence;
      end = at[sequence + 1];
    }
    const std::int64_t length = lengths.data<std::int64_t>()[starts.is_none() ? t : sequence];
    const std::int64_t visible = length - (end - 1 - t);  // the last query of a sequence sees all
    bool is_causal = t < values.dim(0) && length <= n_columns;
    for (std::int64_t k = 0; is_causal && k < length; ++k) {
      is_causal = (values.data<float>()[t * n_columns + k] == 0) == (k < visible);
    }
    if (!is_causal) {
      Refuse(given, "row " + std::to_string(t) +
                        " of attn_mask is not causal, but anyop's kernels know the causal mask "
                        "alone, 0 where a token sees a key. Try None.");
    }
  }
}

}  // namespace anyop::mindspore
