// SPDX-License-Identifier: Apache-2.0
// Attention of many heads over one latent row per position, which is key and value at once: the
// absorbed form of multi-head latent attention.
//
// An item is one token, some of its heads and some of its keys. A head is a lane: queries lie
// transposed, so that no sum crosses lanes. Keys are brought into the form that products take a
// tile at a time, once for all heads of the item. A token's positions are cut into parts that
// depend on their number alone and are merged in order, whether one thread computes them or
// several: the bits of a head depend neither on the others nor on threads.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/common/blocks/block_table.h"
#include "ops/common/claim.h"
#include "ops/common/elementwise/elementwise.h"  // VisitFloat
#include "ops/common/product_rows.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

inline constexpr std::int64_t kLatentHeads = 64;  // of an item, at most; a multiple of kRowUnit
inline constexpr std::int64_t kLatentPart = 256;  // positions of a part, at least
inline constexpr std::int64_t kLatentParts = 8;   // of a token, at most
inline constexpr float kLatentNoScore = -std::numeric_limits<float>::infinity();

// The state of the heads of an item after some keys: the largest score, the sum of the weights
// exp(score - largest), and the sum of weights times values.
template <class N>
struct LatentSums : Workspace<N> {
  N row;
  Part<float, N> largest, total;  // [heads]
  Part<float, N> sums;            // [heads, row]
  constexpr explicit LatentSums(N c)
      : row(N(64) * CeilDiv(c, N(64))),
        largest(this->template Add<float>(N(kLatentHeads))),
        total(this->template Add<float>(N(kLatentHeads))),
        sums(this->template Add<float>(N(kLatentHeads) * row)) {}
};

template <class N>
struct LatentScratch : Workspace<N> {
  N row;                                        // of a key or query: latent and rope
  Part<std::uint32_t, N> queries, tile, pairs;  // [row, heads] [kTileRows, row] [kTileRows / 2, c]
  Part<float, N> weights;                       // [kTileRows, heads]
  Part<char, N> part, all;                      // LatentSums of a part, and of all so far
  constexpr LatentScratch(N c, N r)
      : row(ProductRow(c) + ProductRow(r)),
        queries(this->template Add<std::uint32_t>(row * N(kLatentHeads))),
        tile(this->template Add<std::uint32_t>(N(std::int64_t{kTileRows}) * row)),
        pairs(this->template Add<std::uint32_t>(N(std::int64_t{kTileRows / 2}) *
                                                LatentSums<N>(c).row)),
        weights(this->template Add<float>(N(std::int64_t{kTileRows}) * N(kLatentHeads))),
        part(this->template Add<char>(LatentSums<N>(c).bytes())),
        all(this->template Add<char>(LatentSums<N>(c).bytes())) {}
};

// positions: the most that a token has.
template <class N>
struct LatentWorkspace : Workspace<N> {
  N item_bytes, part_bytes;
  Part<std::int64_t, N> counter;
  Part<char, N> scratch;  // [threads, item_bytes]
  Part<char, N> parts;    // [tokens and groups of heads, parts, part_bytes], where those are few
  constexpr LatentWorkspace(N threads, N tokens, N heads, N positions, N c, N r)
      : item_bytes(LatentScratch<N>(c, r).bytes()),
        part_bytes(LatentSums<N>(c).bytes()),
        counter(this->template Add<std::int64_t>(N(std::int64_t{1}))),
        scratch(this->template Add<char>(threads * item_bytes)),
        parts(this->template Add<char>(
            Min(tokens * CeilDiv(heads, N(kLatentHeads)), N(std::int64_t{4}) * threads) *
            Min(N(kLatentParts), CeilDiv(positions + N(std::int64_t{1}), N(kLatentPart))) *
            part_bytes)) {}
};
// t, h, c and r are called so in every signature.
constexpr SizeText LatentBytes(const SizeText& positions) {
  return LatentWorkspace<SizeText>("threads", "t", "h", positions, "c", "r").bytes();
}

// The length of a part, for a token of so many positions. Threads have no say in it: parts are
// summed apart, so that their ends decide about bits.
inline std::int64_t LatentPartOf(std::int64_t positions) {
  const std::int64_t even = (positions + kLatentParts - 1) / kLatentParts;
  return std::max<std::int64_t>((even + kTileRows - 1) / kTileRows * kTileRows, kLatentPart);
}

struct LatentCall {
  const Tensor &q_nope, &q_rope;        // [t, h, c], [t, h, r]
  const Tensor &kv_cache, &rope_cache;  // [nb, bs, c], [nb, bs, r]
  float scale;
  const float* sinks;  // [h] or null
  const Tensor& y;     // [t, h, c]
  const Tensor* lse;   // [h, t] or null

