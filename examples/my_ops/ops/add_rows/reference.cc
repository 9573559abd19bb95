// SPDX-License-Identifier: Apache-2.0
#include "anyop/op.h"

namespace anyop::ops {
namespace {

// table: f64, with the values of the argument in the beginning and those of the result in the end.
void Run(const Context&, const Tensor& table, const Tensor& ids, const Tensor& rows) {
  for (std::int64_t i = 0; i < rows.dim(0); ++i) {
    const std::int64_t id = ReadIndex(ids, i);
    for (std::int64_t k = 0; id >= 0 && k < rows.dim(1); ++k) {
      *table.at<double>(id, k) += Read(rows, i * rows.stride(0) + k);
    }
  }
}

}  // namespace

extern constinit const Reference add_rows_reference{.op = "add_rows", .run = Bind<&Run>()};

}  // namespace anyop::ops
