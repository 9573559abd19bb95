# SPDX-License-Identifier: Apache-2.0
"""How a kernel is called: from a command line, or from a TOML file beside the kernels' file."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from anyop import _anyop
from anyop._toml import toml_module
from anyop.ascend.build import Settings
from anyop.ascend.expressions import whole
from anyop.ascend.places import told_of
from anyop.ascend.source import Source
from anyop.ascend.tiling import Tiling

_RANGE = re.compile(r"(\d+)\s*\.\.\s*(\d+)")
MOST_BLOCKS = 65535
MOST_KEY = 2**64 - 1  # of a tiling
_KEYS = ("blocks", "sizes", "arguments", "soc", "tiling_key", "tiling")
_TILING = ("file", "op", "attributes")
_COMPILE = ("includes", "folders", "defines")


@dataclass(frozen=True)
class Case:
    """Calls of one kernel. sizes: the least and the largest value of each name. arguments: texts,
    with the name of the parameter or "" for the next one. places: of what a file says, where it
    says so ("silu.toml: x of [silu.arguments]"), by keys such as "blocks" and "arguments.x".
    """

    blocks: str = "1"
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    arguments: tuple[tuple[str, str], ...] = ()
    soc: str = ""
    tiling_key: int = 0
    tiling: Tiling | None = None  # then it says blocks, tiling_key and two of the arguments
    places: Mapping[str, str] = field(default_factory=dict, compare=False)

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
    with told_of(case.places.get("blocks", "")):
        blocks = whole(case.blocks, sizes)
        if not 1 <= blocks <= MOST_BLOCKS:
            given = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            raise _anyop.InvalidArgument(
                f"'{case.blocks}' is {blocks} blocks{f' with {given}' if given else ''}, but a "
                f"launch has 1 to {MOST_BLOCKS}."
            )
    return blocks


def ordered(case: Case, names: Sequence[str] | None, parameters: Sequence[str]) -> list[str]:
    """A text for each parameter. names: as the source shows them; parameters: what they are."""
    texts: list[str | None] = [None] * len(parameters)
    for name, text in case.arguments:
        with told_of(case.places.get(f"arguments.{name}", "")):
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
        with told_of(case.places.get("arguments", "")):
            raise _anyop.InvalidArgument(
                f"{', '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not described; the "
                f"kernel takes {_list(names, parameters)}. "
                f"Try --arg '{lacking[0]}=f16[8, 64]' or a file beside the source (docs/ascend.md)."
            )
    return [text for text in texts if text is not None]


def places_of_arguments(case: Case, names: Sequence[str] | None, number: int) -> list[str]:
    """Where the text of each parameter stands, as `ordered` has them; "" on a command line."""
    found: list[str | None] = [None] * number
    for name, _ in case.arguments:
        found[_place(name, names, found)] = case.places.get(f"arguments.{name}", "")
    return [place or "" for place in found]


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
        tables = toml_module().loads(path.read_text("utf-8-sig").replace("\r\n", "\n"))
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
    for key, folders in (("includes", settings.includes), ("folders", settings.folders)):
        for there in folders:
            if not there.exists():
                raise _anyop.InvalidArgument(
                    f"{path.name}: {key} of [compile] names {there}, which does not exist."
                )
    return File(settings, {name: _case(path, name, table) for name, table in tables.items()})


def check_kernels(path: Path, file: File, source: Source) -> None:
    """Raises InvalidArgument where the file has a table of a kernel that the source does not."""
    there = [kernel.name for kernel in source.declared]
    for name in file.cases:
        if name.partition("<")[0] in there or source.has_macros():
            continue
        raise _anyop.InvalidArgument(
            f"{path.name}: [{name}] is no kernel of {source.path.name}."
            f"{_anyop.did_you_mean(name, there)} Its kernels: {', '.join(there) or 'none'}."
        )


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
    places = {key: f"{path.name}: {key} of [{kernel}]" for key in table}
    places["arguments"] = f"{path.name}: [{kernel}.arguments]"
    for name, text in arguments.items():
        place = f"{path.name}: {name} of [{kernel}.arguments]"
        places[f"arguments.{name}"] = place
        _check_type(place, text, (str, int, float), 'a text or a number. Try "f16[8, 64]"')
    key = table.get("tiling_key", 0)
    _check_type(places.get("tiling_key", ""), key, (int,), "a whole number")
    if not 0 <= key <= MOST_KEY:
        raise _anyop.InvalidArgument(f"{places['tiling_key']} is {key}, but must fit in 64 bits.")
    blocks, soc = table.get("blocks", 1), table.get("soc", "")
    _check_type(places.get("blocks", ""), blocks, (str, int), 'a text or a number. Try "min(n, 8)"')
    _check_type(places.get("soc", ""), soc, (str,), "a text")
    given_sizes = _table(path, f"{kernel}.sizes", table.get("sizes", {}))
    with told_of(f"{path.name}: [{kernel}.sizes]"):
        sizes = sizes_of(given_sizes)
    return Case(
        str(blocks),
        sizes,
        tuple((name, str(text)) for name, text in arguments.items()),
        soc,
        key,
        _tiling(path, kernel, table["tiling"]) if "tiling" in table else None,
        places,
    )


def _check_type(place: str, value: Any, types: tuple[type, ...], wanted: str) -> None:
    # To Python a bool is an int, but `true` is no number in TOML.
    if not isinstance(value, types) or isinstance(value, bool):
        raise _anyop.InvalidArgument(f"{place} is {value!r}, but must be {wanted}.")


def _tiling(path: Path, kernel: str, given: Any) -> Tiling:
    table = _table(path, f"{kernel}.tiling", given, _TILING)
    if "file" not in table:
        raise _anyop.InvalidArgument(f"{path.name}: [{kernel}.tiling] names no file.")
    attributes = _table(path, f"{kernel}.tiling.attributes", table.get("attributes", {}))
    file = path.parent / str(table["file"])
    if not file.is_file():
        raise _anyop.InvalidArgument(
            f"{path.name}: file of [{kernel}.tiling] is {file}, which does not exist."
        )
    return Tiling(file, str(table.get("op", kernel)), attributes)


def attributes_of(texts: Mapping[str, str]) -> dict[str, Any]:
    """Texts of a command line as TOML has values; one that is no value there stays a text."""
    found: dict[str, Any] = {}
    for name, text in texts.items():
        try:
            found[name] = toml_module().loads(f"value = {text}")["value"]
        except ValueError:
            found[name] = text
    return found


def changed(case: Case, **given: Any) -> Case:
    """What a command line says comes before what the file says."""
    sizes = {**case.sizes, **given.pop("sizes", {})}
    arguments: tuple[tuple[str, str], ...] = given.pop("arguments", ())
    changes = {k: v for k, v in given.items() if v}
    told = {*changes, *(f"arguments.{name}" for name, _ in arguments)}
    if arguments and all(name for name, _ in arguments):
        kept = [a for a in case.arguments if a[0] not in dict(arguments)]
        arguments = (*kept, *arguments)
    elif arguments:
        told |= {key for key in case.places if key.startswith("arguments")}
    places = {key: place for key, place in case.places.items() if key not in told}
    return replace(
        case, sizes=sizes, arguments=arguments or case.arguments, places=places, **changes
    )


def check_sizes(case: Case, names: Collection[str]) -> None:
    """Raises InvalidArgument for a size that no text uses, as one that is misspelt is."""
    texts = [case.blocks, *(text for _, text in case.arguments)]
    for name in sorted(names):
        if not any(re.search(rf"\b{re.escape(name)}\b", text) for text in texts):
            raise _anyop.InvalidArgument(f"nothing uses the size {name}.")
