// SPDX-License-Identifier: Apache-2.0
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& src, const Tensor& dst, const Tensor& mapping) {
  for (std::int64_t i = 0; i < mapping.dim(0); ++i) {
    const std::int64_t from = ReadIndex(mapping, i * mapping.stride(0));
    const std::int64_t to = ReadIndex(mapping, i * mapping.stride(0) + 1);
    if (from < 0 || to < 0) continue;
    for (std::int64_t j = 0; j < src.dim(1); ++j) {
      const double value = Read(src, from * src.stride(0) + j);
      Visit(dst.type(), [&](auto zero) {
        using E = decltype(zero);
        if constexpr (std::is_arithmetic_v<E>) *dst.at<E>(to, j) = E(value);
      });
    }
  }
}

}  // namespace

extern constinit const Reference swap_blocks_reference{.op = "swap_blocks", .run = Bind<&Run>()};

}  // namespace anyop::ops
