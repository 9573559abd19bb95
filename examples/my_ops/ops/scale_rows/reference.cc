// SPDX-License-Identifier: Apache-2.0
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, const Tensor& factor, const Tensor& y) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t i = 0; i < x.row_size(); ++i) {
      y.row<double>(r)[std::size_t(i)] =
          Read(x, x.row_offset(r) + i) * Read(factor, factor.row_offset(r));
    }
  }
}

}  // namespace

extern constinit const Reference scale_rows_reference{.op = "scale_rows", .run = Bind<&Run>()};

}  // namespace anyop::ops
