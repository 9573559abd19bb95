// SPDX-License-Identifier: Apache-2.0
// The kernel of every instruction set: each file that includes this compiles it with its own flags.
//
// Some tokens at a time: the scores of all of their keys, by pieces that threads share, then the
// selection, a token a thread. Memory for scores so grows with threads and not with tokens.
#pragma once
#include <algorithm>
#include <cstdint>

#include "ops/common/blocks/block_table.h"
#include "ops/common/claim.h"
#include "ops/common/product_rows.h"
#include "ops/common/selection/selection.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
namespace {

constexpr std::int64_t kPiece = 1024;  // keys of an item

// What an item works in: the queries of a token, transposed, so that a head is a lane, a tile of
// keys, their products, and the factors of the heads. `heads` is a multiple of kRowUnit.
template <class N>
struct IndexerScratch : Workspace<N> {
  N row;  // of a key, and of a query before it is transposed
  Part<std::uint32_t, N> queries, tile;
  Part<float, N> products, factors;
  constexpr IndexerScratch(N heads, N d)
      : row(ProductRow(d)),
        queries(this->template Add<std::uint32_t>(row * heads)),
        tile(this->template Add<std::uint32_t>(N(std::int64_t{kTileRows}) * row)),
        products(this->template Add<float>(N(std::int64_t{kTileRows}) * heads)),
        factors(this->template Add<float>(heads)) {}
};

template <class N>
struct IndexerWorkspace : Workspace<N> {
  Part<std::int64_t, N> counter;
  N item_bytes;
  Part<char, N> scratch;              // [threads, item_bytes]
  Part<float, N> scores;              // [tokens, keys], the tokens of a round
  Part<std::uint32_t, N> selections;  // [tokens, keys]
  constexpr IndexerWorkspace(N threads, N tokens, N heads, N d, N keys)
      : counter(this->template Add<std::int64_t>(N(std::int64_t{1}))),
        item_bytes(IndexerScratch<N>(N(kRowUnit) * CeilDiv(heads, N(kRowUnit)), d).bytes()),
        scratch(this->template Add<char>(threads * item_bytes)),
        scores(this->template Add<float>(tokens * keys)),
        selections(this->template Add<std::uint32_t>(tokens * keys)) {}
};
constexpr SizeText IndexerBytes() {
  const SizeText threads("threads");
  return IndexerWorkspace<SizeText>(threads, Min("t", threads), "h", "d",
                                    SizeText("mb") * SizeText("bs"))
      .bytes();
}

// Form: what products are made of, FloatRows or PairRows.
template <class Form>
class Indexer {
  using Element = typename Form::Element;

 public:
  Indexer(const Context& ctx, const Tensor& query, const Tensor& weights, const Tensor& key_cache,
          const Tensor& block_table, const Tensor& seq_lens, const Tensor& query_start_loc,
          bool causal, const Tensor* query_scale, const Tensor* key_scale, const Tensor& indices,
          const Tensor& counts)
      : ctx_(ctx),
        query_(query),
        weights_(weights),
        keys_(key_cache),
        table_(block_table),
        lens_(seq_lens),
        starts_(query_start_loc),
        causal_(causal),
        query_scale_(query_scale),
        key_scale_(key_scale),
        indices_(indices),
        counts_(counts),
        heads_(query.dim(1)),
        lanes_((heads_ + kLanes - 1) / kLanes * kLanes),
        most_keys_(block_table.dim(1) * key_cache.dim(1)),
        round_(std::min(query.dim(0), ThreadsOf(ctx))),
        parts_(ThreadsOf(ctx), round_, heads_, query.dim(2), most_keys_),
        placed_(ctx, parts_) {}

  void Run() const {
    for (std::int64_t first = 0; first < query_.dim(0); first += round_) {
      RunRound(first, std::min(round_, query_.dim(0) - first));
    }
  }

