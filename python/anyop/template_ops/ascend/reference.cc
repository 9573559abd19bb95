// SPDX-License-Identifier: Apache-2.0
// What my_operator should compute, in double: read by tests and checks only.
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Compute(const Context&, const Tensor& x, const Tensor& gate, double scale, const Tensor& y) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t i = 0; i < x.row_size(); ++i) {
      y.base<double>()[y.row_offset(r) + i] =
          scale * Read(x, x.row_offset(r) + i) * Read(gate, gate.row_offset(r) + i);
    }
  }
}

}  // namespace

extern constinit const Reference my_operator_reference{.op = "my_operator",
                                                       .run = Bind<&Compute>()};

}  // namespace anyop::ops
