// SPDX-License-Identifier: Apache-2.0
// What one attention call is: its options, its sequences, and where keys and values lie.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "anyop/op.h"
#include "ops/common/attention/tiles/tiles.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

inline constexpr float kNoScore = -std::numeric_limits<float>::infinity();

struct Range {
  std::int64_t begin, end;
  std::int64_t size() const { return std::max<std::int64_t>(end - begin, 0); }
};
inline Range Intersect(Range a, Range b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

struct AttentionOptions {
  float scale;
  bool causal;
  std::int64_t window_left, window_right;  // below 0: no bound
  float softcap;                           // 0: none
  const float* slopes;                     // [hq] or null
  const float* sinks;                      // [hq] or null

  // The keys that the query at key position p sees, of `keys` in all.
  Range Visible(std::int64_t p, std::int64_t keys) const {
    constexpr std::int64_t kFar = std::int64_t{1} << 48;  // beyond all keys; sums cannot overflow
    Range seen{0, keys};
    if (window_left >= 0) seen.begin = std::max(seen.begin, p - std::min(window_left, kFar));
    if (window_right >= 0) seen.end = std::min(seen.end, p + 1 + std::min(window_right, kFar));
    if (causal) seen.end = std::min(seen.end, p + 1);
    return seen;
  }
};

inline const float* FloatsOrNull(const Tensor* t) { return t ? t->base<const float>() : nullptr; }

inline AttentionOptions MakeOptions(std::optional<float> scale, std::int64_t width, bool causal,
                                    std::int64_t window_left, std::int64_t window_right,
                                    float softcap, const Tensor* slopes, const Tensor* sinks) {
  const float used = scale ? *scale : float(1.0 / std::sqrt(double(width)));
  return {
      used, causal, window_left, window_right, softcap, FloatsOrNull(slopes), FloatsOrNull(sinks)};
}

struct Sequence {
  std::int64_t index;
  std::int64_t query_begin, queries;
  std::int64_t keys;

  // The key position at which query i stands: the last query sees the last key.
  std::int64_t Position(std::int64_t i) const { return i + keys - queries; }
};

// Packed: keys of all sequences end to end, [tk, hkv, d]. Paged: [nb, bs, hkv, d] with a table.
struct KeyStore {
  const Tensor& keys;
  const Tensor& values;
  const Tensor* table;   // [b, mb], null: packed
  const Tensor& extent;  // packed: the start of each sequence [b+1]; paged: its length [b]
  const float* k_scale = nullptr;  // [hkv] or null
  const float* v_scale = nullptr;

  std::int64_t heads() const { return keys.dim(-2); }
  // The most keys that a sequence may have.
  std::int64_t most_keys() const { return table ? table->dim(1) * keys.dim(1) : keys.dim(0); }
  std::int64_t Count(std::int64_t sequence) const {
    if (table) return std::max<std::int64_t>(ReadIndex(extent, sequence), 0);
    return ReadIndex(extent, sequence + 1) - ReadIndex(extent, sequence);
  }
};

struct AttentionCall {
  AttentionOptions options;
  KeyStore store;
  const Tensor& query;            // [t, hq, dk]
  const Tensor* query_start_loc;  // [b+1], null: one query each
  std::int64_t sequences;
  const Tensor& y;                        // [t, hq, dv]
  const Tensor* lse;                      // [hq, t] or null
  const AttentionTiles* tiles = nullptr;  // what many rows multiply with instead of registers

  std::int64_t heads() const { return query.dim(1); }
  std::int64_t group() const { return query.dim(1) / store.heads(); }
  Sequence sequence(std::int64_t s) const {
    if (!query_start_loc) return {s, s, 1, store.Count(s)};
    const std::int64_t begin = ReadIndex(*query_start_loc, s);
    return {s, begin, ReadIndex(*query_start_loc, s + 1) - begin, store.Count(s)};
  }
  // Tokens that belong to a sequence; later ones are padding.
  std::int64_t tokens() const {
    return query_start_loc ? ReadIndex(*query_start_loc, sequences) : sequences;
  }
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
