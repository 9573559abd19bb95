// SPDX-License-Identifier: Apache-2.0
// Keys and values are stored by a launch each. A slot belongs to one block, so that of two rows in
// it the last one stays, and as a whole. A block takes one part of the elements of its rows after
// the other, so that the factors of a part are made once.
#include "ops/common/ascend.h"

namespace anyop::ops {
namespace {

struct Tiling {
  uint32_t tokens, heads, width, row, chunk;
  uint32_t piece;      // of NZ: elements of 32 bytes; 0 in ND
  int64_t block_size;  // of the cache
  bool is_wide;        // slots of i64
};

// Where rows of elements T go to.
template <class T>
class PagedCache {
 public:
  __aicore__ inline void Init(GM_ADDR cache, const Tiling& tiling) {
    cache_.SetGlobalBuffer((__gm__ T*)cache);
    row_ = tiling.row;
    piece_ = tiling.piece;
    block_size_ = tiling.block_size;
  }
  // Elements [begin, begin + n) of the row in a slot. begin: a multiple of 64.
  __aicore__ inline void Write(uint64_t slot, uint32_t begin, const LocalTensor<T>& row,
                               uint32_t n) const {
    if (!piece_) return CopyOut(cache_[slot * row_ + begin], row, n);
    const uint64_t block = slot / block_size_ * block_size_ * row_;
    const uint64_t at = (begin / piece_ * block_size_ + slot % block_size_) * piece_;
    CopyOut(cache_[block + at], row, piece_, n / piece_, uint64_t(block_size_) * piece_);
  }

 private:
  GlobalTensor<T> cache_;
  uint64_t row_ = 0, block_size_ = 1;
  uint32_t piece_ = 0;
};

template <class T>
class Copier {
 public:
  static constexpr uint32_t kBytes = 2 * sizeof(T);

  __aicore__ inline void Init(GM_ADDR rows, GM_ADDR cache, GM_ADDR, const Tiling& tiling) {
    row_ = tiling.row;
    rows_.SetGlobalBuffer((__gm__ T*)rows);
    cache_.Init(cache, tiling);
    pipe_.InitBuffer(queue_, 2, tiling.chunk * sizeof(T));
  }
  __aicore__ inline TPipe& pipe() { return pipe_; }
  __aicore__ inline void Begin(uint32_t, uint32_t) {}
  __aicore__ inline void Store(uint64_t token, uint64_t slot, uint32_t begin, uint32_t n) {
    LocalTensor<T> row = queue_.template AllocTensor<T>();
    CopyIn(row, rows_[token * row_ + begin], n);
    queue_.EnQue(row);
    row = queue_.template DeQue<T>();
    cache_.Write(slot, begin, row, n);
    queue_.FreeTensor(row);
  }

 private:
  uint64_t row_ = 0;
  TPipe pipe_;
  TQueBind<QuePosition::VECIN, QuePosition::VECOUT, 2> queue_;
  GlobalTensor<T> rows_;
  PagedCache<T> cache_;
};

// Elements T into i8.
template <class T>
class Quantizer {
 public:
  static constexpr uint32_t kBytes = 2 * sizeof(T) + 2 + 2 * sizeof(float) + 2 * sizeof(half);

  __aicore__ inline void Init(GM_ADDR rows, GM_ADDR cache, GM_ADDR scales, const Tiling& tiling) {
    t_ = tiling;
    has_scales_ = scales != nullptr;
    rows_.SetGlobalBuffer((__gm__ T*)rows);
    scales_.SetGlobalBuffer((__gm__ float*)scales);
    cache_.Init(cache, tiling);
    pipe_.InitBuffer(in_, 2, t_.chunk * sizeof(T));
    pipe_.InitBuffer(out_, 2, t_.chunk);
    pipe_.InitBuffer(floats_, t_.chunk * sizeof(float));
    pipe_.InitBuffer(factors_, t_.chunk * sizeof(float));
    pipe_.InitBuffer(whole_, t_.chunk * sizeof(int16_t));
    pipe_.InitBuffer(halves_, t_.chunk * sizeof(half));
  }

