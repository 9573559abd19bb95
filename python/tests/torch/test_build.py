# SPDX-License-Identifier: Apache-2.0
"""The adapter: built with anyop, on first use, by two processes at once; or not at all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")

PACKAGE = Path(anyop.__file__).parent
REPORT = """
import json, sys, torch
{before}
import anyop
y = torch.ops.anyop.sigmoid(torch.zeros(2))
x = torch.zeros(2, requires_grad=True)
torch.ops.anyop.sigmoid(x).sum().backward()
status = anyop.torch.status()
print(json.dumps([status.route, status.why, status.file, y.tolist(), x.grad.tolist()]))
"""


class Process:
    """A Python that imports anyop, possibly from a copy of the package without an adapter."""

    def __init__(self, package: Path, env: dict[str, str], before: str = "") -> None:
        self.run = subprocess.Popen(
            [sys.executable, "-c", REPORT.format(before=before)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(package.parent), **env},
            start_new_session=True,
        )

    def report(self) -> tuple[dict[str, Any], str]:
        out, err = self.run.communicate(timeout=300)
        assert self.run.returncode == 0, err
        route, why, file, y, grad = json.loads(out)
        assert y == [0.5, 0.5]
        assert grad == [0.25, 0.25]
        return {"route": route, "why": why, "file": file}, err


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """The package as a wheel has it that was built without torch."""
    from anyop.hosting.build import carried

    package = tmp_path / "site" / "anyop"
    carries = {"bindings/torch": ".h .cc", "bindings/vllm": ".h .cc", "src": ".h", "include": ".h",
               "cmake/exports": ".map"}  # fmt: skip
    for folder, endings in carries.items():
        for file in carried(folder).rglob("*.*"):
            if file.suffix in endings.split():
                place = package / folder / file.relative_to(carried(folder))
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, place)
    for folder in ("torch", "hosting"):  # which find the package by their own place
        shutil.copytree(PACKAGE / folder, package / folder)
    for entry in PACKAGE.iterdir():
        if not entry.name.startswith("torch") and not (package / entry.name).exists():
            (package / entry.name).symlink_to(entry.resolve())
    return package


@pytest.fixture
def slow_compiler(tmp_path: Path) -> Path:
    """A compiler that notes when it starts, and makes a copy of the adapter at hand."""
    built = sorted(PACKAGE.glob("torch_adapter-*.so"))
    if not built:
        pytest.skip("no adapter was built with anyop")
    script = tmp_path / "bin" / "cxx"
    script.parent.mkdir()
    script.write_text(
        f"""#!/bin/sh
