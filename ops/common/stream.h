// SPDX-License-Identifier: Apache-2.0
// Results that no cache will hold are written past the caches: a line that is stored to the usual
// way is read first. Where they fit, a later reader finds them there, and this would be slower:
// with 32 MiB of last cache, writing 8 MB and reading it takes 1.5 times as long, 32 MB 0.84 times.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "anyop/op.h"
#if defined(__AVX512F__)
#include <immintrin.h>
#elif defined(__x86_64__)
#include <emmintrin.h>  // a tenth of <immintrin.h>
#endif

namespace anyop::ops {
inline namespace ANYOP_ISA {

inline constexpr std::int64_t kLineBytes = 64;

#if defined(__x86_64__)
inline constexpr bool kCanStream = true;
// to: a whole line.
[[gnu::always_inline]] inline void StreamLine(char* to, const char* from) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
#else
  using V = __m128i;
  for (int i = 0; i < kLineBytes; i += 16) {
    _mm_stream_si128(reinterpret_cast<V*>(to + i), _mm_loadu_si128((const V*)(from + i)));
  }
#endif
}
// To be called before other threads may read what was streamed.
inline void EndStream() { _mm_sfence(); }
#else
inline constexpr bool kCanStream = false;
inline void StreamLine(char* to, const char* from) { std::memcpy(to, from, kLineBytes); }
inline void EndStream() {}
#endif

// The rule for a call that reads and writes `bytes` in all. One for all machines: a probe that
// times both ways in turns gives wrong answers, since each finds the caches as the other left them.
inline bool Streams(const Context& ctx, std::int64_t bytes) {
  return kCanStream && ctx.cache_kib > 0 && bytes / 1024 > ctx.cache_kib;
}

// A result over an argument: its lines have been read anyway.
inline bool SameMemory(const Tensor& x, const Tensor& y) {
  return x.base<const char>() == y.base<const char>();
}

inline void StreamCopy(void* to, const void* from, std::int64_t bytes) {
  char* t = static_cast<char*>(to);
  const char* f = static_cast<const char*>(from);
  const auto past = std::int64_t(reinterpret_cast<std::uintptr_t>(t) % kLineBytes);
  std::int64_t i = past ? std::min(bytes, kLineBytes - past) : 0;
  std::memcpy(t, f, std::size_t(i));
  for (; i + kLineBytes <= bytes; i += kLineBytes) StreamLine(t + i, f + i);
  std::memcpy(t + i, f + i, std::size_t(bytes - i));
}

// Streams to[n], made in pieces by make(piece, i, count): elements i to i + count - 1, written to
// memory that stays in the first cache.
template <class T, class F>
[[gnu::always_inline]] inline void StreamPieces(T* to, std::int64_t n, F&& make) {
  constexpr std::int64_t kPiece = 4096 / sizeof(T);
  alignas(kLineBytes) T piece[kPiece];
  for (std::int64_t i = 0; i < n;) {
    // Each piece but the last ends with a line.
    const std::int64_t past = reinterpret_cast<std::uintptr_t>(to + i) % kLineBytes / sizeof(T);
    const std::int64_t count = std::min(n - i, kPiece - past);
    make(piece, i, count);
    StreamCopy(to + i, piece, count * std::int64_t(sizeof(T)));
    i += count;
  }
}

}  // namespace ANYOP_ISA
}  // namespace anyop::ops
