# SPDX-License-Identifier: Apache-2.0
"""Operators written once in C++, called on NumPy arrays.

    y = anyop.rms_norm(x, weight, eps=1e-5)      # results are new arrays ...
    anyop.rms_norm(x, weight, out=y)             # ... or the ones you give
    anyop.explain(anyop.rms_norm, x, weight)     # which kernel, and why not the others

The operators of the built-in library are attributes of this module; those of other libraries are
below `anyop.ops`: `anyop.ops.my_ops.scale`.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from anyop import _anyop, _hosts, _results
from anyop._anyop import (
    Error,
    Graph,
    GraphMemory,
    GraphNodeTime,
    GraphStats,
    Internal,
    InvalidArgument,
    NotAvailable,
    OutOfMemory,
    Unsupported,
    WrongType,
    get_num_threads,
    get_policy,
    reset_counters,
    set_num_threads,
    set_policy,
)
from anyop._define import define
from anyop._graph import graph
from anyop._graph.host_call import host
from anyop._graph.saved import SavedGraphs, load_graph, load_graphs, save_graphs
from anyop._libraries import Libraries, Library, builtin_names
from anyop._tune import TunedChoice, tune, tuned_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    Operator = Callable[..., Any]

__version__ = "0.1.0"

# A module, although made at run time: MindSpore's parser looks for operators in modules alone.
ops = Libraries()
sys.modules[ops.__name__] = ops


class KernelChoice(NamedTuple):
    """A kernel of an operator in one call: taken, or the reason why not."""

    kernel: str
    taken: bool
    reason: str
    probe_ns: float  # the time that `tune` recorded for this kernel; -1: it recorded none


class Explanation(NamedTuple):
    """What a call would do. `str()` gives it for people."""

    op: str
    call: str
    error: str  # why the call is refused; "" if it is not
    kernels: list[KernelChoice]  # best first
    notes: list[str]  # copies made, results left out
    workspace_bytes: int
    estimated_ns: float
    threads: int
    text: str

    @classmethod
    def _of(cls, row: tuple[Any, ...]) -> Explanation:
        name, call, error, kernels, *rest = row
        return cls._make([name, call, error, [KernelChoice(*k) for k in kernels], *rest])

    @property
    def kernel(self) -> str | None:
        """The kernel that runs, None if none does."""
        return next((k.kernel for k in self.kernels if k.taken), None)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


class Counter(NamedTuple):
    """Calls of one kernel since the last `reset_counters()`."""

    op: str
    kernel: str
    calls: int
    fallbacks: int  # calls that ran the composition because no kernel accepted
    copies: int  # arguments copied to contiguous memory
    device: str = "cpu"  # on which the calls ran: "cuda:0"


class Scope:
    """A `with` block in which this thread's calls follow other rules."""

    def __init__(
        self,
        policy: str | None = None,
        strict: bool | None = None,
        batch_invariant: bool | None = None,
        threads: int | None = None,
        data_checks: str | None = None,
        fallback_to_host: bool | None = None,
    ) -> None:
        self._settings = (policy, strict, batch_invariant, threads, data_checks, fallback_to_host)
        self._saved: list[bytes] = []  # several: one scope may be entered again inside of itself

    def __enter__(self) -> Scope:
        self._saved.append(_anyop.enter_scope(*self._settings))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _anyop.leave_scope(self._saved.pop())


def _one_setting(**setting: tuple[Any, str]) -> Scope:
    """The scope of one setting. It is given with what it must be, for the error about None: to
    `Scope` None means that a setting stays as it is, so the block would have no effect.
    """
    for name, (value, wanted) in setting.items():
        if value is None:
            raise WrongType(f"{name} is None, but must be {wanted}.")
    return Scope(**{name: value for name, (value, _) in setting.items()})


def policy(text: str) -> Scope:
    """`with anyop.policy('rms_norm=cpu_avx2,-softmax'):` chooses kernels inside the block."""
    return _one_setting(policy=(text, "a str"))


def strict(on: bool = True) -> Scope:
    """`with anyop.strict():` makes every silent slow path (a copy, a fallback) an error."""
    return _one_setting(strict=(on, "True or False"))


def batch_invariant(on: bool = True) -> Scope:
    """`with anyop.batch_invariant():` gives a row the same bits alone and inside a batch."""
    return _one_setting(batch_invariant=(on, "True or False"))


