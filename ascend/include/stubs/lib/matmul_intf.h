// SPDX-License-Identifier: Apache-2.0
// A header that kernels include for all extended functions. Its own subject, matrix products by the
// cube units, is refused where it is used.
#pragma once
#include "anyop_ascend/extended.h"
#include "kernel_operator.h"

namespace matmul {

enum class CubeFormat : std::uint8_t { ND, NZ, ZN, ZZ, NN, ND_ALIGN, SCALAR, VECTOR };
template <AscendC::TPosition position, CubeFormat format, class T, bool isTrans = false>
struct MatmulType {};
template <class... A>
class Matmul {
  static_assert(AscendC::kIsModelled<A...>, ANYOP_ASCEND_NO_CUBE);
};
template <class... A>
using MatmulImpl = Matmul<A...>;

}  // namespace matmul

namespace AscendC {
using matmul::CubeFormat;
using matmul::Matmul;
using matmul::MatmulImpl;
using matmul::MatmulType;
}  // namespace AscendC

struct ANYOP_ASCEND_UNAVAILABLE(ANYOP_ASCEND_NO_CUBE) TCubeTiling;

#define REGIST_MATMUL_OBJ(...) static_assert(false, ANYOP_ASCEND_NO_CUBE)