  __aicore__ inline TPipe& pipe() { return pipe_; }

  // Sets the factors of elements [begin, begin + n) of a row.
  __aicore__ inline void Begin(uint32_t begin, uint32_t n) {
    if (!has_scales_) return;
    LocalTensor<float> factors = factors_.Get<float>();
    Wait<HardEvent::V_S>();  // of the part before
    for (uint32_t i = 0; i < n;) {
      const uint32_t head = (begin + i) / t_.width;
      const uint32_t end = min(n, (head + 1) * t_.width - begin);
      const float factor = 1 / scales_.GetValue(head);
      for (; i < end; ++i) factors.SetValue(i, factor);
    }
    Wait<HardEvent::S_V>();
  }

  __aicore__ inline void Store(uint64_t token, uint64_t slot, uint32_t begin, uint32_t n) {
    LocalTensor<T> row = in_.template AllocTensor<T>();
    CopyIn(row, rows_[token * t_.row + begin], n);
    in_.EnQue(row);
    row = in_.template DeQue<T>();
    LocalTensor<float> x = floats_.Get<float>();
    PipeBarrier<PIPE_V>();  // the row before has been read
    of_t_.Read(x, row, n);
    in_.FreeTensor(row);
    PipeBarrier<PIPE_V>();
    if (has_scales_) Mul(x, x, factors_.Get<float>(), n);
    PipeBarrier<PIPE_V>();
    LocalTensor<int8_t> q = out_.template AllocTensor<int8_t>();
    Quantize(q, x, n);
    out_.EnQue(q);
    q = out_.template DeQue<int8_t>();
    cache_.Write(slot, begin, q, n);
    out_.FreeTensor(q);
  }

 private:
  // The one rounding is that to i16; both later casts saturate. NaN becomes 0.
  __aicore__ inline void Quantize(const LocalTensor<int8_t>& q, const LocalTensor<float>& x,
                                  uint32_t n) {
    LocalTensor<int16_t> whole = whole_.Get<int16_t>();
    LocalTensor<half> halves = halves_.Get<half>();
    Cast(whole, x, RoundMode::CAST_RINT, n);
    PipeBarrier<PIPE_V>();
    Cast(halves, whole, RoundMode::CAST_NONE, n);
    PipeBarrier<PIPE_V>();
    Cast(q, halves, RoundMode::CAST_RINT, n);
  }

  Tiling t_{};
  bool has_scales_ = false;
  TPipe pipe_;
  TQue<QuePosition::VECIN, 2> in_;
  TQue<QuePosition::VECOUT, 2> out_;
  TBuf<TPosition::VECCALC> floats_, factors_, whole_, halves_;
  Floats<T> of_t_;
  GlobalTensor<T> rows_;
  GlobalTensor<float> scales_;
  PagedCache<int8_t> cache_;
};

constexpr uint32_t kSlots = 512;  // that are read at a time

// The slots of tokens, a part of them in local memory: every block looks at all.
class Slots {
 public:
  __aicore__ inline void Init(TPipe& pipe, GM_ADDR slots, bool is_wide) {
    is_wide_ = is_wide;
    narrow_.SetGlobalBuffer((__gm__ int32_t*)slots);
    wide_.SetGlobalBuffer((__gm__ int64_t*)slots);
    pipe.InitBuffer(here_, kSlots * sizeof(int64_t));
  }
  __aicore__ inline void Read(uint64_t begin, uint32_t n) {
    Wait<HardEvent::S_MTE2>();  // the part before has been looked at
    if (is_wide_) {
      CopyIn(here_.Get<int64_t>(), wide_[begin], n);
    } else {
      CopyIn(here_.Get<int32_t>(), narrow_[begin], n);
    }
    Wait<HardEvent::MTE2_S>();
  }
  __aicore__ inline int64_t operator[](uint32_t i) {
    return is_wide_ ? here_.Get<int64_t>().GetValue(i) : int64_t{here_.Get<int32_t>().GetValue(i)};
  }

