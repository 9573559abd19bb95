# SPDX-License-Identifier: Apache-2.0
"""How a kernel is called: from a command line, or from a TOML file beside the kernels' file."""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from anyop import _anyop
from anyop.ascend.build import Settings
from anyop.ascend.expressions import whole
from anyop.ascend.tiling import Tiling

_RANGE = re.compile(r"(\d+)\s*\.\.\s*(\d+)")
MOST_BLOCKS = 65535
_KEYS = ("blocks", "sizes", "arguments", "soc", "tiling_key", "tiling")
_TILING = ("file", "op", "attributes")
_COMPILE = ("includes", "folders", "defines")


@dataclass(frozen=True)
class Case:
    """Calls of one kernel. sizes: the least and the largest value of each name. arguments: texts,
    with the name of the parameter or "" for the next one.
    """

    blocks: str = "1"
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    arguments: tuple[tuple[str, str], ...] = ()
    soc: str = ""
    tiling_key: int = 0
    tiling: Tiling | None = None  # then it says blocks, tiling_key and two of the arguments

    def largest(self) -> dict[str, int]:
        return {name: most for name, (_, most) in self.sizes.items()}

    def drawn(self, rng: np.random.Generator) -> dict[str, int]:
        """Small and even sizes often: most faults are at an end or beside one."""
        drawn = {}
        for name, (least, most) in self.sizes.items():
            value = int(rng.integers(least, most + 1))
            if rng.random() < 0.3:
                value = int(np.clip(2 ** rng.integers(0, 12), least, most))
            drawn[name] = most if rng.random() < 0.1 else least if rng.random() < 0.1 else value
        return drawn


def number_of_blocks(case: Case, sizes: Mapping[str, int]) -> int:
    """Of a launch with these sizes. Raises InvalidArgument where there cannot be so many."""
    blocks = whole(case.blocks, sizes)
    if not 1 <= blocks <= MOST_BLOCKS:
        given = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        raise _anyop.InvalidArgument(
            f"'{case.blocks}' is {blocks} blocks{f' with {given}' if given else ''}, but a launch "
            f"has 1 to {MOST_BLOCKS}."
        )
    return blocks


def ordered(case: Case, names: Sequence[str] | None, parameters: Sequence[str]) -> list[str]:
    """A text for each parameter. names: as the source shows them; parameters: what they are."""
    texts: list[str | None] = [None] * len(parameters)
    for name, text in case.arguments:
        at = _place(name, names, texts)
        if at >= len(texts):
            raise _anyop.InvalidArgument(
                f"{len(case.arguments)} arguments are described, but the kernel takes "
                f"{_list(names, parameters)}."
            )
        if texts[at] is not None:
            raise _anyop.InvalidArgument(f"{_called(names, at)} is described twice.")
        texts[at] = text
    if None in texts:
        lacking = [_called(names, i) for i, text in enumerate(texts) if text is None]
        raise _anyop.InvalidArgument(
            f"{', '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not described; the "
            f"kernel takes {_list(names, parameters)}. "
            f"Try --arg '{lacking[0]}=f16[8, 64]' or a file beside the source (docs/ascend.md)."
        )
    return [text for text in texts if text is not None]


def _place(name: str, names: Sequence[str] | None, texts: Sequence[str | None]) -> int:
    if not name:
        return next((i for i, text in enumerate(texts) if text is None), len(texts))
    numbered = re.fullmatch(r"arg(\d+)", name)
    if names is not None and name in names:
        return list(names).index(name)
    if numbered:
        return int(numbered[1])
    known = [_called(names, i) for i in range(len(texts))]
    hidden = "" if names else " The text does not show their names."
    raise _anyop.InvalidArgument(
        f"the kernel has no parameter {name}.{_anyop.did_you_mean(name, known)} "
        f"It has {', '.join(known)}.{hidden}"
    )


def _called(names: Sequence[str] | None, i: int) -> str:
    return (names[i] if names and i < len(names) else "") or f"arg{i}"


def _list(names: Sequence[str] | None, parameters: Sequence[str]) -> str:
    return ", ".join(f"{_called(names, i)} ({what})" for i, what in enumerate(parameters))


