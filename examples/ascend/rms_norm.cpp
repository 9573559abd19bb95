// SPDX-License-Identifier: Apache-2.0
// y[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight, of half, computed in float. Blocks take rows in
// turns. Rows may have any length that fits: copies are padded to 32 bytes.
#include "kernel_operator.h"

using namespace AscendC;

class RmsNorm {
 public:
  __aicore__ inline RmsNorm() {}

  __aicore__ inline void Init(GM_ADDR x, GM_ADDR weight, GM_ADDR y, uint32_t rows, uint32_t d,
                              float eps) {
    rows_ = rows;
    d_ = d;
    eps_ = eps;
    x_.SetGlobalBuffer((__gm__ half*)x, rows * d);
    weight_.SetGlobalBuffer((__gm__ half*)weight, d);
    y_.SetGlobalBuffer((__gm__ half*)y, rows * d);
    const uint32_t padded = (d + 15) / 16 * 16;
    pipe_.InitBuffer(in_, 2, padded * sizeof(half));
    pipe_.InitBuffer(out_, 2, padded * sizeof(half));
    pipe_.InitBuffer(in_weight_, 1, padded * sizeof(half));
    pipe_.InitBuffer(floats_, 4 * padded * sizeof(float));
    pipe_.InitBuffer(sum_, 32);
    padded_ = padded;
  }

  __aicore__ inline void Process() {
    if (GetBlockIdx() >= static_cast<int64_t>(rows_)) return;
    ReadWeight();
    for (uint32_t row = GetBlockIdx(); row < rows_; row += GetBlockNum()) {
      LocalTensor<half> x = in_.AllocTensor<half>();
      Read(x, x_[row * d_]);
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

  __aicore__ inline void Read(const LocalTensor<half>& to, const GlobalTensor<half>& from) {
    DataCopyPadExtParams<half> nothing{false, 0, 0, 0};
    DataCopyPad(to, from, Row(), nothing);
  }

  __aicore__ inline void ReadWeight() {
    LocalTensor<half> weight = in_weight_.AllocTensor<half>();
    Read(weight, weight_[0]);
    in_weight_.EnQue(weight);
    weight = in_weight_.DeQue<half>();
    Cast(Floats(0), weight, RoundMode::CAST_NONE, d_);
    in_weight_.FreeTensor(weight);
  }

  __aicore__ inline LocalTensor<float> Floats(uint32_t which) {
    return floats_.Get<float>()[which * padded_];
  }

  __aicore__ inline void Compute() {
    LocalTensor<half> x = in_.DeQue<half>();
    LocalTensor<float> weight = Floats(0), f = Floats(1), squares = Floats(2), work = Floats(3);
    LocalTensor<float> sum = sum_.Get<float>();
    PipeBarrier<PIPE_V>();  // the row before has read its floats
    Cast(f, x, RoundMode::CAST_NONE, d_);
    in_.FreeTensor(x);
    PipeBarrier<PIPE_V>();
    Mul(squares, f, f, d_);
    PipeBarrier<PIPE_V>();
    ReduceSum(sum, squares, work, d_);
    PipeBarrier<PIPE_V>();
    Muls(sum, sum, 1.0f / d_, 1);
    PipeBarrier<PIPE_V>();
    Adds(sum, sum, eps_, 1);
    PipeBarrier<PIPE_V>();
    Sqrt(sum, sum, 1);
    Scale(f, sum);
    PipeBarrier<PIPE_V>();
    Mul(f, f, weight, d_);
    PipeBarrier<PIPE_V>();
    LocalTensor<half> y = out_.AllocTensor<half>();
    Cast(y, f, RoundMode::CAST_RINT, d_);
    out_.EnQue(y);
  }

  // The scalar unit reads what the vector unit wrote, and the next row may not write it before.
  __aicore__ inline void Scale(const LocalTensor<float>& f, const LocalTensor<float>& root) {
    const event_t written = static_cast<event_t>(GetTPipePtr()->FetchEventID(HardEvent::V_S));
    SetFlag<HardEvent::V_S>(written);
    WaitFlag<HardEvent::V_S>(written);
    const float scale = 1.0f / root.GetValue(0);
    const event_t read = static_cast<event_t>(GetTPipePtr()->FetchEventID(HardEvent::S_V));
    SetFlag<HardEvent::S_V>(read);
    WaitFlag<HardEvent::S_V>(read);
    Muls(f, f, scale, d_);
  }

  TPipe pipe_;
  TQue<QuePosition::VECIN, 2> in_;
  TQue<QuePosition::VECIN, 1> in_weight_;
  TQue<QuePosition::VECOUT, 2> out_;
  TBuf<TPosition::VECCALC> floats_, sum_;
  GlobalTensor<half> x_, weight_, y_;
  uint32_t rows_ = 0, d_ = 0, padded_ = 0;
  float eps_ = 0;
};

extern "C" __global__ __aicore__ void rms_norm(GM_ADDR x, GM_ADDR weight, GM_ADDR y, uint32_t rows,
                                               uint32_t d, float eps) {
  RmsNorm op;
  op.Init(x, weight, y, rows, d, eps);
  op.Process();
}
