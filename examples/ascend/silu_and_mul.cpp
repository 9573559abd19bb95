// SPDX-License-Identifier: Apache-2.0
// y[r] = silu(x[r, :d]) * x[r, d:], of half, computed in float.
#include "kernel_operator.h"

using namespace AscendC;

class SiluAndMul {
 public:
  __aicore__ inline SiluAndMul() {}

  __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t d) {
    rows_ = rows;
    d_ = d;
    padded_ = (d + 15) / 16 * 16;
    x_.SetGlobalBuffer((__gm__ half*)x, 2 * rows * d);
    y_.SetGlobalBuffer((__gm__ half*)y, rows * d);
    pipe_.InitBuffer(in_, 2, 2 * padded_ * sizeof(half));
    pipe_.InitBuffer(out_, 2, padded_ * sizeof(half));
    pipe_.InitBuffer(floats_, 3 * padded_ * sizeof(float));
  }

  __aicore__ inline void Process() {
    for (uint32_t row = GetBlockIdx(); row < rows_; row += GetBlockNum()) {
      // Both halves of a row in one copy: each begins at a multiple of 32 bytes of the buffer.
      LocalTensor<half> x = in_.AllocTensor<half>();
      DataCopyPadExtParams<half> nothing{false, 0, 0, 0};
      DataCopyPad(x, x_[2 * row * d_], {2, static_cast<uint32_t>(d_ * sizeof(half)), 0, 0, 0},
                  nothing);
      in_.EnQue(x);
      Compute();
      LocalTensor<half> y = out_.DeQue<half>();
      DataCopyPad(y_[row * d_], y, Row());
      out_.FreeTensor(y);
    }
  }

 private:
  __aicore__ inline DataCopyExtParams Row() {
    return {1, static_cast<uint32_t>(d_ * sizeof(half)), 0, 0, 0};
  }

  __aicore__ inline void Compute() {
    LocalTensor<half> x = in_.DeQue<half>();
    LocalTensor<float> all = floats_.Get<float>();
    LocalTensor<float> gate = all[0], up = all[padded_], sum = all[2 * padded_];
    PipeBarrier<PIPE_V>();  // the row before has read its floats
    Cast(gate, x, RoundMode::CAST_NONE, d_);
    Cast(up, x[padded_], RoundMode::CAST_NONE, d_);
    in_.FreeTensor(x);
    PipeBarrier<PIPE_V>();
    Muls(sum, gate, -1.0f, d_);
    PipeBarrier<PIPE_V>();
    Exp(sum, sum, d_);
    PipeBarrier<PIPE_V>();
    Adds(sum, sum, 1.0f, d_);
    PipeBarrier<PIPE_V>();
    Div(gate, gate, sum, d_);
    PipeBarrier<PIPE_V>();
    Mul(gate, gate, up, d_);
    PipeBarrier<PIPE_V>();
    LocalTensor<half> y = out_.AllocTensor<half>();
    Cast(y, gate, RoundMode::CAST_RINT, d_);
    out_.EnQue(y);
  }

  TPipe pipe_;
  TQue<QuePosition::VECIN, 2> in_;
  TQue<QuePosition::VECOUT, 2> out_;
  TBuf<TPosition::VECCALC> floats_;
  GlobalTensor<half> x_, y_;
  uint32_t rows_ = 0, d_ = 0, padded_ = 0;
};

extern "C" __global__ __aicore__ void silu_and_mul(GM_ADDR x, GM_ADDR y, uint32_t rows,
                                                   uint32_t d) {
  SiluAndMul op;
  op.Init(x, y, rows, d);
  op.Process();
}