  std::int64_t tokens() const { return y.dim(0); }
  std::int64_t heads() const { return y.dim(1); }
};

// Heads [begin, end) of a token. Clear for each part, then AddTile for its keys.
template <class Form>
class LatentRows {
  using Element = typename Form::Element;

 public:
  struct Sums {
    float *largest, *total, *sums;
    Sums(std::int64_t c, char* memory) {
      const LatentSums<std::int64_t> parts(c);
      const Placed placed(memory);
      largest = placed[parts.largest], total = placed[parts.total], sums = placed[parts.sums];
    }
  };

  LatentRows(const LatentCall& call, std::int64_t token, std::int64_t begin, std::int64_t end,
             char* memory)
      : call_(call),
        token_(token),
        begin_(begin),
        heads_(end - begin),
        lanes_((heads_ + kLanes - 1) / kLanes * kLanes),
        c_(call.q_nope.dim(2)),
        r_(call.q_rope.dim(2)),
        row_(Form::Row(c_) + Form::Row(r_)),
        sums_row_(LatentSums<std::int64_t>(c_).row) {
    const LatentScratch<std::int64_t> parts(c_, r_);
    const Placed placed(memory);
    queries_ = reinterpret_cast<Element*>(placed[parts.queries]);
    tile_ = reinterpret_cast<Element*>(placed[parts.tile]);
    pairs_ = placed[parts.pairs], weights_ = placed[parts.weights];
    own_part_ = placed[parts.part], all_ = placed[parts.all];
  }

  // queries_ [row, lanes]: zeros beyond the last head.
  void LoadQueries() {
    Element* rows = tile_;  // not in use yet
    for (std::int64_t first = 0; first < lanes_; first += kLanes) {
      std::fill_n(rows, kLanes * row_, Element{});
      for (std::int64_t h = first; h < std::min(first + kLanes, heads_); ++h) {
        LoadBoth(call_.q_nope, call_.q_rope, token_, begin_ + h, rows + (h - first) * row_);
      }
      TransposeRows(rows, row_, queries_ + first, lanes_);
    }
  }

  Sums Part(char* memory) const { return {c_, memory}; }
  Sums own_part() const { return {c_, own_part_}; }
  Sums all() const { return {c_, all_}; }

  void Clear(const Sums& s) const {
    std::fill_n(s.largest, lanes_, kLatentNoScore);
    std::fill_n(s.total, lanes_, 0.0f);
    std::fill_n(s.sums, heads_ * sums_row_, 0.0f);
  }

  // count: at most kTileRows.
  void AddTile(const KeyPlace* keys, int count, const Sums& to) {
    if (count == 0) return;
    for (int t = 0; t < count; ++t) {
      LoadBoth(call_.kv_cache, call_.rope_cache, keys[t].block, keys[t].offset, tile_ + t * row_);
    }
    Multiply(TileProduct<Element>{.a = {tile_, row_, 1},
                                  .b = queries_,
                                  .b_row = lanes_,
                                  .k0 = 0,
                                  .k1 = row_,
                                  .c = weights_,
                                  .c_row = lanes_,
                                  .add = false,
                                  .mask = Form::kAll},
             0, count, lanes_);
    for (std::int64_t h = 0; h < lanes_; h += kLanes) Weigh(h, count, to);
    const ProductValues<Element> values = Form::MakeValues(tile_, row_, count, c_, pairs_);
    for (int part = 0; part < Form::kWeightParts; ++part) {
      const auto* weights = reinterpret_cast<const Element*>(weights_ + part * lanes_);
      Multiply(TileProduct<Element>{.a = {weights, 1, Form::kWeightParts * lanes_},
                                    .b = values.rows,
                                    .b_row = values.row,
                                    .k0 = 0,
                                    .k1 = values.count,
                                    .c = to.sums,
                                    .c_row = sums_row_,
                                    .add = true,
                                    .mask = Form::kAll},
               0, heads_, values.columns);
    }
  }

  // to = to and part.
  [[gnu::noinline]] void Merge(const Sums& part, const Sums& to) const {
    float f[kLatentHeads], g[kLatentHeads];
    for (std::int64_t h = 0; h < lanes_; h += kLanes) {
      const F32 a = Load(to.largest + h), b = Load(part.largest + h), largest = Max(a, b);
      const F32 base = Base(largest), of_a = Exp(a - base), of_b = Exp(b - base);
      Store(f + h, of_a);
      Store(g + h, of_b);
      Store(to.total + h, Load(to.total + h) * of_a + Load(part.total + h) * of_b);
      Store(to.largest + h, largest);
    }
    for (std::int64_t h = 0; h < heads_; ++h) {
      float* sums = to.sums + h * sums_row_;
      const float* more = part.sums + h * sums_row_;
      const F32 of_a = Set(f[h]), of_b = Set(g[h]);
      // NaN, which a score of -inf leaves of an infinite value, stays one.
      for (std::int64_t e = 0; e < sums_row_; e += kLanes) {
        Store(sums + e, Fma(Load(more + e), of_b, Load(sums + e) * of_a));
      }
    }
  }

