// SPDX-License-Identifier: Apache-2.0
// What scale should compute, in double: read by tests and checks only.
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, double factor, const Tensor& y) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t i = 0; i < x.row_size(); ++i) {
      y.row<double>(r)[std::size_t(i)] = Read(x, x.row_offset(r) + i) * factor;
    }
  }
}

}  // namespace

extern constinit const Reference scale_reference{.op = "scale", .run = Bind<&Run>()};

}  // namespace anyop::ops
