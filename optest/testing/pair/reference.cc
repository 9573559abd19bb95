// SPDX-License-Identifier: Apache-2.0
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, const Tensor* y, const Tensor* z) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t j = 0; j < x.row_size(); ++j) {
      const double v = Read(x, x.row_offset(r) + j);
      if (y) y->row<double>(r)[std::size_t(j)] = v;
      if (z) z->row<double>(r)[std::size_t(j)] = -v;
    }
  }
}

}  // namespace

extern constinit const Reference needs_both_reference{.op = "needs_both", .run = Bind<&Run>()};

}  // namespace anyop::ops
