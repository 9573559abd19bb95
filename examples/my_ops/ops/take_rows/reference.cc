// SPDX-License-Identifier: Apache-2.0
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& table, const Tensor& ids, const Tensor& y) {
  for (std::int64_t i = 0; i < y.dim(0); ++i) {
    const std::int64_t id = ReadIndex(ids, i);
    for (std::int64_t k = 0; k < y.dim(1); ++k) {
      *y.at<double>(i, k) = id < 0 ? 0 : Read(table, id * table.stride(0) + k);
    }
  }
}

}  // namespace

extern constinit const Reference take_rows_reference{.op = "take_rows", .run = Bind<&Run>()};

}  // namespace anyop::ops
