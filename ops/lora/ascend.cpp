// SPDX-License-Identifier: Apache-2.0
// Blocks take a token and some of its outputs in turn. An output is a row of an adapter times the
// token's row, so that rows lie below each other in the unified buffer and are reduced one by one.
#include "ops/common/ascend.h"

namespace anyop::ops {
namespace {

constexpr uint32_t kLanes = 64;      // floats of a repeat
constexpr uint32_t kShrunk = 16;     // outputs of lora_shrink at a time
constexpr uint32_t kExpanded = 64;   // outputs of lora_expand at a time
constexpr uint32_t kRankPart = 128;  // of the ranks of lora_expand at a time

struct ShrinkTiling {
  uint32_t tokens, k, r, chunk;
  float scale;
  bool is_wide;
};

template <class T>
class Shrink {
 public:
  // Of each element of a row of x, and of kShrunk rows of an adapter.
  static constexpr uint32_t kBytes =
      sizeof(T) + 2 * sizeof(float) + kShrunk * (sizeof(T) + sizeof(float)) + 1;

  __aicore__ inline void Init(GM_ADDR x, GM_ADDR a, GM_ADDR indices, GM_ADDR y,
                              const ShrinkTiling& tiling) {
    t_ = tiling;
    x_.SetGlobalBuffer((__gm__ T*)x);
    a_.SetGlobalBuffer((__gm__ T*)a);
    y_.SetGlobalBuffer((__gm__ float*)y);
    indices_.Init(indices, t_.is_wide);
    pipe_.InitBuffer(in_x_, 1, t_.chunk * sizeof(T));
    pipe_.InitBuffer(in_a_, 1, kShrunk * t_.chunk * sizeof(T));
    pipe_.InitBuffer(out_, 2, kShrunk * 32);
    pipe_.InitBuffer(x_float_, t_.chunk * sizeof(float));
    pipe_.InitBuffer(product_, t_.chunk * sizeof(float));
    pipe_.InitBuffer(a_float_, kShrunk * t_.chunk * sizeof(float));
    pipe_.InitBuffer(work_, t_.chunk);
    pipe_.InitBuffer(sums_, kShrunk * 32);
  }

  __aicore__ inline void Process() {
    const uint64_t groups = (t_.r + kShrunk - 1) / kShrunk, items = t_.tokens * groups;
    for (uint64_t item = GetBlockIdx(); item < items; item += GetBlockNum()) {
      const auto token = uint32_t(item / groups), j = uint32_t(item % groups) * kShrunk;
      const uint32_t outputs = min(kShrunk, t_.r - j);
      const int64_t adapter = indices_[token];
      // An output is the first of 8 floats, since reductions begin at multiples of 32 bytes.
      LocalTensor<float> y = out_.AllocTensor<float>();
      Duplicate(y, 0.0f, outputs * 8);
      PipeBarrier<PIPE_V>();
      for (uint32_t begin = 0; adapter >= 0 && begin < t_.k; begin += t_.chunk) {
        const uint64_t at = (uint64_t(adapter) * t_.r + j) * t_.k + begin;
        AddPart(y, uint64_t(token) * t_.k + begin, at, outputs, min(t_.chunk, t_.k - begin));
      }
      if (adapter >= 0) Muls(y, y, t_.scale, outputs * 8);
      out_.EnQue(y);
      y = out_.DeQue<float>();
      CopyOut(y_[uint64_t(token) * t_.r + j], y, 1, outputs, 1);
      out_.FreeTensor(y);
    }
  }

 private:
  __aicore__ inline void AddPart(const LocalTensor<float>& y, uint64_t x_at, uint64_t a_at,
                                 uint32_t outputs, uint32_t n) {
    LocalTensor<T> x = in_x_.template AllocTensor<T>(), a = in_a_.template AllocTensor<T>();
    CopyIn(x, x_[x_at], n);
    CopyIn(a, a_[a_at], n, outputs, t_.k);
    in_x_.EnQue(x);
    in_a_.EnQue(a);
    x = in_x_.template DeQue<T>();
    a = in_a_.template DeQue<T>();
    const uint32_t pitch = RoundUp<T>(n);
    LocalTensor<float> xs = x_float_.Get<float>(), as = a_float_.Get<float>();
    LocalTensor<float> product = product_.Get<float>(), sums = sums_.Get<float>();
    of_t_.Read(xs, x, n);
    of_t_.Read(as, a, outputs * pitch);
    in_x_.FreeTensor(x);
    in_a_.FreeTensor(a);
    PipeBarrier<PIPE_V>();
    Duplicate(sums, 0.0f, kShrunk * 8);
    for (uint32_t i = 0; i < outputs; ++i) {
      Mul(product, xs, as[i * pitch], n);
      PipeBarrier<PIPE_V>();
      ReduceSum(sums[i * 8], product, work_.Get<float>(), n);
      PipeBarrier<PIPE_V>();
    }
    Add(y, y, sums, outputs * 8);
    PipeBarrier<PIPE_V>();
  }

