// SPDX-License-Identifier: Apache-2.0
// pack_groups_u4: scales or zero points of linear_u4 as linear_u4_packed takes them.
//
//   packed[i, j] = numbers[j, i]
//
//   numbers  of row j and group i
//
// Numerics  A copy, bit for bit.
// Source    definition.

#include "anyop/op.h"

namespace anyop::ops {
namespace {

template <class T>
void Transpose(const Context& ctx, const Tensor& numbers, const Tensor& packed) {
  ctx.ForRows(packed, [&](std::int64_t i) {
    T* to = packed.base<T>() + packed.row_offset(i);
    for (std::int64_t j = 0; j < packed.dim(1); ++j) {
      to[j] = numbers.base<const T>()[numbers.row_offset(j) + i];
    }
  });
}

void Run(const Context& ctx, const Tensor& numbers, const Tensor& packed) {
  if (numbers.type() == DType::kU8) return Transpose<std::uint8_t>(ctx, numbers, packed);
  if (numbers.type() == DType::kF32) return Transpose<std::uint32_t>(ctx, numbers, packed);
  Transpose<std::uint16_t>(ctx, numbers, packed);
}

}  // namespace

ANYOP_KERNEL(pack_groups_u4){.run = Bind<&Run>()};

extern constinit const Op pack_groups_u4{
    .signature =
        "pack_groups_u4(numbers: S[n, g]) -> (packed: S[g, n]) where S in f32 | f16 | bf16 | u8",
};

}  // namespace anyop::ops
