// SPDX-License-Identifier: Apache-2.0
// The kernel, in AscendC. Blocks take chunks of elements in turn.
#include "anyop/ascend.h"

namespace {

using namespace AscendC;

constexpr uint32_t kChunk = 4096;  // elements of a buffer

template <class T>
class MyOperator {
 public:
  __aicore__ inline void Run(GM_ADDR x, GM_ADDR gate, GM_ADDR y, float scale, uint64_t size) {
    x_.SetGlobalBuffer((__gm__ T*)x);
    gate_.SetGlobalBuffer((__gm__ T*)gate);
    y_.SetGlobalBuffer((__gm__ T*)y);
    pipe_.InitBuffer(in_, 2, 2 * kChunk * sizeof(T));
    pipe_.InitBuffer(out_, 2, kChunk * sizeof(T));
    pipe_.InitBuffer(floats_, 2 * kChunk * sizeof(float));
    for (uint64_t begin = GetBlockIdx() * kChunk; begin < size; begin += GetBlockNum() * kChunk) {
      const uint32_t n = min(uint64_t(kChunk), size - begin);
      CopyIn(begin, n);
      Compute(scale, n);
      CopyOut(begin, n);
    }
  }

 private:
  __aicore__ inline DataCopyExtParams Bytes(uint32_t n) {
    return {1, static_cast<uint32_t>(n * sizeof(T)), 0, 0, 0};
  }
  __aicore__ inline void CopyIn(uint64_t begin, uint32_t n) {
    LocalTensor<T> x = in_.template AllocTensor<T>();
    const DataCopyPadExtParams<T> nothing{false, 0, 0, 0};
    DataCopyPad(x, x_[begin], Bytes(n), nothing);
    DataCopyPad(x[kChunk], gate_[begin], Bytes(n), nothing);
    in_.EnQue(x);
  }
  __aicore__ inline void Compute(float scale, uint32_t n) {
    LocalTensor<T> x = in_.template DeQue<T>();
    LocalTensor<float> a = floats_.Get<float>(), b = a[kChunk];
    LocalTensor<T> y = out_.template AllocTensor<T>();
    PipeBarrier<PIPE_V>();  // the chunk before has read its floats
    if constexpr (std::is_same<T, float>::value) {
      Muls(a, x, scale, n);
      PipeBarrier<PIPE_V>();
      Mul(y, a, x[kChunk], n);
    } else {
      Cast(a, x, RoundMode::CAST_NONE, n);
      Cast(b, x[kChunk], RoundMode::CAST_NONE, n);
      PipeBarrier<PIPE_V>();
      Muls(a, a, scale, n);
      PipeBarrier<PIPE_V>();
      Mul(a, a, b, n);
      PipeBarrier<PIPE_V>();
      Cast(y, a, RoundMode::CAST_RINT, n);
    }
    in_.FreeTensor(x);
    out_.EnQue(y);
  }
  __aicore__ inline void CopyOut(uint64_t begin, uint32_t n) {
    LocalTensor<T> y = out_.template DeQue<T>();
    DataCopyPad(y_[begin], y, Bytes(n));
    out_.FreeTensor(y);
  }

  TPipe pipe_;
  TQue<QuePosition::VECIN, 2> in_;
  TQue<QuePosition::VECOUT, 2> out_;
  TBuf<TPosition::VECCALC> floats_;
  GlobalTensor<T> x_, gate_, y_;
};

template <class T>
__global__ __aicore__ void my_operator(GM_ADDR x, GM_ADDR gate, GM_ADDR y, float scale,
                                       uint64_t size) {
  MyOperator<T> op;
  op.Run(x, gate, y, scale, size);
}

// The parameters of the signature, then the results.
void Run(const anyop::Context& ctx, const anyop::Tensor& x, const anyop::Tensor& gate, float scale,
         const anyop::Tensor& y) {
  const auto size = uint64_t(y.size());
  const auto launch = [&](auto* kernel) {
    const auto blocks = anyop::ascend::Blocks(int64_t((size + kChunk - 1) / kChunk));
    anyop::ascend::Launch(ctx, {.blocks = blocks}, kernel, x, gate, y, scale, size);
  };
  if (x.type() == anyop::DType::kF32) return launch(&my_operator<float>);
  if (x.type() == anyop::DType::kF16) return launch(&my_operator<half>);
  launch(&my_operator<bfloat16_t>);
}

}  // namespace

ANYOP_ASCEND_KERNEL(my_operator){.run = anyop::ascend::Bind<&Run>(),
                                 .accepts = anyop::ascend::AreContiguous<&Run>()};