def sizes_of(texts: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """n = 64, or n = "1..300"."""
    sizes = {}
    for name, text in texts.items():
        between = _RANGE.fullmatch(str(text).strip())
        if between and int(between[1]) <= int(between[2]):
            sizes[name] = (int(between[1]), int(between[2]))
        elif str(text).strip().isdigit():
            sizes[name] = (int(text), int(text))
        else:
            raise _anyop.InvalidArgument(
                f"the size {name} is '{text}', but must be a number or a range such as 1..300."
            )
    return sizes


@dataclass(frozen=True)
class File:
    """A TOML file: how the source is compiled, and a case for each kernel."""

    settings: Settings = field(default_factory=Settings)
    cases: dict[str, Case] = field(default_factory=dict)


def read(path: Path) -> File:
    """Raises InvalidArgument for what is no such file."""
    try:
        tables = _toml().loads(path.read_text("utf-8-sig").replace("\r\n", "\n"))
    except ValueError as error:
        raise _anyop.InvalidArgument(f"{path.name} is no TOML: {error}.") from None
    compile_ = _table(path, "compile", tables.pop("compile", {}), _COMPILE)
    for key, value in compile_.items():
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise _anyop.InvalidArgument(f"{path.name}: {key} of [compile] is no list of texts.")
    folder = path.parent
    settings = Settings(
        tuple(folder / name for name in compile_.get("includes", ())),
        tuple(folder / name for name in compile_.get("folders", ())),
        tuple(compile_.get("defines", ())),
    )
    return File(settings, {name: _case(path, name, table) for name, table in tables.items()})


def _table(path: Path, name: str, table: Any, known: Sequence[str] = ()) -> dict[str, Any]:
    if not isinstance(table, dict):
        hint = f" Try [{name}] with {', '.join(known[:3])}." if known else ""
        raise _anyop.InvalidArgument(f"{path.name}: {name} is no table.{hint}")
    for key in table:
        if known and key not in known:
            raise _anyop.InvalidArgument(
                f"{path.name}: [{name}] has {key}, which is not known."
                f"{_anyop.did_you_mean(key, list(known))}"
            )
    return table


def _case(path: Path, kernel: str, given: Any) -> Case:
    table = _table(path, kernel, given, _KEYS)
    arguments = _table(path, f"{kernel}.arguments", table.get("arguments", {}))
    key = table.get("tiling_key", 0)
    if not isinstance(key, int):
        raise _anyop.InvalidArgument(f"{path.name}: tiling_key is {key!r}, but must be a number.")
    return Case(
        str(table.get("blocks", 1)),
        sizes_of(_table(path, f"{kernel}.sizes", table.get("sizes", {}))),
        tuple((name, str(text)) for name, text in arguments.items()),
        str(table.get("soc", "")),
        key,
        _tiling(path, kernel, table["tiling"]) if "tiling" in table else None,
    )


def _tiling(path: Path, kernel: str, given: Any) -> Tiling:
    table = _table(path, f"{kernel}.tiling", given, _TILING)
    if "file" not in table:
        raise _anyop.InvalidArgument(f"{path.name}: [{kernel}.tiling] names no file.")
    attributes = _table(path, f"{kernel}.tiling.attributes", table.get("attributes", {}))
    return Tiling(path.parent / str(table["file"]), str(table.get("op", kernel)), attributes)


def attributes_of(texts: Mapping[str, str]) -> dict[str, Any]:
    """As TOML has values; what is none is a text."""
    found: dict[str, Any] = {}
    for name, text in texts.items():
        try:
            found[name] = _toml().loads(f"value = {text}")["value"]
        except ValueError:
            found[name] = text
    return found


def _toml() -> Any:
    for name in ("tomllib", "tomli"):  # Python 3.10 has none of its own
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name)
    raise _anyop.NotAvailable("reading TOML needs tomli. Try: pip install tomli")


def changed(case: Case, **given: Any) -> Case:
    """What a command line says comes before what the file says."""
    sizes = {**case.sizes, **given.pop("sizes", {})}
    arguments: tuple[tuple[str, str], ...] = given.pop("arguments", ())
    if arguments and all(name for name, _ in arguments):
        kept = [a for a in case.arguments if a[0] not in dict(arguments)]
        arguments = (*kept, *arguments)
    changes = {k: v for k, v in given.items() if v}
    return replace(case, sizes=sizes, arguments=arguments or case.arguments, **changes)


def check_sizes(case: Case, names: Collection[str]) -> None:
    """Raises InvalidArgument for a size that no text uses, as one that is misspelt is."""
    texts = [case.blocks, *(text for _, text in case.arguments)]
    for name in sorted(names):
        if not any(re.search(rf"\b{re.escape(name)}\b", text) for text in texts):
            raise _anyop.InvalidArgument(f"nothing uses the size {name}.")