def threads(n: int) -> Scope:
    """`with anyop.threads(1):` bounds the threads of the calls inside the block."""
    return _one_setting(threads=(n, "an int"))


def data_checks(how: str) -> Scope:
    """`with anyop.data_checks("host"):` says who looks at the data of calls on a device.

    Indices and what an operator's own check reads, before a kernel uses them: the "device" (the
    default: an error comes with the next call or synchronisation), the "host" (data are copied, and
    the call waits; strict mode does so, and devices that cannot look), or nobody ("trusted").
    """
    return _one_setting(data_checks=(how, "a str"))


def fallback(to: str) -> Scope:
    """`with anyop.fallback("cpu"):` runs on the CPU what no kernel of a device takes.

    The call works on copies, waits for them, and counts as a fallback; without this block it is
    refused. InvalidArgument: `to` is not "cpu".
    """
    if not isinstance(to, str) or to != "cpu":
        raise InvalidArgument(f"fallback: {to!r} is no place to fall back to. Try 'cpu'.")
    return Scope(fallback_to_host=True)


class DeviceInfo(NamedTuple):
    """A device that a loaded library has brought."""

    device: str  # "cuda:0"
    model: str
    features: str  # words for a kernel's `.needs`, separated by commas
    library: str
    cores: int
    total_bytes: int
    free_bytes: int
    error: str = ""  # why its library cannot tell the rest; texts are empty then, and numbers 0


def devices() -> list[DeviceInfo]:
    """The devices of the loaded libraries; the CPU is none of them. One whose library cannot tell
    what it is (in a forked process, for example) has the reason as its `error`.
    """
    return [DeviceInfo._make(row) for row in _anyop.devices()]


def synchronize(device: str) -> None:
    """Waits for all work on a device ("cuda:0"), and raises what went wrong in it, once."""
    _anyop.synchronize(device)


def load(path: str | os.PathLike[str]) -> Library:
    """Loads an operator library, a shared object, and returns its operators as a namespace.

    Loading it again does nothing, unless it was built again: then its operators take the place of
    the loaded ones, in functions that the program holds, in graphs and in torch too. Calls that are
    running end with the old code. NotAvailable: no such file, or no operator library.
    InvalidArgument: it contradicts a loaded one, or what was built again has another signature or
    lacks an operator; the loaded one stays.

    A library of a device (anyop/device.h) is loaded in the same way: `devices()` then lists its
    devices, and its operators, if it has any, are what is returned. Kernels that it brings for a
    device of another library are replaced when it was built again; a device is not.
    """
    try:
        file = os.path.realpath(os.fsdecode(path))
    except (TypeError, ValueError):
        _anyop.load(path)  # says what is wrong with it
        raise
    _anyop.load(file)
    _hosts.operators_changed()
    for name, _, loaded_from in _anyop.libraries():
        if os.path.realpath(loaded_from) == file:
            return ops[name]
    for word, loaded_from, _, _ in _anyop.device_libraries():
        if os.path.realpath(loaded_from) == file:
            return Library(word)
    name = file.rpartition(os.sep)[2].partition(".")[0]
    return Library(name)  # kernels alone, for a device of another library


def load_package(name: str, folders: Iterable[str]) -> Library:
    """What the `__init__.py` of a package of operators calls: `load_package(__name__, __path__)`.

    Loads the package's library: the newest of the one that is installed with it and, for a package
    that is imported from its source tree, of the one that `anyop build` made there.
    `importlib.reload(package)` takes up what was built since. NotAvailable: there is none.
    """
    from anyop._packages import library_file

    return load(library_file(name, folders))


def inline(source: str, flags: Sequence[str] = ()) -> Library:
    """Compiles operators from a text in C++ and returns them as a namespace.

        twice = anyop.inline('''
        namespace anyop::ops { ...
        extern constinit const Op twice{.signature = "twice(x: f32[...]) -> (y: f32[...])", ...};
        }''').twice

    The text is what the file of an operator in a package holds; `#include "anyop/op.h"` may be left
    out. It is compiled once and kept in the user's cache, by its content, the compiler and anyop's
    headers. Each text is a library of its own, so that a changed one is used beside the old.
    flags: more options for the compiler ("-march=native").

    InvalidArgument: the text is wrong, with the place. NotAvailable: there is no compiler.
    """
    from anyop._inline import library_of

    return load(library_of(source, flags))


