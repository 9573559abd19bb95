// SPDX-License-Identifier: Apache-2.0
#include "ops/common/rotation_reference.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, const Tensor* positions, const Tensor& table,
         std::int64_t offset, std::string_view style, bool inverse, const Tensor& y) {
  RotateReference(positions, table, offset, style, inverse, x, y);
}

}  // namespace

extern constinit const Reference rope_reference{.op = "rope", .run = Bind<&Run>()};

}  // namespace anyop::ops
