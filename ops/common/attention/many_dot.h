// SPDX-License-Identifier: Apache-2.0
// The form that keys, values and weights of many rows have for products of pairs of bf16.
//
// Two neighbouring elements of a key are a pair, and two neighbouring keys of a value and of the
// weights, which are sums of two bf16. Elements are in the order of words.h until sums are done.
#pragma once
#if defined(__AVX512BF16__)
#include <cstdint>

#include "ops/common/attention/few.h"
#include "ops/common/attention/many_float.h"
#include "ops/common/attention/words.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

template <class C>
struct DotForm : DotShape {
  static constexpr WordPair kAll = WordPair::kBoth;

  static std::int64_t KeyElements(std::int64_t dk) { return KeyRow(dk); }

  static void LoadQuery(const AttentionCall& call, std::int64_t token, std::int64_t head,
                        WordPair* row) {
    OrderWords<C>(call.query.at<const BF16>(token, head), call.query.dim(2),
                  reinterpret_cast<BF16*>(row));
  }
  static void LoadKey(const C* k, std::int64_t width, WordPair* to) {
    ForBlocks(width, [&](std::int64_t e, auto n) [[gnu::always_inline]] {
      __m512i x[2];
      LoadWords(k + e, n, x);
      _mm512_storeu_si512(to + e / 2, x[0]);
      _mm512_storeu_si512(to + e / 2 + 16, x[1]);
    });
  }
  // Keys that do not exist have zeros: their weights are 0.
  static void LoadValues(const Tile& tile, const C* values, std::int64_t width, WordPair* to,
                         std::int64_t row) {
    const std::uint64_t exists = tile.Exists();
    for (int t = 0; t < kTile; t += 2, to += row) {
      const bool first = exists >> t & 1, second = exists >> (t + 1) & 1;
      ForBlocks(width, [&](std::int64_t e, auto n) [[gnu::always_inline]] {
        __m512i a[2] = {}, b[2] = {}, pairs[4];
        if (first) LoadWords(values + tile.value[t] + e, n, a);
        if (second) LoadWords(values + tile.value[t + 1] + e, n, b);
        PairWords(a, b, pairs);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) _mm512_storeu_si512(to + e + i * kLanes, pairs[i]);
      });
    }
  }
  // Pairs of weights take the place of scores, [key / 2, 2, 64]: the upper parts, then the lower
  // ones. A key that does not exist weighs 0.
  [[gnu::always_inline]] static F32 Weigh(const Tile& tile, float* s, F32 base) {
    const std::uint64_t exists = tile.Exists();
    F32 sum = Zero();
    for (int t = 0; t < kTile; t += 2) {
      F32 p[2];
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        p[i] = exists >> (t + i) & 1 ? Exp(Load(s + (t + i) * kManyRows) - base) : Zero();
        sum += p[i];
      }
      StoreSplit(p[0], p[1], s + t * kManyRows, s + (t + 1) * kManyRows);
    }
    return sum;
  }
  static const WordPair* Weights(const float* scores) {
    return reinterpret_cast<const WordPair*>(scores);
  }
  // Lanes that begin or end within a pair take their half of it: the other may hold NaN.
  template <class F>
  [[gnu::always_inline]] static void ForValues(const Tile&, Tile::Run lanes, F&& f) {
    const int begin = lanes.begin, end = lanes.end;
    if (begin % 2) f(begin / 2, begin / 2 + 1, WordPair::kSecond);
    if ((begin + 1) / 2 < end / 2) f((begin + 1) / 2, end / 2, kAll);
    if (end % 2) f(end / 2, end / 2 + 1, WordPair::kFirst);
  }
  static void FinishSums(float* sums, std::int64_t row) {
    for (std::int64_t e = 0; e < row; e += kWordBlock) OrderSums<C>(sums + e);
  }

 private:
  template <class F>
  [[gnu::always_inline]] static void ForBlocks(std::int64_t width, F&& f) {
    std::int64_t e = 0;
    for (; e + kWordBlock <= width; e += kWordBlock) f(e, kAll64);
    if (e < width) f(e, int(width - e));
  }
  static constexpr auto kAll64 = ops::kAll;
};

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
#endif
