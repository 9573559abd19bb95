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

extern constinit const Reference within_reference{.op = "within", .run = Bind<&Run>()};
extern constinit const Reference writes_next_reference{.op = "writes_next", .run = Bind<&Run>()};
extern constinit const Reference writes_before_reference{.op = "writes_before",
                                                         .run = Bind<&Run>()};
extern constinit const Reference writes_pages_beyond_reference{.op = "writes_pages_beyond",
                                                               .run = Bind<&Run>()};
extern constinit const Reference reads_next_reference{.op = "reads_next", .run = Bind<&Run>()};
extern constinit const Reference reads_before_reference{.op = "reads_before", .run = Bind<&Run>()};
extern constinit const Reference writes_pages_beyond_workspace_reference{
    .op = "writes_pages_beyond_workspace", .run = Bind<&Run>()};
extern constinit const Reference doubles_reference{.op = "doubles", .run = Bind<&Run>()};

}  // namespace anyop::ops
