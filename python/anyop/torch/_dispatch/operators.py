# SPDX-License-Identifier: Apache-2.0
"""What the PyTorch host knows of an operator: its contract, and how torch's arguments map to it."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from anyop import _anyop

DTYPES: dict[torch.dtype, str] = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "f8e4m3",
    torch.float8_e5m2: "f8e5m2",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
}
TORCH_DTYPES = {name: dtype for dtype, name in DTYPES.items()}


class Call:
    """The arguments of one call of a torch operator: a value per parameter, and how it returns."""

    def __init__(self, values: list[Any], mask: Sequence[bool] | None, outs: list[Any]) -> None:
        self.values, self.mask, self.outs = values, mask, outs


class Operator:
    """One operator. `overload` is "", "out" or "_": which of its three torch operators."""

    def __init__(self, name: str) -> None:
        self.name = name  # "anyop.rms_norm"
        self.library, _, self.short_name = name.rpartition(".")
        self.display_name = self.short_name if self.library == "anyop" else name
        self.function = _anyop.functions()[name]
        self.schemas = dict(zip(("", "out", "_"), _anyop.schemas(name), strict=True))

    @functools.cached_property
    def contract(self) -> dict[str, Any]:
        contract: dict[str, Any] = json.loads(_anyop.contract_json(self.name))
        return contract

    @functools.cached_property
    def gradient(self) -> dict[str, Any] | None:
        """The wiring of `.gradient`, as `anyop.info` gives it."""
        wiring: dict[str, Any] | None = json.loads(_anyop.info_json(self.name))["gradient"]
        return wiring or None

    @functools.cached_property
    def gradient_operator(self) -> Operator:
        assert self.gradient
        return Operator(self.gradient["op"])

    @property
    def params(self) -> list[dict[str, Any]]:
        params: list[dict[str, Any]] = self.contract["params"]
        return params

    @property
    def results(self) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = self.contract["results"]
        return results

    def torch_name(self, overload: str) -> str:
        """ "anyop::rms_norm", "anyop::rms_norm.out", "anyop::rms_norm_" """
        suffix = {"": "", "out": ".out", "_": "_"}[overload]
        return f"{self.library}::{self.short_name}{suffix}"

    def torch_op(self, overload: str) -> Any:
        """The OpOverload."""
        name = self.short_name + ("_" if overload == "_" else "")
        packet = getattr(getattr(torch.ops, self.library), name)
        return packet.out if overload == "out" else packet.default

    @functools.cached_property
    def out_names(self) -> list[str]:
        if len(self.results) == 1:
            return ["out"]
        return [f"out_{r['name']}" for r in self.results]

    def bind(self, overload: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        """Sorts what torch passes; trailing defaults may be missing."""
        params, n = self.params, len(self.params)
        values = list(args[:n])
        for p in params[len(values) :]:
            values.append(kwargs[p["name"]] if p["name"] in kwargs else p.get("default"))
        for i, p in enumerate(params):
            if p["kind"] == "dtype" and isinstance(values[i], str):
                values[i] = TORCH_DTYPES[values[i]]
        mask = args[n] if len(args) > n else kwargs.get("output_mask")
        outs = [kwargs[name] for name in self.out_names] if overload == "out" else []
        return Call(values, mask, [values[0]] if overload == "_" else outs)

    def declined(self, call: Call) -> list[bool]:
        """Which results are not computed: masked ones, and gradients of absent arguments."""
        if call.mask is not None and len(call.mask) != len(self.results):
            raise _anyop.InvalidArgument(
                f"{self.display_name}: output_mask has {len(call.mask)} elements, but there are "
                f"{len(self.results)} results."
            )
        given = {p["name"]: v is not None for p, v in zip(self.params, call.values, strict=True)}
        flags = []
        for i, r in enumerate(self.results):
            name = r["name"][1:] if r.get("optional") and r["name"].startswith("d") else ""
            masked = call.mask is not None and not call.mask[i]
            flags.append(masked or not given.get(name, True))
        return flags

    def written(self, overload: str, call: Call) -> Iterator[tuple[str, torch.Tensor]]:
        """(name, tensor) of every tensor that the call writes."""
        for p, value in zip(self.params, call.values, strict=True):
            if p.get("mut"):
                yield from tensors_of(p["name"], value)
        if overload == "_":
            yield self.params[0]["name"], call.values[0]
        if overload == "out":
            yield from zip(self.out_names, call.outs, strict=True)

    def returned(self, overload: str, made: Sequence[Any], outs: Sequence[Any]) -> Any:
        """What the torch operator returns."""
        if overload:
            return outs[0] if self.schemas[overload].endswith("-> Tensor(a!)") else None
        if not made:
            return None
        return made[0] if len(made) == 1 else tuple(made)


def tensors_of(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of an argument, with their names in messages."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, list | tuple):
        for i, element in enumerate(value):
            if isinstance(element, torch.Tensor):
                yield f"{name}[{i}]", element


def describe(op: str, name: str, t: torch.Tensor) -> tuple[int, str, tuple[Any, ...], Any]:
    """A tensor as `call_memory` takes it."""
    address = 0 if t.device.type == "meta" else t.data_ptr()
    return address, dtype_name(op, name, t), tuple(t.shape), t.stride()


def dtype_name(op: str, name: str, t: torch.Tensor) -> str:
    known = DTYPES.get(t.dtype)
    if known is None:
        shown = str(t.dtype).removeprefix("torch.") + str(list(t.shape))
        raise _anyop.InvalidArgument(
            f"{op}: {name} is {shown}, but anyop has no such dtype. Try a cast to f32 or i64."
        )
    return known