 private:
  struct Row {
    std::int64_t token, sequence, seen;  // seen: the keys before which all visible ones lie
  };

  Row At(std::int64_t token) const {
    const std::int64_t sequences = lens_.dim(0);
    const TokenPlace at = FindToken(&starts_, sequences, token);
    if (at.sequence == sequences) return {token, 0, 0};
    return {token, at.sequence, CountSeenKeys(at, ReadIndex(lens_, at.sequence), causal_)};
  }

  void RunRound(std::int64_t first, std::int64_t tokens) const {
    std::int64_t longest = 0;
    for (std::int64_t i = 0; i < tokens; ++i) longest = std::max(longest, At(first + i).seen);
    const std::int64_t pieces = (longest + kPiece - 1) / kPiece;
    const double pairs = double(tokens * longest), ns = double(heads_ * query_.dim(2)) * 0.03 + 1;
    ClaimItems(ctx_, placed_[parts_.counter], tokens * pieces, pairs * ns,
               [&](std::int64_t i, std::int64_t slot) {
                 const std::int64_t begin = i % pieces * kPiece;
                 const Row row = At(first + i / pieces);
                 const std::int64_t end = std::min(begin + kPiece, row.seen);
                 if (begin >= end) return;
                 char* memory = placed_[parts_.scratch] + slot * parts_.item_bytes;
                 Score(row, begin, end, memory, Scores(i / pieces));
               });
    ClaimItems(ctx_, placed_[parts_.counter], tokens, pairs * 2, [&](std::int64_t i, std::int64_t) {
      Select(At(first + i), Scores(i), placed_[parts_.selections] + i * most_keys_);
    });
  }
  float* Scores(std::int64_t i) const { return placed_[parts_.scores] + i * most_keys_; }

  // scores[j] for the visible keys j in [begin, end).
  void Score(const Row& row, std::int64_t begin, std::int64_t end, char* memory,
             float* scores) const {
    const IndexerScratch<std::int64_t> parts(PadRow(heads_), query_.dim(2));
    const Placed placed(memory);
    auto* queries = reinterpret_cast<Element*>(placed[parts.queries]);
    auto* tile = reinterpret_cast<Element*>(placed[parts.tile]);
    float *products = placed[parts.products], *factors = placed[parts.factors];
    LoadQueries(row.token, tile, parts.row, queries, factors);
    const TileProduct<Element> product{.a = {tile, parts.row, 1},
                                       .b = queries,
                                       .b_row = lanes_,
                                       .k0 = 0,
                                       .k1 = Form::Terms(query_.dim(2)),
                                       .c = products,
                                       .c_row = lanes_,
                                       .add = false,
                                       .mask = Form::kAll};
    TableKeys keys(table_, row.sequence, keys_.dim(1), begin, end);
    std::int64_t position[kTileRows];
    float scale[kTileRows];
    int filled = 0;
    const auto finish = [&] {
      Multiply(product, 0, filled, lanes_);
      for (int t = 0; t < filled; ++t) {
        scores[position[t]] = SumHeads(products + t * lanes_, factors) * scale[t];
      }
      filled = 0;
    };
    KeyPlace at;
    while (const std::int64_t n = keys.Next(kTileRows - filled, &at)) {
      for (std::int64_t i = 0; i < n; ++i, ++filled) {
        position[filled] = keys.position() - n + i;
        scale[filled] = key_scale_ ? key_scale_->at<const float>(at.block)[at.offset + i] : 1.0f;
        Form::LoadRow(keys_, at.block * keys_.stride(0) + (at.offset + i) * keys_.stride(1),
                      query_.dim(2), tile + filled * parts.row);
      }
      if (filled == kTileRows) finish();
    }
    finish();
  }

