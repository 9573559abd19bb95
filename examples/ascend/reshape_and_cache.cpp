// SPDX-License-Identifier: Apache-2.0
// Writes the keys and values of tokens into a paged cache: row slots[t] of the cache becomes row t.
// A negative slot writes nothing. Rows are multiples of 32 bytes.
#include "kernel_operator.h"

using namespace AscendC;

class ReshapeAndCache {
 public:
  __aicore__ inline ReshapeAndCache() {}

  __aicore__ inline void Init(uint32_t tokens, uint32_t row, GM_ADDR slots) {
    tokens_ = tokens;
    row_ = row;
    slots_.SetGlobalBuffer((__gm__ int32_t*)slots, tokens);
    pipe_.InitBuffer(rows_, 2, row * sizeof(half));
  }

  __aicore__ inline void Write(GM_ADDR from, GM_ADDR cache, uint32_t cache_rows) {
    GlobalTensor<half> rows, cached;
    rows.SetGlobalBuffer((__gm__ half*)from, tokens_ * row_);
    cached.SetGlobalBuffer((__gm__ half*)cache, cache_rows * row_);
    for (uint32_t token = GetBlockIdx(); token < tokens_; token += GetBlockNum()) {
      const int32_t slot = slots_.GetValue(token);
      if (slot < 0) continue;
      LocalTensor<half> row = rows_.AllocTensor<half>();
      DataCopy(row, rows[token * row_], row_);
      rows_.EnQue(row);
      row = rows_.DeQue<half>();
      DataCopy(cached[slot * row_], row, row_);
      rows_.FreeTensor(row);
    }
  }

 private:
  TPipe pipe_;
  TQueBind<QuePosition::VECIN, QuePosition::VECOUT, 2> rows_;
  GlobalTensor<int32_t> slots_;
  uint32_t tokens_ = 0, row_ = 0;
};

extern "C" __global__ __aicore__ void reshape_and_cache(GM_ADDR key, GM_ADDR value,
                                                        GM_ADDR key_cache, GM_ADDR value_cache,
                                                        GM_ADDR slots, uint32_t tokens,
                                                        uint32_t row, uint32_t cache_rows) {
  ReshapeAndCache op;
  op.Init(tokens, row, slots);
  op.Write(key, key_cache, cache_rows);
  op.Write(value, value_cache, cache_rows);
}
