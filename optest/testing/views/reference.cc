// SPDX-License-Identifier: Apache-2.0
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void AddInto(const Context&, const Tensor& x, const Tensor& into) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t j = 0; j < x.row_size(); ++j) {
      into.row<double>(r)[std::size_t(j)] += Read(x, x.row_offset(r) + j);
    }
  }
}

}  // namespace

extern constinit const Reference add_into_reference{.op = "add_into", .run = Bind<&AddInto>()};

}  // namespace anyop::ops
