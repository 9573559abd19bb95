// SPDX-License-Identifier: Apache-2.0
// Blocks take tokens in turn: cosines and sines of a part of the pairs, then every head by them, as
// many heads at a time as the unified buffer holds.
#include "ops/common/ascend.h"

namespace anyop::ops {
namespace {

constexpr uint32_t kMostPairs = 512;      // of a part
constexpr uint32_t kMostElements = 2048;  // of a part of all its heads, in each half
constexpr uint32_t kMostRepeats = 255;

struct Tiling {
  uint32_t tokens, d, half, offset;
  uint32_t pairs, heads;  // of a part
  bool has_positions, is_wide, is_gptj, is_inverse;
};

// T: of the heads, C: of the table.
template <class T, class C>
class RotaryEmbedding {
 public:
  __aicore__ inline void Init(GM_ADDR positions, GM_ADDR table, const Tiling& tiling) {
    t_ = tiling;
    positions_.Init(positions, t_.is_wide);
    table_.SetGlobalBuffer((__gm__ C*)table);
    size_ = t_.pairs * t_.heads;
    pipe_.InitBuffer(in_table_, 2, 2 * t_.pairs * sizeof(C));
    pipe_.InitBuffer(in_, 2, 2 * size_ * sizeof(T));
    pipe_.InitBuffer(out_, 2, 2 * size_ * sizeof(T));
    pipe_.InitBuffer(angles_, 6 * t_.pairs * sizeof(float));
    pipe_.InitBuffer(floats_, 8 * size_ * sizeof(float));
    of_t_.Init(pipe_, 2 * size_);
    if (t_.is_gptj) InitPlaces();
  }

  __aicore__ inline void Process(GM_ADDR query, GM_ADDR key, uint32_t query_heads,
                                 uint32_t key_heads) {
    for (uint32_t token = GetBlockIdx(); token < t_.tokens; token += GetBlockNum()) {
      const int64_t row = t_.has_positions ? positions_[token] : token;
      if (row < 0) continue;
      for (uint32_t begin = 0; begin < t_.half; begin += t_.pairs) {
        const uint32_t n = min(t_.pairs, t_.half - begin);
        ReadTable(uint64_t(row) * 2 * t_.half + begin, n);
        RotateHeads(query, token, query_heads, begin, n);
        if (key) RotateHeads(key, token, key_heads, begin, n);
      }
    }
  }

 private:
  // gptj: each twice, the sines with signs, so that a row is z * cosines + neighbours * sines.
  __aicore__ inline LocalTensor<float> cosines() { return angles_.Get<float>(); }
  __aicore__ inline LocalTensor<float> sines() { return angles_.Get<float>()[2 * t_.pairs]; }
  __aicore__ inline LocalTensor<float> Float(uint32_t which) {
    return floats_.Get<float>()[which * size_];
  }
  // Of element i of a row of neighbours: the byte of element i ^ 1, the byte of its pair in the
  // table, -1 or 1.
  __aicore__ inline LocalTensor<int32_t> Places(uint32_t which) {
    return places_.Get<int32_t>()[which * 2 * t_.pairs];
  }

  __aicore__ inline void InitPlaces() {
    const uint32_t n = 2 * t_.pairs;
    pipe_.InitBuffer(places_, 4 * n * sizeof(int32_t));
    LocalTensor<int32_t> neighbour = Places(0), pair = Places(1), sign = Places(2), i = Places(3);
    ArithProgression<int32_t>(i, 0, 1, n);
    PipeBarrier<PIPE_V>();
    ShiftRight(pair, i, 1, n);
    PipeBarrier<PIPE_V>();
    Muls(pair, pair, 4, n);
    PipeBarrier<PIPE_V>();
    Sub(neighbour, pair, i, n);  // i ^ 1 = 4 * (i / 2) - i + 1
    PipeBarrier<PIPE_V>();
    Adds(neighbour, neighbour, 1, n);
    PipeBarrier<PIPE_V>();
    Sub(sign, i, neighbour, n);
    Muls(neighbour, neighbour, 4, n);
    PipeBarrier<PIPE_V>();
    Cast(i.ReinterpretCast<float>(), sign, RoundMode::CAST_NONE, n);
    PipeBarrier<PIPE_V>();
  }

