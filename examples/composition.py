# SPDX-License-Identifier: Apache-2.0
"""An operator that is composed of others: docs/composition.md."""

# ---8<---
import anyop
import numpy as np

ops = anyop.inline("""
namespace anyop::ops {
namespace {
void Run(const Context& ctx, const Tensor& x, const Tensor& gate, const Tensor& r,
         const Tensor& y) {
  ctx.ForRows(x, [&](std::int64_t i) {
    const auto a = x.row<const float>(i), b = gate.row<const float>(i), c = r.row<const float>(i);
    for (std::size_t k = 0; k < a.size(); ++k) y.row<float>(i)[k] = a[k] * b[k] + c[k];
  });
}
}  // namespace
ANYOP_KERNEL(mul_add){.when = "T == f32", .run = Bind<&Run>()};
extern constinit const Op mul_add{
    .signature =
        "mul_add(x: T[..., d], gate: T[..., d], r: T[..., d]) -> (y: T[..., d]) "
        "where T in f32 | f16",
    .means = "scaled = mul(x, gate); y = add(scaled, r)",
    .commutes = "x, gate",
    .rowwise = true,
};
}  // namespace anyop::ops
""")


def ran() -> list[str]:
    """Operators and kernels that ran since the last question."""
    names = [f"{c.op.split('.')[-1]}: {c.kernel}" for c in anyop.counters()]
    anyop.reset_counters()
    return names


x = np.ones((2, 4), np.float32)
ops.mul_add(x, x, x)
print(*ran())  # the kernel
half = x.astype(np.float16)
ops.mul_add(half, half, half)
print(*ran())  # no kernel takes f16: the composition, and the operators that it calls

graph = anyop.graph(lambda x, gate, r: anyop.add(r, anyop.mul(gate, x)), *["f32[n, 4]"] * 3)
graph(x, x, x)
print(*ran())  # one call of the kernel: the graph has found the pattern
# --->8---
