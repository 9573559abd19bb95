// SPDX-License-Identifier: Apache-2.0
// Cuts attention_backward into items and runs them.
//
// An item is a chunk of the keys of one sequence and one key head, by all rows: it owns dkey and
// dvalue of its keys, and writes one part of dquery. The number of chunks depends on the sizes
// alone, and parts are added in order, so results do not depend on the number of threads.
#pragma once
#include <algorithm>
#include <cstdint>

#include "ops/attention/backward_rows.h"
#include "ops/common/attention/run.h"
#include "ops/common/claim.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// The most chunks of a sequence's keys: 12 items for each sequence where heads allow.
template <class N>
constexpr N MostChunks(const N& key_heads) {
  return Min(N(4), CeilDiv(N(12), key_heads));
}

template <class N>
struct BackwardWorkspace : Workspace<N> {
  N item_bytes;                   // of an item's scratch
  Part<std::int64_t, N> counter;  // one: the next item
  Part<std::int64_t, N> starts;   // [sequences + 1]: the first item of each
  Part<char, N> scratch;          // [threads][item_bytes]
  Part<float, N> parts;           // [chunks][tokens][heads][padded dk]: of dquery
  // What the forward takes, where it runs for its lse:
  Part<float, N> lse;  // [heads][tokens]
  Part<char, N> y;     // [tokens][heads][dv]
  Part<char, N> forward;
  // runs_forward: 0 or 1; element_bytes: of y.
  constexpr BackwardWorkspace(const AttentionDims<N>& s, N runs_forward, N element_bytes)
      : item_bytes(BackwardScratch<N>(s.keys, s.dk, s.dv).bytes()),
        counter(this->template Add<std::int64_t>(N(1))),
        starts(this->template Add<std::int64_t>(s.sequences + N(1))),
        scratch(this->template Add<char>(s.threads * item_bytes)),
        parts(
            this->template Add<float>(MostChunks(s.key_heads) * s.tokens * s.heads * Padded(s.dk))),
        lse(this->template Add<float>(runs_forward * s.heads * s.tokens)),
        y(this->template Add<char>(runs_forward * s.tokens * s.heads * s.dv * element_bytes)),
        forward(this->template Add<char>(runs_forward * AttentionWorkspace<N>(s).bytes())) {}
};

template <class T>
class BackwardRun {
 public:
  BackwardRun(const Context& ctx, const AttentionCall& forward, const Tensor& dy,
              const Tensor* dlse, const Tensor* dquery, const Tensor* dkey, const Tensor* dvalue,
              const Placed& placed, const BackwardWorkspace<std::int64_t>& layout)
      : ctx_(ctx),
        call_{forward, dy, dlse, dquery, dkey, dvalue, nullptr},
        placed_(placed),
        layout_(layout) {
    call_.parts = placed[layout.parts];
    starts_ = placed[layout.starts];
    PlanItems();
  }

  void Run() {
    char* scratch = placed_[layout_.scratch];
    const auto run = [&](std::int64_t i, std::int64_t slot) {
      RunItem(i, scratch + slot * layout_.item_bytes);
    };
    ClaimItems(ctx_, placed_[layout_.counter], starts_[call_.forward.sequences], work_ns_, run);
    ClearPadding();
    if (call_.dquery) AddParts();
  }

 private:
  std::int64_t heads() const { return call_.forward.store.heads(); }

  // Keys of a chunk, a multiple of 64.
  std::int64_t ChunkKeys(const Sequence& s) const {
    const std::int64_t tiles = (s.keys + kTile - 1) / kTile, most = MostChunks(heads());
    return std::max<std::int64_t>((tiles + most - 1) / most, 1) * kTile;
  }
  std::int64_t Chunks(const Sequence& s) const {
    return (s.keys + ChunkKeys(s) - 1) / ChunkKeys(s);
  }
  Range Chunk(const Sequence& s, std::int64_t chunk) const {
    return {chunk * ChunkKeys(s), std::min((chunk + 1) * ChunkKeys(s), s.keys)};
  }

  // starts_[s] is the first item of sequence s.
  void PlanItems() {
    std::int64_t items = 0;
    const double width = double(call_.forward.query.dim(2) + call_.dy.dim(2));
    for (std::int64_t i = 0; i < call_.forward.sequences; ++i) {
      const Sequence s = call_.forward.sequence(i);
      starts_[i] = items;
      items += Chunks(s) * heads();
      // Per pair: 5 flops per element at 50 a ns, for each query head.
      work_ns_ += double(s.keys) * width * (double(s.queries * call_.forward.heads()) * 0.1 + 1);
    }
    starts_[call_.forward.sequences] = items;
  }