  __aicore__ inline void ReadTable(uint64_t at, uint32_t n) {
    LocalTensor<C> table = in_table_.template AllocTensor<C>();
    CopyIn(table, table_[at], n);
    CopyIn(table[t_.pairs], table_[at + t_.half], n);
    in_table_.EnQue(table);
    table = in_table_.template DeQue<C>();
    LocalTensor<float> c = cosines(), s = sines();
    if (t_.is_gptj) {
      c = angles_.Get<float>()[4 * t_.pairs];
      s = angles_.Get<float>()[5 * t_.pairs];
    }
    PipeBarrier<PIPE_V>();  // the part before has been rotated
    of_c_.Read(c, table, n);
    of_c_.Read(s, table[t_.pairs], n);
    in_table_.FreeTensor(table);
    PipeBarrier<PIPE_V>();
    if (t_.is_inverse) Muls(s, s, -1.0f, n);
    PipeBarrier<PIPE_V>();
    if (!t_.is_gptj) return;
    const LocalTensor<uint32_t> pair = Places(1).template ReinterpretCast<uint32_t>();
    Gather(cosines(), c, pair, 0, 2 * n);
    Gather(sines(), s, pair, 0, 2 * n);
    PipeBarrier<PIPE_V>();
    Mul(sines(), sines(), Places(3).template ReinterpretCast<float>(), 2 * n);
    PipeBarrier<PIPE_V>();
  }

  // x: [tokens, heads, d].
  __aicore__ inline void RotateHeads(GM_ADDR data, uint32_t token, uint32_t heads, uint32_t begin,
                                     uint32_t n) {
    GlobalTensor<T> x;
    x.SetGlobalBuffer((__gm__ T*)data);
    const uint32_t first = t_.offset + (t_.is_gptj ? 2 * begin : begin);
    for (uint32_t head = 0; head < heads; head += t_.heads) {
      const uint32_t count = min(t_.heads, heads - head);
      const uint64_t at = (uint64_t(token) * heads + head) * t_.d + first;
      if (t_.is_gptj) {
        RotateNeighbours(x[at], count, 2 * n);
      } else {
        RotateHalves(x[at], count, n);
      }
    }
  }

  // y = x * table for rows of n elements at multiples of `pitch`; a repeat is a row.
  __aicore__ inline void Multiply(const LocalTensor<float>& y, const LocalTensor<float>& x,
                                  const LocalTensor<float>& table, uint32_t rows, uint32_t n,
                                  uint32_t pitch) {
    const auto stride = static_cast<uint8_t>(pitch / 8);
    for (uint32_t j = 0; j < n; j += 64) {
      Mul(y[j], x[j], table[j], uint64_t(min(64u, n - j)), static_cast<uint8_t>(rows),
          BinaryRepeatParams(1, 1, 1, stride, stride, 0));
    }
  }

  __aicore__ inline void RotateHalves(const GlobalTensor<T>& x, uint32_t rows, uint32_t n) {
    LocalTensor<T> both = in_.template AllocTensor<T>();
    CopyIn(both, x, n, rows, t_.d);
    CopyIn(both[size_], x[t_.half], n, rows, t_.d);
    in_.EnQue(both);
    both = in_.template DeQue<T>();
    const uint32_t pitch = RoundUp<T>(n), all = rows * pitch;
    LocalTensor<float> a = Float(0), b = Float(1), ac = Float(2), bc = Float(3), as = Float(4),
                       bs = Float(5);
    PipeBarrier<PIPE_V>();
    of_t_.Read(a, both, all);
    of_t_.Read(b, both[size_], all);
    in_.FreeTensor(both);
    PipeBarrier<PIPE_V>();
    Multiply(ac, a, cosines(), rows, n, pitch);
    Multiply(bc, b, cosines(), rows, n, pitch);
    Multiply(as, a, sines(), rows, n, pitch);
    Multiply(bs, b, sines(), rows, n, pitch);
    PipeBarrier<PIPE_V>();
    Sub(ac, ac, bs, all);
    Add(bc, bc, as, all);
    PipeBarrier<PIPE_V>();
    LocalTensor<T> y = out_.template AllocTensor<T>();
    of_t_.Write(y, ac, all);
    PipeBarrier<PIPE_V>();
    of_t_.Write(y[size_], bc, all);
    out_.EnQue(y);
    y = out_.template DeQue<T>();
    CopyOut(x, y, n, rows, t_.d);
    CopyOut(x[t_.half], y[size_], n, rows, t_.d);
    out_.FreeTensor(y);
  }

