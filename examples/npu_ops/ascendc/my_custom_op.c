// SPDX-License-Identifier: Apache-2.0
// output = param1 * input + param2, of int32.
#include "my_custom_op.h"
#include "kernel_operator.h"

using namespace AscendC;

constexpr int32_t kTile = 1024;

class MyCustomOp {
 public:
  __aicore__ inline void Init(GM_ADDR input, GM_ADDR output, int32_t param1, int32_t param2,
                              int32_t size) {
    param1_ = param1;
    param2_ = param2;
    size_ = size;
    input_.SetGlobalBuffer((__gm__ int32_t *)input, size);
    output_.SetGlobalBuffer((__gm__ int32_t *)output, size);
    pipe_.InitBuffer(in_, 2, kTile * sizeof(int32_t));
    pipe_.InitBuffer(out_, 2, kTile * sizeof(int32_t));
  }
  __aicore__ inline void Process() {
    for (int32_t at = GetBlockIdx() * kTile; at < size_; at += GetBlockNum() * kTile) {
      Tile(at, size_ - at < kTile ? size_ - at : kTile);
    }
  }

 private:
  __aicore__ inline void Tile(int32_t at, int32_t count) {
    DataCopyExtParams row{1, static_cast<uint32_t>(count * sizeof(int32_t)), 0, 0, 0};
    LocalTensor<int32_t> x = in_.AllocTensor<int32_t>();
    DataCopyPad(x, input_[at], row, DataCopyPadExtParams<int32_t>{false, 0, 0, 0});
    in_.EnQue(x);
    x = in_.DeQue<int32_t>();
    LocalTensor<int32_t> y = out_.AllocTensor<int32_t>();
    Muls(y, x, param1_, count);
    PipeBarrier<PIPE_V>();
    Adds(y, y, param2_, count);
    in_.FreeTensor(x);
    out_.EnQue(y);
    y = out_.DeQue<int32_t>();
    DataCopyPad(output_[at], y, row);
    out_.FreeTensor(y);
  }

  TPipe pipe_;
  TQue<QuePosition::VECIN, 2> in_;
  TQue<QuePosition::VECOUT, 2> out_;
  GlobalTensor<int32_t> input_, output_;
  int32_t param1_, param2_, size_;
};

extern "C" __global__ __aicore__ void my_custom_op_impl(GM_ADDR input, GM_ADDR output,
                                                        int32_t param1, int32_t param2,
                                                        int32_t size) {
  MyCustomOp op;
  op.Init(input, output, param1, param2, size);
  op.Process();
}

#ifndef __CCE_KT_TEST__
void MyCustomOpKernelEntry(uint32_t blockDims, void *l2ctrl, void *aclStream, uint8_t *input,
                           uint8_t *output, int32_t param1, int32_t param2, int32_t size) {
  my_custom_op_impl<<<blockDims, l2ctrl, aclStream>>>(input, output, param1, param2, size);
}
#endif
