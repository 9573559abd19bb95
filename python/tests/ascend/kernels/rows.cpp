// SPDX-License-Identifier: Apache-2.0
// Kernels in the style of public packages; test_ascend_kernels.py has what they compute.
#include "kernel_operator.h"
using namespace AscendC;
constexpr int32_t BUFFER_NUM = 2;
static constexpr uint32_t AlignUp(uint32_t a, uint32_t b) { return (a + b - 1) / b * b; }

// softmax over rows, float
class KernelSoftmax {
 public:
  __aicore__ inline KernelSoftmax() {}
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t cols) {
    this->rows = rows;
    this->cols = cols;
    this->aligned = (cols + 7) / 8 * 8;
    xGm.SetGlobalBuffer((__gm__ float *)x, rows * cols);
    yGm.SetGlobalBuffer((__gm__ float *)y, rows * cols);
    pipe.InitBuffer(inQ, BUFFER_NUM, aligned * sizeof(float));
    pipe.InitBuffer(outQ, BUFFER_NUM, aligned * sizeof(float));
    pipe.InitBuffer(work, aligned * sizeof(float));
    pipe.InitBuffer(red, 32);
  }
  __aicore__ inline void Process() {
    for (uint32_t r = GetBlockIdx(); r < rows; r += GetBlockNum()) {
      CopyIn(r);
      Compute();
      CopyOut(r);
    }
  }

 private:
  __aicore__ inline void CopyIn(uint32_t r) {
    LocalTensor<float> x = inQ.AllocTensor<float>();
    DataCopyExtParams p{1, static_cast<uint32_t>(cols * sizeof(float)), 0, 0, 0};
    DataCopyPadExtParams<float> pad{true, 0, static_cast<uint8_t>(aligned - cols), 0};
    DataCopyPad(x, xGm[r * cols], p, pad);
    inQ.EnQue(x);
  }
  __aicore__ inline void Compute() {
    LocalTensor<float> x = inQ.DeQue<float>();
    LocalTensor<float> y = outQ.AllocTensor<float>();
    LocalTensor<float> w = work.Get<float>();
    LocalTensor<float> m = red.Get<float>();
    ReduceMax(m, x, w, cols, false);
    event_t id = static_cast<event_t>(GetTPipePtr()->FetchEventID(HardEvent::V_S));
    SetFlag<HardEvent::V_S>(id);
    WaitFlag<HardEvent::V_S>(id);
    float mx = m.GetValue(0);
    event_t id2 = static_cast<event_t>(GetTPipePtr()->FetchEventID(HardEvent::S_V));
    SetFlag<HardEvent::S_V>(id2);
    WaitFlag<HardEvent::S_V>(id2);
    Adds(y, x, -mx, cols);
    PipeBarrier<PIPE_V>();
    Exp(y, y, cols);
    PipeBarrier<PIPE_V>();
    ReduceSum(m, y, w, cols);
    SetFlag<HardEvent::V_S>(id);
    WaitFlag<HardEvent::V_S>(id);
    float s = 1.0f / m.GetValue(0);
    SetFlag<HardEvent::S_V>(id2);
    WaitFlag<HardEvent::S_V>(id2);
    Muls(y, y, s, cols);
    outQ.EnQue<float>(y);
    inQ.FreeTensor(x);
  }
  __aicore__ inline void CopyOut(uint32_t r) {
    LocalTensor<float> y = outQ.DeQue<float>();
    DataCopyExtParams p{1, static_cast<uint32_t>(cols * sizeof(float)), 0, 0, 0};
    DataCopyPad(yGm[r * cols], y, p);
    outQ.FreeTensor(y);
  }
  TPipe pipe;
  TQue<QuePosition::VECIN, BUFFER_NUM> inQ;
  TQue<QuePosition::VECOUT, BUFFER_NUM> outQ;
  TBuf<QuePosition::VECCALC> work, red;
  GlobalTensor<float> xGm, yGm;
  uint32_t rows, cols, aligned;
};
extern "C" __global__ __aicore__ void softmax(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t cols) {
  KernelSoftmax op;
  op.Init(x, y, rows, cols);
  op.Process();
}

