// SPDX-License-Identifier: Apache-2.0
// Kernels in the style of public packages; test_ascend_kernels.py has what they compute.
#include "kernel_operator.h"
using namespace AscendC;

// top-k of 128 by Sort32 and MrgSort
extern "C" __global__ __aicore__ void topk(GM_ADDR x, GM_ADDR v, GM_ADDR id, uint32_t k) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> xq;
  TBuf<> buf;
  TQue<TPosition::VECOUT, 1> vq, iq;
  pipe.InitBuffer(xq, 1, 512);
  pipe.InitBuffer(buf, 512 + 2048);
  pipe.InitBuffer(vq, 1, 512);
  pipe.InitBuffer(iq, 1, 512);
  GlobalTensor<float> xg, vg;
  GlobalTensor<uint32_t> ig;
  xg.SetGlobalBuffer((__gm__ float *)x);
  vg.SetGlobalBuffer((__gm__ float *)v);
  ig.SetGlobalBuffer((__gm__ uint32_t *)id);
  auto a = xq.AllocTensor<float>();
  DataCopy(a, xg, 128);
  xq.EnQue(a);
  a = xq.DeQue<float>();
  auto ind = buf.GetWithOffset<int32_t>(128, 0);
  CreateVecIndex(ind, (int32_t)0, 128);
  PipeBarrier<PIPE_V>();
  auto s = buf.GetWithOffset<float>(256, 512), d = buf.GetWithOffset<float>(256, 1536);
  Sort32(s, a, ind.ReinterpretCast<uint32_t>(), 4);
  PipeBarrier<PIPE_V>();
  MrgSortSrcList<float> list;
  list.src1 = s;
  list.src2 = s[64];
  list.src3 = s[128];
  list.src4 = s[192];
  uint16_t lens[4] = {32, 32, 32, 32};
  MrgSort4Info info(lens, false, 15, 1);
  MrgSort(d, list, info);
  PipeBarrier<PIPE_V>();
  auto ov = vq.AllocTensor<float>();
  auto oi = iq.AllocTensor<uint32_t>();
  Extract(ov, oi, d, 4);
  vq.EnQue(ov);
  iq.EnQue(oi);
  xq.FreeTensor(a);
  ov = vq.DeQue<float>();
  oi = iq.DeQue<uint32_t>();
  DataCopyPad(vg, ov, {1, k * 4, 0, 0, 0});
  DataCopyPad(ig, oi, {1, k * 4, 0, 0, 0});
  vq.FreeTensor(ov);
  iq.FreeTensor(oi);
}
// Sort with Concat
extern "C" __global__ __aicore__ void fullsort(GM_ADDR x, GM_ADDR v, GM_ADDR id) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> xq;
  TBuf<> buf;
  TQue<TPosition::VECOUT, 1> vq, iq;
  pipe.InitBuffer(xq, 1, 256);
  pipe.InitBuffer(buf, 512 + 8192);
  pipe.InitBuffer(vq, 1, 256);
  pipe.InitBuffer(iq, 1, 512);
  GlobalTensor<half> xg, vg;
  GlobalTensor<uint32_t> ig;
  xg.SetGlobalBuffer((__gm__ half *)x);
  vg.SetGlobalBuffer((__gm__ half *)v);
  ig.SetGlobalBuffer((__gm__ uint32_t *)id);
  auto a = xq.AllocTensor<half>();
  DataCopy(a, xg, 128);
  xq.EnQue(a);
  a = xq.DeQue<half>();
  auto ind = buf.GetWithOffset<uint32_t>(128, 0);
  ArithProgression<int32_t>(ind.ReinterpretCast<int32_t>(), 0, 1, 128);
  PipeBarrier<PIPE_V>();
  LocalTensor<half> c, tmp = buf.GetWithOffset<half>(1024, 512),
                       s = buf.GetWithOffset<half>(512, 512 + 2048),
                       tmp2 = buf.GetWithOffset<half>(512, 512 + 4096);
  Concat(c, a, tmp, 128 / 16);
  Sort<half, true>(s, c, ind, tmp2, 128 / 32);
  PipeBarrier<PIPE_V>();
  auto ov = vq.AllocTensor<half>();
  auto oi = iq.AllocTensor<uint32_t>();
  Extract(ov, oi, s, 4);
  vq.EnQue(ov);
  iq.EnQue(oi);
  xq.FreeTensor(a);
  ov = vq.DeQue<half>();
  oi = iq.DeQue<uint32_t>();
  DataCopy(vg, ov, 128);
  DataCopy(ig, oi, 128);
  vq.FreeTensor(ov);
  iq.FreeTensor(oi);
}
// reductions: out[0..] whole per 64, blocks of 8, pairs, repeat strides
extern "C" __global__ __aicore__ void reduce(GM_ADDR x, GM_ADDR y) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> xq;
  TQue<TPosition::VECOUT, 1> out;
  pipe.InitBuffer(xq, 1, 2048);
  pipe.InitBuffer(out, 1, 4224);
  GlobalTensor<float> xg, yg;
  xg.SetGlobalBuffer((__gm__ float *)x);
  yg.SetGlobalBuffer((__gm__ float *)y);
  auto a = xq.AllocTensor<float>();
  DataCopy(a, xg, 512);
  xq.EnQue(a);
  a = xq.DeQue<float>();
  auto o = out.AllocTensor<float>();
  Duplicate(o, 0.0f, 1056);
  PipeBarrier<PIPE_V>();
  WholeReduceSum(o, a, 64, 8, 1, 1, 8);                                       // 8
  BlockReduceSum(o[8], a, 8, 64, 1, 1, 8);                                    // 64
  PairReduceSum(o[72], a, 8, 64, 1, 1, 8);                                    // 256
  WholeReduceMax(o[328], a, 64, 8, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);   // 8
  WholeReduceMin(o[336], a, 64, 8, 1, 1, 8, ReduceOrder::ORDER_VALUE_INDEX);  // 16
  BlockReduceMax(o[352], a, 8, 64, 1, 1, 8);                                  // 64
  PipeBarrier<PIPE_V>();
  // sum over rows of an 8x64 matrix: repeats with stride 0 of dst
  Add(o[416], a, o[416], 64, 8, {1, 1, 1, 0, 8, 0});  // 64
  Brcb(o[480], a, 1, {1, 8});                         // 64
  uint64_t mask[2] = {0x5555555555555555ull, 0};
  Adds(o[544], a, 1.0f, mask, 8, {1, 1, 8, 8});  // 512: only even
  out.EnQue(o);
  xq.FreeTensor(a);
  o = out.DeQue<float>();
  DataCopy(yg, o, 1056);
  out.FreeTensor(o);
}
// depthwise conv1d, causal, width 4
extern "C" __global__ __aicore__ void conv1d(GM_ADDR x, GM_ADDR w, GM_ADDR y, uint32_t t,
                                             uint32_t c) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> xq, wq;
  TQue<TPosition::VECOUT, 1> out;
  pipe.InitBuffer(xq, 1, t * c * 4);
  pipe.InitBuffer(wq, 1, 4 * c * 4);
  pipe.InitBuffer(out, 1, t * c * 4);
  GlobalTensor<float> xg, wg, yg;
  xg.SetGlobalBuffer((__gm__ float *)x);
  wg.SetGlobalBuffer((__gm__ float *)w);
  yg.SetGlobalBuffer((__gm__ float *)y);
  auto a = xq.AllocTensor<float>();
  DataCopy(a, xg, t * c);
  xq.EnQue(a);
  auto k = wq.AllocTensor<float>();
  DataCopy(k, wg, 4 * c);
  wq.EnQue(k);
  a = xq.DeQue<float>();
  k = wq.DeQue<float>();
  auto o = out.AllocTensor<float>();
  Duplicate(o, 0.0f, t * c);
  for (uint32_t i = 0; i < t; ++i)
    for (uint32_t j = 0; j < 4; ++j) {
      if (i + j < 3) continue;
      PipeBarrier<PIPE_V>();
      MulAddDst(o[i * c], a[(i + j - 3) * c], k[j * c], c);
    }
  PipeBarrier<PIPE_V>();
  Axpy(o, a, 0.5f, t * c);
  out.EnQue(o);
  xq.FreeTensor(a);
  wq.FreeTensor(k);
  o = out.DeQue<float>();
  DataCopy(yg, o, t * c);
  out.FreeTensor(o);
}
// quantize per row: int8, scale
extern "C" __global__ __aicore__ void quantize(GM_ADDR x, GM_ADDR q, GM_ADDR scale, GM_ADDR i32,
                                               GM_ADDR b16, uint32_t rows, uint32_t d) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> xq;
  TQue<TPosition::VECOUT, 1> qq, sq, iq, bq;
  TBuf<> t;
  pipe.InitBuffer(xq, 1, d * 4);
  pipe.InitBuffer(qq, 1, d);
  pipe.InitBuffer(sq, 1, 32);
  pipe.InitBuffer(t, d * 12);
  pipe.InitBuffer(iq, 1, d * 4);
  pipe.InitBuffer(bq, 1, d * 2);
  GlobalTensor<float> xg, sg;
  GlobalTensor<int8_t> qg;
  GlobalTensor<int32_t> ig;
  GlobalTensor<bfloat16_t> bg;
  xg.SetGlobalBuffer((__gm__ float *)x);
  sg.SetGlobalBuffer((__gm__ float *)scale);
  qg.SetGlobalBuffer((__gm__ int8_t *)q);
  ig.SetGlobalBuffer((__gm__ int32_t *)i32);
  bg.SetGlobalBuffer((__gm__ bfloat16_t *)b16);
  auto w = t.Get<float>(), w2 = t.Get<float>()[d];
  auto h = t.GetWithOffset<half>(d, d * 8);
  for (uint32_t r = GetBlockIdx(); r < rows; r += GetBlockNum()) {
    auto a = xq.AllocTensor<float>();
    DataCopy(a, xg[r * d], d);
    xq.EnQue(a);
    a = xq.DeQue<float>();
    Abs(w, a, d);
    PipeBarrier<PIPE_V>();
    auto s = sq.AllocTensor<float>();
    ReduceMax(s, w, w2, d);
    SetFlag<HardEvent::V_S>(0);
    WaitFlag<HardEvent::V_S>(0);
    float sc = s.GetValue(0) / 127.0f;
    s.SetValue(0, sc);
    SetFlag<HardEvent::S_MTE3>(0);
    WaitFlag<HardEvent::S_MTE3>(0);
    SetFlag<HardEvent::S_V>(0);
    WaitFlag<HardEvent::S_V>(0);
    Muls(w, a, 1.0f / sc, d);
    PipeBarrier<PIPE_V>();
    Cast(h, w, RoundMode::CAST_NONE, d);
    PipeBarrier<PIPE_V>();
    auto o = qq.AllocTensor<int8_t>();
    Cast(o, h, RoundMode::CAST_RINT, d);
    qq.EnQue(o);
    auto i = iq.AllocTensor<int32_t>();
    Cast(i, w, RoundMode::CAST_FLOOR, d);
    iq.EnQue(i);
    auto b = bq.AllocTensor<bfloat16_t>();
    Cast(b, w, RoundMode::CAST_TRUNC, d);
    bq.EnQue(b);
    sq.EnQue(s);
    xq.FreeTensor(a);
    o = qq.DeQue<int8_t>();
    DataCopy(qg[r * d], o, d);
    qq.FreeTensor(o);
    i = iq.DeQue<int32_t>();
    DataCopy(ig[r * d], i, d);
    iq.FreeTensor(i);
    b = bq.DeQue<bfloat16_t>();
    DataCopy(bg[r * d], b, d);
    bq.FreeTensor(b);
    s = sq.DeQue<float>();
    DataCopyPad(sg[r], s, {1, 4, 0, 0, 0});
    sq.FreeTensor(s);
  }
}
// masks: clamp negative to alpha*x, positions of x > 0, ops
extern "C" __global__ __aicore__ void masks(GM_ADDR x, GM_ADDR y, GM_ADDR n) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> xq;
  TQue<TPosition::VECOUT, 1> out;
  TBuf<> t, t2;
  pipe.InitBuffer(xq, 1, 1024);
  pipe.InitBuffer(out, 1, 8192);
  pipe.InitBuffer(t, 64);
  pipe.InitBuffer(t2, 1024);
  GlobalTensor<float> xg, yg;
  xg.SetGlobalBuffer((__gm__ float *)x);
  yg.SetGlobalBuffer((__gm__ float *)y);
  GlobalTensor<int32_t> ng;
  ng.SetGlobalBuffer((__gm__ int32_t *)n);
  auto a = xq.AllocTensor<float>();
  DataCopy(a, xg, 256);
  xq.EnQue(a);
  a = xq.DeQue<float>();
  auto o = out.AllocTensor<float>();
  auto m = t.Get<uint8_t>();
  auto z = t2.Get<float>();
  Duplicate(o, 0.0f, 2048);
  PipeBarrier<PIPE_V>();
  Muls(z, a, 0.1f, 256);
  CompareScalar(m, a, 0.0f, CMPMODE::GT, 256);
  PipeBarrier<PIPE_V>();
  Select(o, m, a, z, SELMODE::VSEL_TENSOR_TENSOR_MODE, 256);
  Select(o[256], m, a, -1.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 256);
  uint64_t cnt = 0;
  GatherMask(o[512], a, m.ReinterpretCast<uint32_t>(), true, 256, {1, 1, 8, 8}, cnt);
  GatherMaskParams gp;
  gp.repeatTimes = 4;
  gp.src0BlockStride = 1;
  gp.src0RepeatStride = 8;
  gp.src1RepeatStride = 0;
  uint64_t c2 = 0;
  uint32_t none = 0;
  GatherMask(o[768], a, (uint8_t)2, false, none, gp, c2);
  PipeBarrier<PIPE_V>();
  Compare(m, a, z, CMPMODE::LE, 256);
  PipeBarrier<PIPE_V>();
  Select(o[1024], m, a, z, SELMODE::VSEL_TENSOR_TENSOR_MODE, 256);
  SetMaskCount();
  SetVectorMask<float, MaskMode::COUNTER>(0, 200);
  Maxs<float, false>(o[1280], a, 0.25f, MASK_PLACEHOLDER, 1, {1, 1, 8, 8});
  SetMaskNorm();
  ResetMask();
  LeakyRelu(o[1536], a, 0.25f, 256);
  o[1792] = a + z;
  SetFlag<HardEvent::V_S>(0);
  WaitFlag<HardEvent::V_S>(0);
  ng.SetValue(0, (int32_t)cnt);
  ng.SetValue(1, (int32_t)c2);
  DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(ng);
  out.EnQue(o);
  xq.FreeTensor(a);
  o = out.DeQue<float>();
  DataCopy(yg, o, 2048);
  out.FreeTensor(o);
}
// blocks: atomic histogram and SyncAll
extern "C" __global__ __aicore__ void blocks(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR ws) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> xq;
  TQue<TPosition::VECOUT, 1> out;
  TBuf<> t;
  pipe.InitBuffer(xq, 1, 256);
  pipe.InitBuffer(out, 1, 256);
  pipe.InitBuffer(t, 1024);
  GlobalTensor<float> xg, yg, zg;
  xg.SetGlobalBuffer((__gm__ float *)x);
  yg.SetGlobalBuffer((__gm__ float *)y);
  zg.SetGlobalBuffer((__gm__ float *)z);
  GlobalTensor<int32_t> wg;
  wg.SetGlobalBuffer((__gm__ int32_t *)ws);
  auto a = xq.AllocTensor<float>();
  DataCopy(a, xg[GetBlockIdx() * 64], 64);
  xq.EnQue(a);
  a = xq.DeQue<float>();
  auto o = out.AllocTensor<float>();
  Muls(o, a, 2.0f, 64);
  out.EnQue(o);
  xq.FreeTensor(a);
  o = out.DeQue<float>();
  SetAtomicAdd<float>();
  DataCopy(yg, o, 64);
  SetAtomicNone();
  out.FreeTensor(o);
  PipeBarrier<PIPE_ALL>();
  auto w = t.Get<int32_t>();
  SyncAll(wg, w);
  a = xq.AllocTensor<float>();
  DataCopy(a, yg, 64);
  xq.EnQue(a);
  a = xq.DeQue<float>();
  o = out.AllocTensor<float>();
  Adds(o, a, float(GetBlockIdx()), 64);
  out.EnQue(o);
  xq.FreeTensor(a);
  o = out.DeQue<float>();
  DataCopy(zg[GetBlockIdx() * 64], o, 64);
  out.FreeTensor(o);
}