  // queries [row, lanes] and factors [lanes] of a token: zeros beyond the last head. rows: room for
  // kLanes rows.
  void LoadQueries(std::int64_t token, Element* rows, std::int64_t row, Element* queries,
                   float* factors) const {
    for (std::int64_t first = 0; first < lanes_; first += kLanes) {
      std::fill_n(rows, kLanes * row, Element{});
      for (std::int64_t h = first; h < first + kLanes; ++h) {
        factors[h] = 0;
        if (h >= heads_) continue;
        Form::LoadRow(query_, token * query_.stride(0) + h * query_.stride(1), query_.dim(2),
                      rows + (h - first) * row);
        factors[h] = float(Read(weights_, token * weights_.stride(0) + h));
        if (query_scale_) factors[h] *= query_scale_->at<const float>(token)[h];
      }
      TransposeRows(rows, row, queries + first, lanes_);
    }
  }

  // The sum over heads of factor * max(0, product), with NaN for NaN.
  float SumHeads(const float* products, const float* factors) const {
    F32 sum = Zero();
    ForLanes(heads_, [&](std::int64_t h, auto n) {
      const F32 positive = Max(Zero(), Load(products + h));
      sum = Fma(KeepFirst(positive, n, Zero()), Load(factors + h), sum);
    });
    return ReduceAdd(sum);
  }

  void Select(const Row& row, float* scores, std::uint32_t* keys) const {
    auto* out = indices_.at<std::int32_t>(row.token);
    const std::int64_t top = indices_.dim(1), visible = Compact(row, scores);
    const std::int64_t count = std::min(top, visible);
    if (count == visible) {
      for (std::int64_t i = 0; i < count; ++i) out[i] = std::int32_t(i);
    } else {
      TakeLargest(scores, visible, count, keys, out);
    }
    if (visible < row.seen) ToPositions(row, out, count);
    std::fill(out + count, out + top, -1);
    *counts_.at<std::int32_t>(row.token) = std::int32_t(count);
  }
  // Closes the gaps that hidden keys leave; returns the number of visible ones.
  std::int64_t Compact(const Row& row, float* scores) const {
    TableKeys keys(table_, row.sequence, keys_.dim(1), 0, row.seen);
    std::int64_t visible = 0;
    KeyPlace at;
    while (const std::int64_t n = keys.Next(row.seen, &at)) {
      const std::int64_t first = keys.position() - n;
      if (first != visible) std::copy_n(scores + first, n, scores + visible);
      visible += n;
    }
    return visible;
  }
  // From numbers of visible keys, rising, to the keys' positions.
  void ToPositions(const Row& row, std::int32_t* indices, std::int64_t count) const {
    TableKeys keys(table_, row.sequence, keys_.dim(1), 0, row.seen);
    std::int64_t visible = 0, i = 0;
    KeyPlace at;
    while (const std::int64_t n = keys.Next(row.seen, &at)) {
      const std::int64_t hidden = keys.position() - n - visible;
      visible += n;
      for (; i < count && indices[i] < visible; ++i) indices[i] += std::int32_t(hidden);
    }
  }

  const Context& ctx_;
  const Tensor &query_, &weights_, &keys_, &table_, &lens_, &starts_;
  bool causal_;
  const Tensor *query_scale_, *key_scale_;
  const Tensor &indices_, &counts_;
  std::int64_t heads_, lanes_, most_keys_, round_;
  IndexerWorkspace<std::int64_t> parts_;
  Placed placed_;
};

template <class Form>
void Run(const Context& ctx, const Tensor& query, const Tensor& weights, const Tensor& key_cache,
         const Tensor& block_table, const Tensor& seq_lens, const Tensor& query_start_loc,
         std::int64_t, bool causal, const Tensor* query_scale, const Tensor* key_scale,
         const Tensor& indices, const Tensor& counts) {
  Indexer<Form>(ctx, query, weights, key_cache, block_table, seq_lens, query_start_loc, causal,
                query_scale, key_scale, indices, counts)
      .Run();
}

}  // namespace
}  // namespace anyop::ops
