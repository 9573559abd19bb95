// SPDX-License-Identifier: Apache-2.0
// Kernels that are compiled with checks and without. No guard: KERNELS names the namespace.
#include "kernel_operator.h"

namespace KERNELS {

// y = (x * 2 + 1) of rows of n half, in tiles through two queues; row r belongs to block r % blocks.
void Pipeline(GM_ADDR x, GM_ADDR y, std::uint32_t rows, std::uint32_t n) {
  TPipe pipe;
  TQue<TPosition::VECIN, 2> in;
  TQue<TPosition::VECOUT, 2> out;
  TBuf<> floats;
  pipe.InitBuffer(in, 2, n * sizeof(half));
  pipe.InitBuffer(out, 2, n * sizeof(half));
  pipe.InitBuffer(floats, (n + 15) / 16 * 16 * sizeof(float));
  GlobalTensor<half> from, to;
  from.SetGlobalBuffer(reinterpret_cast<half*>(x), rows * n);
  to.SetGlobalBuffer(reinterpret_cast<half*>(y), rows * n);
  const DataCopyExtParams row(1, n * sizeof(half), 0, 0, 0);
  for (std::int64_t r = GetBlockIdx(); r < rows; r += GetBlockNum()) {
    auto a = in.AllocTensor<half>();
    DataCopyPad(a, from[r * n], row, DataCopyPadExtParams<half>(false, 0, 0, 0));
    in.EnQue(a);
    a = in.DeQue<half>();
    auto f = floats.Get<float>();
    Cast(f, a, RoundMode::CAST_NONE, n);
    in.FreeTensor(a);
    Muls(f, f, 2.0f, static_cast<std::int32_t>(n));
    Adds(f, f, 1.0f, static_cast<std::int32_t>(n));
    auto b = out.AllocTensor<half>();
    Cast(b, f, RoundMode::CAST_RINT, n);
    out.EnQue(b);
    b = out.DeQue<half>();
    DataCopyPad(to[r * n], b, row);
    out.FreeTensor(b);
  }
}

// Every block adds its row to y, waits for the others, and copies the sum to its row of z.
void SumOfBlocks(GM_ADDR x, GM_ADDR y, GM_ADDR z) {
  constexpr std::uint32_t kRow = 64;
  TPipe pipe;
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
  pipe.InitBuffer(queue, 1, kRow * sizeof(float));
  GlobalTensor<float> from, sum, to;
  from.SetGlobalBuffer(reinterpret_cast<float*>(x) + GetBlockIdx() * kRow, kRow);
  sum.SetGlobalBuffer(reinterpret_cast<float*>(y), kRow);
  to.SetGlobalBuffer(reinterpret_cast<float*>(z) + GetBlockIdx() * kRow, kRow);
  auto t = queue.AllocTensor<float>();
  DataCopy(t, from, kRow);
  queue.EnQue(t);
  t = queue.DeQue<float>();
  SetAtomicAdd<float>();
  DataCopy(sum, t, kRow);
  SetAtomicNone();
  queue.FreeTensor(t);
  SyncAll();
  t = queue.AllocTensor<float>();
  DataCopy(t, sum, kRow);
  queue.EnQue(t);
  t = queue.DeQue<float>();
  DataCopy(to, t, kRow);
  queue.FreeTensor(t);
}

// y[b] = sum of exp(x[b] - max(x[b])) for a row of 256 floats of each block.
void ExpSum(GM_ADDR x, GM_ADDR y) {
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 8192);
  GlobalTensor<float> from, to;
  from.SetGlobalBuffer(reinterpret_cast<float*>(x) + GetBlockIdx() * 256, 256);
  to.SetGlobalBuffer(reinterpret_cast<float*>(y) + GetBlockIdx() * 8, 8);
  auto a = buffer.GetWithOffset<float>(256, 0), work = buffer.GetWithOffset<float>(256, 1024);
  auto most = buffer.GetWithOffset<float>(8, 2048), all = buffer.GetWithOffset<float>(64, 3072);
  DataCopy(a, from, 256);
  SetFlag<HardEvent::MTE2_V>(0);
  WaitFlag<HardEvent::MTE2_V>(0);
  WholeReduceMax(work, a, 64, 4, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
  PipeBarrier<PIPE_V>();
  WholeReduceMax(most, work, 4, 1, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
  PipeBarrier<PIPE_V>();
  Duplicate(most[0], most.GetValue(0), 8);
  PipeBarrier<PIPE_V>();
  Brcb(all, most, 1, {1, 8});
  PipeBarrier<PIPE_V>();
  Sub(a, a, all, 64, 4, {1, 1, 1, 8, 8, 0});
  PipeBarrier<PIPE_V>();
  Exp(a, a, 256);
  PipeBarrier<PIPE_V>();
  ReduceSum(most, a, work, 256);
  SetFlag<HardEvent::V_MTE3>(0);
  WaitFlag<HardEvent::V_MTE3>(0);
  DataCopy(to, most, 8);
}

extern const KernelTable kKernels;
const KernelTable kKernels = {Launched<&Pipeline>, Launched<&SumOfBlocks>, Launched<&ExpSum>};

}  // namespace KERNELS
