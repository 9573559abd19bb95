// SPDX-License-Identifier: Apache-2.0
// Blocks take rows in turn. A row that the unified buffer does not hold is read twice: for the sum
// of its squares, and to be scaled.
#include "ops/common/ascend.h"

namespace anyop::ops {
namespace {

struct Tiling {
  uint32_t rows, d, chunk;
  float eps, weight_offset;
};

template <class T>
class RmsNorm {
 public:
  static constexpr uint32_t kBytes = 5 * sizeof(T) + 3 * sizeof(float) + 1 + Floats<T>::kBytes;

  __aicore__ inline void Init(GM_ADDR x, GM_ADDR weight, GM_ADDR y, const Tiling& tiling) {
    t_ = tiling;
    has_weight_ = weight != nullptr;
    x_.SetGlobalBuffer((__gm__ T*)x);
    weight_.SetGlobalBuffer((__gm__ T*)weight);
    y_.SetGlobalBuffer((__gm__ T*)y);
    pipe_.InitBuffer(in_, 2, t_.chunk * sizeof(T));
    pipe_.InitBuffer(out_, 2, t_.chunk * sizeof(T));
    pipe_.InitBuffer(in_weight_, 1, t_.chunk * sizeof(T));
    pipe_.InitBuffer(floats_, 3 * t_.chunk * sizeof(float));
    pipe_.InitBuffer(work_, t_.chunk);
    pipe_.InitBuffer(sum_, 32);
    of_t_.Init(pipe_, t_.chunk);
  }

  __aicore__ inline void Process() {
    if (is_whole()) ReadWeight(0, t_.d);
    for (uint32_t row = GetBlockIdx(); row < t_.rows; row += GetBlockNum()) {
      const uint64_t at = uint64_t(row) * t_.d;
      const float mean = SumOfSquares(at, 1) / t_.d + t_.eps;
      float unit = 1, scale = 1;
      if (mean >= 0x1p-90f && mean <= 0x1p120f) {
        scale = 1 / SquareRoot(mean);
      } else {  // the squares leave f32: of a row in units of a power of 2 they do not
        unit = mean < 1 ? 0x1p96f : 0x1p-96f;
        scale = 1 / SquareRoot(SumOfSquares(at, unit) / t_.d + t_.eps * unit * unit);
      }
      Scale(at, unit, scale);
    }
  }

 private:
  __aicore__ inline bool is_whole() const { return t_.d <= t_.chunk; }
  __aicore__ inline LocalTensor<float> Part(uint32_t which) {
    return floats_.Get<float>()[which * t_.chunk];
  }
  __aicore__ inline LocalTensor<float> row() { return Part(0); }
  __aicore__ inline LocalTensor<float> squares() { return Part(1); }
  __aicore__ inline LocalTensor<float> gain() { return Part(2); }

  __aicore__ inline void Read(uint64_t at, uint32_t n, float unit) {
    LocalTensor<T> x = in_.template AllocTensor<T>();
    CopyIn(x, x_[at], n);
    in_.EnQue(x);
    x = in_.template DeQue<T>();
    PipeBarrier<PIPE_V>();  // the part before has been read
    of_t_.Read(row(), x, n);
    in_.FreeTensor(x);
    PipeBarrier<PIPE_V>();
    if (unit == 1) return;
    Muls(row(), row(), unit, n);
    PipeBarrier<PIPE_V>();
  }

  __aicore__ inline float SumOfSquares(uint64_t at, float unit) {
    LocalTensor<float> sum = sum_.Get<float>();
    float all = 0;
    for (uint32_t begin = 0; begin < t_.d; begin += t_.chunk) {
      const uint32_t n = min(t_.chunk, t_.d - begin);
      Read(at + begin, n, unit);
      Mul(squares(), row(), row(), n);
      PipeBarrier<PIPE_V>();
      ReduceSum(sum, squares(), work_.Get<float>(), n);
      Wait<HardEvent::V_S>();
      all += sum.GetValue(0);
      Wait<HardEvent::S_V>();
    }
    return all;
  }

  __aicore__ inline float SquareRoot(float x) {
    LocalTensor<float> root = sum_.Get<float>();
    Duplicate(root, x, 1);
    PipeBarrier<PIPE_V>();
    Sqrt(root, root, 1);
    Wait<HardEvent::V_S>();
    const float result = root.GetValue(0);
    Wait<HardEvent::S_V>();
    return result;
  }

  __aicore__ inline void ReadWeight(uint32_t begin, uint32_t n) {
    if (!has_weight_) return;
    LocalTensor<T> weight = in_weight_.template AllocTensor<T>();
    CopyIn(weight, weight_[begin], n);
    in_weight_.EnQue(weight);
    weight = in_weight_.template DeQue<T>();
    of_t_.Read(gain(), weight, n);
    in_weight_.FreeTensor(weight);
    PipeBarrier<PIPE_V>();
    Adds(gain(), gain(), t_.weight_offset, n);
    PipeBarrier<PIPE_V>();
  }

  // A row that is whole still lies in row().
  __aicore__ inline void Scale(uint64_t at, float unit, float scale) {
    for (uint32_t begin = 0; begin < t_.d; begin += t_.chunk) {
      const uint32_t n = min(t_.chunk, t_.d - begin);
      if (!is_whole()) {
        Read(at + begin, n, unit);
        ReadWeight(begin, n);
      }
      Muls(row(), row(), scale, n);
      PipeBarrier<PIPE_V>();
      if (has_weight_) Mul(row(), row(), gain(), n);
      PipeBarrier<PIPE_V>();
      LocalTensor<T> y = out_.template AllocTensor<T>();
      of_t_.Write(y, row(), n);
      out_.EnQue(y);
      y = out_.template DeQue<T>();
      CopyOut(y_[at + begin], y, n);
      out_.FreeTensor(y);
    }
  }

  Tiling t_{};
  bool has_weight_ = false;
  TPipe pipe_;
  TQue<QuePosition::VECIN, 2> in_;
  TQue<QuePosition::VECIN, 1> in_weight_;
  TQue<QuePosition::VECOUT, 2> out_;
  TBuf<TPosition::VECCALC> floats_, work_, sum_;
  Floats<T> of_t_;
  GlobalTensor<T> x_, weight_, y_;
};

template <class T>
__global__ __aicore__ void rms_norm(GM_ADDR x, GM_ADDR weight, GM_ADDR y, const Tiling* tiling) {
  RmsNorm<T> op;
  op.Init(x, weight, y, *tiling);
  op.Process();
}

void Run(const Context& ctx, const Tensor& x, const Tensor* weight, float eps, float weight_offset,
         const Tensor& y) {
  if (y.size() == 0) return;
  ascend::Visit<float, half, bfloat16_t>(x.type(), [&](auto zero) {
    using T = decltype(zero);
    const Tiling tiling{ascend::Count(y.rows()), ascend::Count(y.row_size()),
                        ascend::Chunk(y.row_size(), RmsNorm<T>::kBytes), eps, weight_offset};
    ascend::Launch(ctx, {.blocks = ascend::Blocks(tiling.rows)}, &rms_norm<T>, x, weight, y,
                   tiling);
  });
}

}  // namespace

ANYOP_ASCEND_KERNEL(rms_norm){.run = ascend::Bind<&Run>(),
                              .accepts = ascend::AreContiguous<&Run>()};

}  // namespace anyop::ops
