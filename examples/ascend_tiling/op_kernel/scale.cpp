// SPDX-License-Identifier: Apache-2.0
// y = factor * x. The kernel gets size and factor from op_host/scale.cpp.
#include "kernel_operator.h"
using namespace AscendC;
template <class T>
class Scale {
 public:
  __aicore__ inline void Process(GM_ADDR x, GM_ADDR y, uint32_t size, float factor) {
    x_.SetGlobalBuffer((__gm__ T*)x, size);
    y_.SetGlobalBuffer((__gm__ T*)y, size);
    pipe_.InitBuffer(in_, 2, 256 * sizeof(T));
    pipe_.InitBuffer(out_, 2, 256 * sizeof(T));
    for (uint32_t at = GetBlockIdx() * 256; at < size; at += GetBlockNum() * 256) {
      const uint32_t n = min(256u, size - at);
      DataCopyExtParams bytes{1, uint32_t(n * sizeof(T)), 0, 0, 0};
      DataCopyPadExtParams<T> none{false, 0, 0, 0};
      LocalTensor<T> a = in_.template AllocTensor<T>();
      DataCopyPad(a, x_[at], bytes, none);
      in_.EnQue(a);
      a = in_.template DeQue<T>();
      LocalTensor<T> b = out_.template AllocTensor<T>();
      Muls(b, a, T(factor), n);
      in_.FreeTensor(a);
      out_.EnQue(b);
      b = out_.template DeQue<T>();
      DataCopyPad(y_[at], b, bytes);
      out_.FreeTensor(b);
    }
  }

 private:
  TPipe pipe_;
  TQue<QuePosition::VECIN, 2> in_;
  TQue<QuePosition::VECOUT, 2> out_;
  GlobalTensor<T> x_, y_;
};
extern "C" __global__ __aicore__ void scale(GM_ADDR x, GM_ADDR y, GM_ADDR workspace,
                                            GM_ADDR tiling) {
  GET_TILING_DATA(data, tiling);
  if (TILING_KEY_IS(1)) {
    Scale<float> op;
    op.Process(x, y, data.size, data.factor);
  } else if (TILING_KEY_IS(2)) {
    Scale<half> op;
    op.Process(x, y, data.size, data.factor);
  }
}
