// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernel_operator.h"

// z = x + alpha * y, of float. Each block puts alpha * y into the workspace first.
class AddCustom {
 public:
  static constexpr uint32_t kTile = 2048;

  __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR workspace, uint32_t size) {
    size_ = size;
    x_.SetGlobalBuffer((__gm__ float *)x, size);
    y_.SetGlobalBuffer((__gm__ float *)y, size);
    z_.SetGlobalBuffer((__gm__ float *)z, size);
    scaled_.SetGlobalBuffer((__gm__ float *)workspace, size);
    pipe_.InitBuffer(in_, 1, kTile * sizeof(float));
    pipe_.InitBuffer(more_, 1, kTile * sizeof(float));
    pipe_.InitBuffer(out_, 1, kTile * sizeof(float));
  }
  __aicore__ inline void Process(float alpha) {
    const uint32_t step = AscendC::GetBlockNum() * kTile;
    for (uint32_t at = AscendC::GetBlockIdx() * kTile; at < size_; at += step) {
      const uint32_t count = size_ - at < kTile ? size_ - at : kTile;
      Scale(at, count, alpha);
      AscendC::PipeBarrier<PIPE_ALL>();
      Add(at, count);
    }
  }

 private:
  using Queue = AscendC::TQue<AscendC::TPosition::VECIN, 1>;

  __aicore__ inline void Read(Queue &queue, AscendC::GlobalTensor<float> from, uint32_t count) {
    auto to = queue.AllocTensor<float>();
    AscendC::DataCopyPad(to, from, {1, static_cast<uint32_t>(count * sizeof(float)), 0, 0, 0},
                         AscendC::DataCopyPadExtParams<float>{false, 0, 0, 0});
    queue.EnQue(to);
  }
  __aicore__ inline void Write(AscendC::GlobalTensor<float> to, uint32_t count) {
    auto from = out_.DeQue<float>();
    AscendC::DataCopyExtParams row{1, static_cast<uint32_t>(count * sizeof(float)), 0, 0, 0};
    AscendC::DataCopyPad(to, from, row);
    out_.FreeTensor(from);
  }
  __aicore__ inline void Scale(uint32_t at, uint32_t count, float alpha) {
    Read(in_, y_[at], count);
    auto y = in_.DeQue<float>();
    auto scaled = out_.AllocTensor<float>();
    AscendC::Muls(scaled, y, alpha, count);
    in_.FreeTensor(y);
    out_.EnQue(scaled);
    Write(scaled_[at], count);
  }
  __aicore__ inline void Add(uint32_t at, uint32_t count) {
    Read(in_, x_[at], count);
    Read(more_, scaled_[at], count);
    auto x = in_.DeQue<float>();
    auto y = more_.DeQue<float>();
    auto z = out_.AllocTensor<float>();
    AscendC::Add(z, x, y, count);
    in_.FreeTensor(x);
    more_.FreeTensor(y);
    out_.EnQue(z);
    Write(z_[at], count);
  }

  AscendC::TPipe pipe_;
  Queue in_, more_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> out_;
  AscendC::GlobalTensor<float> x_, y_, z_, scaled_;
  uint32_t size_;
};
