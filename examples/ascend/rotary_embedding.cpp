// SPDX-License-Identifier: Apache-2.0
// Rotates the heads of each token in place, NeoX style: with (a, b) the halves of a head and c, s
// the cosines and sines of the token's position, a' = a c - b s and b' = b c + a s, in float.
#include "kernel_operator.h"

using namespace AscendC;

class RotaryEmbedding {
 public:
  __aicore__ inline RotaryEmbedding() {}

  __aicore__ inline void Init(GM_ADDR positions, GM_ADDR x, GM_ADDR cos_sin, uint32_t tokens,
                              uint32_t heads, uint32_t half_size, uint32_t max_position) {
    tokens_ = tokens;
    heads_ = heads;
    half_ = half_size;
    row_ = heads * 2 * half_size;
    positions_.SetGlobalBuffer((__gm__ int64_t*)positions, tokens);
    x_.SetGlobalBuffer((__gm__ half*)x, tokens * row_);
    cos_sin_.SetGlobalBuffer((__gm__ half*)cos_sin, max_position * 2 * half_size);
    pipe_.InitBuffer(in_, 2, row_ * sizeof(half));
    pipe_.InitBuffer(in_cos_sin_, 2, 2 * half_ * sizeof(half));
    pipe_.InitBuffer(out_, 2, row_ * sizeof(half));
    pipe_.InitBuffer(floats_, (3 * row_ + 2 * half_) * sizeof(float));
  }

  __aicore__ inline void Process() {
    for (uint32_t token = GetBlockIdx(); token < tokens_; token += GetBlockNum()) {
      const int64_t position = positions_.GetValue(token);
      LocalTensor<half> x = in_.AllocTensor<half>(), table = in_cos_sin_.AllocTensor<half>();
      DataCopy(x, x_[token * row_], row_);
      DataCopy(table, cos_sin_[position * 2 * half_], 2 * half_);
      in_.EnQue(x);
      in_cos_sin_.EnQue(table);
      Compute();
      LocalTensor<half> y = out_.DeQue<half>();
      DataCopy(x_[token * row_], y, row_);
      out_.FreeTensor(y);
    }
  }

 private:
  __aicore__ inline void Compute() {
    LocalTensor<half> x = in_.DeQue<half>(), table = in_cos_sin_.DeQue<half>();
    LocalTensor<float> f = floats_.Get<float>(), y = f[row_], work = f[2 * row_];
    LocalTensor<float> cos = f[3 * row_], sin = cos[half_];
    PipeBarrier<PIPE_V>();  // the token before has read its floats
    Cast(f, x, RoundMode::CAST_NONE, row_);
    Cast(cos, table, RoundMode::CAST_NONE, 2 * half_);
    in_.FreeTensor(x);
    in_cos_sin_.FreeTensor(table);
    PipeBarrier<PIPE_V>();
    // A repeat is a half of a head; the stride of 0 takes the same cosines for each.
    const uint8_t head = 2 * half_ / 8;  // in 32 bytes
    const BinaryRepeatParams by_table{1, 1, 1, head, head, 0}, by_head{1, 1, 1, head, head, head};
    const uint64_t mask = half_;
    LocalTensor<float> a = f, b = f[half_], rotated_a = y, rotated_b = y[half_];
    Mul(rotated_a, a, cos, mask, heads_, by_table);
    Mul(work, b, sin, mask, heads_, by_table);
    Mul(rotated_b, b, cos, mask, heads_, by_table);
    Mul(work[half_], a, sin, mask, heads_, by_table);
    PipeBarrier<PIPE_V>();
    Sub(rotated_a, rotated_a, work, mask, heads_, by_head);
    Add(rotated_b, rotated_b, work[half_], mask, heads_, by_head);
    PipeBarrier<PIPE_V>();
    LocalTensor<half> result = out_.AllocTensor<half>();
    Cast(result, y, RoundMode::CAST_RINT, row_);
    out_.EnQue(result);
  }

  TPipe pipe_;
  TQue<QuePosition::VECIN, 2> in_, in_cos_sin_;
  TQue<QuePosition::VECOUT, 2> out_;
  TBuf<TPosition::VECCALC> floats_;
  GlobalTensor<int64_t> positions_;
  GlobalTensor<half> x_, cos_sin_;
  uint32_t tokens_ = 0, heads_ = 0, half_ = 0, row_ = 0;
};

extern "C" __global__ __aicore__ void rotary_embedding(GM_ADDR positions, GM_ADDR x,
                                                       GM_ADDR cos_sin, uint32_t tokens,
                                                       uint32_t heads, uint32_t half_size,
                                                       uint32_t max_position) {
  RotaryEmbedding op;
  op.Init(positions, x, cos_sin, tokens, heads, half_size, max_position);
  op.Process();
}
