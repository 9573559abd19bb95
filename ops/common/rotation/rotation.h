// SPDX-License-Identifier: Apache-2.0
// Rotation of pairs of elements by a table of cosines and sines, for one token at a time: its row
// of the table is widened to f32 once, then every head is rotated by it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "anyop/op.h"
#include "anyop/simd.h"
#include "ops/common/store_pair.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

// neox pairs (z[j], z[q + j]), gptj pairs (z[2j], z[2j+1]).
enum class PairStyle { kNeox, kGptj };

// Pairs prepared at a time: 4 KB each of cosines and sines, for any rotated width.
inline constexpr std::int64_t kPairBlock = 512;

// The lanes of a in another order.
template <int... kFrom>
[[gnu::always_inline]] inline F32 Shuffle(F32 a, std::integer_sequence<int, kFrom...>) {
  return {__builtin_shufflevector(a.v, a.v, kFrom...)};
}
template <int... kLane>
constexpr auto Neighbours(std::integer_sequence<int, kLane...>) {
  return std::integer_sequence<int, (kLane ^ 1)...>{};
}
template <int kFirst, int... kLane>
constexpr auto Doubled(std::integer_sequence<int, kLane...>) {
  return std::integer_sequence<int, (kFirst + kLane / 2)...>{};
}
using LaneNumbers = std::make_integer_sequence<int, kLanes>;

// Cosines and sines of up to kPairBlock pairs. gptj: every value twice, sines as -s, s, so that a
// rotated vector is x * c + (x with neighbours swapped) * s.
struct PairTable {
  alignas(64) float c[2 * kPairBlock + kLanes];
  alignas(64) float s[2 * kPairBlock + kLanes];

  template <class C>
  void Prepare(const C* cosines, const C* sines, std::int64_t pairs, PairStyle style,
               bool inverse) {
    const F32 sign = Set(inverse ? -1.0f : 1.0f);
    if (style == PairStyle::kNeox) {
      ForLanes(pairs, [&](std::int64_t j, auto n) {
        Store(c + j, LoadN(cosines + j, n));
        Store(s + j, LoadN(sines + j, n) * sign);
      });
      return;
    }
    alignas(64) float signs[kLanes];
    for (int i = 0; i < kLanes; ++i) signs[i] = (i % 2 == 0) != inverse ? -1.0f : 1.0f;
    const F32 alternate = Load(signs);
    constexpr auto kLow = Doubled<0>(LaneNumbers{});
    constexpr auto kHigh = Doubled<kLanes / 2>(LaneNumbers{});
    ForLanes(pairs, [&](std::int64_t j, auto n) {
      const F32 cj = LoadN(cosines + j, n), sj = LoadN(sines + j, n);
      Store(c + 2 * j, Shuffle(cj, kLow));
      Store(c + 2 * j + kLanes, Shuffle(cj, kHigh));
      Store(s + 2 * j, Shuffle(sj, kLow) * alternate);
      Store(s + 2 * j + kLanes, Shuffle(sj, kHigh) * alternate);
    });
  }
};

// The heads of one token, [heads, d]; from == to where it is rotated in place.
template <class T>
struct Heads {
  const T* from;
  T* to;
  std::int64_t heads, from_stride, to_stride;
};

// Vectors of cosines, and as many of sines, that stay in registers while the heads pass by. Heads
// that fit go through memory once, in order; larger ones go as often as there are parts of them,
// which takes 3 times as long for 42 MB.
inline constexpr int kHeldVectors = kLanes == 16 ? 4 : 2;

template <int N, class T>
[[gnu::always_inline]] inline void StorePairs(T* to, const F32 (&v)[N]) {
  lanes::Each<N / 2>([&](int k) { StorePair(to + 2 * k * kLanes, v[2 * k], v[2 * k + 1]); });
}

// Rotates N vectors of pairs of every head, from pair j on.
template <int N, class T>
[[gnu::always_inline]] inline void RotateNeoxPart(const Heads<T>& x, std::int64_t j,
                                                  std::int64_t half, const PairTable& table) {
  F32 c[N], s[N], minus_s[N];
  LoadAll(c, table.c + j, kFull);
  LoadAll(s, table.s + j, kFull);
  lanes::Each<N>([&](int k) { minus_s[k] = Zero() - s[k]; });
  const T* from = x.from + j;
  T* to = x.to + j;
  for (std::int64_t h = 0; h < x.heads; ++h, from += x.from_stride, to += x.to_stride) {
    F32 a[N], b[N], rotated[N];
    LoadAll(a, from, kFull);
    LoadAll(b, from + half, kFull);
    lanes::Each<N>([&](int k) { rotated[k] = Fma(b[k], minus_s[k], a[k] * c[k]); });
    StorePairs(to, rotated);
    lanes::Each<N>([&](int k) { rotated[k] = Fma(a[k], s[k], b[k] * c[k]); });
    StorePairs(to + half, rotated);
  }
}

