// SPDX-License-Identifier: Apache-2.0
// Names of the cube units and of collectives, so that a kernel that uses them is told why it does
// not compile.
#pragma once
#include "anyop_ascend/tensor.h"

#define ANYOP_ASCEND_NO_CUBE                                                                 \
  "the cube units (Mmad, Matmul, LoadData, Fixpipe) are not modelled here: only kernels of " \
  "vector "                                                                                  \
  "units can be checked and run"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {

template <class...>
constexpr bool kIsModelled = false;

#define ANYOP_ASCEND_CUBE_FUNCTION(Name)                    \
  template <class... Explicit, class... A>                  \
  inline void Name(const A&...) {                           \
    static_assert(kIsModelled<A...>, ANYOP_ASCEND_NO_CUBE); \
  }
ANYOP_ASCEND_CUBE_FUNCTION(Mmad)
ANYOP_ASCEND_CUBE_FUNCTION(MmadWithSparse)
ANYOP_ASCEND_CUBE_FUNCTION(LoadData)
ANYOP_ASCEND_CUBE_FUNCTION(LoadDataWithTranspose)
ANYOP_ASCEND_CUBE_FUNCTION(LoadDataWithSparse)
ANYOP_ASCEND_CUBE_FUNCTION(Fixpipe)
ANYOP_ASCEND_CUBE_FUNCTION(SetFixPipeConfig)
ANYOP_ASCEND_CUBE_FUNCTION(BroadCastVecToMM)
ANYOP_ASCEND_CUBE_FUNCTION(InitConstValue)
#undef ANYOP_ASCEND_CUBE_FUNCTION

// Parameters of these instructions: mentioning one is enough.
#if defined(__has_attribute)
#if __has_attribute(unavailable)
#define ANYOP_ASCEND_UNAVAILABLE(why) __attribute__((unavailable(why)))
#endif
#endif
#ifndef ANYOP_ASCEND_UNAVAILABLE  // older compilers warn
#define ANYOP_ASCEND_UNAVAILABLE(why) __attribute__((deprecated(why)))
#endif
struct ANYOP_ASCEND_UNAVAILABLE(ANYOP_ASCEND_NO_CUBE) MmadParams;
struct ANYOP_ASCEND_UNAVAILABLE(ANYOP_ASCEND_NO_CUBE) LoadData2DParams;
struct ANYOP_ASCEND_UNAVAILABLE(ANYOP_ASCEND_NO_CUBE) LoadData2dParams;
struct ANYOP_ASCEND_UNAVAILABLE(ANYOP_ASCEND_NO_CUBE) LoadData2dTransposeParams;
struct ANYOP_ASCEND_UNAVAILABLE(ANYOP_ASCEND_NO_CUBE) LoadData2DMxParams;
struct ANYOP_ASCEND_UNAVAILABLE(ANYOP_ASCEND_NO_CUBE) FixpipeParamsV220;
struct ANYOP_ASCEND_UNAVAILABLE(ANYOP_ASCEND_NO_CUBE) Nd2NzParams;
struct ANYOP_ASCEND_UNAVAILABLE(ANYOP_ASCEND_NO_CUBE) Nz2NdParamsFull;
template <class T>
struct ANYOP_ASCEND_UNAVAILABLE(ANYOP_ASCEND_NO_CUBE) LoadData3DParamsV2;
template <class T>
struct ANYOP_ASCEND_UNAVAILABLE(ANYOP_ASCEND_NO_CUBE) FixpipeParams;

// Collectives, which need more than one device.
enum HcclServerType { HCCL_SERVER_TYPE_AICPU, HCCL_SERVER_TYPE_CCU, HCCL_SERVER_TYPE_END };
template <HcclServerType type = HCCL_SERVER_TYPE_AICPU>
struct ANYOP_ASCEND_UNAVAILABLE(
    "collectives (Hccl) are not modelled here: only kernels of one "
    "device can be checked and run") Hccl;

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
