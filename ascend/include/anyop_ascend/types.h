// SPDX-License-Identifier: Apache-2.0
// Element types, positions and enumerations of the dialect.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "anyop_ascend/core.h"

using half = _Float16;

struct bfloat16_t {
  std::uint16_t bits;

  bfloat16_t() = default;
  bfloat16_t(float value) {  // NOLINT: kernels rely on it
    std::uint32_t word;
    std::memcpy(&word, &value, 4);
    const bool is_nan = (word & 0x7fffffff) > 0x7f800000;
    const std::uint32_t rounded = (word + 0x7fff + ((word >> 16) & 1)) >> 16;
    bits = static_cast<std::uint16_t>(is_nan ? word >> 16 | 0x40 : rounded);
  }
  bfloat16_t(double value) : bfloat16_t(static_cast<float>(value)) {}  // NOLINT
  template <class I, class = std::enable_if_t<std::is_integral<I>::value>>
  explicit bfloat16_t(I value) : bfloat16_t(static_cast<float>(value)) {}
  operator float() const {  // NOLINT
    const std::uint32_t word = std::uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &word, 4);
    return value;
  }
};

enum pipe_t : std::uint8_t {
  PIPE_S,
  PIPE_V,
  PIPE_M,
  PIPE_MTE1,
  PIPE_MTE2,
  PIPE_MTE3,
  PIPE_FIX,
  PIPE_ALL = 8
};
enum event_t : int {
  EVENT_ID0,
  EVENT_ID1,
  EVENT_ID2,
  EVENT_ID3,
  EVENT_ID4,
  EVENT_ID5,
  EVENT_ID6,
  EVENT_ID7
};
enum pad_t { PAD_NONE, PAD_MODE1, PAD_MODE2 };
using TEventID = std::int8_t;

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {
namespace rt = ::anyop_ascend;
using ::TEventID;

constexpr bool kChecked = ANYOP_ASCEND_CHECKED != 0;

// Scalars of vector instructions: callers pass 0 for a half and int for an int64.
template <class T>
struct AnyopNotDeducedType {
  using type = T;
};
template <class T>
using AnyopNotDeduced = typename AnyopNotDeducedType<T>::type;

enum class TPosition : std::uint8_t {
  GM,
  A1,
  A2,
  B1,
  B2,
  C1,
  C2,
  CO1,
  CO2,
  VECIN,
  VECOUT,
  VECCALC,
  LCM = VECCALC,
  SPM,
  SHM = SPM,
  TSCM,
  C2PIPE2GM,
  C2PIPE2LOCAL,
  MAX
};
using QuePosition = TPosition;

constexpr rt::Memory MemoryOf(TPosition position) {
  switch (position) {
    case TPosition::VECIN:
    case TPosition::VECOUT:
    case TPosition::VECCALC:
      return rt::kUb;
    case TPosition::A1:
    case TPosition::B1:
    case TPosition::C1:
    case TPosition::TSCM:
      return rt::kL1;
    case TPosition::A2:
      return rt::kL0A;
    case TPosition::B2:
      return rt::kL0B;
    case TPosition::CO1:
      return rt::kL0C;
    case TPosition::CO2:
      return rt::kCo2;
    case TPosition::SPM:
      return rt::kShared;
    case TPosition::GM:
      return rt::kStaged;
    default:
      return rt::kBias;
  }
}

// The two pipes of an event: its value is 16 * from + to.
enum class HardEvent : int {
#define ANYOP_ASCEND_EVENT(a, b) a##_##b = rt::k##a * 16 + rt::k##b
  ANYOP_ASCEND_EVENT(MTE2, MTE1),
  ANYOP_ASCEND_EVENT(MTE1, MTE2),
  ANYOP_ASCEND_EVENT(MTE1, M),
  ANYOP_ASCEND_EVENT(M, MTE1),
  ANYOP_ASCEND_EVENT(MTE2, V),
  ANYOP_ASCEND_EVENT(V, MTE2),
  ANYOP_ASCEND_EVENT(MTE3, V),
  ANYOP_ASCEND_EVENT(V, MTE3),
  ANYOP_ASCEND_EVENT(M, V),
  ANYOP_ASCEND_EVENT(V, M),
  ANYOP_ASCEND_EVENT(V, V),
  ANYOP_ASCEND_EVENT(MTE3, MTE1),
  ANYOP_ASCEND_EVENT(MTE1, MTE3),
  ANYOP_ASCEND_EVENT(MTE1, V),
  ANYOP_ASCEND_EVENT(V, MTE1),
  ANYOP_ASCEND_EVENT(MTE2, M),
  ANYOP_ASCEND_EVENT(M, MTE2),
  ANYOP_ASCEND_EVENT(V, S),
  ANYOP_ASCEND_EVENT(S, V),
  ANYOP_ASCEND_EVENT(S, MTE2),
  ANYOP_ASCEND_EVENT(MTE2, S),
  ANYOP_ASCEND_EVENT(S, MTE3),
  ANYOP_ASCEND_EVENT(MTE3, S),
  ANYOP_ASCEND_EVENT(MTE2, MTE3),
  ANYOP_ASCEND_EVENT(MTE3, MTE2),
  ANYOP_ASCEND_EVENT(MTE1, S),
  ANYOP_ASCEND_EVENT(S, MTE1),
  ANYOP_ASCEND_EVENT(M, S),
  ANYOP_ASCEND_EVENT(S, M),
  ANYOP_ASCEND_EVENT(M, FIX),
  ANYOP_ASCEND_EVENT(FIX, M),
  ANYOP_ASCEND_EVENT(FIX, S),
  ANYOP_ASCEND_EVENT(S, FIX),
  ANYOP_ASCEND_EVENT(FIX, MTE2),
  ANYOP_ASCEND_EVENT(MTE2, FIX),
  ANYOP_ASCEND_EVENT(FIX, MTE3),
  ANYOP_ASCEND_EVENT(FIX, V),
  MAX = 255
#undef ANYOP_ASCEND_EVENT
};

enum class RoundMode : int {
  CAST_NONE,
  CAST_RINT,
  CAST_FLOOR,
  CAST_CEIL,
  CAST_ROUND,
  CAST_TRUNC,
  CAST_ODD
};
enum class CMPMODE : std::uint8_t { LT, GT, EQ, LE, GE, NE };
enum class SELMODE : std::uint8_t {
  VSEL_CMPMASK_SPR,
  VSEL_TENSOR_SCALAR_MODE,
  VSEL_TENSOR_TENSOR_MODE
};
enum class MaskMode : std::uint8_t { NORMAL, COUNTER };
enum class ReduceOrder : std::uint8_t {
  ORDER_VALUE_INDEX,
  ORDER_INDEX_VALUE,
  ORDER_ONLY_VALUE,
  ORDER_ONLY_INDEX
};
enum class CacheLine : std::uint64_t { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum class DcciDst : std::uint64_t { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };
enum class MemDsbT : std::uint64_t { ALL, DDR, UB, SEQ };
enum class DeqScale : std::uint8_t { DEQ_NONE, DEQ, VDEQ };
enum class BlockMode : std::uint8_t { BLOCK_MODE_NORMAL, BLOCK_MODE_MATRIX, BLOCK_MODE_VECTOR };
enum class Hardware : std::uint8_t { GM, UB, L1, L0A, L0B, L0C, BIAS, FIXBUF };
enum class CacheMode : std::uint8_t {
  CACHE_MODE_DISABLE,
  CACHE_MODE_NORMAL,
  CACHE_MODE_LAST,
  CACHE_MODE_PERSISTENT
};

// The letter of a type, as kernel_table.h lists those of parameters.
template <class P>
constexpr char Letter() {
  if (std::is_pointer<P>::value) return 'p';
  if (std::is_same<P, bool>::value) return 'b';
  if (std::is_same<P, half>::value) return 'h';
  if (std::is_same<P, bfloat16_t>::value) return 'e';
  if (std::is_same<P, float>::value) return 'f';
  if (std::is_same<P, double>::value) return 'd';
  if constexpr (std::is_integral<P>::value || std::is_enum<P>::value) {
    constexpr char kSigned[] = "cs?i???q", kUnsigned[] = "CS?I???Q";
    const bool is_signed = static_cast<P>(-1) < static_cast<P>(0);
    return is_signed ? kSigned[sizeof(P) - 1] : kUnsigned[sizeof(P) - 1];
  }
  return 't';
}

constexpr std::uint64_t MASK_PLACEHOLDER = 0;
constexpr std::int32_t DEFAULT_BLK_STRIDE = 1;
constexpr std::int32_t DEFAULT_REP_STRIDE = 8;
constexpr std::int32_t DEFAULT_BLK_NUM = 8;
constexpr std::uint8_t DEFAULT_REPEAT_STRIDE = 8;
constexpr std::int32_t ONE_BLK_SIZE = 32;
constexpr std::int32_t ONE_REPEAT_BYTE_SIZE = 256;
constexpr std::int32_t MAX_REPEAT_TIMES = 255;
constexpr std::int32_t ONE_BYTE_BIT_SIZE = 8;
constexpr std::int32_t TWO_BYTES = 2;
constexpr std::uint32_t DEFAULT_C0_SIZE = 32;
constexpr std::uint32_t TOTAL_UB_SIZE = 192 * 1024;

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