// layer_norm, half in float; gamma, beta float
extern "C" __global__ __aicore__ void layer_norm(GM_ADDR x, GM_ADDR gamma, GM_ADDR beta, GM_ADDR y,
                                                 uint32_t rows, uint32_t d, float eps) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> inQ, gQ, bQ;
  TQue<TPosition::VECOUT, 1> outQ;
  TBuf<TPosition::VECCALC> tmp;
  const uint32_t a = AlignUp(d, 64);
  pipe.InitBuffer(inQ, 2, a * sizeof(half));
  pipe.InitBuffer(gQ, 1, a * sizeof(float));
  pipe.InitBuffer(bQ, 1, a * sizeof(float));
  pipe.InitBuffer(outQ, 2, a * sizeof(half));
  pipe.InitBuffer(tmp, 3 * a * sizeof(float) + 64);
  GlobalTensor<half> xg, yg;
  GlobalTensor<float> gg, bg;
  xg.SetGlobalBuffer((__gm__ half *)x);
  yg.SetGlobalBuffer((__gm__ half *)y);
  gg.SetGlobalBuffer((__gm__ float *)gamma);
  bg.SetGlobalBuffer((__gm__ float *)beta);
  const DataCopyParams f32{1, (uint16_t)(d * sizeof(float)), 0, 0},
      f16{1, (uint16_t)(d * sizeof(half)), 0, 0};
  auto g = gQ.AllocTensor<float>();
  DataCopyPad(g, gg, f32, DataCopyPadParams{});
  gQ.EnQue(g);
  auto b = bQ.AllocTensor<float>();
  DataCopyPad(b, bg, f32, DataCopyPadParams{});
  bQ.EnQue(b);
  g = gQ.DeQue<float>();
  b = bQ.DeQue<float>();
  LocalTensor<float> v = tmp.GetWithOffset<float>(a, 0), sq = tmp.GetWithOffset<float>(a, a * 4),
                     w = tmp.GetWithOffset<float>(a, a * 8),
                     s = tmp.GetWithOffset<float>(16, a * 12);
  for (uint32_t r = GetBlockIdx(); r < rows; r += GetBlockNum()) {
    auto xl = inQ.AllocTensor<half>();
    DataCopyPad(xl, xg[r * d], f16, DataCopyPadParams{});
    inQ.EnQue(xl);
    xl = inQ.DeQue<half>();
    PipeBarrier<PIPE_V>();  // the row before has read v
    Cast(v, xl, RoundMode::CAST_NONE, d);
    PipeBarrier<PIPE_V>();
    inQ.FreeTensor(xl);
    ReduceSum<float>(s, v, w, d);
    auto e = pipe.AllocEventID<HardEvent::V_S>();
    SetFlag<HardEvent::V_S>(e);
    WaitFlag<HardEvent::V_S>(e);
    float mean = s.GetValue(0) / d;
    Adds(v, v, -mean, d);
    PipeBarrier<PIPE_V>();
    Mul(sq, v, v, d);
    PipeBarrier<PIPE_V>();
    ReduceSum<float>(s[8], sq, w, d);
    SetFlag<HardEvent::V_S>(e);
    WaitFlag<HardEvent::V_S>(e);
    pipe.ReleaseEventID<HardEvent::V_S>(e);
    float var = s.GetValue(8) / d + eps;
    Duplicate(sq, var, 8);
    PipeBarrier<PIPE_V>();
    Sqrt(sq, sq, 8);
    PipeBarrier<PIPE_V>();
    Duplicate(w, 1.0f, 8);
    PipeBarrier<PIPE_V>();
    Div(sq, w, sq, 8);
    auto e2 = GetTPipePtr()->FetchEventID(HardEvent::V_S);
    SetFlag<HardEvent::V_S>(e2);
    WaitFlag<HardEvent::V_S>(e2);
    float rstd = sq.GetValue(0);
    auto e3 = GetTPipePtr()->FetchEventID(HardEvent::S_V);
    SetFlag<HardEvent::S_V>(e3);
    WaitFlag<HardEvent::S_V>(e3);
    Muls(v, v, rstd, d);
    PipeBarrier<PIPE_V>();
    Mul(v, v, g, d);
    PipeBarrier<PIPE_V>();
    Add(v, v, b, d);
    PipeBarrier<PIPE_V>();
    auto yl = outQ.AllocTensor<half>();
    Cast(yl, v, RoundMode::CAST_RINT, d);
    outQ.EnQue(yl);
    yl = outQ.DeQue<half>();
    DataCopyPad(yg[r * d], yl, f16);
    outQ.FreeTensor(yl);
  }
  gQ.FreeTensor(g);
  bQ.FreeTensor(b);
}