template <class T>
void RotateNeox(const Heads<T>& x, std::int64_t pairs, std::int64_t half, const PairTable& table) {
  std::int64_t j = 0;
  for (; j + kHeldVectors * kLanes <= pairs; j += kHeldVectors * kLanes) {
    RotateNeoxPart<kHeldVectors>(x, j, half, table);
  }
  if (kHeldVectors > 2 && j + 2 * kLanes <= pairs) {
    RotateNeoxPart<2>(x, j, half, table);
    j += 2 * kLanes;
  }
  for (; j < pairs; j += kLanes) {
    const int n = int(std::min<std::int64_t>(kLanes, pairs - j));
    const F32 c = Load(table.c + j), s = Load(table.s + j), minus_s = Zero() - s;
    const T* from = x.from + j;
    T* to = x.to + j;
    for (std::int64_t h = 0; h < x.heads; ++h, from += x.from_stride, to += x.to_stride) {
      const F32 a = LoadN(from, n), b = LoadN(from + half, n);
      StoreN(to, Fma(b, minus_s, a * c), n);
      StoreN(to + half, Fma(a, s, b * c), n);
    }
  }
}

[[gnu::always_inline]] inline F32 RotateGptj(F32 z, F32 c, F32 s) {
  return Fma(Shuffle(z, Neighbours(LaneNumbers{})), s, z * c);
}

// Rotates N vectors of elements of every head, from element j on.
template <int N, class T>
[[gnu::always_inline]] inline void RotateGptjPart(const Heads<T>& x, std::int64_t j,
                                                  const PairTable& table) {
  F32 c[N], s[N];
  LoadAll(c, table.c + j, kFull);
  LoadAll(s, table.s + j, kFull);
  const T* from = x.from + j;
  T* to = x.to + j;
  for (std::int64_t h = 0; h < x.heads; ++h, from += x.from_stride, to += x.to_stride) {
    F32 z[N];
    LoadAll(z, from, kFull);
    lanes::Each<N>([&](int k) { z[k] = RotateGptj(z[k], c[k], s[k]); });
    StorePairs(to, z);
  }
}

template <class T>
void RotateGptj(const Heads<T>& x, std::int64_t pairs, const PairTable& table) {
  std::int64_t j = 0;
  for (; j + kHeldVectors * kLanes <= 2 * pairs; j += kHeldVectors * kLanes) {
    RotateGptjPart<kHeldVectors>(x, j, table);
  }
  if (kHeldVectors > 2 && j + 2 * kLanes <= 2 * pairs) {
    RotateGptjPart<2>(x, j, table);
    j += 2 * kLanes;
  }
  for (; j < 2 * pairs; j += kLanes) {
    const int n = int(std::min<std::int64_t>(kLanes, 2 * pairs - j));
    const F32 c = Load(table.c + j), s = Load(table.s + j);
    const T* from = x.from + j;
    T* to = x.to + j;
    for (std::int64_t h = 0; h < x.heads; ++h, from += x.from_stride, to += x.to_stride) {
      StoreN(to, RotateGptj(LoadN(from, n), c, s), n);
    }
  }
}

// How every token of a call is rotated.
class Rotation {
 public:
  Rotation(const Tensor* positions, const Tensor& cos_sin_cache, std::int64_t offset,
           std::string_view style, bool inverse)
      : positions_(positions),
        table_(cos_sin_cache),
        half_(cos_sin_cache.dim(1) / 2),
        offset_(offset),
        style_(style == "neox" ? PairStyle::kNeox : PairStyle::kGptj),
        inverse_(inverse) {}

  // The table row of a token; negative: it is not rotated.
  std::int64_t row(std::int64_t token) const {
    return positions_ ? ReadIndex(*positions_, token) : token;
  }
  std::int64_t offset() const { return offset_; }
  std::int64_t width() const { return 2 * half_; }

  // Rotates heads by table row `row`. The part of each head that is not rotated is not touched.
  template <class T, class... More>
  void Apply(std::int64_t row, const Heads<T>& heads, const More&... more) const {
    Visit(table_.type(), [&](auto zero) {
      using C = decltype(zero);
      if constexpr (std::is_same_v<C, float> || std::is_same_v<C, BF16> || std::is_same_v<C, F16>) {
        ApplyBlocks<T>(table_.base<const C>() + row * table_.stride(0), {heads, more...});
      }
    });
  }

 private:
  template <class T, class C>
  void ApplyBlocks(const C* w, std::initializer_list<Heads<T>> all) const {
    PairTable block;
    for (std::int64_t j = 0; j < half_; j += kPairBlock) {
      const std::int64_t pairs = std::min(kPairBlock, half_ - j);
      block.Prepare(w + j, w + half_ + j, pairs, style_, inverse_);
      for (Heads<T> x : all) {
        const std::int64_t first = offset_ + (style_ == PairStyle::kNeox ? j : 2 * j);
        x.from += first;
        x.to += first;
        if (style_ == PairStyle::kNeox) {
          RotateNeox(x, pairs, half_, block);
        } else {
          RotateGptj(x, pairs, block);
        }
      }
    }
  }

  const Tensor* positions_;
  const Tensor& table_;
  std::int64_t half_, offset_;
  PairStyle style_;
  bool inverse_;
};

// The heads of token i of x, [t, h, d], to be written to the same place of y.
template <class T>
Heads<T> HeadsOf(const Tensor& x, const Tensor& y, std::int64_t i) {
  return {x.base<const T>() + i * x.stride(0), y.base<T>() + i * y.stride(0), x.dim(1), x.stride(1),
          y.stride(1)};
}

// Tokens worth 2 us: 10 elements a nanosecond, and 10 ns for each token.
inline std::int64_t TokenGrain(std::int64_t elements_per_token) {
  return 20000 / (elements_per_token + 100) + 1;
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
