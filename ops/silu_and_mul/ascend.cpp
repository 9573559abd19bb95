// SPDX-License-Identifier: Apache-2.0
// Blocks take rows in turn, and of a row as many columns as the unified buffer holds.
#include "anyop/ascend.h"

namespace {

using namespace AscendC;

template <class T>
class SiluAndMul {
 public:
  __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t d, uint32_t chunk) {
    x_.SetGlobalBuffer((__gm__ T*)x);
    y_.SetGlobalBuffer((__gm__ T*)y);
    pipe_.InitBuffer(in_, 2, 2 * chunk * sizeof(T));
    pipe_.InitBuffer(out_, 2, chunk * sizeof(T));
    pipe_.InitBuffer(floats_, 3 * chunk * sizeof(float));
    for (uint32_t row = GetBlockIdx(); row < rows; row += GetBlockNum()) {
      for (uint32_t begin = 0; begin < d; begin += chunk) {
        const uint32_t n = min(chunk, d - begin);
        const uint64_t from = uint64_t(row) * 2 * d + begin;
        CopyIn(from, from + d, n, chunk);
        Compute(n, chunk);
        CopyOut(uint64_t(row) * d + begin, n);
      }
    }
  }

 private:
  __aicore__ inline DataCopyExtParams One(uint32_t n) {
    return {1, static_cast<uint32_t>(n * sizeof(T)), 0, 0, 0};
  }
  __aicore__ inline void CopyIn(uint64_t gate, uint64_t up, uint32_t n, uint32_t chunk) {
    LocalTensor<T> x = in_.template AllocTensor<T>();
    const DataCopyPadExtParams<T> nothing{false, 0, 0, 0};
    DataCopyPad(x, x_[gate], One(n), nothing);
    DataCopyPad(x[chunk], x_[up], One(n), nothing);
    in_.EnQue(x);
  }
  __aicore__ inline void CopyOut(uint64_t at, uint32_t n) {
    LocalTensor<T> y = out_.template DeQue<T>();
    DataCopyPad(y_[at], y, One(n));
    out_.FreeTensor(y);
  }
  __aicore__ inline void ToFloat(const LocalTensor<float>& to, const LocalTensor<T>& from,
                                 uint32_t n) {
    if constexpr (std::is_same<T, float>::value) {
      Adds(to, from, 0.0f, n);
    } else {
      Cast(to, from, RoundMode::CAST_NONE, n);
    }
  }
  __aicore__ inline void Compute(uint32_t n, uint32_t chunk) {
    LocalTensor<T> x = in_.template DeQue<T>();
    LocalTensor<float> all = floats_.Get<float>();
    LocalTensor<float> gate = all[0], up = all[chunk], sum = all[2 * chunk];
    PipeBarrier<PIPE_V>();  // the chunk before has read its floats
    ToFloat(gate, x, n);
    ToFloat(up, x[chunk], n);
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
    LocalTensor<T> y = out_.template AllocTensor<T>();
    if constexpr (std::is_same<T, float>::value) {
      Mul(y, gate, up, n);
    } else {
      Mul(gate, gate, up, n);
      PipeBarrier<PIPE_V>();
      Cast(y, gate, RoundMode::CAST_RINT, n);
    }
    out_.EnQue(y);
  }

  TPipe pipe_;
  TQue<QuePosition::VECIN, 2> in_;
  TQue<QuePosition::VECOUT, 2> out_;
  TBuf<TPosition::VECCALC> floats_;
  GlobalTensor<T> x_, y_;
};

template <class T>
__global__ __aicore__ void silu_and_mul(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t d,
                                        uint32_t chunk) {
  SiluAndMul<T> op;
  op.Run(x, y, rows, d, chunk);
}

void Run(const anyop::Context& ctx, const anyop::Tensor& x, const anyop::Tensor& y) {
  const auto rows = uint32_t(y.rows()), d = uint32_t(y.row_size());
  // In floats: three for the computation, and two buffers of x and y.
  const auto chunk = min(uint32_t((d + 15) / 16 * 16), 4096u);
  const auto launch = [&](auto* kernel) {
    anyop::ascend::Launch(ctx, {.blocks = anyop::ascend::Blocks(rows)}, kernel, x, y, rows, d,
                          chunk);
  };
  if (x.type() == anyop::DType::kF32) return launch(&silu_and_mul<float>);
  if (x.type() == anyop::DType::kF16) return launch(&silu_and_mul<half>);
  launch(&silu_and_mul<bfloat16_t>);
}

}  // namespace

ANYOP_ASCEND_KERNEL(silu_and_mul){.run = anyop::ascend::Bind<&Run>(),
                                  .accepts = anyop::ascend::AreContiguous<&Run>()};
