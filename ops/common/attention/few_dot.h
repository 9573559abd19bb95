// SPDX-License-Identifier: Apache-2.0
// Decode with bf16 dot instructions, for queries of bf16 and keys and values of bf16, i8 or f8e4m3.
//
// Dot instructions take the products with keys, which are exact. Weights stay f32: they would have
// to be split into two bf16 for the values, which takes as many instructions as multiply-adds.
#pragma once
#if defined(__AVX512BF16__)
#include <cstdint>
#include <cstring>

#include "ops/common/attention/few_float.h"
#include "ops/common/attention/words.h"
#include "ops/common/dot_bf16.h"

namespace anyop::ops {
inline namespace ANYOP_ISA {

template <class C>
struct DotWords {
  static void LoadQuery(const AttentionCall& call, std::int64_t token, std::int64_t head,
                        float* q) {
    OrderWords<C>(call.query.at<const BF16>(token, head), call.query.dim(2),
                  reinterpret_cast<BF16*>(q));
  }

  template <int kN, class Used>
  [[gnu::always_inline]] static void FourDots(const C* const (&k)[4], const float* q,
                                              std::int64_t q_row, std::int64_t dk,
                                              F32 (&sum)[kN][4], Used&& used) {
#pragma GCC unroll 4
    for (int r = 0; r < kN; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) sum[r][i] = Zero();
    }
    const auto step = [&](std::int64_t e, auto n) [[gnu::always_inline]] {
      used(Int<4 * kWordBlock* int(sizeof(C))>{});
      __m512i x[4][2];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) LoadWords(k[i] + e, n, x[i]);
#pragma GCC unroll 4
      for (int r = 0; r < kN; ++r) {
        const BF16* words = reinterpret_cast<const BF16*>(q + r * q_row) + e;
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v) {
          const __m512i y = _mm512_loadu_si512(words + 32 * v);
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i) sum[r][i] = AddDots(sum[r][i], x[i][v], y);
        }
      }
    };
    std::int64_t e = 0;
    for (; e + kWordBlock <= dk; e += kWordBlock) step(e, kAll);
    if (e < dk) step(e, int(dk - e));
  }

  template <class F>
  [[gnu::always_inline]] static void ForColumns(std::int64_t dv, F&& f) {
    std::int64_t e = 0;
    for (; e + kWordBlock <= dv; e += kWordBlock) f(e, Int<4>{}, kAll);
    if (e < dv) f(e, Int<4>{}, int(dv - e));
  }
  // The even and the odd words of each vector of 32.
  template <class N>
  [[gnu::always_inline]] static void LoadValues(const C* v, N n, F32 (&x)[4]) {
    __m512i words[2];
    LoadWords(v, n, words);
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      x[2 * i].v = _mm512_castsi512_ps(_mm512_slli_epi32(words[i], 16));
      x[2 * i + 1].v =
          _mm512_castsi512_ps(_mm512_and_si512(words[i], _mm512_set1_epi32(int(0xffff0000))));
    }
  }
  static void FinishSums(float* sums, std::int64_t row) {
    for (float* to = sums; to < sums + row; to += kWordBlock) {
      float in[kWordBlock];
      std::memcpy(in, to, sizeof(in));
      for (int i = 0; i < kWordBlock; ++i) {
        const int word = words::At<C>(i / 8) + i % 8;
        to[i] = in[word / 32 * 32 + word % 2 * kLanes + word % 32 / 2];
      }
    }
  }
};

template <class C>
using DotRows = FewRows<C, DotWords<C>>;

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
#endif