echo start >> {tmp_path}/log
while [ $# -gt 1 ]; do if [ "$1" = -o ]; then out=$2; fi; shift; done
head -c 1000 {built[0].resolve()} > "$out"
sleep 1
cp {built[0].resolve()} "$out"
"""
    )
    script.chmod(0o755)
    return script


def test_the_adapter_of_the_package_is_used() -> None:
    if os.environ.get("ANYOP_TORCH") == "python":
        pytest.skip("the Python route is asked for")
    status = anyop.torch.status()
    if not list(PACKAGE.glob("torch_adapter-*.so")):
        pytest.skip("no adapter was built with anyop")
    assert (status.route, status.why) == ("compiled adapter", "built with anyop")
    assert status.torch == torch.__version__


def test_the_python_route_can_be_asked_for() -> None:
    status, _ = Process(PACKAGE, {"ANYOP_TORCH": "python"}).report()
    assert status == {"route": "python route", "why": "ANYOP_TORCH is python", "file": ""}


@pytest.mark.slow
def test_it_is_built_on_first_use(bare: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    status, err = Process(bare, {"ANYOP_CACHE": str(cache)}).report()
    assert (status["route"], status["why"]) == ("compiled adapter", "built on first use")
    assert Path(status["file"]).parent == cache
    assert err.startswith("anyop: building its adapter for torch ")
    assert len(err.splitlines()) == 1
    again, err = Process(bare, {"ANYOP_CACHE": str(cache)}).report()
    assert again == status
    assert err == ""


def test_two_processes_build_it_once(bare: Path, slow_compiler: Path, tmp_path: Path) -> None:
    env = {"ANYOP_CACHE": str(tmp_path / "cache"), "CXX": str(slow_compiler)}
    both = [Process(bare, env) for _ in range(2)]
    reports = [p.report()[0] for p in both]
    assert [r["route"] for r in reports] == ["compiled adapter"] * 2
    assert (tmp_path / "log").read_text() == "start\n"


@pytest.mark.slow
def test_a_killed_build_is_made_again(bare: Path, slow_compiler: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    env = {"ANYOP_CACHE": str(cache), "CXX": str(slow_compiler)}
    killed = Process(bare, env)
    deadline = time.monotonic() + 60
    while not list(cache.glob("*.tmp/made")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(killed.run.pid, signal.SIGKILL)
    killed.run.communicate()
    left = list(cache.glob("*.tmp"))
    assert left
    status, _ = Process(bare, env).report()
    assert status["route"] == "compiled adapter"
    assert not list(cache.glob("*.tmp*"))


@pytest.mark.slow
def test_a_damaged_file_is_built_again(bare: Path, slow_compiler: Path, tmp_path: Path) -> None:
    env = {"ANYOP_CACHE": str(tmp_path / "cache"), "CXX": str(slow_compiler)}
    status, _ = Process(bare, env).report()
    Path(status["file"]).write_bytes(b"not a shared object")
    again, _ = Process(bare, env).report()
    assert again == status


@pytest.mark.slow
def test_a_cache_that_cannot_be_written(bare: Path, slow_compiler: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    env = {"ANYOP_CACHE": str(blocked / "cache"), "CXX": str(slow_compiler)}
    status, _ = Process(bare, {**env, "TMPDIR": str(scratch)}).report()
    assert status["route"] == "compiled adapter"
    assert Path(status["file"]).is_relative_to(scratch)
    assert stat.S_IMODE(Path(status["file"]).parent.stat().st_mode) == 0o700


@pytest.mark.slow
def test_a_cache_that_others_may_write_is_not_used(
    bare: Path, slow_compiler: Path, tmp_path: Path
) -> None:
    cache, scratch = tmp_path / "cache", tmp_path / "scratch"
    cache.mkdir()
    cache.chmod(0o777)
    scratch.mkdir()
    (scratch / f"anyop-{os.getuid()}").write_text("in the way")
    env = {"ANYOP_CACHE": str(cache), "CXX": str(slow_compiler), "TMPDIR": str(scratch)}
    status, _ = Process(bare, env).report()
    assert status["route"] == "python route"
    assert "no cache folder can be written" in status["why"]
    assert "others may write to it" in status["why"]


def test_without_a_compiler(bare: Path, tmp_path: Path) -> None:
    env = {"ANYOP_CACHE": str(tmp_path), "CXX": "no-such-compiler"}
    status, err = Process(bare, env).report()
    assert status["route"] == "python route"
    assert status["why"].startswith("CXX is no-such-compiler, which is not there")
    assert err == ""


@pytest.mark.slow
def test_a_compiler_that_fails_is_asked_once(bare: Path, tmp_path: Path) -> None:
    script = tmp_path / "cxx"
    script.write_text("#!/bin/sh\necho run >> $0.log\necho 'x.cc:1: error: too old' >&2\nexit 1\n")
    script.chmod(0o755)
    env = {"ANYOP_CACHE": str(tmp_path / "cache"), "CXX": str(script)}
    for _ in range(2):
        status, _ = Process(bare, env).report()
        assert status["route"] == "python route"
        assert "x.cc:1: error: too old" in status["why"]
    assert (tmp_path / "cxx.log").read_text() == "run\n"


@pytest.mark.slow
def test_an_adapter_for_another_torch_is_not_loaded(
    bare: Path, slow_compiler: Path, tmp_path: Path
) -> None:
    """The file's name says which torch it is for; a file that lies is refused."""
    env = {"ANYOP_CACHE": str(tmp_path / "cache"), "CXX": str(slow_compiler)}
    status, _ = Process(bare, env, "torch.__version__ = '2.99.0+cpu'").report()
    assert status["route"] == "python route"
    assert "is for torch" in status["why"]


@pytest.mark.slow
def test_an_adapter_that_must_be_there(bare: Path) -> None:
    code = "import torch, anyop"
    env = {"PYTHONPATH": str(bare.parent), "ANYOP_TORCH": "adapter", "CXX": "no-such-compiler"}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True
    )
    assert "anyop.torch: ANYOP_TORCH is adapter, but CXX is no-such-compiler" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        ("values", "bad_calls"),
        pytest.param(
            ("gradients", "define_torch", "transforms", "opcheck"), marks=pytest.mark.exhaustive
        ),
    ],
)
def test_both_routes_do_the_same(names: tuple[str, ...]) -> None:
    """The tests of this folder on the Python route; they pass on the other one anyway."""
    if os.environ.get("ANYOP_TORCH") == "python":
        pytest.skip("this is the Python route")
    here = Path(__file__).parent
    files = [str(here / f"test_{name}.py") for name in names]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *files],
        env={**os.environ, "ANYOP_TORCH": "python"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]


def test_the_package_carries_what_building_needs() -> None:
    from anyop.hosting import build

    assert shutil.which("c++") is None or build.find_compiler()
    assert (build.carried("include") / "anyop" / "abi.h").exists()
    assert (build.carried("src") / "runtime" / "run" / "call.h").exists()
    assert (build.carried("cmake/exports") / "adapter.map").exists()
    assert len(list(build.carried("bindings/torch").glob("*.cc"))) >= 5
