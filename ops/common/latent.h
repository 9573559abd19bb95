// SPDX-License-Identifier: Apache-2.0
// Attention of many heads over one latent row per position, which is key and value at once: the
// absorbed form of multi-head latent attention.
//
// An item is one token and up to kLatentHeads heads. Its keys are widened to f32 a tile at a time,
// once for all of its heads. A head's bits depend neither on the others nor on threads.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/common/block_table.h"
#include "ops/common/claim.h"
#include "ops/common/elementwise.h"  // VisitFloat
#include "ops/common/row_tiles.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

inline constexpr std::int64_t kLatentHeads = 32;
inline constexpr float kLatentNoScore = -std::numeric_limits<float>::infinity();

// What an item works in: widened queries and keys, sums of values, weights and states of heads.
template <class N>
struct LatentScratch : Workspace<N> {
  Part<float, N> queries, sums, weights, largest, total, tile;
  constexpr LatentScratch(N c, N r)
      : LatentScratch(N(16) * CeilDiv(c, N(16)), N(16) * CeilDiv(r, N(16)), N(kLatentHeads)) {}

 private:
  constexpr LatentScratch(const N& latent, const N& rope, const N& heads)
      : queries(this->template Add<float>(heads * (latent + rope))),
        sums(this->template Add<float>(heads * latent)),
        weights(this->template Add<float>(heads * N(std::int64_t(kTileRows)))),
        largest(this->template Add<float>(heads)),
        total(this->template Add<float>(heads)),
        tile(this->template Add<float>(N(std::int64_t(kTileRows)) * (latent + rope))) {}
};

template <class N>
struct LatentWorkspace : Workspace<N> {
  Part<std::int64_t, N> counter;
  N item_bytes;
  Part<char, N> scratch;  // [threads, item_bytes]
  constexpr LatentWorkspace(N threads, N c, N r)
      : counter(this->template Add<std::int64_t>(N(std::int64_t{1}))),
        item_bytes(LatentScratch<N>(c, r).bytes()),
        scratch(this->template Add<char>(threads * item_bytes)) {}
};
// c and r are called so in every signature.
constexpr SizeText LatentBytes() { return LatentWorkspace<SizeText>("threads", "c", "r").bytes(); }

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

// Heads [begin, end) of one token. AddTile for its keys, then Finish.
class LatentRows {
 public:
  LatentRows(const LatentCall& call, std::int64_t token, std::int64_t begin, std::int64_t end,
             char* memory)
      : call_(call),
        token_(token),
        begin_(begin),
        heads_(end - begin),
        c_(call.q_nope.dim(2)),
        r_(call.q_rope.dim(2)),
        sums_row_(PadRow(c_)),
        width_(PadRow(c_) + PadRow(r_)) {
    const LatentScratch<std::int64_t> parts(c_, r_);
    const Placed placed(memory);
    queries_ = placed[parts.queries], sums_ = placed[parts.sums];
    weights_ = placed[parts.weights], tile_ = placed[parts.tile];
    largest_ = placed[parts.largest], total_ = placed[parts.total];
    for (std::int64_t h = 0; h < heads_; ++h) {
      WidenBoth(call.q_nope, call.q_rope, token, begin + h, queries_ + h * width_);
    }
    std::fill_n(sums_, heads_ * sums_row_, 0.0f);
    std::fill_n(largest_, heads_, kLatentNoScore);
    std::fill_n(total_, heads_, 0.0f);
  }

  // count: at most kTileRows.
  void AddTile(const KeyPlace* keys, int count) {
    if (count == 0) return;
    for (int t = 0; t < count; ++t) {
      WidenBoth(call_.kv_cache, call_.rope_cache, keys[t].block, keys[t].offset,
                tile_ + t * width_);
    }
    const FloatTile tile{tile_, width_, count};
    DotAllRows(queries_, heads_, tile, weights_);
    for (std::int64_t h = 0; h < heads_; ++h) Weigh(h, count);
    AddWeighedRows(weights_, heads_, tile, sums_, sums_row_);
  }

  void Finish(const float* sinks) {
    for (std::int64_t h = 0; h < heads_; ++h) FinishHead(h, sinks);
  }

 private:
  void WidenBoth(const Tensor& latent, const Tensor& rope, std::int64_t i, std::int64_t j,
                 float* to) const {
    WidenRow(latent, i * latent.stride(0) + j * latent.stride(1), c_, to);
    WidenRow(rope, i * rope.stride(0) + j * rope.stride(1), r_, to + sums_row_);
  }

