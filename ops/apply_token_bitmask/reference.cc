// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& logits, const Tensor& bitmask, const Tensor* rows) {
  for (std::int64_t a = 0; a < bitmask.dim(0); ++a) {
    const std::int64_t r = rows ? ReadIndex(*rows, a) : a;
    for (std::int64_t j = 0; j < logits.dim(1) && r >= 0; ++j) {
      const std::int64_t word = ReadIndex(bitmask, a * bitmask.stride(0) + j / 32);
      if ((word >> (j % 32) & 1) == 0) {
        *logits.at<double>(r, j) = -std::numeric_limits<double>::infinity();
      }
    }
  }
}

}  // namespace

extern constinit const Reference apply_token_bitmask_reference{.op = "apply_token_bitmask",
                                                               .run = Bind<&Run>()};

}  // namespace anyop::ops
