// SPDX-License-Identifier: Apache-2.0
// y = left right, each packed from the rows or from the columns of a matrix as it lies. Long sums
// are cut into chunks of kInner terms.
//
// A sum is a chain of additions in ascending order for each chunk, and the chunks are added in
// order: its bits depend on the number of its terms only.
#pragma once
#include <cstdint>

#include "ops/common/gemm/pack.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// Terms of a chunk. A panel of so many terms in f32 and a block of rows fit the second level of
// cache.
inline constexpr std::int64_t kInner = 1024;

// The rows of a tensor. Most tensors have one stride from row to row: this saves the divisions of
// row_offset.
template <class T>
class Rows {
 public:
  explicit Rows(const Tensor& x) : x_(x), base_(x.base<const T>()) {
    stride_ = x.rank() > 1 ? x.stride(-2) : 0;
    std::int64_t next = stride_;
    for (int i = x.rank() - 2; i >= 0; --i) {
      if (x.dim(i) != 1 && x.stride(i) != next) has_one_stride_ = x.dim(i) == 0;
      next = x.stride(i) * x.dim(i);
    }
  }
  const T* operator[](std::int64_t r) const {
    return base_ + (has_one_stride_ ? r * stride_ : x_.row_offset(r));
  }

 private:
  const Tensor& x_;
  const T* base_;
  std::int64_t stride_;
  bool has_one_stride_ = true;
};

// out[2 i] = a[i], out[2 i + 1] = b[i] for the first kCount places of whole vectors of kBytes;
// returns how many those are.
template <int kBytes, int kCount, class T>
[[gnu::always_inline]] inline int InterleaveVectors(const T* a, const T* b, T* out) {
  using Element = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int16_t>;
  using Block = Square<Element, kBytes>;
  int i = 0;
#pragma GCC unroll 8
  for (; i + Block::kCount <= kCount; i += Block::kCount) {
    typename Block::Vector v, w, low, high;
    std::memcpy(&v, a + i, kBytes);
    std::memcpy(&w, b + i, kBytes);
    Block::Zip(v, w, low, high, std::make_integer_sequence<int, Block::kCount>{});
    std::memcpy(out + 2 * i, &low, kBytes);
    std::memcpy(out + 2 * i + Block::kCount, &high, kBytes);
  }
  return i;
}
// The same for all kCount places.
template <int kCount, class T>
[[gnu::always_inline]] inline void Interleave(const T* a, const T* b, T* out) {
  constexpr int kWide = kCount * int(sizeof(T)) >= kLanes * 4 ? kLanes * 4 : 16;
  int i = InterleaveVectors<kWide, kCount>(a, b, out);
#pragma GCC unroll 8
  for (; i < kCount; ++i) {
    const T pair[2] = {a[i], b[i]};
    std::memcpy(out + 2 * i, pair, sizeof(pair));
  }
}

// out[z][j][w] = right[first + 2 z + w][column + j] for j < 32, 2 z + w < count; zero elsewhere.
template <class T>
inline void PackColumns(const Rows<T>& right, std::int64_t first, std::int64_t count,
                        std::int64_t column, std::int64_t columns, T* out) {
  constexpr std::int64_t kAhead = 16;  // rows, of which a panel takes a line or two each
  const T zeros[kPanel] = {};
  T edge[2][kPanel] = {};
  const std::size_t bytes = std::size_t(columns) * sizeof(T);
  for (std::int64_t l = 0; l < count; l += 2, out += 2 * kPanel) {
    Prefetch(right[first + (l + kAhead < count ? l + kAhead : l)] + column);
    Prefetch(right[first + (l + kAhead < count ? l + kAhead + 1 : l)] + column);
    const T* a = right[first + l] + column;
    const T* b = l + 1 < count ? right[first + l + 1] + column : zeros;
    if (columns < kPanel) {
      std::memcpy(edge[0], a, bytes);
      std::memcpy(edge[1], b, bytes);
      a = edge[0], b = edge[1];
    }
    Interleave<kPanel>(a, b, out);
  }
}

