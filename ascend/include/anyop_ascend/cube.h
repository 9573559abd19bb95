// SPDX-License-Identifier: Apache-2.0
// Names of the cube units, so that a kernel that uses them is told why it does not compile.
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
#define ANYOP_ASCEND_UNAVAILABLE __attribute__((unavailable(ANYOP_ASCEND_NO_CUBE)))
#endif
#endif
#ifndef ANYOP_ASCEND_UNAVAILABLE  // older compilers warn
#define ANYOP_ASCEND_UNAVAILABLE __attribute__((deprecated(ANYOP_ASCEND_NO_CUBE)))
#endif
struct ANYOP_ASCEND_UNAVAILABLE MmadParams;
struct ANYOP_ASCEND_UNAVAILABLE LoadData2DParams;
struct ANYOP_ASCEND_UNAVAILABLE LoadData2dParams;
struct ANYOP_ASCEND_UNAVAILABLE LoadData2dTransposeParams;
struct ANYOP_ASCEND_UNAVAILABLE LoadData2DMxParams;
struct ANYOP_ASCEND_UNAVAILABLE FixpipeParamsV220;
struct ANYOP_ASCEND_UNAVAILABLE Nd2NzParams;
struct ANYOP_ASCEND_UNAVAILABLE Nz2NdParamsFull;
template <class T>
struct ANYOP_ASCEND_UNAVAILABLE LoadData3DParamsV2;
template <class T>
struct ANYOP_ASCEND_UNAVAILABLE FixpipeParams;

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
