# SPDX-License-Identifier: Apache-2.0
"""Entries of torch's own table of operators (OpInfo) on a device whose kernels are the CPU's."""

from __future__ import annotations

import itertools
from typing import Any

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
SPARSE = "sparse tensors are not there"
_JITERATOR = "is there for CUDA alone"
_NO_CPU = "the CPU has none"
# Entries that agree on no such device, by name, each with why.
EXCEPTIONS = {
    "jiterator_2inputs_2outputs": _JITERATOR,
    "jiterator_4inputs_with_extra_args": _JITERATOR,
    "jiterator_binary": _JITERATOR,
    "jiterator_binary_return_by_ref": _JITERATOR,
    "jiterator_unary": _JITERATOR,
    "sparse.mm.reduce": SPARSE,
    "sparse.sampled_addmm": SPARSE,
    "torch.ops.aten._efficient_attention_forward": _NO_CPU,
    "torch.ops.aten._flash_attention_forward": _NO_CPU,
}


def entries() -> list[Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def name_of(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def on_device(x: Any, device: str) -> Any:
    """A tensor with the memory around it, which some operators reach."""
    if x.layout != x.new_empty(0).layout or x.is_conj() or x.is_neg():
        return x.clone().to(device)
    whole = x.as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
    return whole.clone().to(device).as_strided(x.shape, x.stride(), x.storage_offset())


def gradients(op: Any, count: int, device: str) -> None:
    """Raises where a gradient on the device is not the CPU's, for some samples of the entry."""
    import torch

    if not op.supports_autograd or torch.float32 not in op.dtypes:
        return
    samples = op.sample_inputs("cpu", torch.float32, requires_grad=True)
    for sample in itertools.islice(samples, count):
        want, got = _gradients_of(op, sample, "cpu"), _gradients_of(op, sample, device)
        if not any(word in op.name for word in WITHOUT_VALUES):
            torch.testing.assert_close(got, want, equal_nan=True, rtol=1e-3, atol=1e-4)


def _gradients_of(op: Any, sample: Any, where: str) -> list[Any]:
    """Of the sum of the squares of all results."""
    import torch
    from torch.utils import _pytree as pytree

    leaves = []

    def leaf(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        there = x.detach() if where == "cpu" else on_device(x.detach(), where)
        leaves.append(there.requires_grad_(x.requires_grad))
        return there

    args, kwargs = pytree.tree_map(leaf, ((sample.input, *sample.args), sample.kwargs))
    if op.name in HOSTS_ARGUMENTS:
        args = (args[0], *sample.args)
    results = [r for r in pytree.tree_leaves(op(*args, **kwargs)) if isinstance(r, torch.Tensor)]
    squares = [(r.abs() ** 2).sum() for r in results if r.requires_grad]
    if squares:
        torch.stack(squares).sum().backward()
    grads = [x.grad for x in leaves if x.requires_grad]
    return [None if grad is None else grad.to_dense().cpu() for grad in grads]


def compare(op: Any, count: int, device: str) -> None:
    """Raises where a result on the device is not the CPU's, for some samples of the entry."""
    import torch
    from torch.utils import _pytree as pytree

    def moved(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return on_device(value.detach(), device)
        return torch.device(device) if value in ("cpu", torch.device("cpu")) else value

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
            there[1]["device"] = device
        hosts = torch.get_rng_state()
        got = op(*there[0], **there[1])
        for tensor in pytree.tree_leaves(got):
            if isinstance(tensor, torch.Tensor) and tensor.device.type != device:
                raise AssertionError(f"a result is on {tensor.device}")
        got = pytree.tree_map(back, got)
        assert hosts.equal(torch.get_rng_state()), "it draws from the host's generator"
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
