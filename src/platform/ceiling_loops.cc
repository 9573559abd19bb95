// SPDX-License-Identifier: Apache-2.0
#include "platform/ceiling_loops.h"

#include "platform/cpu.h"

namespace anyop {
namespace {

// Keeps `value` in a register and its computation alive.
#if defined(__x86_64__)
#define ANYOP_KEEP(value) asm volatile("" : "+x"(value))
#define ANYOP_REGISTER "v"
#define ANYOP_12_STEPS(instruction) ANYOP_12(instruction " %12, %12, %", "\n\t")
#else
#define ANYOP_KEEP(value) asm volatile("" : "+w"(value))
#define ANYOP_REGISTER "w"
#define ANYOP_12_STEPS(instruction) ANYOP_12(instruction " %", ".4s, %12.4s, %12.4s\n\t")
#endif

// A macro, because a template cannot carry a target, and a vector operation in a function without
// the target is taken apart before it could be inlined into one with it.
#define ANYOP_MEMORY_LOOPS(suffix, target, vector_bytes)                      \
  target void Read##suffix(const char* p, std::int64_t bytes) {               \
    using V [[gnu::vector_size(vector_bytes)]] = long long;                   \
    V a = {}, b = {}, c = {}, d = {};                                         \
    const V* v = reinterpret_cast<const V*>(p);                               \
    for (const V* end = v + bytes / vector_bytes; v != end; v += 4) {         \
      a |= v[0], b |= v[1], c |= v[2], d |= v[3];                             \
    }                                                                         \
    a |= b | c | d;                                                           \
    asm volatile("" : : "m"(a));                                              \
  }                                                                           \
  target void Copy##suffix(char* to, const char* from, std::int64_t bytes) {  \
    using V [[gnu::vector_size(vector_bytes)]] = long long;                   \
    const V* s = reinterpret_cast<const V*>(from);                            \
    V* d = reinterpret_cast<V*>(to);                                          \
    for (const V* end = s + bytes / vector_bytes; s != end; s += 4, d += 4) { \
      V a = s[0], b = s[1], e = s[2], f = s[3];                               \
      ANYOP_KEEP(a); /* or the loop becomes a call of memcpy */               \
      d[0] = a, d[1] = b, d[2] = e, d[3] = f;                                 \
    }                                                                         \
    asm volatile("" : : : "memory");                                          \
  }

// Twelve accumulators in registers; %12 is the source of them all. In assembly, because the
// compiler copied the addend into a register before every fused multiply-add of 64-bit Arm.
#define ANYOP_12(start, end)                                                                \
  start "0" end start "1" end start "2" end start "3" end start "4" end start "5" end start \
        "6" end start "7" end start "8" end start "9" end start "10" end start "11" end

#define ANYOP_RATE_LOOP(name, target, vector_bytes, instruction)                                  \
  target void name(std::int64_t rounds) {                                                         \
    using V [[gnu::vector_size(vector_bytes)]] = float;                                           \
    V x = {}, a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x, i = x, j = x, k = x, l = x; \
    for (; rounds > 0; --rounds) {                                                                \
      asm volatile(ANYOP_12_STEPS(instruction)                                                    \
                   : "+" ANYOP_REGISTER(a), "+" ANYOP_REGISTER(b), "+" ANYOP_REGISTER(c),         \
                     "+" ANYOP_REGISTER(d), "+" ANYOP_REGISTER(e), "+" ANYOP_REGISTER(f),         \
                     "+" ANYOP_REGISTER(g), "+" ANYOP_REGISTER(h), "+" ANYOP_REGISTER(i),         \
                     "+" ANYOP_REGISTER(j), "+" ANYOP_REGISTER(k), "+" ANYOP_REGISTER(l)          \
                   : ANYOP_REGISTER(x));                                                          \
    }                                                                                             \
  }

#define ANYOP_NO_TARGET
ANYOP_MEMORY_LOOPS(Portable, ANYOP_NO_TARGET, 16)