  ShrinkTiling t_{};
  TPipe pipe_;
  TQue<QuePosition::VECIN, 1> in_x_, in_a_;
  TQue<QuePosition::VECOUT, 2> out_;
  TBuf<TPosition::VECCALC> x_float_, a_float_, product_, work_, sums_;
  Floats<T> of_t_;
  Indices indices_;
  GlobalTensor<T> x_, a_;
  GlobalTensor<float> y_;
};

template <class T>
__global__ __aicore__ void lora_shrink(GM_ADDR x, GM_ADDR a, GM_ADDR indices, GM_ADDR y,
                                       const ShrinkTiling* tiling) {
  Shrink<T> op;
  op.Init(x, a, indices, y, *tiling);
  op.Process();
}

void RunShrink(const Context& ctx, const Tensor& x, const Tensor& a, const Tensor& indices,
               float scale, const Tensor& y) {
  if (y.size() == 0) return;
  ascend::Visit<float, half, bfloat16_t>(x.type(), [&](auto zero) {
    using T = decltype(zero);
    const ShrinkTiling tiling{ascend::Count(x.dim(0)),
                              ascend::Count(x.dim(1)),
                              ascend::Count(y.dim(1)),
                              ascend::Chunk(x.dim(1), Shrink<T>::kBytes),
                              scale,
                              indices.type() == DType::kI64};
    const std::int64_t items = x.dim(0) * ((y.dim(1) + kShrunk - 1) / kShrunk);
    ascend::Launch(ctx, {.blocks = ascend::Blocks(items)}, &lora_shrink<T>, x, a, indices, y,
                   tiling);
  });
}

struct ExpandTiling {
  uint32_t tokens, r, n, w, offset;
  bool adds, is_wide;
};

template <class T>
class Expand {
 public:
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR b, GM_ADDR indices, GM_ADDR y,
                              const ExpandTiling& tiling) {
    t_ = tiling;
    x_.SetGlobalBuffer((__gm__ float*)x);
    b_.SetGlobalBuffer((__gm__ T*)b);
    y_.SetGlobalBuffer((__gm__ T*)y);
    indices_.Init(indices, t_.is_wide);
    pipe_.InitBuffer(in_x_, 2, kRankPart * sizeof(float));
    pipe_.InitBuffer(in_b_, 2, kExpanded * kRankPart * sizeof(T));
    pipe_.InitBuffer(in_y_, 1, kExpanded * sizeof(T));
    pipe_.InitBuffer(out_, 2, kExpanded * sizeof(T));
    pipe_.InitBuffer(b_float_, kExpanded * kRankPart * sizeof(float));
    pipe_.InitBuffer(products_, kExpanded * kLanes * sizeof(float));
    pipe_.InitBuffer(sums_, 2 * kExpanded * sizeof(float));
    of_t_.Init(pipe_, kExpanded);
  }

  __aicore__ inline void Process() {
    const uint64_t groups = (t_.n + kExpanded - 1) / kExpanded, items = t_.tokens * groups;
    for (uint64_t item = GetBlockIdx(); item < items; item += GetBlockNum()) {
      const auto token = uint32_t(item / groups), j = uint32_t(item % groups) * kExpanded;
      const int64_t adapter = indices_[token];
      if (adapter < 0) continue;
      const uint32_t outputs = min(kExpanded, t_.n - j);
      const uint64_t at = uint64_t(token) * t_.w + t_.offset + j;
      Begin(at, outputs);
      for (uint32_t q = 0; q < t_.r; q += kRankPart) {
        const uint64_t from = (uint64_t(adapter) * t_.n + j) * t_.r + q;
        AddPart(uint64_t(token) * t_.r + q, from, outputs, min(kRankPart, t_.r - q));
      }
      LocalTensor<T> y = out_.template AllocTensor<T>();
      of_t_.Write(y, sums(), outputs);
      out_.EnQue(y);
      y = out_.template DeQue<T>();
      CopyOut(y_[at], y, outputs);
      out_.FreeTensor(y);
    }
  }

