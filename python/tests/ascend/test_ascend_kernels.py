# SPDX-License-Identifier: Apache-2.0
"""Kernels in the style of public packages give NumPy's values, with checks and without."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FILES = tuple(Path(__file__).parent.glob("kernels/*.cpp"))
Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]


@dataclass(frozen=True)
class Example:
    """wanted: of the saved arrays, the results with their tolerance."""

    arguments: tuple[str, ...]
    wanted: Callable[[Arrays], dict[str, tuple[Array, float]]]
    blocks: int = 1


def softmax(a: Arrays) -> dict[str, tuple[Array, float]]:
    e = np.exp(a["x"].astype(float) - a["x"].max(1, keepdims=True))
    return {"y": (e / e.sum(1, keepdims=True), 1e-5)}


def layer_norm(a: Arrays) -> dict[str, tuple[Array, float]]:
    x = a["x"].astype(float)
    x -= x.mean(1, keepdims=True)
    y = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * a["gamma"] + a["beta"]
    return {"y": (y, 2e-3)}


def gelu(a: Arrays) -> dict[str, tuple[Array, float]]:
    x = a["x"].astype(float)
    y = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return {"y": (y, 1e-5), "copy": (x, 0)}


def best(a: Arrays) -> dict[str, tuple[Array, float]]:
    order = np.argsort(-a["x"], kind="stable")[: a["v"].size]
    return {"v": (a["x"][order], 0), "id": (order, 0)}


def reduce(a: Arrays) -> dict[str, tuple[Array, float]]:
    x = a["x"].astype(float)
    rows, blocks = x.reshape(8, 64), x.reshape(64, 8)
    least = np.stack([rows.min(1), np.array(rows.argmin(1), np.uint32).view(np.float32)], 1)
    even = np.where(np.arange(512) % 2, 0, x + 1)
    parts = [rows.sum(1), blocks.sum(1), x.reshape(256, 2).sum(1), rows.max(1), least.ravel()]
    parts += [blocks.max(1), rows.sum(0), np.repeat(x[:8], 8), even]
    return {"y": (np.concatenate(parts), 1e-5)}


def conv1d(a: Arrays) -> dict[str, tuple[Array, float]]:
    x, w = a["x"].astype(float), a["w"].astype(float)
    before = np.concatenate([np.zeros((3, x.shape[1])), x])
    return {"y": (0.5 * x + sum(before[j : j + len(x)] * w[j] for j in range(4)), 1e-5)}


def quantize(a: Arrays) -> dict[str, tuple[Array, float]]:
    scale = np.abs(a["x"]).max(1) / np.float32(127)
    w = a["x"] * (np.float32(1) / scale)[:, None]
    cut = (w.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    q = np.rint(w.astype(np.float16).astype(np.float32))
    return {"scale": (scale, 1e-6), "q": (q, 0), "i32": (np.floor(w), 0), "b16": (cut, 0)}


def masks(a: Arrays) -> dict[str, tuple[Array, float]]:
    x = a["x"]
    z, taken = x * np.float32(0.1), x[x > 0]
    y = np.zeros((8, 256))
    y[0], y[1] = np.where(x > 0, x, z), np.where(x > 0, x, -1)
    y[2, : taken.size], y[3, :128] = taken, x[1::2]
    y[4], y[5, :200] = np.where(x <= z, x, z), np.maximum(x[:200], 0.25)
    y[6], y[7] = np.where(x > 0, x, 0.25 * x), x + z
    return {"y": (y, 1e-6), "n": (np.array([taken.size, 128]), 0)}


def blocks(a: Arrays) -> dict[str, tuple[Array, float]]:
    total = 2 * a["x"].astype(float).sum(0)
    return {"y": (total, 1e-5), "z": (np.add.outer(np.arange(4.0), total), 1e-5)}


def add_list(a: Arrays) -> dict[str, tuple[Array, float]]:
    return {"y": (sum(a[f"inputs[{i}]"].astype(float) for i in range(4)), 1e-5)}


EXAMPLES = {
    "softmax": Example(("x=f32[5, 77]", "y=out f32[5, 77]", "5", "77"), softmax, 3),
    "layer_norm": Example(
        (
            *("x=f16[5, 130]", "gamma=f32[130]", "beta=f32[130]", "y=out f16[5, 130]"),
            *("5", "130", "1e-5"),
        ),
        layer_norm,
        3,
    ),
    "gelu": Example(("x=f32[5003]", "y=out f32[5003]", "copy=out f32[5003]", "5003"), gelu, 3),
    "transpose": Example(
        ("x=f16[48, 80]", "y=out f16[80, 48]", "48", "80"), lambda a: {"y": (a["x"].T, 0)}, 4
    ),
    "gather": Example(
        ("x=f32[333]", "idx=i32[77] below 333", "y=out f32[77]", "333", "77"),
        lambda a: {"y": (a["x"][a["idx"]], 0)},
    ),
    "topk": Example(("x=f32[128]", "v=out f32[10]", "id=out u32[10]", "10"), best),
    "fullsort": Example(("x=f16[128]", "v=out f16[128]", "id=out u32[128]"), best),
    "reduce": Example(("x=f32[512]", "y=out f32[1056]"), reduce),
    "conv1d": Example(("x=f32[9, 40]", "w=f32[4, 40]", "y=out f32[9, 40]", "9", "40"), conv1d),
    "quantize": Example(
        (
            *("x=f32[6, 96]", "q=out i8[6, 96]", "scale=out f32[6]", "i32=out i32[6, 96]"),
            *("b16=out bf16[6, 96]", "6", "96"),
        ),
        quantize,
        3,
    ),
    "masks": Example(("x=f32[256]", "y=out f32[8, 256]", "n=out i32[2]"), masks),
    "blocks": Example(
        ("x=f32[4, 64]", "y=inout f32[64] zeros", "z=out f32[4, 64]", "ws=inout i32[64] zeros"),
        blocks,
        4,
    ),
    "add_list": Example(
        ("inputs=list 3 of f32[5, 77], f32[5, 77] ones", "y=out f32[5, 77]"), add_list, 3
    ),
    "split": Example(
        ("x=f16[4, 16]", "outputs=list 4 of out f16[16]"),
        lambda a: {f"outputs[{i}]": (a["x"][i], 0) for i in range(4)},
        4,
    ),
}
OFTEN = ("masks", "topk", "add_list", "split")


@pytest.mark.parametrize(
    "kernel",
    [pytest.param(k, marks=[] if k in OFTEN else pytest.mark.exhaustive) for k in EXAMPLES],
)
def test_kernels_give_the_values_of_numpy_in_both_builds(kernel: str, tmp_path: Path) -> None:
    example = EXAMPLES[kernel]
    [file] = [path for path in FILES if f" {kernel}(" in path.read_text()]
    given = [part for argument in example.arguments for part in ("--arg", argument)]
    for how in (["check", "--strict", "--fuzz", "3"], ["run"]):
        saved = tmp_path / how[0]
        command = [sys.executable, "-m", "anyop", "ascend", *how, str(file), "--kernel", kernel]
        command += ["--blocks", str(example.blocks), "--save", str(saved), *given]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "note" not in done.stdout
        arrays = {path.stem: np.load(path) for path in saved.glob("*.npy")}
        for name, (wanted, tolerance) in example.wanted(arrays).items():
            got = arrays[name].astype(float)
            error = np.abs(got - np.asarray(wanted, float).reshape(got.shape))
            assert (error <= tolerance * np.maximum(1, np.abs(got))).all(), (how, name)
