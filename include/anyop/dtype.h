// SPDX-License-Identifier: Apache-2.0
// Element types: their numbers, names, sizes, and the storage formats that C++20 lacks and kernels
// compute with. Those of the other dtypes are in storage.h.
#pragma once
#include <bit>
#include <cstdint>
#include <string_view>

#include "anyop/abi.h"

namespace anyop {

// All of it is made of the one list, ANYOP_DTYPE_LIST of abi.h.
enum class DType : std::uint8_t {
#define ANYOP_DTYPE_NUMBER(number, name, ...) k##name = ANYOP_##number,
  ANYOP_DTYPE_LIST(ANYOP_DTYPE_NUMBER)
#undef ANYOP_DTYPE_NUMBER
};
inline constexpr int kDTypes = ANYOP_DTYPES;

enum class DTypeKind : std::uint8_t { kFloat, kInt, kUint, kBool, kComplex, kPair };

struct DTypeRow {
  std::string_view name;  // "bf16"
  const char* long_name;  // "bfloat16": in NumPy, PyTorch, JAX and MindSpore
  DTypeKind kind;
  std::string_view safetensors;
};
inline constexpr DTypeRow kDTypeRows[kDTypes] = {
#define ANYOP_DTYPE_ROW(number, id, name, long_name, kind, code, bits, lanes, safetensors) \
  {name, long_name, DTypeKind::k##kind, safetensors},
    ANYOP_DTYPE_LIST(ANYOP_DTYPE_ROW)
#undef ANYOP_DTYPE_ROW
};
// Apart and dense, because calls search them.
inline constexpr DLDataType kDLDataTypes[kDTypes] = {
#define ANYOP_DTYPE_DL(number, id, name, long_name, kind, code, bits, lanes, ...) \
  {code, bits, lanes},
    ANYOP_DTYPE_LIST(ANYOP_DTYPE_DL)
#undef ANYOP_DTYPE_DL
};

// The dtypes that a signature takes without naming them, f64 to bool. The others came later and are
// taken only where one names them, so that no kernel which was written before them meets one.
inline constexpr int kFirstDTypes = ANYOP_BOOL8 + 1;

// Of one element, for instance of a pair.
constexpr int Bytes(DLDataType t) { return t.bits * t.lanes / 8; }
// Of an element's address; the halves of a complex number lie as a C++ program aligns them.
constexpr int AlignmentOf(DLDataType t) { return Bytes(t) > 8 ? 8 : Bytes(t); }
constexpr DLDataType ToDL(DType d) { return kDLDataTypes[int(d)]; }
constexpr std::string_view Name(DType d) { return kDTypeRows[int(d)].name; }
constexpr int Bytes(DType d) { return Bytes(ToDL(d)); }
constexpr DTypeKind KindOf(DType d) { return kDTypeRows[int(d)].kind; }
// Of one number for each element, neither complex nor a pair.
constexpr bool IsFloat(DType d) { return KindOf(d) == DTypeKind::kFloat; }
// -1 for a text that is no dtype's name. Most texts that are looked up, while a signature is
// compiled too, are no dtypes and begin with another letter.
constexpr int FindDType(std::string_view name) {
  if (name.empty() || std::string_view("bcfiu").find(name[0]) == name.npos) return -1;
  for (int i = 0; i < kDTypes; ++i) {
    if (kDTypeRows[i].name == name) return i;
  }
  return -1;
}
// -1 for a dtype that anyop has no name for.
constexpr int FromDL(DLDataType t) {
  for (int i = 0; i < kDTypes; ++i) {
    const DLDataType& k = kDLDataTypes[i];
    if (k.code == t.code && k.bits == t.bits && k.lanes == t.lanes) return i;
  }
  return -1;
}

// Storage formats. Construction from float rounds half to even; conversion to float is exact.
// always_inline: a file with a wider instruction set must not leave a copy of a function, which the
// linker might take for all files.
#define ANYOP_INLINE [[gnu::always_inline]] inline constexpr

struct BF16 {
  std::uint16_t bits;
  BF16() = default;
  ANYOP_INLINE explicit BF16(float f) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(f);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    // A NaN gets a bit that stays: those of its upper half may all be 0, which would be infinity.
    bits = std::uint16_t(nan ? (u >> 16) | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);
  }
  ANYOP_INLINE explicit operator float() const {
    return std::bit_cast<float>(std::uint32_t(bits) << 16);
  }
};

struct F16 {
  std::uint16_t bits;
  F16() = default;
  ANYOP_INLINE explicit F16(float f) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(f), a = u & 0x7fffffffu;
    const std::uint32_t sign = u >> 16 & 0x8000;
    if (a > 0x7f800000u) {
      bits = std::uint16_t(sign | 0x7e00 | (a >> 13 & 0x3ff));
    } else if (a >= 0x477ff000u) {  // 65520 and above round to infinity
      bits = std::uint16_t(sign | 0x7c00);
    } else if (a < 0x38800000u) {  // below 2^-14: adding 0.5 lines the ulp up with 2^-24
      const float r = std::bit_cast<float>(a) + 0.5f;
      bits = std::uint16_t(sign | (std::bit_cast<std::uint32_t>(r) - 0x3f000000u));
    } else {  // from bias 127 to 15; 0xfff and the last bit that is kept round half to even
      bits = std::uint16_t(sign | ((a - 0x38000000u + 0xfff + (a >> 13 & 1)) >> 13));
    }
  }
  ANYOP_INLINE explicit operator float() const {
    const std::uint32_t sign = std::uint32_t(bits & 0x8000) << 16, m = bits & 0x7fff;
    // A NaN becomes a quiet one, as the conversion instructions do: all kernels give the same bits.
    if (m > 0x7c00) return std::bit_cast<float>(sign | 0x7fc00000u | (m & 0x3ff) << 13);
    if (m == 0x7c00) return std::bit_cast<float>(sign | 0x7f800000u);
    if (m >= 0x400) return std::bit_cast<float>(sign | ((m << 13) + 0x38000000u));
    const float s = float(m) * 0x1p-24f;
    return sign ? -s : s;
  }
};

