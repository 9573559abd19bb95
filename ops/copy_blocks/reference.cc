// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, std::span<const Tensor* const> caches, const Tensor& mapping) {
  for (const Tensor* cache : caches) {
    const std::int64_t element = Bytes(cache->type()), pitch = cache->stride(0) * element;
    for (std::int64_t i = 0; i < mapping.dim(0); ++i) {
      const std::int64_t from = ReadIndex(mapping, i * mapping.stride(0));
      const std::int64_t to = ReadIndex(mapping, i * mapping.stride(0) + 1);
      if (from < 0 || to < 0 || from == to) continue;
      std::memcpy(cache->base<char>() + to * pitch, cache->base<char>() + from * pitch,
                  std::size_t(cache->dim(1) * element));
    }
  }
}

}  // namespace

extern constinit const Reference copy_blocks_reference{.op = "copy_blocks", .run = Bind<&Run>()};

}  // namespace anyop::ops
