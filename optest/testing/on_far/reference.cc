// SPDX-License-Identifier: Apache-2.0
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, const Tensor& y) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t j = 0; j < x.row_size(); ++j) {
      y.row<double>(r)[std::size_t(j)] = 2 * Read(x, x.row_offset(r) + j);
    }
  }
}

}  // namespace

extern constinit const Reference far_right_reference{.op = "far_right", .run = Bind<&Run>()};
extern constinit const Reference far_writes_behind_reference{.op = "far_writes_behind",
                                                             .run = Bind<&Run>()};
extern constinit const Reference far_writes_before_reference{.op = "far_writes_before",
                                                             .run = Bind<&Run>()};
extern constinit const Reference far_leaves_the_last_reference{.op = "far_leaves_the_last",
                                                               .run = Bind<&Run>()};
extern constinit const Reference far_ignores_strides_reference{.op = "far_ignores_strides",
                                                               .run = Bind<&Run>()};

}  // namespace anyop::ops