// 1-4-3 bits, bias 7, no infinities, NaN 0x7f and 0xff, largest 448. Saturates unless told not to;
// NaN stays NaN.
struct F8E4M3 {
  std::uint8_t bits;
  F8E4M3() = default;
  ANYOP_INLINE explicit F8E4M3(float f, bool saturate = true) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(f), a = u & 0x7fffffffu;
    const std::uint32_t sign = u >> 24 & 0x80;
    if (a > 0x7f800000u) {
      bits = std::uint8_t(sign | 0x7f);
    } else if (a > 0x43e80000u) {  // beyond 464, the tie above 448
      bits = std::uint8_t(sign | (saturate ? 0x7e : 0x7f));
    } else if (a < 0x3c800000u) {  // below 2^-6: adding 2^14 lines the ulp up with 2^-9
      const float r = std::bit_cast<float>(a) + 0x1p14f;
      bits = std::uint8_t(sign | (std::bit_cast<std::uint32_t>(r) - 0x46800000u));
    } else {
      const std::uint32_t m = (a - 0x3c000000u + 0x7ffff + (a >> 20 & 1)) >> 20;
      bits = std::uint8_t(sign | (m > 0x7e ? 0x7e : m));
    }
  }
  ANYOP_INLINE explicit operator float() const {
    const std::uint32_t sign = std::uint32_t(bits & 0x80) << 24, m = bits & 0x7f;
    if (m == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000u);
    if (m >= 8) return std::bit_cast<float>(sign | ((m << 20) + 0x3c000000u));
    const float s = float(m) * 0x1p-9f;
    return sign ? -s : s;
  }
};

// 1-5-2 bits, bias 15, infinity 0x7c, largest 57344: the upper byte of an f16, rounded once.
struct F8E5M2 {
  std::uint8_t bits;
  F8E5M2() = default;
  ANYOP_INLINE explicit F8E5M2(float f, bool saturate = true) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(f), a = u & 0x7fffffffu;
    const std::uint32_t sign = u >> 24 & 0x80;
    if (a > 0x7f800000u) {
      bits = std::uint8_t(sign | 0x7e);
    } else if (a >= 0x47700000u) {  // 61440 and above
      bits = std::uint8_t(sign | (saturate ? 0x7b : 0x7c));
    } else if (a < 0x38800000u) {  // below 2^-14: adding 2^7 lines the ulp up with 2^-16
      const float r = std::bit_cast<float>(a) + 0x1p7f;
      bits = std::uint8_t(sign | (std::bit_cast<std::uint32_t>(r) - 0x43000000u));
    } else {
      bits = std::uint8_t(sign | ((a - 0x38000000u + 0xfffff + (a >> 21 & 1)) >> 21));
    }
  }
  ANYOP_INLINE explicit operator float() const {
    return float(std::bit_cast<F16>(std::uint16_t(bits << 8)));
  }
};
static_assert(sizeof(BF16) == 2 && sizeof(F16) == 2 && sizeof(F8E4M3) == 1 && sizeof(F8E5M2) == 1);

template <class T>
inline constexpr int kDTypeOf = -1;
template <>
inline constexpr int kDTypeOf<double> = ANYOP_F64;
template <>
inline constexpr int kDTypeOf<float> = ANYOP_F32;
template <>
inline constexpr int kDTypeOf<F16> = ANYOP_F16;
template <>
inline constexpr int kDTypeOf<BF16> = ANYOP_BF16;
template <>
inline constexpr int kDTypeOf<F8E4M3> = ANYOP_F8E4M3;
template <>
inline constexpr int kDTypeOf<F8E5M2> = ANYOP_F8E5M2;
template <>
inline constexpr int kDTypeOf<std::int64_t> = ANYOP_I64;
template <>
inline constexpr int kDTypeOf<std::int32_t> = ANYOP_I32;
template <>
inline constexpr int kDTypeOf<std::int16_t> = ANYOP_I16;
template <>
inline constexpr int kDTypeOf<std::int8_t> = ANYOP_I8;
template <>
inline constexpr int kDTypeOf<std::uint8_t> = ANYOP_U8;
template <>
inline constexpr int kDTypeOf<bool> = ANYOP_BOOL8;

// Calls f with a value of the C++ type behind `d`, one of the dtypes f64 to bool. VisitStorage of
// storage.h has all of them: each is an instantiation more.
template <class F>
[[gnu::always_inline]] inline decltype(auto) Visit(DType d, F&& f) {
  switch (d) {
    case DType::kF64:
      return f(double{});
    case DType::kF32:
      return f(float{});
    case DType::kF16:
      return f(F16{});
    case DType::kBF16:
      return f(BF16{});
    case DType::kF8E4M3:
      return f(F8E4M3{});
    case DType::kF8E5M2:
      return f(F8E5M2{});
    case DType::kI64:
      return f(std::int64_t{});
    case DType::kI32:
      return f(std::int32_t{});
    case DType::kI16:
      return f(std::int16_t{});
    case DType::kI8:
      return f(std::int8_t{});
    case DType::kU8:
      return f(std::uint8_t{});
    default:
      return f(bool{});
  }
}
// The same for an index tensor (i32 or i64).
template <class F>
[[gnu::always_inline]] inline decltype(auto) VisitIndex(DType d, F&& f) {
  return d == DType::kI64 ? f(std::int64_t{}) : f(std::int32_t{});
}

}  // namespace anyop
