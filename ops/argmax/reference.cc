// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, const Tensor& index) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    std::int64_t best = 0;
    for (std::int64_t j = 1; j < x.row_size(); ++j) {
      const double value = Read(x, x.row_offset(r) + j), old = Read(x, x.row_offset(r) + best);
      if (value > old || (std::isnan(old) && !std::isnan(value))) best = j;
    }
    index.base<std::int64_t>()[index.row_offset(r / index.row_size()) + r % index.row_size()] =
        best;
  }
}

}  // namespace

extern constinit const Reference argmax_reference{.op = "argmax", .run = Bind<&Run>()};

}  // namespace anyop::ops
