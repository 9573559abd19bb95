# SPDX-License-Identifier: Apache-2.0
"""Calls in PyNative as spans of MindSpore's timeline, while its profiler runs on the CPU."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from anyop import _mindspore
from anyop.hosting.build import PACKAGE
from anyop.hosting.facts import Operator


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(str(PACKAGE / "anyop_mindspore.so"))


def follow() -> None:
    """From now on calls are handed back to this host while the profiler records operators. A
    MindSpore whose profiler is another has no spans.
    """
    try:
        from mindspore.profiler.platform.cpu_profiler import CpuProfiler
    except ImportError:
        return
    CpuProfiler.start = _with(CpuProfiler.start, _started)
    CpuProfiler.stop = _with(CpuProfiler.stop, _stopped)


def _with(function: Callable[..., Any], then: Callable[[Any], None]) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(self: Any) -> Any:
        made = function(self)
        then(self)
        return made

    return called


def _started(profiler: Any) -> None:
    from mindspore.profiler import ProfilerActivity

    is_wanted = ProfilerActivity.CPU in profiler._prof_ctx.activities
    _mindspore.hand_back(bool(is_wanted and _library().AnyopSpanIsKnown()))


def _stopped(profiler: Any) -> None:
    _mindspore.hand_back(False)


def call(op: Operator, args: tuple[Any, ...], out: Any) -> Any:
    """A call that was handed back, with a span around it."""
    name = op.name.encode()
    _library().AnyopSpanBegin(name)
    try:
        return op.function(*args, **({} if out is None else {"out": out}))
    finally:
        _library().AnyopSpanEnd(name)