 private:
  bool is_wide_ = false;
  TBuf<TPosition::VECCALC> here_;
  GlobalTensor<int32_t> narrow_;
  GlobalTensor<int64_t> wide_;
};

// Slots that follow one another, or lie a cache block apart, go to blocks evenly.
__aicore__ inline int64_t OwnerOf(int64_t slot) {
  return int64_t(uint64_t(slot) * 0x9E3779B97F4A7C15 >> 40) % GetBlockNum();
}

template <class Writer>
__global__ __aicore__ void store_rows(GM_ADDR rows, GM_ADDR cache, GM_ADDR slots, GM_ADDR scales,
                                      const Tiling* tiling) {
  Writer writer;
  writer.Init(rows, cache, scales, *tiling);
  Slots slot_of;
  slot_of.Init(writer.pipe(), slots, tiling->is_wide);
  const uint32_t d = tiling->row;
  int64_t before = -1;
  for (uint32_t first = 0; first < tiling->tokens; first += kSlots) {
    const uint32_t tokens = min(kSlots, tiling->tokens - first);
    slot_of.Read(first, tokens);
    for (uint32_t begin = 0; begin < d; begin += tiling->chunk) {
      const uint32_t n = min(tiling->chunk, d - begin);
      writer.Begin(begin, n);
      for (uint32_t i = 0; i < tokens; ++i) {
        const int64_t slot = slot_of[i];
        if (slot < 0 || OwnerOf(slot) != GetBlockIdx()) continue;
        if (slot == before) PipeBarrier<PIPE_MTE3>();  // the row before has been stored
        before = slot;
        writer.Store(first + i, slot, begin, n);
      }
    }
  }
}

// rows: [t, h, d].
void Store(const Context& ctx, const Tensor& rows, const Tensor& cache, const Tensor& slots,
           const Tensor* scales, bool is_nz) {
  const std::int64_t d = rows.dim(1) * rows.dim(2);
  if (slots.dim(0) == 0 || d == 0) return;
  const auto launch = [&]<class Writer>(std::type_identity<Writer>) {
    const Tiling tiling{ascend::Count(slots.dim(0)),
                        ascend::Count(rows.dim(1)),
                        ascend::Count(rows.dim(2)),
                        ascend::Count(d),
                        ascend::Chunk(d, Writer::kBytes, 4096 + kSlots * 8),
                        is_nz ? ascend::Count(cache.dim(3)) : 0,
                        cache.dim(is_nz ? 2 : 1),
                        slots.type() == DType::kI64};
    ascend::Launch(ctx, {.blocks = ascend::Blocks(tiling.tokens)}, &store_rows<Writer>, rows, cache,
                   slots, scales, tiling);
  };
  if (rows.type() != cache.type()) {
    ascend::Visit<float, half, bfloat16_t>(
        rows.type(), [&](auto zero) { launch(std::type_identity<Quantizer<decltype(zero)>>()); });
    return;
  }
  switch (Bytes(rows.type())) {  // bits are copied
    case 1:
      return launch(std::type_identity<Copier<int8_t>>());
    case 2:
      return launch(std::type_identity<Copier<int16_t>>());
    default:
      return launch(std::type_identity<Copier<int32_t>>());
  }
}

void Run(const Context& ctx, const Tensor& key, const Tensor* value, const Tensor& key_cache,
         const Tensor* value_cache, const Tensor& slots, const Tensor* k_scale,
         const Tensor* v_scale, std::string_view layout) {
  Store(ctx, key, key_cache, slots, k_scale, layout == "NZ");
  if (value) Store(ctx, *value, *value_cache, slots, v_scale, layout == "NZ");
}

}  // namespace

// The vector unit has no casts to f8e4m3.
ANYOP_ASCEND_KERNEL(reshape_and_cache){
    .when = "C == K or C == i8, not given(value) or D == V or D == i8",
    .run = ascend::Bind<&Run>(),
    .accepts = ascend::AreContiguous<&Run>()};

}  // namespace anyop::ops