  void Finish(const Sums& s, const float* sinks) const {
    for (std::int64_t h = 0; h < heads_; ++h) {
      Form::OrderRow(s.sums + h * sums_row_, sums_row_);
      FinishHead(h, s, sinks);
    }
  }

 private:
  static F32 Base(F32 largest) { return Select(largest == Set(kLatentNoScore), Zero(), largest); }

  void LoadBoth(const Tensor& latent, const Tensor& rope, std::int64_t i, std::int64_t j,
                Element* to) const {
    Form::LoadRow(latent, i * latent.stride(0) + j * latent.stride(1), c_, to);
    Form::LoadRow(rope, i * rope.stride(0) + j * rope.stride(1), r_, to + Form::Row(c_));
  }

  // Products of kLanes heads become weights exp(score - largest); sums are rescaled where largest
  // grew.
  void Weigh(std::int64_t h, int count, const Sums& to) {
    float* s = weights_ + h;
    const F32 scale = Set(call_.scale), before = Load(to.largest + h);
    F32 largest = before;
    for (int t = 0; t < count; ++t) {
      const F32 score = Load(s + t * lanes_) * scale;
      Store(s + t * lanes_, score);
      largest = Max(score, largest);  // passes over NaN, which the sum takes
    }
    const F32 base = Base(largest), sum = Form::Weigh(s, lanes_, count, base);
    const F32 factor = Select(before == largest, Set(1.0f), Exp(before - base));
    Store(to.total + h, Fma(Load(to.total + h), factor, sum));
    Store(to.largest + h, largest);
    float factors[kLanes];
    Store(factors, factor);
    for (std::int64_t i = 0; i < std::min<std::int64_t>(kLanes, heads_ - h); ++i) {
      if (factors[i] == 1.0f) continue;
      float* sums = to.sums + (h + i) * sums_row_;
      for (std::int64_t e = 0; e < sums_row_; e += kLanes) {
        Store(sums + e, Load(sums + e) * Set(factors[i]));
      }
    }
  }

  void FinishHead(std::int64_t h, const Sums& of, const float* sinks) const {
    const float sink = sinks ? sinks[begin_ + h] : kLatentNoScore;
    const float before = of.largest[h], largest = std::max(sink, before);
    const float base = largest == kLatentNoScore ? 0.0f : largest;
    const float factor = std::exp((before == kLatentNoScore ? 0.0f : before) - base);
    const float total = of.total[h] * factor + std::exp(sink - base);
    if (call_.lse) {
      *call_.lse->at<float>(begin_ + h, token_) =
          total == 0 ? kLatentNoScore : base + std::log(total);
    }
    const bool is_zero = of.total[h] == 0 || (factor == 0 && total == total);
    const F32 weight = Set(is_zero ? 0.0f : factor / total);
    const float* sums = of.sums + h * sums_row_;
    VisitFloat(call_.y.type(), [&](auto zero) {
      auto* y = call_.y.at<decltype(zero)>(token_, begin_ + h);
      ForLanes(c_, [&](std::int64_t e, auto n) {
        StoreN(y + e, is_zero ? Zero() : Load(sums + e) * weight, n);
      });
    });
  }

  const LatentCall& call_;
  std::int64_t token_, begin_, heads_, lanes_, c_, r_;
  std::int64_t row_, sums_row_;  // elements of a key; of a head's sums
  Element *queries_, *tile_;
  std::uint32_t* pairs_;
  float* weights_;
  char *own_part_, *all_;
};

