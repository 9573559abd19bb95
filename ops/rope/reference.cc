// SPDX-License-Identifier: Apache-2.0
#include "ops/common/rotation/reference.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, const Tensor* positions, const Tensor& table,
         std::int64_t offset, std::string_view style, bool inverse, const Tensor& y) {
  RotateReference(positions, table, offset, style, inverse, x, y);
}

void RunBackward(const Context&, const Tensor& dy, const Tensor* positions, const Tensor& table,
                 std::int64_t offset, std::string_view style, bool inverse, const Tensor* dx) {
  if (dx) RotateReference(positions, table, offset, style, !inverse, dy, *dx);
}

}  // namespace

extern constinit const Reference rope_reference{.op = "rope", .run = Bind<&Run>()};
extern constinit const Reference rope_backward_reference{.op = "rope_backward",
                                                         .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