  __aicore__ inline void RotateNeighbours(const GlobalTensor<T>& x, uint32_t rows, uint32_t n) {
    LocalTensor<T> z = in_.template AllocTensor<T>();
    CopyIn(z, x, n, rows, t_.d);
    in_.EnQue(z);
    z = in_.template DeQue<T>();
    const uint32_t pitch = RoundUp<T>(n), all = rows * pitch;
    LocalTensor<float> f = Float(0), others = Float(2), zc = Float(4), os = Float(6);
    PipeBarrier<PIPE_V>();
    of_t_.Read(f, z, all);
    in_.FreeTensor(z);
    PipeBarrier<PIPE_V>();
    const LocalTensor<uint32_t> neighbour = Places(0).template ReinterpretCast<uint32_t>();
    for (uint32_t row = 0; row < rows; ++row) {
      Gather(others[row * pitch], f[row * pitch], neighbour, 0, n);
    }
    PipeBarrier<PIPE_V>();
    Multiply(zc, f, cosines(), rows, n, pitch);
    Multiply(os, others, sines(), rows, n, pitch);
    PipeBarrier<PIPE_V>();
    Add(zc, zc, os, all);
    PipeBarrier<PIPE_V>();
    LocalTensor<T> y = out_.template AllocTensor<T>();
    of_t_.Write(y, zc, all);
    out_.EnQue(y);
    y = out_.template DeQue<T>();
    CopyOut(x, y, n, rows, t_.d);
    out_.FreeTensor(y);
  }

  Tiling t_{};
  uint32_t size_ = 0;  // of a half
  TPipe pipe_;
  TQue<QuePosition::VECIN, 2> in_, in_table_;
  TQue<QuePosition::VECOUT, 2> out_;
  TBuf<TPosition::VECCALC> angles_, floats_, places_;
  Floats<T> of_t_;
  Floats<C> of_c_;
  Indices positions_;
  GlobalTensor<C> table_;
};

template <class T, class C>
__global__ __aicore__ void rotary_embedding(GM_ADDR positions, GM_ADDR query, GM_ADDR key,
                                            GM_ADDR table, uint32_t query_heads, uint32_t key_heads,
                                            const Tiling* tiling) {
  RotaryEmbedding<T, C> op;
  op.Init(positions, table, *tiling);
  op.Process(query, key, query_heads, key_heads);
}

void Run(const Context& ctx, const Tensor* positions, const Tensor& query, const Tensor* key,
         const Tensor& cos_sin_cache, std::int64_t offset, std::string_view style, bool inverse) {
  const std::int64_t width = cos_sin_cache.dim(1) / 2, key_heads = key ? key->dim(1) : 0;
  const std::int64_t most_heads = max(query.dim(1), key_heads);
  if (query.dim(0) == 0 || width == 0 || most_heads == 0) return;
  const uint32_t pairs = min(ascend::Chunk(width, 1), kMostPairs);
  const uint32_t heads =
      min(uint32_t(min(most_heads, std::int64_t{kMostRepeats})), kMostElements / pairs);
  const Tiling tiling{ascend::Count(query.dim(0)),
                      ascend::Count(query.dim(2)),
                      ascend::Count(width),
                      ascend::Count(offset),
                      pairs,
                      heads,
                      positions != nullptr,
                      positions && positions->type() == DType::kI64,
                      style == "gptj",
                      inverse};
  ascend::Visit<float, half, bfloat16_t>(query.type(), [&](auto of_query) {
    ascend::Visit<float, half, bfloat16_t>(cos_sin_cache.type(), [&](auto of_cache) {
      ascend::Launch(ctx, {.blocks = ascend::Blocks(query.dim(0))},
                     &rotary_embedding<decltype(of_query), decltype(of_cache)>, positions, query,
                     key, cos_sin_cache, query.dim(1), key_heads, tiling);
    });
  });
}

}  // namespace

ANYOP_ASCEND_KERNEL(rotary_embedding){.run = ascend::Bind<&Run>(),
                                      .accepts = ascend::AreContiguous<&Run>()};

}  // namespace anyop::ops