// Keys: Positions(token) is how many it has, -1 where it belongs to no sequence, and
// ForTiles(token, begin, end, add) calls add(places, count) for the keys at some of them, at most
// kTileRows at a time.
template <class Form, class Keys>
class LatentRun {
 public:
  // positions: the most that a token may have.
  LatentRun(const Context& ctx, const LatentCall& call, const Keys& keys, std::int64_t positions)
      : ctx_(ctx),
        call_(call),
        keys_(keys),
        group_(std::min(call.heads(), kLatentHeads)),
        groups_(group_ ? (call.heads() + group_ - 1) / group_ : 0),
        workspace_(ThreadsOf(ctx), call.tokens(), call.heads(), positions, call.q_nope.dim(2),
                   call.q_rope.dim(2)),
        placed_(ctx, workspace_) {
    double pairs = 0;
    std::int64_t most = 0;
    for (std::int64_t token = 0; token < call.tokens(); ++token) {
      const std::int64_t n = std::max<std::int64_t>(keys.Positions(token), 0);
      most = std::max(most, n);
      pairs += double(n);
    }
    parts_ = std::clamp<std::int64_t>((most + kLatentPart - 1) / kLatentPart, 1, kLatentParts);
    work_ns_ = pairs * double(2 * call.q_nope.dim(2) + call.q_rope.dim(2)) *
               (0.03 * double(call.heads()) + 0.05);
  }

  void Run() const {
    const std::int64_t items = call_.tokens() * groups_;
    if (items == 0) return;
    // Where items alone occupy the threads, one thread computes the parts of an item in turn: the
    // same parts, merged in the same order.
    if (parts_ == 1 || items >= 4 * ThreadsOf(ctx_) || ThreadsOf(ctx_) == 1 ||
        work_ns_ < kInlineNs) {
      return Claim(items, work_ns_, [&](std::int64_t i, char* scratch) { RunAll(i, scratch); });
    }
    Claim(items * parts_, work_ns_,
          [&](std::int64_t i, char* scratch) { RunPart(i / parts_, i % parts_, scratch); });
    Claim(items, work_ns_, [&](std::int64_t i, char* scratch) { MergeParts(i, scratch); });
  }

 private:
  using Rows = LatentRows<Form>;

  template <class F>
  void Claim(std::int64_t items, double work_ns, F&& run) const {
    ClaimItems(ctx_, placed_[workspace_.counter], items, work_ns,
               [&](std::int64_t i, std::int64_t slot) {
                 run(i, placed_[workspace_.scratch] + slot * workspace_.item_bytes);
               });
  }
  std::int64_t Token(std::int64_t item) const { return item / groups_; }
  Rows MakeRows(std::int64_t item, char* scratch) const {
    const std::int64_t begin = item % groups_ * group_;
    return {call_, Token(item), begin, std::min(begin + group_, call_.heads()), scratch};
  }
  char* PartMemory(std::int64_t item, std::int64_t part) const {
    return placed_[workspace_.parts] + (item * parts_ + part) * workspace_.part_bytes;
  }
  const float* Sinks(std::int64_t positions) const { return positions < 0 ? nullptr : call_.sinks; }

  void AddPart(Rows& rows, std::int64_t token, std::int64_t begin, std::int64_t end,
               const typename Rows::Sums& to) const {
    rows.Clear(to);
    keys_.ForTiles(token, begin, end,
                   [&](const KeyPlace* places, int n) { rows.AddTile(places, n, to); });
  }

  void RunAll(std::int64_t item, char* scratch) const {
    Rows rows = MakeRows(item, scratch);
    const std::int64_t positions = keys_.Positions(Token(item)), step = LatentPartOf(positions);
    rows.Clear(rows.all());
    if (positions > 0) rows.LoadQueries();
    for (std::int64_t begin = 0; begin < positions; begin += step) {
      AddPart(rows, Token(item), begin, std::min(begin + step, positions), rows.own_part());
      rows.Merge(rows.own_part(), rows.all());
    }
    rows.Finish(rows.all(), Sinks(positions));
  }

  void RunPart(std::int64_t item, std::int64_t part, char* scratch) const {
    const std::int64_t positions = keys_.Positions(Token(item)), step = LatentPartOf(positions);
    const std::int64_t begin = part * step;
    if (begin >= positions) return;
    Rows rows = MakeRows(item, scratch);
    rows.LoadQueries();
    AddPart(rows, Token(item), begin, std::min(begin + step, positions),
            rows.Part(PartMemory(item, part)));
  }
  void MergeParts(std::int64_t item, char* scratch) const {
    const Rows rows = MakeRows(item, scratch);
    const std::int64_t positions = keys_.Positions(Token(item)), step = LatentPartOf(positions);
    rows.Clear(rows.all());
    for (std::int64_t part = 0; part * step < positions; ++part) {
      rows.Merge(rows.Part(PartMemory(item, part)), rows.all());
    }
    rows.Finish(rows.all(), Sinks(positions));
  }

  const Context& ctx_;
  const LatentCall& call_;
  const Keys& keys_;
  std::int64_t group_, groups_, parts_;
  LatentWorkspace<std::int64_t> workspace_;
  Placed placed_;
  double work_ns_;
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
