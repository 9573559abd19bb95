# SPDX-License-Identifier: Apache-2.0
"""Operators of anyop under the names of vLLM's extension `_C`, in torch's namespace `_C`."""

from __future__ import annotations

import ctypes
import functools
import re
import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch

import anyop.torch
from anyop import _anyop
from anyop.vllm import _absent
from anyop.vllm._rows import ROWS, UNSUPPORTED, Row


class AlreadyLoadedError(_anyop.InvalidArgument):
    """Another library has defined `_C`."""


_lock = threading.Lock()
_defined: dict[str, Row] = {}
_version = ""
_failed = ""  # why a load ended midway: torch has some of the names by then


def load(version: str, names: Iterable[str] | None = None) -> None:
    """Defines what a version of vLLM has; nothing happens the second time.

    A library that has the names already is refused, or with ANYOP_VLLM=override taken over from,
    name by name; what anyop has no row for stays that library's. names: which of them, all without;
    those that work on the same memory come together.
    """
    global _version, _failed
    with _lock:
        if _failed:
            raise _anyop.InvalidArgument(_failed)
        if _version:
            _check_same(version)
            return
        wanted = _chosen(rows(version), names)
        theirs = _names_of_others()
        if theirs and not _takes_over():
            raise AlreadyLoadedError(
                f"anyop.vllm: _C has {len(theirs)} operators of another library "
                f"({sorted(theirs)[0]}, ...), but anyop defines them itself. Try an empty build of "
                "vLLM, or ANYOP_VLLM=override to take them over."
            )
        define = _library().anyop_vllm_define
        for row in wanted:
            if theirs and row.name not in theirs:
                continue  # that library's vLLM asks whether it is there
            texts = (row.schema, " ".join(row.operators), row.constants)
            error = define(*map(str.encode, texts), int(row.function), int(bool(theirs)))
            if error:
                _failed = f"anyop.vllm: {row.name}: {error.decode()}"
                raise _anyop.InvalidArgument(_failed)
            _defined[row.name] = row
            if not theirs and row.name in _FAKES:
                _define_fake(row.name)
        if not theirs:
            _absent.put(unsupported(version))
            _absent.tell()
        _version = version


def rows(version: str) -> tuple[Row, ...]:
    """What a version of vLLM gets."""
    at = _number(version)
    return tuple(
        row for row in ROWS if _number(row.first) <= at and not (row.end and at >= _number(row.end))
    )


def unsupported(version: str) -> dict[str, str]:
    """The names that a version of vLLM calls without asking, and anyop lacks: what for."""
    found = {}
    for purpose, names in UNSUPPORTED.items():
        for entry in names:
            name, _, first = entry.partition(" from ")
            if not first or _number(first) <= _number(version):
                found[name] = purpose
    return found


def counters() -> dict[str, int]:
    """How often each name was called in this process."""
    if not _defined:
        return {}
    calls = _library().anyop_vllm_calls
    return {name: calls(name.encode()) for name in _defined}


def _takes_over() -> bool:
    return any(row[0] == "ANYOP_VLLM" and row[4] == "override" for row in _anyop.environment())


def _check_same(version: str) -> None:
    if _version != version:
        raise _anyop.InvalidArgument(
            f"anyop.vllm: _C is defined for vLLM {_version} in this process, but {version} is "
            "asked for. Try another process."
        )


def _chosen(all_rows: tuple[Row, ...], names: Iterable[str] | None) -> tuple[Row, ...]:
    if names is None:
        return all_rows
    wanted = set(names)
    unknown = wanted - {row.name for row in all_rows}
    if unknown:
        raise _anyop.InvalidArgument(
            f"anyop.vllm: _C.{min(unknown)} is no name that anyop has, but "
            f"{', '.join(row.name for row in all_rows)} are."
        )
    for row in all_rows:
        others = [other.name for other in all_rows if row.group and other.group == row.group]
        missing = set(others) - wanted
        if row.name in wanted and missing:
            raise _anyop.InvalidArgument(
                f"anyop.vllm: {row.name} comes without {min(missing)}, but what one of them "
                f"leaves the other reads. Try {', '.join(others)} together."
            )
    return tuple(row for row in all_rows if row.name in wanted)


def _names_of_others() -> set[str]:
    return {
        name.removeprefix("_C::").partition(".")[0]
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("_C::")
    }


def _define_fake(name: str) -> None:
    """A call that returns a tensor, as torch.compile sees it; torch knows what writes by itself."""
    fake = _FAKES[name]
    torch.library.register_fake(f"_C::{name}", fake, lib=_fakes())


def _fake_tokens(logits: torch.Tensor, *_: object) -> torch.Tensor:
    return logits.new_empty(logits.shape[:-1], dtype=torch.int64)


# vLLM hands the tensor on without looking into it.
def _fake_metadata(*_: object, **__: object) -> torch.Tensor:
    return torch.empty(1, dtype=torch.int64)


def _fake_packed(weight: torch.Tensor) -> torch.Tensor:
    # Of bytes, and until 0.28 of all, vLLM reads the number of features from the packed weight's
    # sizes, which are therefore those of the weight.
    if weight.dtype == torch.int8 or _number(_version) < (0, 29, 0):
        return torch.empty_like(weight)
    packed: torch.Tensor = torch.ops.anyop.pack_weight(weight)
    return packed


# weight_packed_linear has one of vLLM's own where it returns a tensor, and so have names that
# multiply quantized weights.
_FAKES: dict[str, Callable[..., Any]] = {
    "convert_weight_packed": _fake_packed,
    "get_scheduler_metadata": _fake_metadata,
    "greedy_argmax": _fake_tokens,
    "fused_gumbel_argmax": _fake_tokens,
}


# Kept, as a Library takes its registrations back when it ends.
@functools.cache
def _fakes() -> torch.library.Library:
    return torch.library.Library("_C", "FRAGMENT")


@functools.cache
def _library() -> ctypes.PyDLL:
    """The functions of torch's adapter. Importing anyop.torch has started it."""
    status = anyop.torch.status()
    if not status.file:
        raise _anyop.NotAvailable(
            f"anyop.vllm: torch {status.torch} has no compiled adapter, because {status.why}, but "
            "vLLM's operators run through it. Try a C++ compiler on the path, such as g++ 12."
        )
    library = ctypes.PyDLL(status.file)
    library.anyop_vllm_define.restype = ctypes.c_char_p
    library.anyop_vllm_define.argtypes = [*[ctypes.c_char_p] * 3, *[ctypes.c_int] * 2]
    library.anyop_vllm_calls.restype = ctypes.c_uint64
    library.anyop_vllm_calls.argtypes = [ctypes.c_char_p]
    return library


def _number(version: str) -> tuple[int, ...]:
    """(0, 27, 1) of "0.27.1+cpu"."""
    found = re.match(r"\d+(\.\d+)*", version)
    if not found:
        raise _anyop.InvalidArgument(
            f"anyop.vllm: the version is '{version}', but must be like '0.27.1'."
        )
    return tuple(int(part) for part in found.group().split("."))