  void RunItem(std::int64_t index, char* scratch) const {
    const std::int64_t *first = starts_, *end = first + call_.forward.sequences + 1;
    const std::int64_t s = std::upper_bound(first, end, index) - first - 1;
    const Sequence sequence = call_.forward.sequence(s);
    // The first keys are seen by the most rows: they go first.
    const std::int64_t chunk = (index - starts_[s]) / heads();
    BackwardRows<T>(call_, sequence, (index - starts_[s]) % heads(), scratch)
        .Run(Chunk(sequence, chunk), chunk);
  }

  // Keys that belong to no sequence have no gradient.
  void ClearPadding() const {
    const KeyStore& store = call_.forward.store;
    for (const Tensor* t : {call_.dkey, call_.dvalue}) {
      if (!t) continue;
      const std::int64_t begin = ReadIndex(store.extent, call_.forward.sequences);
      for (std::int64_t token = begin; token < t->dim(0); ++token) {
        for (std::int64_t h = 0; h < t->dim(1); ++h) {
          std::fill_n(t->at<T>(token, h), t->dim(2), T{});
        }
      }
    }
  }

  // dquery is the sum of the parts of the chunks that a row's block saw; 0 beyond the sequences.
  void AddParts() const {
    const AttentionCall& forward = call_.forward;
    const std::int64_t width = forward.heads() * Padded(forward.query.dim(2));
    ctx_.ParallelFor(
        forward.query.dim(0), 8000 / (width + 1) + 1, [&](std::int64_t b, std::int64_t e) {
          std::int64_t s = 0;
          for (std::int64_t token = b; token < e; ++token) {
            while (s < forward.sequences && ReadIndex(*forward.query_start_loc, s + 1) <= token)
              ++s;
            for (std::int64_t h = 0; h < forward.heads(); ++h) AddParts(s, token, h);
          }
        });
  }
  void AddParts(std::int64_t s, std::int64_t token, std::int64_t head) const {
    const AttentionCall& forward = call_.forward;
    const float* part[4];
    int parts = 0;
    if (s < forward.sequences) {
      const Sequence sequence = forward.sequence(s);
      const std::int64_t group = forward.group(), rows = sequence.queries * group;
      const std::int64_t row = (token - sequence.query_begin) * group + head % group;
      const std::int64_t block = row / kBackwardRows * kBackwardRows;
      const Range seen = call_.Seen(sequence, block, std::min(block + kBackwardRows, rows));
      for (std::int64_t c = 0; c < Chunks(sequence); ++c) {
        if (Intersect(seen, Chunk(sequence, c)).size())
          part[parts++] = call_.QueryPart(c, token, head);
      }
    }
    T* to = call_.dquery->at<T>(token, head);
    ForLanes(forward.query.dim(2), [&](std::int64_t e, auto n) [[gnu::always_inline]] {
      F32 sum = Zero();
      for (int c = 0; c < parts; ++c) sum += Load(part[c] + e);
      StoreN(to + e, sum, n);
    });
  }

  const Context& ctx_;
  BackwardCall call_;
  const Placed& placed_;
  const BackwardWorkspace<std::int64_t>& layout_;
  std::int64_t* starts_;
  double work_ns_ = 0;
};

// dsinks[h] = -sum over the tokens of exp(sinks[h] - lse) D, in rising order.
template <class T>
inline void SumSinks(const Context& ctx, const BackwardCall& call, const Tensor& dsinks) {
  const AttentionCall& forward = call.forward;
  const std::int64_t tokens = forward.tokens();
  const std::int64_t grain = 2000 / (tokens * (call.dy.dim(2) / 8 + 20) + 1) + 1;
  ctx.ParallelFor(forward.heads(), grain, [&](std::int64_t b, std::int64_t e) {
    for (std::int64_t h = b; h < e; ++h) {
      float sum = 0;
      for (std::int64_t t = 0; forward.options.sinks && t < tokens; ++t) {
        const float lse = *forward.lse->at<const float>(h, t);
        if (lse == kNoScore) continue;  // sees nothing, and its y may be no number
        sum -= std::exp(forward.options.sinks[h] - lse) * SharedGradient<T>(call, t, h);
      }
      *dsinks.at<float>(h) = sum;
    }
  });
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
