// SPDX-License-Identifier: Apache-2.0
// Tensors of one size are one row, of which blocks take parts in turn. With one row y for all, a
// block keeps a part of y for its rows.
#include "ops/common/ascend.h"

namespace anyop::ops {
namespace {

constexpr uint32_t kMostElements = 8192;  // of a part, so that small tensors occupy several blocks

template <class T>
class Sum {
 public:
  static constexpr bool kInFloat = std::is_same_v<T, bfloat16_t>;  // the vector unit adds no bf16
  static constexpr uint32_t kBytes = 6 * sizeof(T) + 2 * sizeof(float);

  __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t chunk) {
    x_.SetGlobalBuffer((__gm__ T*)x);
    y_.SetGlobalBuffer((__gm__ T*)y);
    z_.SetGlobalBuffer((__gm__ T*)z);
    chunk_ = chunk;
    pipe_.InitBuffer(in_x_, 2, chunk * sizeof(T));
    pipe_.InitBuffer(in_y_, 2, chunk * sizeof(T));
    pipe_.InitBuffer(out_, 2, chunk * sizeof(T));
    if (kInFloat) pipe_.InitBuffer(floats_, 2 * chunk * sizeof(float));
  }

  __aicore__ inline void AddAll(uint64_t size) {
    const uint64_t step = uint64_t(GetBlockNum()) * chunk_;
    for (uint64_t at = uint64_t(GetBlockIdx()) * chunk_; at < size; at += step) {
      const auto n = static_cast<uint32_t>(min(uint64_t(chunk_), size - at));
      LocalTensor<T> y = Read(in_y_, y_[at], n);
      AddPart(at, y, n);
      in_y_.FreeTensor(y);
    }
  }

  __aicore__ inline void AddRow(uint32_t rows, uint32_t d) {
    for (uint32_t begin = 0; begin < d; begin += chunk_) {
      const uint32_t n = min(chunk_, d - begin);
      LocalTensor<T> y = Read(in_y_, y_[begin], n);
      for (uint32_t row = GetBlockIdx(); row < rows; row += GetBlockNum()) {
        AddPart(uint64_t(row) * d + begin, y, n);
      }
      in_y_.FreeTensor(y);
    }
  }

 private:
  using Queue = TQue<QuePosition::VECIN, 2>;

  __aicore__ inline LocalTensor<T> Read(Queue& queue, const GlobalTensor<T>& from, uint32_t n) {
    LocalTensor<T> part = queue.template AllocTensor<T>();
    CopyIn(part, from, n);
    queue.EnQue(part);
    return queue.template DeQue<T>();
  }
  __aicore__ inline void AddPart(uint64_t at, const LocalTensor<T>& y, uint32_t n) {
    LocalTensor<T> x = Read(in_x_, x_[at], n), z = out_.template AllocTensor<T>();
    if constexpr (kInFloat) {
      LocalTensor<float> a = floats_.Get<float>(), b = a[chunk_];
      PipeBarrier<PIPE_V>();  // the part before has been read
      Cast(a, x, RoundMode::CAST_NONE, n);
      Cast(b, y, RoundMode::CAST_NONE, n);
      PipeBarrier<PIPE_V>();
      Add(a, a, b, n);
      PipeBarrier<PIPE_V>();
      Cast(z, a, RoundMode::CAST_RINT, n);
    } else {
      Add(z, x, y, n);
    }
    in_x_.FreeTensor(x);
    out_.EnQue(z);
    z = out_.template DeQue<T>();
    CopyOut(z_[at], z, n);
    out_.FreeTensor(z);
  }

  TPipe pipe_;
  Queue in_x_, in_y_;
  TQue<QuePosition::VECOUT, 2> out_;
  TBuf<TPosition::VECCALC> floats_;
  GlobalTensor<T> x_, y_, z_;
  uint32_t chunk_ = 0;
};

template <class T>
__global__ __aicore__ void add_all(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint64_t size, uint32_t chunk) {
  Sum<T> op;
  op.Init(x, y, z, chunk);
  op.AddAll(size);
}
template <class T>
__global__ __aicore__ void add_row(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t rows, uint32_t d,
                                   uint32_t chunk) {
  Sum<T> op;
  op.Init(x, y, z, chunk);
  op.AddRow(rows, d);
}

void Run(const Context& ctx, const Tensor& x, const Tensor& y, const Tensor& z) {
  const std::int64_t size = z.size(), rows = z.rows(), d = z.row_size();
  if (size == 0) return;
  ascend::Visit<float, half, bfloat16_t, int32_t>(x.type(), [&](auto zero) {
    using T = decltype(zero);
    const bool is_row = y.size() != size;
    const uint32_t chunk = min(ascend::Chunk(is_row ? d : size, Sum<T>::kBytes), kMostElements);
    if (is_row) {
      ascend::Launch(ctx, {.blocks = ascend::Blocks(rows)}, &add_row<T>, x, y, z,
                     ascend::Count(rows), ascend::Count(d), chunk);
    } else {
      ascend::Launch(ctx, {.blocks = ascend::Blocks((size + chunk - 1) / chunk)}, &add_all<T>, x, y,
                     z, size, chunk);
    }
  });
}

}  // namespace

ANYOP_ASCEND_KERNEL(add){
    .when = "T != i64", .run = ascend::Bind<&Run>(), .accepts = ascend::AreContiguous<&Run>()};

}  // namespace anyop::ops
