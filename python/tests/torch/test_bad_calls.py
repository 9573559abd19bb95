# SPDX-License-Identifier: Apache-2.0
"""Wrong calls through torch.ops: the texts of the NumPy host, in torch's way of raising them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
from generated import contract, example, on_numpy, operators, to_numpy, torch_op  # noqa: E402

OPS = torch.ops.anyop
ones = torch.ones

CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "shape": (
        lambda: OPS.rms_norm(ones(2, 8), ones(7)),
        "rms_norm: weight is f32[7], but must be f32[8] because x is f32[2, 8].",
    ),
    "dtype": (
        lambda: OPS.sigmoid(ones(3, dtype=torch.int32)),
        "sigmoid: x is i32[3], but T must be f32, f16 or bf16. Try a cast.",
    ),
    "a dtype of torch's own": (
        lambda: OPS.sigmoid(ones(3, dtype=torch.complex32)),
        "sigmoid: x is complex32[3], but anyop has no such dtype. Try a cast to f32 or i64.",
    ),
    "word": (
        lambda: OPS.linear(ones(2, 3), ones(4, 3), activation="sillu"),
        "linear: activation is 'sillu', but must be 'none', 'relu', 'relu2', 'silu', 'gelu', "
        "'gelu_tanh' or 'sigmoid'. Did you mean 'silu'?",
    ),
    "number": (
        lambda: OPS.rms_norm(ones(2, 8), None, -1.0),
        "rms_norm: eps >= 0 must hold, but eps is -1.0.",
    ),
    "index": (
        lambda: OPS.embedding(torch.tensor([9]), ones(3, 4)),
        "embedding: ids[0] is 9, but must be less than 3 (v).",
    ),
    "overlap": (
        lambda: _overlap(),
        "add: z overlaps x in memory, but must be exactly it (the same address, shape and "
        "strides) or apart. Try a tensor of its own.",
    ),
    "out of the wrong shape": (
        lambda: OPS.sigmoid.out(ones(3), out=ones(4)),
        "sigmoid: y is f32[4], but must be f32[3] because x is f32[3].",
    ),
    "sparse": (
        lambda: OPS.sigmoid(torch.eye(3).to_sparse()),
        "sigmoid: x is sparse, but must be a strided tensor. Try x.to_dense().",
    ),
    "mkldnn": (
        lambda: OPS.sigmoid(torch.eye(3).to_mkldnn()),
        "sigmoid: x is mkldnn, but must be a strided tensor. Try x.to_dense().",
    ),
    "meta beside memory": (
        lambda: OPS.add(ones(3, device="meta"), ones(3)),
        "add: y is on cpu, but must be on meta because x is. Try y.to('meta').",
    ),
    "no memory": (
        lambda: OPS.sigmoid(_without_memory()),
        "sigmoid: x has no memory: its storage was resized to nothing.",
    ),
    "too many dimensions": (
        lambda: OPS.sigmoid(ones([1] * 9)),
        "sigmoid: x has 9 dimensions, but must have at most 8.",
    ),
    "mask": (
        lambda: OPS.rms_norm_backward(ones(1, 2), ones(1, 2), None, 1e-6, 0.0, [True]),
        "rms_norm_backward: output_mask has 1 elements, but there are 2 results.",
    ),
}


def _overlap() -> Any:
    memory = ones(10)
    return OPS.add.out(memory[:4], memory[4:8], out=memory[2:6])


def _without_memory() -> Any:
    t = ones(3)
    t.untyped_storage().resize_(0)
    return t


@pytest.mark.parametrize("name", CASES)
def test_wrong_calls_say_what_is_wrong(name: str) -> None:
    call, text = CASES[name]
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value) == text


@pytest.mark.parametrize("op", operators())
def test_torch_and_numpy_refuse_in_the_same_words(op: str) -> None:
    """Each tensor in turn loses a dimension or gets one more."""
    call = example(op)
    for i, value in enumerate(call.values):
        if not isinstance(value, torch.Tensor) or value.dim() > 7:
            continue
        wrong = call.copy()
        wrong.values[i] = value.new_zeros(value.shape + (1,))
        try:
            on_numpy(wrong)
        except ValueError as error:
            with pytest.raises(ValueError) as ours:
                torch_op(op)(*wrong.torch_values)
            assert str(ours.value) == str(error)
            meta = [_to_meta(v) for v in wrong.torch_values]
            if "overlap" not in str(error) and "must be below" not in str(error):
                with pytest.raises(ValueError):
                    torch_op(op)(*meta)


def _to_meta(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to("meta")
    return [_to_meta(v) for v in value] if isinstance(value, list) else value


def test_meta_tensors_give_meta_tensors() -> None:
    for op in operators():
        call = example(op)
        results, _ = on_numpy(call)
        if not any(isinstance(v, torch.Tensor) for v in call.values):
            continue
        made = torch_op(op)(*[_to_meta(v) for v in call.torch_values])
        made = [] if made is None else list(made) if isinstance(made, tuple) else [made]
        for fake, real in zip(made, results, strict=True):
            if real is None:
                assert fake is None
                continue
            assert fake.device.type == "meta"
            assert tuple(fake.shape) == real.shape
            assert str(to_numpy(torch.empty_like(fake, device="cpu")).dtype) == str(real.dtype)


def test_strict_mode_refuses_copies_here_too() -> None:
    square = torch.ones(8, 8)
    with anyop.strict(), pytest.raises(NotImplementedError, match="strict mode") as error:
        OPS.softmax(square.t())
    assert str(error.value).startswith("softmax: ")


def test_every_result_is_contiguous() -> None:
    for op in operators():
        if contract(op)["results"]:
            made = torch_op(op)(*example(op).torch_values)
            for t in made if isinstance(made, tuple) else [made]:
                assert t is None or t.is_contiguous()


@pytest.mark.slow
def test_memory_errors_are_memory_errors() -> None:
    code = (
        "import resource, torch, anyop\n"
        "x = torch.ones(1 << 20)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))\n"
        "try:\n"
        "    torch.ops.anyop.rotary_cache(1 << 34, 64)\n"
        "except (MemoryError, RuntimeError) as error:\n"
        "    print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n"
