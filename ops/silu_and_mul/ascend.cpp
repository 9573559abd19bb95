// SPDX-License-Identifier: Apache-2.0
// Blocks take rows in turn, and of a row as many columns as the unified buffer holds.
#include "ops/common/ascend.h"

namespace anyop::ops {
namespace {

template <class T>
class SiluAndMul {
 public:
  static constexpr uint32_t kBytes = 6 * sizeof(T) + 3 * sizeof(float) + Floats<T>::kBytes;

  __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t d, uint32_t chunk) {
    x_.SetGlobalBuffer((__gm__ T*)x);
    y_.SetGlobalBuffer((__gm__ T*)y);
    pipe_.InitBuffer(in_, 2, 2 * chunk * sizeof(T));
    pipe_.InitBuffer(out_, 2, chunk * sizeof(T));
    pipe_.InitBuffer(floats_, 3 * chunk * sizeof(float));
    of_t_.Init(pipe_, chunk);
    for (uint32_t row = GetBlockIdx(); row < rows; row += GetBlockNum()) {
      for (uint32_t begin = 0; begin < d; begin += chunk) {
        const uint32_t n = min(chunk, d - begin);
        Read(uint64_t(row) * 2 * d + begin, d, n, chunk);
        Compute(n, chunk);
        LocalTensor<T> y = out_.template DeQue<T>();
        CopyOut(y_[uint64_t(row) * d + begin], y, n);
        out_.FreeTensor(y);
      }
    }
  }

 private:
  __aicore__ inline void Read(uint64_t gate, uint32_t d, uint32_t n, uint32_t chunk) {
    LocalTensor<T> x = in_.template AllocTensor<T>();
    CopyIn(x, x_[gate], n);
    CopyIn(x[chunk], x_[gate + d], n);
    in_.EnQue(x);
  }
  __aicore__ inline void Compute(uint32_t n, uint32_t chunk) {
    LocalTensor<T> x = in_.template DeQue<T>();
    LocalTensor<float> all = floats_.Get<float>();
    LocalTensor<float> gate = all[0], up = all[chunk], sum = all[2 * chunk];
    PipeBarrier<PIPE_V>();  // the chunk before has read its floats
    of_t_.Read(gate, x, n);
    of_t_.Read(up, x[chunk], n);
    in_.FreeTensor(x);
    PipeBarrier<PIPE_V>();
    Muls(sum, gate, -1.0f, n);
    PipeBarrier<PIPE_V>();
    Exp(sum, sum, n);
    PipeBarrier<PIPE_V>();
    Adds(sum, sum, 1.0f, n);
    PipeBarrier<PIPE_V>();
    Div(gate, gate, sum, n);
    PipeBarrier<PIPE_V>();
    Mul(gate, gate, up, n);
    PipeBarrier<PIPE_V>();
    LocalTensor<T> y = out_.template AllocTensor<T>();
    of_t_.Write(y, gate, n);
    out_.EnQue(y);
  }

  TPipe pipe_;
  TQue<QuePosition::VECIN, 2> in_;
  TQue<QuePosition::VECOUT, 2> out_;
  TBuf<TPosition::VECCALC> floats_;
  Floats<T> of_t_;
  GlobalTensor<T> x_, y_;
};

template <class T>
__global__ __aicore__ void silu_and_mul(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t d,
                                        uint32_t chunk) {
  SiluAndMul<T> op;
  op.Run(x, y, rows, d, chunk);
}

void Run(const Context& ctx, const Tensor& x, const Tensor& y) {
  if (y.size() == 0) return;
  ascend::Visit<float, half, bfloat16_t>(x.type(), [&](auto zero) {
    using T = decltype(zero);
    ascend::Launch(ctx, {.blocks = ascend::Blocks(y.rows())}, &silu_and_mul<T>, x, y,
                   ascend::Count(y.rows()), ascend::Count(y.row_size()),
                   ascend::Chunk(y.row_size(), SiluAndMul<T>::kBytes));
  });
}

}  // namespace

ANYOP_ASCEND_KERNEL(silu_and_mul){.run = ascend::Bind<&Run>(),
                                  .accepts = ascend::AreContiguous<&Run>()};

}  // namespace anyop::ops
