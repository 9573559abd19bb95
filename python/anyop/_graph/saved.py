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

    Errors: InvalidArgument where a graph calls Python, or `path` is something else; NotAvailable
    where the system does not let it write.
    """
    contents = [
        (name, content.encode() if isinstance(content, str) else bytes(content))
        for name, content in (files or {}).items()
    ]
    text = json.dumps({} if metadata is None else metadata)
    _anyop.save_graphs(path, list(graphs.items()), text, contents, progress)


def load_graph(path: str | os.PathLike[str], name: str | None = None) -> _anyop.Graph:
    """The graph that `Graph.save` wrote, or the one of this name among several.

    Weights are mapped into memory and read when they are used first. The state that the graph
    changes is its own: the file stays as it is.

    Errors: NotAvailable without such a folder or graph, for one that a newer anyop wrote, and for
    operators that are not loaded; InvalidArgument where files are damaged, or the signature of an
    operator has changed since.
    """
    graphs, _ = _anyop.load_graphs(path, name or "")
    return next(iter(graphs.values()))


def load_graphs(path: str | os.PathLike[str]) -> SavedGraphs:
    """All graphs of a folder, by name, and its metadata. They share state as they did."""
    graphs, metadata = _anyop.load_graphs(path, None)
    return SavedGraphs(graphs, json.loads(metadata))
