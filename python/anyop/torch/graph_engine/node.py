# SPDX-License-Identifier: Apache-2.0
"""An operator of a graph, and the values that it gets when the graph runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

# torchair's numbers of types (ge.DataType), with the names that its protocol has for them.
TYPES: dict[int, torch.dtype] = {
    0: torch.float32, 1: torch.float16, 2: torch.int8, 3: torch.int32, 4: torch.uint8,
    6: torch.int16, 7: torch.uint16, 8: torch.uint32, 9: torch.int64, 10: torch.uint64,
    11: torch.float64, 12: torch.bool, 16: torch.complex64, 17: torch.complex128,
    27: torch.bfloat16, 33: torch.complex32, 35: torch.float8_e5m2, 36: torch.float8_e4m3fn,
}  # fmt: skip
NAMES: dict[str, torch.dtype] = {
    "DT_FLOAT": torch.float32, "DT_FLOAT16": torch.float16, "DT_INT8": torch.int8,
    "DT_INT32": torch.int32, "DT_UINT8": torch.uint8, "DT_INT16": torch.int16,
    "DT_UINT16": torch.uint16, "DT_UINT32": torch.uint32, "DT_INT64": torch.int64,
    "DT_UINT64": torch.uint64, "DT_DOUBLE": torch.float64, "DT_BOOL": torch.bool,
    "DT_COMPLEX64": torch.complex64, "DT_COMPLEX128": torch.complex128,
    "DT_BF16": torch.bfloat16,
}  # fmt: skip


class Refused(Exception):  # noqa: N818  (it is no error of the program's)
    """Why a node cannot be taken."""


@dataclass
class Node:
    """operands: which value each named input is; "" where an optional one is not given."""

    name: str
    type: str
    operands: list[tuple[str, str]]
    attributes: dict[str, Any]
    outputs: list[str]
    values: list[Tensor | None] = field(default_factory=list)  # of operands, while it runs

    def __getitem__(self, name: str) -> Tensor:
        value = self.get(name)
        if value is None:
            raise KeyError(f"{self.name} ({self.type}): its input {name} is not given")
        return value

    def get(self, name: str) -> Tensor | None:
        for (own, _), value in zip(self.operands, self.values, strict=True):
            if own == name:
                return value
        return None

    def all(self, name: str) -> list[Tensor]:
        """The tensors of an input that is a list: its elements are called x0, x1 and so on."""
        named = zip(self.operands, self.values, strict=True)
        return [
            value
            for (own, _), value in named
            if value is not None and own.startswith(name) and own[len(name) :].isdigit()
        ]

    def ints(self, name: str) -> list[int]:
        """Numbers that shapes are made of. Those that the device has computed are waited for."""
        return [int(v) for v in self[name].reshape(-1).tolist()]

    def number(self, name: str) -> int:
        (value,) = self.ints(name)
        return value

    def attribute(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)


Run = Callable[[Node], "Tensor | tuple[Tensor, ...]"]
# The values that attributes of an operator may have, where not all of them are known.
Limits = dict[str, dict[str, tuple[Any, ...]]]


def parsed(op: Any) -> Node:
    """A node of the protocol's OpDef. Edges that only order nodes are left out: nodes run in the
    order in which they stand.
    """
    data = [source for source in op.input if not source.endswith(":-1")]
    names = [desc.name for desc in op.input_desc]
    attributes = {key: _attribute(value) for key, value in op.attr.items()}
    outputs = [f"{op.name}:{i}" for i in range(max(1, len(op.output_desc)))]
    return Node(op.name, op.type, list(zip(names, data, strict=False)), attributes, outputs)


def _attribute(attr: Any) -> Any:
    kind = attr.WhichOneof("value")
    if kind == "s":
        return attr.s.decode(errors="replace")
    if kind == "list":
        for part in ("i", "f", "b", "s", "dt"):
            values = list(getattr(attr.list, part))
            if values:
                return values
        return []
    if kind == "t":
        return constant(attr.t)
    if kind == "list_list_int":
        return [list(row.list_i) for row in attr.list_list_int.list_list_i]
    return getattr(attr, kind) if kind else None


def constant(tensor: Any) -> Tensor:
    """The values that a graph holds, on the host."""
    descriptor = tensor.desc
    name = (
        descriptor.DESCRIPTOR.fields_by_name["dtype"]
        .enum_type.values_by_number[descriptor.dtype]
        .name
    )
    if name not in NAMES:
        raise Refused(f"its values are of type {name}")
    shape = list(descriptor.shape.dim)
    if not tensor.data:
        return torch.empty(shape if shape else [0], dtype=NAMES[name])
    values = torch.frombuffer(bytearray(tensor.data), dtype=NAMES[name])
    return values.reshape(shape)
