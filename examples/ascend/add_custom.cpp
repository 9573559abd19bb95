// SPDX-License-Identifier: Apache-2.0
// z = x + y, of half. Every block has its own part, in tiles that two buffers each carry through
// the core, so that one is copied while the other is added.
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t kTile = 1024;  // elements

class Add2 {
 public:
  __aicore__ inline Add2() {}

  __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n) {
    // A part is a multiple of 16 elements, because copies are of 32 bytes.
    const uint32_t part = (n / 16 + GetBlockNum() - 1) / GetBlockNum() * 16;
    const uint32_t begin = part * GetBlockIdx();
    length_ = begin >= n ? 0 : (n - begin < part ? n - begin : part);
    x_.SetGlobalBuffer((__gm__ half*)x + begin, length_);
    y_.SetGlobalBuffer((__gm__ half*)y + begin, length_);
    z_.SetGlobalBuffer((__gm__ half*)z + begin, length_);
    pipe_.InitBuffer(in_x_, 2, kTile * sizeof(half));
    pipe_.InitBuffer(in_y_, 2, kTile * sizeof(half));
    pipe_.InitBuffer(out_, 2, kTile * sizeof(half));
  }

  __aicore__ inline void Process() {
    for (uint32_t at = 0; at < length_; at += kTile) {
      const uint32_t n = length_ - at < kTile ? length_ - at : kTile;
      CopyIn(at, n);
      Compute(n);
      CopyOut(at, n);
    }
  }

 private:
  __aicore__ inline void CopyIn(uint32_t at, uint32_t n) {
    LocalTensor<half> x = in_x_.AllocTensor<half>(), y = in_y_.AllocTensor<half>();
    DataCopy(x, x_[at], n);
    DataCopy(y, y_[at], n);
    in_x_.EnQue(x);
    in_y_.EnQue(y);
  }

  __aicore__ inline void Compute(uint32_t n) {
    LocalTensor<half> x = in_x_.DeQue<half>(), y = in_y_.DeQue<half>();
    LocalTensor<half> z = out_.AllocTensor<half>();
    Add(z, x, y, n);
    out_.EnQue<half>(z);
    in_x_.FreeTensor(x);
    in_y_.FreeTensor(y);
  }

  __aicore__ inline void CopyOut(uint32_t at, uint32_t n) {
    LocalTensor<half> z = out_.DeQue<half>();
    DataCopy(z_[at], z, n);
    out_.FreeTensor(z);
  }

  TPipe pipe_;
  TQue<QuePosition::VECIN, 2> in_x_, in_y_;
  TQue<QuePosition::VECOUT, 2> out_;
  GlobalTensor<half> x_, y_, z_;
  uint32_t length_ = 0;
};

extern "C" __global__ __aicore__ void add_custom(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n) {
  Add2 op;
  op.Init(x, y, z, n);
  op.Process();
}
