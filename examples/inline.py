# SPDX-License-Identifier: Apache-2.0
"""An operator from a text in C++, compiled on the spot."""

# ---8<---
import anyop
import numpy as np

ops = anyop.inline("""
namespace anyop::ops {
namespace {
void Run(const Context& ctx, const Tensor& x, const Tensor& y) {
  ctx.ForRows(x, [&](std::int64_t r) {
    const auto from = x.row<const float>(r);
    for (std::size_t i = 0; i < from.size(); ++i) y.row<float>(r)[i] = from[i] * from[i];
  });
}
}  // namespace
ANYOP_KERNEL(square){.run = Bind<&Run>()};
extern constinit const Op square{
    .signature = "square(x: f32[..., d]) -> (y: f32[..., d] over x)",
};
}  // namespace anyop::ops
""")
print(ops.square(np.full(2, 3, np.float32)))
# --->8---
