# SPDX-License-Identifier: Apache-2.0
"""Graphs of another process, by MindSpore's compile cache or as MindIR: right, or refused."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

PROGRAM = """
import sys, anyop, mindspore as ms, numpy as np
from mindspore import Tensor, nn
def kernels(call):
    anyop.reset_counters()
    made = call(x).asnumpy()
    return made, [c.kernel for c in anyop.counters()]
def plain(x):
    return anyop.rms_norm(x) + 1
def scoped(x):
    return anyop.gelu(x) + 2
def of_loaded(x):
    return LOADED(x)
class Net(nn.Cell):
    def construct(self, x):
        return anyop.rms_norm(x, eps=1e-3) + 1
class Kept(nn.Cell):
    def construct(self, x):
        return anyop.ops.user.kept(x) + 1
class Changed(nn.Cell):
    def construct(self, x):
        return anyop.ops.user.changed(x) + 1
class Around(nn.Cell):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def construct(self, x):
        return self.inner(x) * 2
a = np.arange(8, dtype="f4").reshape(2, 4)
x = Tensor(a)
portable = "rms_norm=cpu_portable,gelu=cpu_portable"
ms.set_context(enable_compile_cache=True, compile_cache_path="cache")
exec(open(sys.argv[1]).read())
"""
SAVE = """
print(kernels(ms.jit(plain))[1] == ["cpu_portable"])
with anyop.policy(portable), anyop.threads(1):
    print(kernels(ms.jit(scoped))[1] == ["cpu_portable"])
ms.set_context(enable_compile_cache=False)
@anyop.define("kept(x: T[...]) -> (y: T[...]) where T in f32")
def kept(x):
    return anyop.add(x, x)
@anyop.define("changed(x: T[...]) -> (y: T[...]) where T in f32")
def changed(x):
    return anyop.add(x, x)
ms.set_context(mode=ms.GRAPH_MODE)
for name, net in {"net": Net(), "kept": Kept(), "changed": Changed()}.items():
    ms.export(net, x, file_name=name, file_format="MINDIR")
with anyop.strict():
    ms.export(Net(), x, file_name="strict", file_format="MINDIR")
"""
LOAD = """
with anyop.policy(portable):
    made, found = kernels(ms.jit(plain))
    print(found == ["cpu_portable"] and np.allclose(made, anyop.rms_norm(a) + 1))
made, found = kernels(ms.jit(scoped))
print(found != ["cpu_portable"] and np.allclose(made, anyop.gelu(a) + 2))
ms.set_context(enable_compile_cache=False, mode=ms.GRAPH_MODE)
@anyop.define("changed(x: T[..., n]) -> (y: T[..., n]) where T in f32")
def changed(x):
    return anyop.add(x, x)
def shown(name, around=lambda call: call):
    try:
        made = around(nn.GraphCell(ms.load(f"{name}.mindir")))(x).asnumpy()
        print(np.array_equal(made, anyop.rms_norm(a, eps=1e-3) + 1))
    except (anyop.Error, RuntimeError) as error:
        print(str(error).splitlines()[0])
shown("net")
with anyop.strict():
    shown("strict")
    shown("net")
    shown("net", Around)
    LOADED = nn.GraphCell(ms.load("net.mindir"))
    shown("net", lambda call: ms.jit(of_loaded))
shown("strict")
shown("kept")
shown("changed")
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the process prints that loads what another saved."""
    folder = tmp_path_factory.mktemp("saved")
    # One program: MindSpore's cache compares the files of what runs.
    (folder / "program.py").write_text(PROGRAM)
    told = []
    for name, step in {"save": SAVE, "load": LOAD}.items():
        (folder / name).write_text(step)
        run = [sys.executable, "program.py", name]
        done = subprocess.run(run, capture_output=True, text=True, cwd=folder, check=False)
        assert done.returncode == 0, done.stderr
        told = done.stdout.splitlines()
    return told


def test_the_compile_cache_knows_scopes(loaded: list[str]) -> None:
    assert loaded[:2] == ["True", "True"]


NO_SCOPE = (
    "rms_norm: the graph was made in no scope, but is called in strict, and a graph that is loaded "
    "keeps its scope. Try the call in the same scope, or export the graph in that of the call."
)
IN_STRICT = (
    "rms_norm: the graph was made in strict, but is called in no scope, and a graph that is loaded "
    "keeps its scope. Try the call in the same scope, or export the graph in that of the call."
)


def test_a_saved_graph_runs_in_the_scope_in_which_it_was_made(loaded: list[str]) -> None:
    assert loaded[2:8] == ["True", "True", NO_SCOPE, NO_SCOPE, NO_SCOPE, IN_STRICT]


def test_a_saved_graph_is_refused_by_the_names_of_its_operators(loaded: list[str]) -> None:
    told = [re.sub("[0-9a-f]{32}", "H", line) for line in loaded[8:]]
    assert told == [
        "there is no operator 'user.kept'.",
        "user.changed: the graph was made with contract H, but the library that is loaded has "
        "contract H. Try making the graph anew, or load the library that it was made with.",
    ]
