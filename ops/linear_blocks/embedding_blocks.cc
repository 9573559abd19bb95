// SPDX-License-Identifier: Apache-2.0
// embedding_blocks: gathers rows of a table that is in blocks, as GGUF files hold it.
//
//   y[i] = the decoded row ids[i] of weight
//
//   ids     row numbers. A negative one is no error: it gives a row of zeros, as the parts of a
//           vocabulary on several machines need. Python indexing counts it from the end, torch
//           refuses it
//   weight  the table, one row of blocks per id, as linear_blocks takes it
//   format  any that linear_blocks takes
//   to      the dtype of the result
//
// Numerics  The numbers of dequantize_blocks in f32, rounded once more to a narrower dtype.
// Source    ggml block formats; ggml's get_rows.

#include "anyop/op.h"
#include "ops/common/elementwise/elementwise.h"
#include "ops/linear_blocks/format.h"

namespace anyop::ops {
namespace {

template <class T>
void Store(const float* x, int count, T* y) {
  for (int j = 0; j < count; ++j) y[j] = T(x[j]);
}

template <class F>
void Gather(const Context& ctx, const Tensor& ids, const Tensor& weight, const Tensor& y) {
  constexpr int kElements = kElementsOf<F>;
  const std::int64_t blocks = y.dim(-1) / kElements, per_row = ids.row_size();
  const auto* table = weight.base<const std::uint8_t>();
  const auto decode = [&](std::int64_t i) {
    const std::int64_t id = ReadIndex(ids, ids.row_offset(i / per_row) + i % per_row);
    for (std::int64_t b = 0; b < blocks; ++b) {
      float x[kElements] = {};
      if (id >= 0) DecodeBlock<F>(table + (id * blocks + b) * F::kBytes, x);
      VisitFloat(y.type(), [&](auto zero) {
        Store(x, kElements, y.base<decltype(zero)>() + y.row_offset(i) + b * kElements);
      });
    }
  };
  const double row_ns = double(blocks * kElements) + 20;
  ctx.ParallelFor(ids.size(), std::int64_t(2000 / row_ns) + 1,
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) decode(i);
                  });
}

void Run(const Context& ctx, const Tensor& ids, const Tensor& weight, std::string_view format,
         DType, const Tensor& y) {
  VisitFormat(format, [&](auto f) { Gather<decltype(f)>(ctx, ids, weight, y); });
}

}  // namespace

ANYOP_KERNEL(embedding_blocks){.run = Bind<&Run>()};

extern constinit const Op embedding_blocks{
    .signature =
        "embedding_blocks(ids: I[...] below v, weight: dense u8[v, 18*g], format: 'q4_0' = 'q4_0', "
        "to: dtype = f32) -> (y: to[..., 32*g]) where I in i32 | i64, to in f32 | f16 | bf16\n"
        "embedding_blocks(ids: I[...] below v, weight: dense u8[v, 20*g], format: 'q4_1', "
        "to: dtype = f32) -> (y: to[..., 32*g]) where I in i32 | i64, to in f32 | f16 | bf16\n"
        "embedding_blocks(ids: I[...] below v, weight: dense u8[v, 34*g], format: 'q8_0', "
        "to: dtype = f32) -> (y: to[..., 32*g]) where I in i32 | i64, to in f32 | f16 | bf16\n"
        "embedding_blocks(ids: I[...] below v, weight: dense u8[v, 22*g], format: 'q5_0', "
        "to: dtype = f32) -> (y: to[..., 32*g]) where I in i32 | i64, to in f32 | f16 | bf16\n"
        "embedding_blocks(ids: I[...] below v, weight: dense u8[v, 24*g], format: 'q5_1', "
        "to: dtype = f32) -> (y: to[..., 32*g]) where I in i32 | i64, to in f32 | f16 | bf16\n"
        "embedding_blocks(ids: I[...] below v, weight: dense u8[v, 144*s], format: 'q4_K', "
        "to: dtype = f32) -> (y: to[..., 256*s]) where I in i32 | i64, to in f32 | f16 | bf16\n"
        "embedding_blocks(ids: I[...] below v, weight: dense u8[v, 176*s], format: 'q5_K', "
        "to: dtype = f32) -> (y: to[..., 256*s]) where I in i32 | i64, to in f32 | f16 | bf16\n"
        "embedding_blocks(ids: I[...] below v, weight: dense u8[v, 210*s], format: 'q6_K', "
        "to: dtype = f32) -> (y: to[..., 256*s]) where I in i32 | i64, to in f32 | f16 | bf16",
    .bytes = "bytes(y) + bytes(ids)",
};

}  // namespace anyop::ops