 private:
  __aicore__ inline LocalTensor<float> sums() { return sums_.Get<float>(); }

  __aicore__ inline void Begin(uint64_t at, uint32_t outputs) {
    PipeBarrier<PIPE_V>();  // the outputs before have been rounded
    if (!t_.adds) {
      Duplicate(sums(), 0.0f, outputs);
    } else {
      LocalTensor<T> y = in_y_.template AllocTensor<T>();
      CopyIn(y, y_[at], outputs);
      in_y_.EnQue(y);
      y = in_y_.template DeQue<T>();
      of_t_.Read(sums(), y, outputs);
      in_y_.FreeTensor(y);
    }
    PipeBarrier<PIPE_V>();
  }

  __aicore__ inline void AddPart(uint64_t x_at, uint64_t b_at, uint32_t outputs, uint32_t n) {
    LocalTensor<float> x = in_x_.AllocTensor<float>();
    LocalTensor<T> b = in_b_.template AllocTensor<T>();
    CopyIn(x, x_[x_at], n);
    CopyIn(b, b_[b_at], n, outputs, t_.r);
    in_x_.EnQue(x);
    in_b_.EnQue(b);
    x = in_x_.DeQue<float>();
    b = in_b_.template DeQue<T>();
    const uint32_t pitch = RoundUp<T>(n);
    LocalTensor<float> rows = b_float_.Get<float>(), products = products_.Get<float>();
    LocalTensor<float> part = sums()[kExpanded];
    of_t_.Read(rows, b, outputs * pitch);
    in_b_.FreeTensor(b);
    PipeBarrier<PIPE_V>();
    const auto stride = static_cast<uint8_t>(pitch / 8), all = static_cast<uint8_t>(outputs);
    for (uint32_t q = 0; q < n; q += kLanes) {  // a repeat is an output
      const uint64_t lanes = min(kLanes, n - q);
      Mul(products, rows[q], x[q], lanes, all, BinaryRepeatParams(1, 1, 1, 8, stride, 0));
      PipeBarrier<PIPE_V>();
      WholeReduceSum(part, products, static_cast<int32_t>(lanes), outputs, 1, 1, 8);
      PipeBarrier<PIPE_V>();
      Add(sums(), sums(), part, outputs);
      PipeBarrier<PIPE_V>();
    }
    in_x_.FreeTensor(x);
  }

  ExpandTiling t_{};
  TPipe pipe_;
  TQue<QuePosition::VECIN, 2> in_x_, in_b_;
  TQue<QuePosition::VECIN, 1> in_y_;
  TQue<QuePosition::VECOUT, 2> out_;
  TBuf<TPosition::VECCALC> b_float_, products_, sums_;
  Floats<T> of_t_;
  Indices indices_;
  GlobalTensor<float> x_;
  GlobalTensor<T> b_, y_;
};

template <class T>
__global__ __aicore__ void lora_expand(GM_ADDR x, GM_ADDR b, GM_ADDR indices, GM_ADDR y,
                                       const ExpandTiling* tiling) {
  Expand<T> op;
  op.Init(x, b, indices, y, *tiling);
  op.Process();
}

void RunExpand(const Context& ctx, const Tensor& x, const Tensor& b, const Tensor& indices,
               const Tensor& y, std::int64_t offset, bool adds) {
  const std::int64_t items = x.dim(0) * ((b.dim(1) + kExpanded - 1) / kExpanded);
  if (items == 0) return;
  const ExpandTiling tiling{ascend::Count(x.dim(0)),      ascend::Count(x.dim(1)),
                            ascend::Count(b.dim(1)),      ascend::Count(y.dim(1)),
                            ascend::Count(offset),        adds,
                            indices.type() == DType::kI64};
  ascend::Visit<float, half, bfloat16_t>(y.type(), [&](auto zero) {
    ascend::Launch(ctx, {.blocks = ascend::Blocks(items)}, &lora_expand<decltype(zero)>, x, b,
                   indices, y, tiling);
  });
}

}  // namespace

ANYOP_ASCEND_KERNEL(lora_shrink){.run = ascend::Bind<&RunShrink>(),
                                 .accepts = ascend::AreContiguous<&RunShrink>()};
ANYOP_ASCEND_KERNEL(lora_expand){.run = ascend::Bind<&RunExpand>(),
                                 .accepts = ascend::AreContiguous<&RunExpand>()};

}  // namespace anyop::ops
