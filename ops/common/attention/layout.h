// SPDX-License-Identifier: Apache-2.0
// The memory that attention works in: how many rows and keys are computed at once, and where
// queries, scores and sums lie.
#pragma once
#include <cstdint>

#include "ops/common/workspace.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

inline constexpr int kTile = 64;              // neighbouring key positions
inline constexpr int kManyRows = 64;          // query rows of an item of many
inline constexpr int kFewQueries = 16;        // query rows of each key head of an item of few
inline constexpr int kFewHeads = 8;           // key heads of an item, at most
inline constexpr int kScoreRow = kTile + 16;  // floats; a group of 4 keys may write beyond 64
inline constexpr std::int64_t kSplit = 512;   // key positions

// Rows of f32 are multiples of this long, those of few rows multiples of 64: a kernel takes so many
// elements at a time, and reads and writes no rest of a row.
inline constexpr std::int64_t kPad = 16;
template <class N>
constexpr N Padded(const N& width) {
  return N(kPad) * CeilDiv(width, N(kPad));
}
template <class N>
constexpr N FewRow(const N& width) {
  return N(64) * CeilDiv(width, N(64));
}

// Scratch of an item of few rows: `rows` of each head, a multiple of 4.
template <class N>
struct FewScratch : Workspace<N> {
  N q_row, v_row;
  Part<float, N> queries;       // [heads, rows, q_row]
  Part<float, N> scores;        // [rows, kScoreRow], of one head
  Part<float, N> sums, totals;  // [heads, rows, v_row]
  constexpr FewScratch(N heads, N rows, N dk, N dv)
      : q_row(FewRow(dk)),
        v_row(FewRow(dv)),
        queries(this->template Add<float>(heads * rows * q_row)),
        scores(this->template Add<float>(N(kFewQueries * kScoreRow))),
        sums(this->template Add<float>(heads * rows * v_row)),
        totals(this->template Add<float>(heads * rows * v_row)) {}
};

// The form of keys and values that many rows compute with: its element, and the number of elements
// in a row of a key, and in a row of values and of sums.
struct FloatShape {
  using Element = float;
  static constexpr int kKeysPerValue = 1;
  static constexpr int kWeightParts = 1;  // whose sum a weight is
  template <class N>
  static constexpr N KeyRow(const N& dk) {
    return Padded(dk);
  }
  template <class N>
  static constexpr N ValueRow(const N& dv) {
    return Padded(dv);
  }
};
// Two bf16, the first in the lower half.
enum class WordPair : std::uint32_t { kFirst = 0xffff, kSecond = 0xffff0000, kBoth = 0xffffffff };
struct DotShape {
  using Element = WordPair;
  static constexpr int kKeysPerValue = 2;
  static constexpr int kWeightParts = 2;
  template <class N>
  static constexpr N KeyRow(const N& dk) {
    return N(32) * CeilDiv(dk, N(64));
  }
  template <class N>
  static constexpr N ValueRow(const N& dv) {
    return FewRow(dv);
  }
};
#if defined(__AVX512BF16__)
using ManyShape = DotShape;
#else
using ManyShape = FloatShape;
#endif

// Scratch of an item of many rows.
template <class N>
struct ManyScratch : Workspace<N> {
  using Element = ManyShape::Element;
  N k_row, v_row;
  Part<Element, N> queries, keys;                                      // [k_row, 64] [64, k_row]
  Part<Element, N> values;                                             // [64 or 32, v_row]
  Part<float, N> sums, scores;                                         // [64, v_row] [64, 64]
  Part<float, N> largest, total, factor, begin, end, distance, slope;  // [64]
  constexpr ManyScratch(N dk, N dv)
      : k_row(ManyShape::KeyRow(dk)),
        v_row(ManyShape::ValueRow(dv)),
        queries(this->template Add<Element>(N(kManyRows) * k_row)),
        keys(this->template Add<Element>(N(kTile) * k_row)),
        values(this->template Add<Element>(N(kTile / ManyShape::kKeysPerValue) * v_row)),
        sums(this->template Add<float>(N(kManyRows) * v_row)),
        scores(this->template Add<float>(N(kTile * kManyRows))),
        largest(this->template Add<float>(N(kManyRows))),
        total(this->template Add<float>(N(kManyRows))),
        factor(this->template Add<float>(N(kManyRows))),
        begin(this->template Add<float>(N(kManyRows))),
        end(this->template Add<float>(N(kManyRows))),
        distance(this->template Add<float>(N(kManyRows))),
        slope(this->template Add<float>(N(kManyRows))) {}
};

// The sizes of a call; keys: the most of a sequence.
template <class N>
struct AttentionDims {
  N threads, sequences, tokens, heads, key_heads, keys, dk, dv;
};

template <class N>
struct AttentionWorkspace : Workspace<N> {
  N part_rows, part_row;          // of a part: rows of a head; floats of a row
  N item_bytes;                   // of an item's scratch
  Part<std::int64_t, N> counter;  // one: the next item
  Part<std::int64_t, N> starts;   // [sequences + 1]: the first item of each
  Part<char, N> scratch;          // [threads][item_bytes]
  Part<float, N> parts;           // [splits][key_heads][part_rows][part_row]
  // `parts` is used where keys are split: where all rows are few, and items fewer than four for
  // each thread.
  constexpr explicit AttentionWorkspace(const AttentionDims<N>& s)
      : part_rows(Min(N(kFewQueries), s.tokens * (s.heads / s.key_heads))),
        part_row(FewRow(s.dv) + N(kPad)),
        item_bytes(Max(ManyScratch<N>(s.dk, s.dv).bytes(),
                       FewScratch<N>(Min(s.key_heads, N(kFewHeads)),
                                     N(4) * CeilDiv(part_rows, N(4)), s.dk, s.dv)
                           .bytes())),
        counter(this->template Add<std::int64_t>(N(1))),
        starts(this->template Add<std::int64_t>(s.sequences + N(1))),
        scratch(this->template Add<char>(s.threads * item_bytes)),
        parts(this->template Add<float>(Min(s.tokens, N(4) * s.threads) * s.key_heads * part_rows *
                                        CeilDiv(s.keys, N(kSplit)) * part_row)) {}
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
