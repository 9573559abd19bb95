// SPDX-License-Identifier: Apache-2.0
// What kernels print of themselves. Each line begins with the number of the block.
#pragma once
#include <cstdio>  // kernels print by its functions as well

#include "anyop_ascend/sync.h"

#ifndef ASCENDC_DUMP  // packages turn printing off by 0, as with the vendor's compiler
#define ASCENDC_DUMP 1
#endif

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {
namespace anyop_printing {

constexpr bool kIsOn = ASCENDC_DUMP != 0;

// As the formats %f and %g take it.
template <class T>
inline auto Passed(T value) {
  if constexpr (std::is_same<T, half>::value || std::is_same<T, bfloat16_t>::value) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return value;
  }
}

}  // namespace anyop_printing

template <class... A>
inline void PRINTF(const char* format, A... arguments) {
  if (anyop_printing::kIsOn) rt::Print(format, anyop_printing::Passed(arguments)...);
}
template <class... A>
inline void printf(const char* format, A... arguments) {
  PRINTF(format, arguments...);
}

// The first elements of a tensor, with a number by which the author knows the place.
template <class T>
inline void DumpTensor(const LocalTensor<T>& tensor, std::uint32_t desc, std::uint32_t elements,
                       ANYOP_ASCEND_SITE) {
  if (!anyop_printing::kIsOn) return;
  if (kChecked && !rt::CheckSpan(tensor.span(), 0, elements * sizeof(T), 1, site)) return;
  rt::PrintDump({tensor.data(), elements, Letter<T>(), desc, true}, site);
}
template <class T>
inline void DumpTensor(const GlobalTensor<T>& tensor, std::uint32_t desc, std::uint32_t elements,
                       ANYOP_ASCEND_SITE) {
  if (anyop_printing::kIsOn) {
    rt::PrintDump({tensor.data(), elements, Letter<T>(), desc, false}, site);
  }
}
template <class Tensor, class Shape, class = std::enable_if_t<std::is_class<Shape>::value>>
inline void DumpTensor(const Tensor& tensor, std::uint32_t desc, std::uint32_t elements,
                       const Shape&, ANYOP_ASCEND_SITE) {
  DumpTensor(tensor, desc, elements, site);
}
template <class Tensor>
inline void DumpAccChkPoint(const Tensor& tensor, std::uint32_t index, std::uint32_t first,
                            std::uint32_t elements, ANYOP_ASCEND_SITE) {
  DumpTensor(tensor[first], index, elements, site);
}

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
