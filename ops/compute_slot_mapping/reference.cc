// SPDX-License-Identifier: Apache-2.0
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& query_start_loc, const Tensor& positions,
         const Tensor& block_table, std::int64_t block_size, const Tensor& slot_mapping) {
  for (std::int64_t i = 0; i < positions.dim(0); ++i) {
    std::int64_t slot = -1;
    const std::int64_t pos = ReadIndex(positions, i);
    for (std::int64_t s = 0; s < block_table.dim(0); ++s) {
      const bool is_mine =
          ReadIndex(query_start_loc, s) <= i && i < ReadIndex(query_start_loc, s + 1);
      if (!is_mine || pos < 0) continue;
      const std::int64_t entry = s * block_table.stride(0) + pos / block_size;
      const std::int64_t block = ReadIndex(block_table, entry);
      if (block >= 0) slot = block * block_size + pos % block_size;
    }
    *slot_mapping.at<std::int64_t>(i) = slot;
  }
}

}  // namespace

extern constinit const Reference compute_slot_mapping_reference{.op = "compute_slot_mapping",
                                                                .run = Bind<&Run>()};

}  // namespace anyop::ops
