# SPDX-License-Identifier: Apache-2.0
"""torch's own samples of its operators as programs of one call, compiled, with gradients.

python opinfo_programs.py [words of names] [--every]    what differs from torch
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo
from opinfo_cases import without_stacks
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

DTYPES = (torch.float32, torch.bfloat16)
_TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 4e-2}


def name_of(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


@dataclass
class Sample:
    """A call of an operator of torch's database. leaves: of its arguments."""

    op: Any
    dtype: torch.dtype
    leaves: list[Any]
    spec: Any

    def program(self) -> Any:
        at = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]

        def run(*tensors: Any) -> Any:
            leaves = list(self.leaves)
            for i, tensor in zip(at, tensors, strict=True):
                leaves[i] = tensor
            args, kwargs = pytree.tree_unflatten(leaves, self.spec)
            return self.op(*args, **kwargs)

        return run

    def tensors(self) -> list[torch.Tensor]:
        return [
            leaf.detach().clone().requires_grad_(leaf.requires_grad)
            for leaf in self.leaves
            if isinstance(leaf, torch.Tensor)
        ]

    def called(self, program: Any) -> tuple[list[Any], list[Any]]:
        """What is returned and the gradients."""
        given = self.tensors()
        torch.manual_seed(0)
        made = pytree.tree_leaves(program(*given))
        loss = sum(
            ((t.real if t.is_complex() else t) * 1.0).sum()
            for t in made
            if isinstance(t, torch.Tensor) and t.requires_grad
        )
        if isinstance(loss, torch.Tensor) and loss.requires_grad:
            loss.backward()
        return [t.detach() if isinstance(t, torch.Tensor) else t for t in made], [
            t.grad for t in given
        ]

    def differs(self, backend: str) -> str:
        """From torch: what; "" if nothing does. Called twice, cold and warm."""
        program = self.program()
        try:
            wanted = self.called(program)
        except Exception:
            return ""  # torch has no gradient of it, or none of this type
        torch._dynamo.reset()
        limit = _TOLERANCES[self.dtype]
        try:
            step = torch.compile(program, backend=backend, dynamic=False)
            for _ in range(2):
                torch.testing.assert_close(
                    self.called(step), wanted, rtol=limit, atol=limit, equal_nan=True
                )
        except Exception as error:
            return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        return ""


def samples(op: Any, dtype: torch.dtype, most: int | None) -> Iterator[Sample]:
    has_gradient = dtype in op.supported_backward_dtypes("cpu")
    for i, s in enumerate(op.sample_inputs("cpu", dtype, requires_grad=has_gradient)):
        if most is not None and i >= most:
            return
        leaves, spec = pytree.tree_flatten(((s.input, *s.args), s.kwargs))
        strided = (t.layout is torch.strided for t in leaves if isinstance(t, torch.Tensor))
        if all(strided):
            yield Sample(op, dtype, leaves, spec)


def operators() -> list[Any]:
    return [op for op in op_db if "jiterator" not in op.name]


def failures(ops: list[Any], most: int | None = 1) -> Iterator[tuple[str, str]]:
    """(operator and type, what differs): what torch's own way to compile gets right."""
    with warnings.catch_warnings(), without_stacks():
        warnings.simplefilter("ignore")
        for op in ops:
            for dtype in DTYPES:
                if not op.supports_dtype(dtype, "cpu"):
                    continue
                for sample in samples(op, dtype, most):
                    why = sample.differs("anyop")
                    if why and not sample.differs("aot_eager"):
                        yield f"{name_of(op)} {dtype}", why
                        break


if __name__ == "__main__":
    words = [w for w in sys.argv[1:] if not w.startswith("-")]
    chosen = [op for op in operators() if not words or any(w in name_of(op) for w in words)]
    for name, why in failures(chosen, None if "--every" in sys.argv else 1):
        print(f"{name}: {why}", flush=True)