  // Products become weights exp(score - largest); the head's sums are rescaled if largest grew.
  void Weigh(std::int64_t h, int count) {
    float* s = weights_ + h * kTileRows;
    const F32 scale = Set(call_.scale);
    F32 most = Set(kLatentNoScore);
    ForLanes(count, [&](std::int64_t i, auto n) {
      const F32 score = KeepFirst(Load(s + i) * scale, n, Set(kLatentNoScore));
      Store(s + i, score);
      most = Max(score, most);  // passes over NaN, which the sum takes
    });
    const float before = largest_[h], largest = std::max(before, ReduceMax(most));
    const float base = largest == kLatentNoScore ? 0.0f : largest;
    F32 sum = Zero();
    ForLanes(count, [&](std::int64_t i, auto) {
      const F32 p = Exp(Load(s + i) - Set(base));
      Store(s + i, p);
      sum += p;
    });
    if (largest != before) {
      const F32 factor = Set(before == kLatentNoScore ? 0.0f : std::exp(before - largest));
      float* sums = sums_ + h * sums_row_;
      // NaN, which a score of -inf leaves of an infinite value, stays one.
      for (std::int64_t e = 0; e < sums_row_; e += kLanes) Store(sums + e, Load(sums + e) * factor);
      float lanes[kLanes];
      Store(lanes, factor);
      total_[h] *= lanes[0];
      largest_[h] = largest;
    }
    total_[h] += ReduceAdd(sum);
  }

  void FinishHead(std::int64_t h, const float* sinks) {
    const float sink = sinks ? sinks[begin_ + h] : kLatentNoScore;
    const float largest = std::max(sink, largest_[h]);
    const float base = largest == kLatentNoScore ? 0.0f : largest;
    const float factor = std::exp((largest_[h] == kLatentNoScore ? 0.0f : largest_[h]) - base);
    const float total = total_[h] * factor + std::exp(sink - base);
    if (call_.lse) {
      *call_.lse->at<float>(begin_ + h, token_) =
          total == 0 ? kLatentNoScore : base + std::log(total);
    }
    const bool is_zero = total_[h] == 0 || (factor == 0 && total == total);
    const F32 weight = Set(is_zero ? 0.0f : factor / total);
    const float* sums = sums_ + h * sums_row_;
    VisitFloat(call_.y.type(), [&](auto zero) {
      auto* y = call_.y.at<decltype(zero)>(token_, begin_ + h);
      ForLanes(c_, [&](std::int64_t e, auto n) {
        StoreN(y + e, is_zero ? Zero() : Load(sums + e) * weight, n);
      });
    });
  }

  const LatentCall& call_;
  std::int64_t token_, begin_, heads_, c_, r_;
  std::int64_t sums_row_, width_;  // of a row of sums; of a query or key, latent and rope
  float *queries_, *sums_, *weights_, *largest_, *total_, *tile_;
};

// keys_of(token, tile): calls tile(places, count) for all keys of a token; false where the token
// belongs to no sequence. pairs: how many keys all tokens have together, roughly.
template <class KeysOf>
void RunLatents(const Context& ctx, const LatentCall& call, double pairs, KeysOf&& keys_of) {
  const std::int64_t heads = call.heads(), threads = ThreadsOf(ctx);
  if (call.tokens() * heads == 0) return;
  std::int64_t group = std::min(heads, kLatentHeads);
  const auto groups = [&] { return (heads + group - 1) / group; };
  while (threads > 1 && group > 4 && call.tokens() * groups() < 4 * threads) {
    group = std::max<std::int64_t>(group / 2 / 4 * 4, 4);
  }
  const std::int64_t c = call.q_nope.dim(2), r = call.q_rope.dim(2);
  const LatentWorkspace<std::int64_t> parts(ThreadsOf(ctx), c, r);
  const Placed placed(ctx, parts);
  const double ns = pairs * double(2 * c + r) * (0.04 * double(heads) + 0.05);
  const auto run = [&](std::int64_t i, std::int64_t slot) {
    const std::int64_t token = i / groups(), begin = i % groups() * group;
    LatentRows rows(call, token, begin, std::min(begin + group, heads),
                    placed[parts.scratch] + slot * parts.item_bytes);
    const bool is_used =
        keys_of(token, [&](const KeyPlace* keys, int n) { rows.AddTile(keys, n); });
    rows.Finish(is_used ? call.sinks : nullptr);
  };
  ClaimItems(ctx, placed[parts.counter], call.tokens() * groups(), ns, run);
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