// A left side whose row r is row r of a matrix.
template <class T>
struct LeftRows {
  Rows<T> x;
  template <class M, class P>
  void Pack(const Context& ctx, const PackedProduct<M, P>& part, std::int64_t inner) const {
    part.PackRowsOf(ctx, inner, [&](std::int64_t r) { return x[r]; });
  }
};

// A left side whose row r is column r of a matrix.
template <class T>
struct LeftColumns {
  Rows<T> x;
  template <class M, class P>
  void Pack(const Context& ctx, const PackedProduct<M, P>& part, std::int64_t inner) const {
    using Left = typename M::Left;
    part.Pack(ctx, [&](std::int64_t begin, std::int64_t end) {
      if constexpr (kIsAmx<M>) return PackAmx(part, begin, end, inner);
      Left buffer[2][kPackedRows] = {};
      for (std::int64_t l = 0; l < part.p.k; l += 2) {
        const Left* pair[2] = {buffer[0], buffer[1]};
        for (int w = 0; w < 2; ++w) {
          const bool is_zero = l + w >= part.p.k;
          if (is_zero) std::memset(buffer[w], 0, sizeof(buffer[w]));
          if (!is_zero) {
            pair[w] = AsLeft(x[inner + l + w] + part.first + begin, end - begin, buffer[w]);
          }
        }
        part.ForBlocksOf(begin, end, [&](std::int64_t i, auto n) [[gnu::always_inline]] {
          Left* out = part.Row(i) + l * n.value;
          Interleave<n.value>(pair[0] + (i - begin), pair[1] + (i - begin), out);
        });
      }
    });
  }

 private:
  // Rows [begin, end): transposed tile by tile.
  template <class Part>
  void PackAmx(const Part& part, std::int64_t begin, std::int64_t end, std::int64_t inner) const {
    constexpr std::int64_t kStep = 2 * kAmxSteps;
    alignas(64) T pairs[kAmxSteps][2 * kAmxRows], tile[kAmxRows][kStep];
    for (std::int64_t i = begin; i < end; i += part.block) {
      const std::int64_t rows = Min(part.block, end - i);
      T* out = part.Row(i);
      for (std::int64_t l = 0; l < part.p.k; l += kStep, out += rows * kStep) {
        for (std::int64_t r = 0; r < rows; r += kAmxRows) {
          const std::int64_t count = Min(rows - r, kAmxRows);
          for (std::int64_t z = 0; z < kAmxSteps; ++z) {
            T edge[2][kAmxRows];
            const T* pair[2];
            for (std::int64_t w = 0; w < 2; ++w) {
              const std::int64_t term = l + 2 * z + w;
              pair[w] = term < part.p.k ? x[inner + term] + part.first + i + r : nullptr;
              if (pair[w] && count == kAmxRows) continue;
              std::memset(edge[w], 0, sizeof(edge[w]));
              if (pair[w]) std::memcpy(edge[w], pair[w], std::size_t(count) * sizeof(T));
              pair[w] = edge[w];
            }
            Interleave<kAmxRows>(pair[0], pair[1], pairs[z]);
          }
          using Block = Square<std::int32_t, 64>;
          Block::Transpose(reinterpret_cast<const char*>(pairs), sizeof(pairs[0]),
                           reinterpret_cast<char*>(tile), sizeof(tile[0]));
          std::memcpy(out + r * kStep, tile, std::size_t(count) * sizeof(tile[0]));
        }
      }
    }
  }
  static const T* AsLeft(const T* from, std::int64_t, T*) { return from; }
  template <class Left>
  static const Left* AsLeft(const T* from, std::int64_t n, Left* to) {
    ForLanes(n, [&](std::int64_t i, auto count)
                    [[gnu::always_inline]] { StoreN(to + i, LoadN(from + i, count), count); });
    return to;
  }
};

