// SPDX-License-Identifier: Apache-2.0
// Kernels whose numbers of inputs and outputs are not fixed: they get lists of tensors.
#include "kernel_operator.h"
#include "kernel_operator_list_tensor_intf.h"
using namespace AscendC;

// add_list: the sum of tensors, row by row
extern "C" __global__ __aicore__ void add_list(GM_ADDR inputs, GM_ADDR y) {
  ListTensorDesc list(reinterpret_cast<__gm__ void *>(inputs));
  uint64_t sizes[8] = {0};
  TensorDesc<float> desc;
  desc.SetShapeAddr(sizes);
  list.GetDesc(desc, 0);
  const uint32_t rows = desc.GetShape(0), d = desc.GetShape(1);
  TPipe pipe;
  TQue<TPosition::VECIN, 2> in;
  TQue<TPosition::VECOUT, 1> out;
  pipe.InitBuffer(in, 2, (d * 4 + 31) / 32 * 32);
  pipe.InitBuffer(out, 1, (d * 4 + 31) / 32 * 32);
  GlobalTensor<float> to;
  to.SetGlobalBuffer(reinterpret_cast<__gm__ float *>(y));
  for (uint32_t row = GetBlockIdx(); row < rows; row += GetBlockNum()) {
    LocalTensor<float> sum = out.AllocTensor<float>();
    Duplicate(sum, 0.0f, d);
    for (uint32_t i = 0; i < list.GetSize(); ++i) {
      list.GetDesc(desc, i);
      LocalTensor<float> a = in.AllocTensor<float>();
      DataCopyPad(a, desc.GetDataObj()[row * d], {1, d * 4, 0, 0, 0}, {false, 0, 0, 0.0f});
      in.EnQue(a);
      a = in.DeQue<float>();
      PipeBarrier<PIPE_V>();
      Add(sum, sum, a, d);
      in.FreeTensor(a);
    }
    out.EnQue(sum);
    sum = out.DeQue<float>();
    DataCopyPad(to[row * d], sum, {1, d * 4, 0, 0, 0});
    out.FreeTensor(sum);
  }
}

// Address i of a list, by plain pointers.
template <typename T>
__aicore__ inline __gm__ T *AddressOf(GM_ADDR list, uint32_t i) {
  __gm__ uint64_t *words = reinterpret_cast<__gm__ uint64_t *>(list);
  __gm__ uint64_t *addresses = words + (*words >> 3);
  return reinterpret_cast<__gm__ T *>(*(addresses + i));
}

// split: x[n, 16] into n tensors of 16 elements, a block for each
extern "C" __global__ __aicore__ void split(GM_ADDR x, GM_ADDR outputs) {
  TPipe pipe;
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> rows;
  pipe.InitBuffer(rows, 1, 32);
  GlobalTensor<half> from, to;
  from.SetGlobalBuffer(reinterpret_cast<__gm__ half *>(x) + GetBlockIdx() * 16, 16);
  to.SetGlobalBuffer(AddressOf<half>(outputs, GetBlockIdx()), 16);
  LocalTensor<half> row = rows.AllocTensor<half>();
  DataCopy(row, from, 16);
  rows.EnQue(row);
  row = rows.DeQue<half>();
  DataCopy(to, row, 16);
  rows.FreeTensor(row);
}
