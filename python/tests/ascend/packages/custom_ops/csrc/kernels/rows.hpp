// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernel_operator.h"

constexpr uint32_t kTile = 2048;

// y = f(x), tile by tile, of float.
template <class F>
__aicore__ inline void Map(GM_ADDR x, GM_ADDR y, uint32_t size, F f) {
  AscendC::TPipe pipe;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> in;
  AscendC::TQue<AscendC::TPosition::VECOUT, 2> out;
  AscendC::GlobalTensor<float> from, to;
  from.SetGlobalBuffer((__gm__ float *)x, size);
  to.SetGlobalBuffer((__gm__ float *)y, size);
  pipe.InitBuffer(in, 2, kTile * sizeof(float));
  pipe.InitBuffer(out, 2, kTile * sizeof(float));
  const uint32_t step = AscendC::GetBlockNum() * kTile;
  for (uint32_t at = AscendC::GetBlockIdx() * kTile; at < size; at += step) {
    const uint32_t count = size - at < kTile ? size - at : kTile;
    AscendC::DataCopyExtParams row{1, static_cast<uint32_t>(count * sizeof(float)), 0, 0, 0};
    AscendC::DataCopyPadExtParams<float> pad{false, 0, 0, 0};
    auto a = in.AllocTensor<float>();
    AscendC::DataCopyPad(a, from[at], row, pad);
    in.EnQue(a);
    a = in.DeQue<float>();
    auto b = out.AllocTensor<float>();
    f(b, a, count);
    in.FreeTensor(a);
    out.EnQue(b);
    b = out.DeQue<float>();
    AscendC::DataCopyPad(to[at], b, row);
    out.FreeTensor(b);
  }
}
