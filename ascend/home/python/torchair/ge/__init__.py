# SPDX-License-Identifier: Apache-2.0
"""Names with which converters describe graphs of the vendor's engine, which is not here."""

from typing import Any


class Tensor:
    """The type of converters' tensors."""


class TensorSpec:
    """The type of meta_outputs."""


class DataType:
    """The engine's types, by name."""

    DT_FLOAT, DT_FLOAT16, DT_INT8, DT_INT32, DT_UINT8 = range(5)
    DT_INT16, DT_UINT16, DT_UINT32, DT_INT64, DT_UINT64 = range(6, 11)
    DT_DOUBLE, DT_BOOL, DT_STRING = range(11, 14)
    DT_BF16 = 27


def _no_engine(what: str) -> Any:
    raise NotImplementedError(
        f"{what}: no graph can be made, because the vendor's engine is not on this machine. "
        'Try torch.compile(backend="aot_eager").'
    )


def custom_op(op_type: str, *args: Any, **kwargs: Any) -> Any:
    return _no_engine(f"torchair.ge.custom_op({op_type!r})")


class attr:  # noqa: N801  (the vendor's name)
    """Attributes of a node."""

    def __init__(self, value: Any) -> None:
        self.value = value

    Bool = Int = Float = Str = DataType = ListInt = ListFloat = ListBool = ListStr = classmethod(
        lambda cls, value: cls(value)
    )


def __getattr__(name: str) -> Any:
    """An operator of the engine: ge.Add(x, y)."""
    if name.startswith("_"):
        raise AttributeError(name)
    return lambda *args, **kwargs: _no_engine(f"torchair.ge.{name}")