// gelu (tanh), float, in TQueBind for passthrough of a second tensor
extern "C" __global__ __aicore__ void gelu(GM_ADDR x, GM_ADDR y, GM_ADDR copy, uint32_t n) {
  TPipe pipe;
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 2> bind;
  TQue<TPosition::VECOUT, 2> outQ;
  TBuf<> t;
  constexpr uint32_t tile = 1024;
  pipe.InitBuffer(bind, 2, tile * 4);
  pipe.InitBuffer(outQ, 2, tile * 4);
  pipe.InitBuffer(t, tile * 4);
  GlobalTensor<float> xg, yg, cg;
  xg.SetGlobalBuffer((__gm__ float *)x, n);
  yg.SetGlobalBuffer((__gm__ float *)y, n);
  cg.SetGlobalBuffer((__gm__ float *)copy, n);
  auto w = t.Get<float>();
  for (uint32_t at = GetBlockIdx() * tile; at < n; at += GetBlockNum() * tile) {
    uint32_t m = n - at < tile ? n - at : tile;
    DataCopyExtParams p{1, uint32_t(m * 4), 0, 0, 0};
    auto a = bind.AllocTensor<float>();
    DataCopyPad(a, xg[at], p, {false, 0, 0, 0});
    bind.EnQue(a);
    a = bind.DeQue<float>();
    auto o = outQ.AllocTensor<float>();
    SetFlag<HardEvent::MTE2_V>(0);
    WaitFlag<HardEvent::MTE2_V>(0);  // the queue orders copies
    PipeBarrier<PIPE_V>();
    Mul(w, a, a, m);
    PipeBarrier<PIPE_V>();
    Mul(w, w, a, m);
    PipeBarrier<PIPE_V>();
    Muls(w, w, 0.044715f, m);
    PipeBarrier<PIPE_V>();
    Add(w, w, a, m);
    PipeBarrier<PIPE_V>();
    Muls(w, w, -1.5957691216f, m);
    PipeBarrier<PIPE_V>();
    Exp(w, w, m);
    PipeBarrier<PIPE_V>();
    Adds(w, w, 1.0f, m);
    PipeBarrier<PIPE_V>();
    Div(o, a, w, m);
    outQ.EnQue(o);
    o = outQ.DeQue<float>();
    DataCopyPad(cg[at], a, p);
    bind.FreeTensor(a);
    DataCopyPad(yg[at], o, p);
    outQ.FreeTensor(o);
  }
}

// transpose of 16x16 tiles of half
extern "C" __global__ __aicore__ void transpose(GM_ADDR x, GM_ADDR y, uint32_t rows,
                                                uint32_t cols) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  TQue<TPosition::VECOUT, 1> out;
  pipe.InitBuffer(in, 1, 512);
  pipe.InitBuffer(out, 1, 512);
  GlobalTensor<half> xg, yg;
  xg.SetGlobalBuffer((__gm__ half *)x);
  yg.SetGlobalBuffer((__gm__ half *)y);
  uint32_t tc = cols / 16, tr = rows / 16;
  for (uint32_t t = GetBlockIdx(); t < tc * tr; t += GetBlockNum()) {
    uint32_t i = t / tc, j = t % tc;
    auto a = in.AllocTensor<half>();
    DataCopy(a, xg[i * 16 * cols + j * 16], {16, 1, uint16_t(cols / 16 - 1), 0});
    in.EnQue(a);
    a = in.DeQue<half>();
    auto b = out.AllocTensor<half>();
    Transpose(b, a);
    out.EnQue(b);
    in.FreeTensor(a);
    b = out.DeQue<half>();
    DataCopy(yg[j * 16 * rows + i * 16], b, {16, 1, 0, uint16_t(rows / 16 - 1)});
    out.FreeTensor(b);
  }
}

// gather: elements of a row, by indices
extern "C" __global__ __aicore__ void gather(GM_ADDR x, GM_ADDR idx, GM_ADDR y, uint32_t n,
                                             uint32_t m) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> xq, iq;
  TQue<TPosition::VECOUT, 1> out;
  pipe.InitBuffer(xq, 1, AlignUp(n * 4, 32));
  pipe.InitBuffer(iq, 1, AlignUp(m * 4, 32));
  pipe.InitBuffer(out, 1, AlignUp(m * 4, 32));
  GlobalTensor<float> xg, yg;
  GlobalTensor<int32_t> ig;
  xg.SetGlobalBuffer((__gm__ float *)x);
  yg.SetGlobalBuffer((__gm__ float *)y);
  ig.SetGlobalBuffer((__gm__ int32_t *)idx);
  auto a = xq.AllocTensor<float>();
  DataCopyPad(a, xg, {1, n * 4, 0, 0, 0}, {false, 0, 0, 0});
  xq.EnQue(a);
  auto i = iq.AllocTensor<int32_t>();
  DataCopyPad(i, ig, {1, m * 4, 0, 0, 0}, {false, 0, 0, 0});
  iq.EnQue(i);
  a = xq.DeQue<float>();
  i = iq.DeQue<int32_t>();
  ShiftLeft(i, i, 2, m);
  PipeBarrier<PIPE_V>();
  auto o = out.AllocTensor<float>();
  Gather(o, a, i.ReinterpretCast<uint32_t>(), (uint32_t)0, m);
  out.EnQue(o);
  xq.FreeTensor(a);
  iq.FreeTensor(i);
  o = out.DeQue<float>();
  DataCopyPad(yg, o, {1, m * 4, 0, 0, 0});
  out.FreeTensor(o);
}
