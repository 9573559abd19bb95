// SPDX-License-Identifier: Apache-2.0
// Qualifiers, builtins and macros that kernels use without a namespace.
#pragma once
#include "anyop_ascend/print.h"

#define __aicore__
#define __global__ __attribute__((visibility("default"), used))
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __inout_pipe__(pipe)
#define __simd_vf__
#define __aiv__
#define __aic__
#define __mix__(...)
#define GM_ADDR __gm__ std::uint8_t*
#define __CCE_AICORE__ 220
#define __DAV_C220_VEC__ 1
#define __DAV_VEC__ 1
#define K_MAX_SHAPE_DIM 8
// With parentheses: kernels write `if ASCEND_IS_AIV {`.
#define ASCEND_IS_AIV (true)
#define ASCEND_IS_AIC (false)

#define block_idx (::AscendC::GetBlockIdx())
#define block_num (::AscendC::GetBlockNum())
#define ENABLE_PRINTF()
#define ANYOP_ASCEND_HERE ::anyop_ascend::Site(__FILE__, __LINE__)
#define ASCENDC_ASSERT(condition, ...)                                                             \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      ::anyop_ascend::Report("assert", ANYOP_ASCEND_HERE, "ASSERT(%s) does not hold", #condition); \
    }                                                                                              \
  } while (0)
#ifndef ASSERT
#define ASSERT(...) ASCENDC_ASSERT((__VA_ARGS__))
#endif

inline void set_flag(pipe_t from, pipe_t to, int id, ANYOP_ASCEND_SITE) {
  if (ANYOP_ASCEND_CHECKED) {
    anyop_ascend::SetFlag(anyop_ascend::Pipe(from), anyop_ascend::Pipe(to), id, site);
  }
}
inline void wait_flag(pipe_t from, pipe_t to, int id, ANYOP_ASCEND_SITE) {
  if (ANYOP_ASCEND_CHECKED) {
    anyop_ascend::WaitFlag(anyop_ascend::Pipe(from), anyop_ascend::Pipe(to), id, site);
  }
}
inline void pipe_barrier(pipe_t pipe, ANYOP_ASCEND_SITE) {
  if (ANYOP_ASCEND_CHECKED) anyop_ascend::Barrier(anyop_ascend::Pipe(pipe), site);
}
inline void set_mask_norm() { AscendC::SetMaskNorm(); }
inline void set_mask_count() { AscendC::SetMaskCount(); }
inline void set_vector_mask(std::uint64_t high, std::uint64_t low) {
  AscendC::SetVectorMask<float>(high, low);
}
inline std::int64_t get_block_idx() { return AscendC::GetBlockIdx(); }
inline std::int64_t get_block_num() { return AscendC::GetBlockNum(); }

// Builtins of the vendor's compiler: their arguments may differ in type.
template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  using C = std::common_type_t<A, B>;
  return static_cast<C>(a) < static_cast<C>(b) ? static_cast<C>(a) : static_cast<C>(b);
}
template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  using C = std::common_type_t<A, B>;
  return static_cast<C>(a) < static_cast<C>(b) ? static_cast<C>(b) : static_cast<C>(a);
}

// Collectives are not modelled; tiling structs hold these.
struct Mc2InitTiling {
  std::uint8_t opaque[64];
};
struct Mc2CcTiling {
  std::uint8_t opaque[280];
};

// The vendor's framework makes the namespace visible, and kernels rely on it.
namespace AscendC {}
using namespace AscendC;  // NOLINT
