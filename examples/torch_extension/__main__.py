# SPDX-License-Identifier: Apache-2.0
"""An operator in C++ as a torch operator: eager, with autograd, compiled.

python -m examples.torch_extension [build folder]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import anyop
import torch


def build(folder: Path) -> Path:
    """Compiles the library; what `pip install` of a package of operators does."""
    source = Path(__file__).parent
    subprocess.run(["cmake", "-S", source, "-B", folder, "-G", "Ninja"], check=True)
    subprocess.run(["cmake", "--build", folder], check=True)
    return folder / "torch_extension.so"


def main(folder: Path) -> None:
    ops = anyop.load(build(folder))  # from here on it is torch.ops.torch_extension.add_custom, too
    torch.manual_seed(0)
    x, y = torch.randn(3, 5), torch.randn(3, 5)

    # Eager: straight to the kernel, with every check.
    torch.testing.assert_close(ops.add_custom(x, y, alpha=2.0), x + 2 * y)
    ops.add_custom(x, y, out=x.clone())
    print(anyop.explain(ops.add_custom, x.bfloat16(), y.bfloat16()))
    try:
        ops.add_custom(x, y[:2])
    except ValueError as error:
        print(error)

    # Autograd: the operator that .gradient names.
    x.requires_grad_(), y.requires_grad_()
    loss = ops.add_custom(x, y, 2.0).square().sum()
    expected = (x + 2 * y).square().sum()
    grads = torch.autograd.grad(loss, (x, y))
    torch.testing.assert_close(grads, torch.autograd.grad(expected, (x, y)))

    # Compiled, into one graph; shapes come from the signature.
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return ops.add_custom(x.exp(), y, 2.0).square().sum()

    compiled = torch.compile(f, fullgraph=True)
    torch.testing.assert_close(
        torch.autograd.grad(compiled(x, y), (x, y)), torch.autograd.grad(f(x, y), (x, y))
    )
    torch.library.opcheck(torch.ops.torch_extension.add_custom.default, (x, y, 2.0))
    print("eager, autograd and compiled calls agree")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