// A right side [inner, columns] as it lies: row l of a matrix holds term l of every column.
template <class T>
struct RightRows {
  Rows<T> x;
  void Pack(std::int64_t first, std::int64_t count, std::int64_t column, std::int64_t columns,
            T* out) const {
    PackColumns(x, first, count, column, columns, out);
  }
};

// A right side whose column j is row j of a matrix.
template <class T>
struct RightColumns {
  const T* x;
  std::int64_t stride;
  void Pack(std::int64_t first, std::int64_t count, std::int64_t column, std::int64_t columns,
            T* out) const {
    PackPanel(x + column * stride + first, stride, columns, count, out);
  }
};

// What MultiplyChunks takes.
template <class M, class N>
struct ChunksWorkspace : Workspace<N> {
  static constexpr std::int64_t kTerms = kIsAmx<M> ? 2 * kAmxSteps : 2;  // of a step
  N chunks, terms;                                                       // of a chunk: whole steps
  Part<typename M::Left, N> left;                                        // [rows][terms]
  Part<typename M::Weight, N> panels;                                    // [threads][terms][32]
  Part<unsigned char, N> taken;                                          // [threads]
  Part<float, N> sums;  // [panels][rows][32] where there are several chunks
  constexpr ChunksWorkspace(N threads, N rows, N inner, N columns)
      : chunks(Max(N(1), CeilDiv(inner, N(kInner)))),
        terms(N(kTerms) * CeilDiv(CeilDiv(Max(inner, N(1)), chunks), N(kTerms))),
        left(this->template Add<typename M::Left>(
            LeftElements<M>(Min(rows, N(kPackedRows)), terms / N(2)))),
        panels(this->template Add<typename M::Weight>(threads * terms * N(kPanel))),
        taken(this->template Add<unsigned char>(threads)),
        sums(this->template Add<float>(Min(N(1), chunks - N(1)) * Min(rows, N(kPackedRows)) *
                                       CeilDiv(columns, N(kPanel)) * N(kPanel))) {}
};

// A product in chunks as the code that multiplies sees it, whatever its sides and results are. That
// code is long, and so is compiled once for a math type; what differs is behind virtual functions,
// which are called for whole panels.
template <class M>
struct ChunkSource;
template <class M>
struct ChunkPart {
  using Sum = float;
  const ChunkSource<M>& source;
  std::int64_t rows, k, n;

  std::int64_t steps() const { return (k + 1) / 2; }
  std::int64_t panels() const { return (n + kPanel - 1) / kPanel; }
  void StorePanel(const float* sums, std::int64_t first, std::int64_t count,
                  std::int64_t panel) const {
    source.StorePanel(sums, first, count, panel);
  }
};
template <class M>
struct ChunkSource {
  // Terms [inner, inner + part.p.k) of the rows of a part.
  virtual void PackLeft(const Context& ctx, const PackedProduct<M, ChunkPart<M>>& part,
                        std::int64_t inner) const = 0;
  // The same of at most 32 columns.
  virtual void PackRight(std::int64_t inner, std::int64_t count, std::int64_t column,
                         std::int64_t columns, typename M::Weight* out) const = 0;
  virtual void StorePanel(const float* sums, std::int64_t first, std::int64_t rows,
                          std::int64_t panel) const = 0;

 protected:
  ~ChunkSource() = default;
};

// The product of some rows and one chunk: sums of earlier chunks wait in `sums` [panels][rows][32].
template <class M>
struct ChunkProduct {
  using T = typename M::Weight;
  const PackedProduct<M, ChunkPart<M>>& part;
  const ThreadBuffers<T>& buffers;
  float* sums;
  std::int64_t first;  // of the chunk
  bool is_last;

  void Run(const Context& ctx) const {
    const std::int64_t panels = part.p.panels();
    ctx.ParallelFor(part.groups() * panels, PanelGrain<T>(part.group, part.p.k),
                    [&](std::int64_t begin, std::int64_t end) {
                      T* panel = buffers.Take();
                      for (std::int64_t i = begin; i < end; ++i) {
                        const std::int64_t at = i / part.groups();
                        if (i == begin || i % part.groups() == 0) Pack(at, panel);
                        Multiply(panel, at, i % part.groups());
                      }
                      buffers.Return(panel);
                    });
  }

