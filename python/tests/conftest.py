# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import gc
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyop
import numpy as np
import pytest
from checkout import ROOT


@pytest.fixture(autouse=True, scope="module")
def cheap_collections() -> Iterator[None]:
    """What a file of tests leaves alive is looked at once. Torch's compilers allocate so much that
    collections of all objects, which then are millions, otherwise take a tenth of the time, and
    far more in a process that has run thousands of tests."""
    gc.collect()
    gc.freeze()
    before = gc.get_threshold()
    gc.set_threshold(20_000, 20, 50)
    yield
    gc.set_threshold(*before)


@pytest.fixture(scope="session")
def probe_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of operators that show how the host passes arguments, built from probe/."""
    folder = tmp_path_factory.mktemp("probe")
    sources = Path(__file__).parent / "probe"
    table, library = folder / "table.cc", folder / "probe.so"
    list_ops = [sys.executable, str(ROOT / "tools" / "list_ops.py")]
    what = ["--name", "probe", "--folder", str(sources), "--output", str(table)]
    subprocess.run([*list_ops, *what], check=True)
    compiler = [os.environ.get("CXX", "c++"), "-std=c++20", "-O1", "-shared", "-fPIC"]
    files = [str(sources / "probe.cc"), str(table), "-o", str(library)]
    subprocess.run([*compiler, f"-I{ROOT / 'include'}", *files], check=True)
    return library


@pytest.fixture(scope="session")
def probe(probe_file: Path) -> Any:
    return anyop.load(probe_file)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Of a command that failed, its output too: the exception has but the exit status."""
    report = yield
    error = call.excinfo and call.excinfo.value
    if isinstance(error, subprocess.CalledProcessError):
        for name, output in (("stdout", error.stdout), ("stderr", error.stderr)):
            text = output.decode(errors="replace") if isinstance(output, bytes) else output
            if text:
                report.sections.append((f"{name} of the command", text))
    return report


_TWO_STOPS = re.compile(r"(?<!\.)\.\.(?=\s|$)")


@pytest.fixture(autouse=True)
def sentences_end_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that is made of sentences has one full stop after each: in every error that a test
    expects. MindSpore adds reports of its own to errors, so that there those of our classes are
    looked at."""
    kind = type(pytest.raises(ValueError))
    leave = kind.__exit__

    def look(self: Any, *args: Any) -> bool:
        is_expected = leave(self, *args)
        is_plain = isinstance(args[1], anyop.Error) or "mindspore" not in sys.modules
        if is_expected and is_plain and args[1] is not None:
            assert not _TWO_STOPS.search(str(args[1])), f"two full stops: {args[1]}"
        return is_expected

    monkeypatch.setattr(kind, "__exit__", look)


@functools.cache
def _graph_that_writes() -> Any:
    state = np.zeros(4, np.float32)
    return anyop.graph(lambda x: anyop.add(x, state, out=state), "f32[4]")


@pytest.fixture(autouse=True)
def warm(request: pytest.FixtureRequest) -> None:
    """Tests of the torch host begin after a call of a graph that wrote its state: nothing that a
    thread's last call leaves behind may decide about the next one."""
    if request.path.parent.name == "torch":
        _graph_that_writes()(np.ones(4, np.float32))


@pytest.fixture(autouse=True)
def no_defects(request: pytest.FixtureRequest) -> Iterator[None]:
    """A program that a defect of anyop sends to torch is right, but slow: no test overlooks it."""
    defects = sys.modules.get("anyop.torch._lower.defects")
    if defects:
        defects._logged.clear()
    yield
    defects = sys.modules.get("anyop.torch._lower.defects")
    if defects and not request.node.get_closest_marker("defects"):
        found, defects._logged = defects._logged, set()
        assert not found, f"defects were logged at {sorted(found)}"
