// SPDX-License-Identifier: Apache-2.0
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, const Tensor& y) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t j = 0; j < x.row_size(); ++j) {
      y.row<double>(r)[std::size_t(j)] = Read(x, x.row_offset(r) + j);
    }
  }
}

}  // namespace

extern constinit const Reference lacks_dtype_reference{.op = "lacks_dtype", .run = Bind<&Run>()};

}  // namespace anyop::ops