 private:
  void Pack(std::int64_t at, T* panel) const {
    const std::int64_t left = part.p.n - at * kPanel;
    part.p.source.PackRight(first, part.p.k, at * kPanel, left < kPanel ? left : kPanel, panel);
  }
  void Multiply(const T* panel, std::int64_t at, std::int64_t group) const {
    part.Multiply(panel, nullptr, group, [&](float* tile, std::int64_t i, std::int64_t rows) {
      float* row = sums + (at * part.rows + i) * kPanel;
      if (first > 0) {
        for (std::int64_t e = 0; e < rows * kPanel; e += kLanes) {
          Store(tile + e, Load(row + e) + Load(tile + e));
        }
      }
      if (is_last) return part.p.StorePanel(tile, part.first + i, rows, at);
      std::memcpy(row, tile, std::size_t(rows * kPanel) * sizeof(float));
    });
  }
};

// All of a product's chunks.
template <class M>
struct Chunks {
  static void Multiply(const Context& ctx, const ChunkPart<M>& p);
};
template <class M>
void Chunks<M>::Multiply(const Context& ctx, const ChunkPart<M>& p) {
  using T = typename M::Weight;
  const ChunksWorkspace<M, std::int64_t> parts(ThreadsOf(ctx), p.rows, p.k, p.n);
  const Placed placed(ctx, parts);
  const std::int64_t chunks = parts.chunks, terms = parts.terms;
  const ThreadBuffers<T> buffers(placed[parts.panels], placed[parts.taken], terms * kPanel,
                                 parts.taken.count);
  for (std::int64_t i = 0; i < p.rows; i += kPackedRows) {
    for (std::int64_t c = 0; c < chunks; ++c) {
      const std::int64_t first = c * terms;
      const std::int64_t k = p.k - first < terms ? p.k - first : terms;
      const ChunkPart<M> chunk{p.source, p.rows, k, p.n};
      const PackedProduct<M, ChunkPart<M>> part = PartOf<M>(ctx, chunk, placed[parts.left], i);
      p.source.PackLeft(ctx, part, first);
      ChunkProduct<M>{part, buffers, placed[parts.sums], first, c + 1 == chunks}.Run(ctx);
    }
  }
}
#if defined(__AVX512BF16__)
extern template struct Chunks<BF16DotMath>;
#else
extern template struct Chunks<PairMath<float>>;
extern template struct Chunks<PairMath<F16>>;
extern template struct Chunks<SplitMath>;
#endif

template <class M, class P, class Left, class Right>
struct ChunkSides final : ChunkSource<M> {
  ChunkSides(const P& p_in, const Left& left_in, const Right& right_in)
      : p(p_in), left(left_in), right(right_in) {}
  void PackLeft(const Context& ctx, const PackedProduct<M, ChunkPart<M>>& part,
                std::int64_t inner) const override {
    left.Pack(ctx, part, inner);
  }
  void PackRight(std::int64_t inner, std::int64_t count, std::int64_t column, std::int64_t columns,
                 typename M::Weight* out) const override {
    right.Pack(inner, count, column, columns, out);
  }
  void StorePanel(const float* sums, std::int64_t first, std::int64_t rows,
                  std::int64_t panel) const override {
    p.StorePanel(sums, first, rows, panel);
  }
  const P& p;
  const Left& left;
  const Right& right;
};

// y [rows, columns] = left right; p's rows of x are not read.
template <class M, PanelProduct P, class Left, class Right>
inline void MultiplyChunks(const Context& ctx, const P& p, const Left& left, const Right& right) {
  const ChunkSides<M, P, Left, Right> sides(p, left, right);
  Chunks<M>::Multiply(ctx, {sides, p.rows, p.k, p.n});
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