#if defined(__aarch64__)
ANYOP_RATE_LOOP(FmaPortable, ANYOP_NO_TARGET, 16, "fmla")
#else
// Multiplies, then adds: without flags for its features, x86 code has no fused instruction.
void FmaPortable(std::int64_t rounds) {
  using V [[gnu::vector_size(16)]] = float;
  V x = {}, a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x, i = x, j = x, k = x, l = x;
  const auto step = [&](V& v) {
    v = v * x + x;
    ANYOP_KEEP(v);
  };
  for (; rounds > 0; --rounds) {
    step(a), step(b), step(c), step(d), step(e), step(f);
    step(g), step(h), step(i), step(j), step(k), step(l);
  }
}
#endif

#if defined(__x86_64__)
#define ANYOP_AVX2 [[gnu::target("avx2,fma")]]
#define ANYOP_AVX512 [[gnu::target("avx512f")]]
ANYOP_MEMORY_LOOPS(Avx2, ANYOP_AVX2, 32)
ANYOP_MEMORY_LOOPS(Avx512, ANYOP_AVX512, 64)
ANYOP_RATE_LOOP(FmaAvx2, ANYOP_AVX2, 32, "vfmadd231ps")
ANYOP_RATE_LOOP(FmaAvx512, ANYOP_AVX512, 64, "vfmadd231ps")
// {vex}: without it the assembler takes the encoding of AVX-512, which these processors lack.
ANYOP_RATE_LOOP(Int8DotAvx2, ANYOP_AVX2, 32, "%{vex%} vpdpbusd")
ANYOP_RATE_LOOP(Int8DotAvx512, ANYOP_AVX512, 64, "vpdpbusd")
ANYOP_RATE_LOOP(Bf16DotAvx512, ANYOP_AVX512, 64, "vdpbf16ps")

// Twelve products of tiles of 16 rows of 64 bytes, in four sums: all that eight tile registers
// hold, with two sources on each side.
void Bf16DotTiles(std::int64_t rounds) {
  struct alignas(64) {
    std::uint8_t palette = 1, start = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } shapes;
  asm volatile("ldtilecfg %0" : : "m"(shapes));
#define ANYOP_TILE(i) "tilezero %%tmm" #i "\n\t"
  asm volatile(ANYOP_TILE(0) ANYOP_TILE(1) ANYOP_TILE(2) ANYOP_TILE(3) ANYOP_TILE(4) ANYOP_TILE(5)
                   ANYOP_TILE(6) ANYOP_TILE(7)
               :
               :);
#undef ANYOP_TILE
  for (; rounds > 0; --rounds) {
#define ANYOP_4_PRODUCTS                 \
  "tdpbf16ps %%tmm4, %%tmm6, %%tmm0\n\t" \
  "tdpbf16ps %%tmm5, %%tmm6, %%tmm1\n\t" \
  "tdpbf16ps %%tmm4, %%tmm7, %%tmm2\n\t" \
  "tdpbf16ps %%tmm5, %%tmm7, %%tmm3\n\t"
    asm volatile(ANYOP_4_PRODUCTS ANYOP_4_PRODUCTS ANYOP_4_PRODUCTS : :);
#undef ANYOP_4_PRODUCTS
  }
  asm volatile("tilerelease" : :);
}
#endif

}  // namespace

CeilingLoops WidestLoops() {
#if defined(__x86_64__)
  if (HasFeature("avx512f")) {
    const bool has_tiles = HasFeature("amx_tile") && HasFeature("amx_bf16");
    return {ReadAvx512,
            CopyAvx512,
            FmaAvx512,
            has_tiles                   ? Bf16DotTiles
            : HasFeature("avx512_bf16") ? Bf16DotAvx512
                                        : nullptr,
            HasFeature("avx512_vnni") ? Int8DotAvx512 : nullptr,
            64,
            has_tiles};
  }
  if (HasFeature("avx2") && HasFeature("fma")) {
    return {ReadAvx2, CopyAvx2, FmaAvx2, nullptr, HasFeature("avx_vnni") ? Int8DotAvx2 : nullptr,
            32};
  }
#endif
  return {ReadPortable, CopyPortable, FmaPortable, nullptr, nullptr, 16};
}

}  // namespace anyop
