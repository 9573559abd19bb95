// SPDX-License-Identifier: Apache-2.0
// mrope: rotates query and key heads, in place, by positions of several axes (time, height, width).
//
//   (a, b) <- (a*c_j - b*s_j, b*c_j + a*s_j)     j < q = r/2
//
//   c_j = w[j], s_j = w[q + j] of the table row w = cos_sin_cache[positions[A(j), i]]; pairs are
//   those of rotary_embedding with offset 0
//
//   positions      a row of the table for each axis and token; at -1 the pairs of that axis keep
//                  their bits
//   cos_sin_cache  cosines, then sines; see rotary_cache
//   sections       how many pairs each axis has
//   order          'blocks': A(j) is 0 for the first sections[0] pairs, then 1, ...;
//                  'interleaved': A(j) = m if j % a == m and j < a * sections[m], m >= 1; else 0
//
// Numerics  In f32 from the table as it is, both elements of a pair read before either is written;
//           one rounding.
// Source    Qwen2-VL, arXiv:2409.12191; vLLM 0.27.1, MRotaryEmbedding and XDRotaryEmbedding.
#include "anyop/op.h"

namespace anyop::ops {
namespace {

// Whether every axis has as many pairs as it should.
void Check(const Context&, const TensorShape&, const TensorShape&, const TensorShape*,
           const TensorShape& table, std::span<const std::int64_t> sections, std::string_view order,
           std::string_view) {
  if (order != "interleaved") return;
  const auto axes = std::int64_t(sections.size());
  const std::int64_t pairs = table.dim(1) / 2;
  for (std::int64_t m = 1; m < axes; ++m) {
    const std::int64_t places = (pairs - m + axes - 1) / axes;  // j < pairs with j % axes == m
    const std::int64_t section = sections[std::size_t(m)];
    if (section <= places) continue;
    Refuse("sections[" + std::to_string(m) + "] is " + std::to_string(section) +
           ", but must be at most " + std::to_string(places) + " in order 'interleaved' (of " +
           std::to_string(pairs) + " pairs, one in " + std::to_string(axes) +
           " may belong to axis " + std::to_string(m) + "). Try order 'blocks'.");
  }
}

}  // namespace

extern constinit const Op mrope{
    .signature =
        "mrope(positions: I[a, t] below p, query: mut T[t, hq, d], key: mut T[t, hkv, d]?, "
        "cos_sin_cache: C[p, r], sections: int[a], order: 'blocks' | 'interleaved' = 'blocks', "
        "style: 'neox' | 'gptj' = 'neox') -> () where T in f32 | f16 | bf16, "
        "C in f32 | f16 | bf16, I in i32 | i64, a >= 1, r % 2 == 0, r <= d, sections >= 0, "
        "sum(sections) == r/2",
    .flops = "3 * r * (rows(query) + rows(key))",
    .bytes = "2 * r * (rows(query) + rows(key)) * bytes(T) + a * t * r * bytes(C)",
    .check = Bind<&Check>(),
};

}  // namespace anyop::ops