def load_installed() -> list[str]:
    """Imports every installed package of operators (entry point group `anyop.libraries`).

    Returns their names. NotAvailable names those that cannot be imported, after the others.
    """
    from importlib.metadata import entry_points

    names, failures = [], []
    for entry in entry_points(group="anyop.libraries"):
        try:
            entry.load()
            names.append(entry.name)
        except Exception as error:
            failures.append(f"{entry.name} ({type(error).__name__}: {error})")
    if failures:
        raise NotAvailable(
            f"load_installed: cannot import {', '.join(failures)}. "
            "Try reinstalling the package, or uninstall it."
        )
    return names


def explain(op: Operator | str, *args: Any, **kwargs: Any) -> Explanation:
    """Which kernel the call `op(*args, **kwargs)` takes, and why each other one is declined.

    Nothing is computed or written.
    """
    return Explanation._of(_anyop.explain(op, *args, **kwargs))


def info(op: Operator | str) -> dict[str, Any]:
    """The contract of an operator as data: parameters, results, kernels, gradient, document."""
    import json

    contract: dict[str, Any] = json.loads(_anyop.info_json(op))
    return contract


def contract(op: Operator | str) -> dict[str, Any]:
    """The signature of an operator as data: parameters, and per form the types and conditions.

    `anyop.symbolic.infer` evaluates it over a host's own integers.
    """
    import json

    trees: dict[str, Any] = json.loads(_anyop.contract_json(op))
    return trees


def schemas(op: Operator | str) -> tuple[str, str, str]:
    """The operator in PyTorch's schema language: functional, `.out` and in-place variant.

    "" where there is no such variant.
    """
    return _anyop.schemas(op)


def specs() -> list[dict[str, Any]]:
    """`info` of every operator, by full name: what `anyop list --json` prints."""
    return [info(name) for name in sorted(_anyop.functions())]


def counters() -> list[Counter]:
    """What ran since the last `reset_counters()`: a row per operator, kernel and device."""
    return [Counter(*row) for row in _anyop.counters()]


def __getattr__(name: str) -> Any:
    function = _anyop.functions().get(f"anyop.{name}") or _results.find(f"anyop.{name}")
    if function is None:
        elsewhere = [n for n in _anyop.functions() if n.endswith(f".{name}")]
        if elsewhere:
            hint = f" Did you mean 'anyop.ops.{elsewhere[0]}'?"
        else:
            hint = _anyop.did_you_mean(name, [*builtin_names(), *__all__])
        if not hint and not builtin_names():
            hint = " The file of its operators, anyop_ops.so, is missing. Try installing it again."
        raise AttributeError(f"anyop has no operator or attribute '{name}'.{hint}")
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *builtin_names()})


__all__ = [
    "Counter",
    "Error",
    "Explanation",
    "Graph",
    "GraphMemory",
    "GraphNodeTime",
    "GraphStats",
    "Internal",
    "InvalidArgument",
    "KernelChoice",
    "DeviceInfo",
    "Libraries",
    "Library",
    "NotAvailable",
    "OutOfMemory",
    "SavedGraphs",
    "Scope",
    "TunedChoice",
    "Unsupported",
    "WrongType",
    "batch_invariant",
    "contract",
    "counters",
    "data_checks",
    "define",
    "devices",
    "explain",
    "fallback",
    "get_num_threads",
    "get_policy",
    "graph",
    "host",
    "info",
    "inline",
    "load",
    "load_graph",
    "load_graphs",
    "load_installed",
    "load_package",
    "ops",
    "policy",
    "reset_counters",
    "save_graphs",
    "schemas",
    "set_num_threads",
    "set_policy",
    "specs",
    "strict",
    "synchronize",
    "threads",
    "tune",
    "tuned_file",
]

# An operator that has the name of a function above stays reachable as anyop.ops.anyop.<name>.
try:
    globals().update({n: f for n, f in Library("anyop").items() if n not in globals()})
except Error as error:
    # An ANYOP_* is wrong. The command `anyop` imports this module before it begins, so that only
    # an exit here gives its user the sentence without a traceback.
    if (sys.argv or [""])[0].rpartition("/")[2] in ("-m", "anyop"):
        sys.exit(str(error))
    raise

# Last: a host that starts at once finds the module complete.
_hosts.start()
