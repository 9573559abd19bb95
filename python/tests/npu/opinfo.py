# SPDX-License-Identifier: Apache-2.0
"""torch's own table of operators (OpInfo) on the virtual NPU: each entry as on the CPU?

    ANYOP_NPU=1 ENVIRONMENT/bin/python python/tests/npu/opinfo.py [--all] [--samples N] [NAME ...]

Without --all every tenth entry. Entries run in a few processes, so that one that ends its process
is named and the others still run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

EACH = 10  # of a slice
CHUNK = 80
# Entries that do not agree, by name, each with why.
_JITERATOR = "is there for CUDA alone"
_SPARSE = "sparse tensors are not there"
_NO_CPU = "the CPU has none"
_DOUBLE = "torch_npu makes float32 of float64 on this chip"
EXCEPTIONS: dict[str, str] = {
    "double": _DOUBLE,
    "float_power": _DOUBLE,
    "jiterator_2inputs_2outputs": _JITERATOR,
    "jiterator_4inputs_with_extra_args": _JITERATOR,
    "jiterator_binary": _JITERATOR,
    "jiterator_binary_return_by_ref": _JITERATOR,
    "jiterator_unary": _JITERATOR,
    "sparse.mm.reduce": _SPARSE,
    "sparse.sampled_addmm": _SPARSE,
    "torch.ops.aten._efficient_attention_forward": _NO_CPU,
    "torch.ops.aten._flash_attention_forward": _NO_CPU,
    "to": "torch_npu takes no memory format there",
}
# What the CPU leaves empty has the shape that other devices give it.
EMPTY_ON_THE_CPU = ("_native_batch_norm_legit", "native_batch_norm")
# Tensors of these other than the input are on the host, for every device.
HOSTS_ARGUMENTS = ("tensor_split",)
# An entry is tried with the first of these that the CPU has for it, by its own list.
DTYPES = ("float32", "int64", "bool", "complex64", "float8_e4m3fn")
# What these compute differs from call to call, or is nothing: shapes and dtypes are compared.
WITHOUT_VALUES = (
    "bernoulli", "cauchy", "dropout", "empty", "exponential", "fractional_max_pool", "geometric",
    "log_normal", "multi_head_attention_forward", "multinomial", "normal", "rand_like",
    "randint", "randn", "resize_", "rrelu",
    "scaled_dot_product_attention", "svd_lowrank", "pca_lowrank", "uniform",
)  # fmt: skip


def entries() -> list[Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def name_of(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def on_device(x: Any) -> Any:
    """A tensor with the memory around it, which some operators reach."""
    if x.layout != x.new_empty(0).layout or x.is_conj() or x.is_neg():
        return x.clone().to("npu")
    whole = x.as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
    return whole.clone().to("npu").as_strided(x.shape, x.stride(), x.storage_offset())


def compare(op: Any, count: int) -> None:
    """Raises where a result on the device is not the CPU's."""
    import torch
    from torch.utils import _pytree as pytree

    def moved(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return on_device(value.detach())
        return torch.device("npu") if value in ("cpu", torch.device("cpu")) else value

    def back(value: Any) -> Any:
        return value.detach().cpu() if isinstance(value, torch.Tensor) else value

    known = [d for d in (getattr(torch, name) for name in DTYPES) if d in op.dtypes]
    dtype = known[0] if known else torch.float32
    samples = op.sample_inputs("cpu", dtype, requires_grad=False)
    for sample in itertools.islice(samples, count):
        arguments = (sample.input, *sample.args)
        there = pytree.tree_map(moved, (arguments, sample.kwargs))
        if op.name in HOSTS_ARGUMENTS:
            there = ((there[0][0], *sample.args), sample.kwargs)
        want = pytree.tree_map(back, op(*arguments, **sample.kwargs))
        makes = any(isinstance(x, torch.Tensor) for x in pytree.tree_leaves(want))
        if makes and not any(isinstance(x, torch.Tensor) for x in pytree.tree_leaves(there)):
            there[1]["device"] = "npu"
        got = op(*there[0], **there[1])
        for tensor in pytree.tree_leaves(got):
            if isinstance(tensor, torch.Tensor) and tensor.device.type != "npu":
                raise AssertionError(f"a result is on {tensor.device}")
        got = pytree.tree_map(back, got)
        if op.name in EMPTY_ON_THE_CPU:
            got = tuple(g if w.numel() else w for g, w in zip(got, want, strict=True))
        if any(word in op.name for word in WITHOUT_VALUES):
            want, got = (
                [(t.shape, t.dtype) for t in pytree.tree_leaves(r) if isinstance(t, torch.Tensor)]
                for r in (want, got)
            )
            assert want == got, f"{got}, but must be {want}"
        else:
            torch.testing.assert_close(got, want, equal_nan=True, check_stride=False)


def work(names: list[str], count: int) -> None:
    """Prints a line for each entry before it runs, and another after it."""
    import torch
    import torch_npu  # noqa: F401

    warnings.simplefilter("ignore")
    by_name = {name_of(op): op for op in entries()}
    for name in names:
        print(json.dumps([name]), flush=True)
        why = ""
        torch.manual_seed(0)
        try:
            compare(by_name[name], count)
        except Exception as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            why = f"{type(error).__name__}: {' '.join(lines[:2])}"[:300]
        print(json.dumps([name, why]), flush=True)


def run(names: list[str], count: int) -> dict[str, str]:
    """What went wrong with each entry, "" where nothing did."""
    found: dict[str, str] = {}
    left = list(names)
    while left:
        chunk = left[:CHUNK]
        program = [sys.executable, __file__, "--work", str(count), *chunk]
        ran = subprocess.run(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        lines = [line for line in ran.stdout.splitlines() if line.startswith("[")]
        for name, *why in map(json.loads, lines):
            found[name] = why[0] if why else f"the process ended with {ran.returncode}"
        left = [name for name in left if name not in found]
        if not lines:
            raise SystemExit(f"no entry runs: exit status {ran.returncode}")
    return found


def report(found: dict[str, str]) -> list[str]:
    """The names of entries that should agree and do not, or do and should not."""
    agree = [name for name, why in found.items() if not why]
    print(f"{len(agree)} of {len(found)} entries agree with the CPU")
    wrong = []
    for name, why in found.items():
        known = EXCEPTIONS.get(name, "")
        if why:
            print(f"  {name}: {known or why}")
        if bool(why) != bool(known):
            wrong.append(name)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--all", action="store_true", help="every entry")
    parser.add_argument("--samples", type=int, default=3, help="of each entry, at most")
    parser.add_argument("names", nargs="*", help="entries")
    args = parser.parse_args()
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # this process only reads the table
    names = args.names or [name_of(op) for op in entries()]
    chosen = names if args.all or args.names else names[::EACH]
    wrong = report(run(chosen, args.samples))
    if wrong:
        print(f"not as listed in {Path(__file__).name}: {', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[3:], int(sys.argv[2]))
    else:
        sys.exit(main())
