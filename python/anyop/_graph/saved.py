# SPDX-License-Identifier: Apache-2.0
"""Graphs in folders: `anyop.save_graphs`, `anyop.load_graph`, `anyop.load_graphs`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from anyop import _anyop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class SavedGraphs(NamedTuple):
    """What a folder holds."""

    graphs: dict[str, _anyop.Graph]
    metadata: Any


def save_graphs(
    path: str | os.PathLike[str],
    graphs: Mapping[str, _anyop.Graph],
    *,
    metadata: Any = None,
    files: Mapping[str, bytes | str] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> None:
    """Writes compiled graphs, by name, to the folder `path`, for Python and C++ to load.

        anyop.save_graphs("model.anyop", {"prefill": prefill, "decode": decode})

    metadata  anything that JSON holds; `load_graphs` gives it back
    files     other files of the folder, by name
    progress  called with the bytes written so far and all that are to be written

    The folder holds each graph as text, and its state and constants as they are now in one
    safetensors file; memory that graphs share is written once. A folder of saved graphs that is
    there already is replaced in one step; anything else is not touched.

    Errors: InvalidArgument where a graph calls Python, or `path` is something else, a link, or a
    folder with other files in it; NotAvailable where the system does not let it write.
    """
    folder = _path(path, "save")
    contents = []
    for name, content in (files or {}).items():
        data = _utf8(content, f"the file {name!r}") if isinstance(content, str) else bytes(content)
        contents.append((_name(name, "a file"), data))
    named = [(_name(name, "a graph"), graph) for name, graph in graphs.items()]
    try:
        text = json.dumps({} if metadata is None else metadata, allow_nan=False)
    except ValueError as error:  # NaN, a list that holds itself
        raise _anyop.InvalidArgument(f"save: the metadata are no JSON: {error}.") from error
    _anyop.save_graphs(folder, named, text, contents, progress)


def load_graph(
    path: str | os.PathLike[str], name: str | None = None, *, verify: bool = True
) -> _anyop.Graph:
    """The graph that `Graph.save` wrote, or the one of this name among several.

    Every file, and every tensor that is used, is compared with the digest that was saved;
    `verify=False` leaves that out: then weights are read when they are used first. The state that
    the graph changes is its own: the file stays as it is.

    Errors: NotAvailable without such a folder or graph, for one that another version of anyop
    wrote, and for operators that are not loaded; InvalidArgument where files are damaged, or the
    signature of an operator has changed since.
    """
    which = "" if name is None else _name(name, "a graph", "load")
    graphs, _ = _anyop.load_graphs(_path(path, "load"), which, verify)
    return next(iter(graphs.values()))


def load_graphs(path: str | os.PathLike[str], *, verify: bool = True) -> SavedGraphs:
    """All graphs of a folder, by name, and its metadata. They share state as they did."""
    graphs, metadata = _anyop.load_graphs(_path(path, "load"), None, verify)
    return SavedGraphs(graphs, json.loads(metadata))


def _path(path: str | os.PathLike[str], what: str) -> bytes:
    """A path as the system takes it: any bytes but 0."""
    try:
        name = os.fsencode(path)
    except TypeError:
        raise _anyop.WrongType(
            f"{what}: path is {_anyop.show(path)}, but must be a path."
        ) from None
    except UnicodeEncodeError as error:
        raise _anyop.InvalidArgument(
            f"{what}: the path {path!r} cannot be encoded in {error.encoding}."
        ) from error
    if b"\0" in name:
        raise _anyop.InvalidArgument(f"{what}: the path {path!r} holds a character 0.")
    return name


def _utf8(text: str, what: str, action: str = "save") -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _anyop.InvalidArgument(
            f"{action}: {what} is text that UTF-8 cannot hold, at character {error.start}."
        ) from error


def _name(name: object, what: str, action: str = "save") -> str:
    if not isinstance(name, str):
        raise _anyop.WrongType(f"{action}: {what} is called {name!r}, but must be called by text.")
    if b"\0" in _utf8(name, f"{name!r}, the name of {what},", action):
        raise _anyop.InvalidArgument(f"{action}: {what} is called {name!r}, with a character 0.")
    return name
