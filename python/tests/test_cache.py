# SPDX-License-Identifier: Apache-2.0
"""The folder of what anyop compiles: whose files are loaded, and which failures are remembered."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import anyop
import numpy as np
import pytest
from anyop import _cache
from anyop._cache import Folder
from anyop._compiler import CannotBuildError
from anyop.bench import interpreters
from anyop.hosting import build
from anyop.hosting.build import Product

SOURCE = """
namespace anyop::ops {
namespace {
void Run(const Context& ctx, const Tensor& x, const Tensor& y) {
  ctx.ForRows(x, [&](std::int64_t r) {
    for (std::size_t i = 0; i < x.row<const float>(r).size(); ++i) y.row<float>(r)[i] = %d;
  });
}
constexpr Kernel kF32{.name = "cpu_f32", .run = Bind<&Run>()};
constexpr const Kernel* kKernels[] = {&kF32};
}
extern constinit const Op fill{.signature = "fill(x: f32[...]) -> (y: f32[...])",
                               .kernels = kKernels};
}
"""
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is not there yet, and none to fall back to but one beside it."""
    monkeypatch.setenv("ANYOP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return tmp_path / "cache"


@pytest.fixture
def umask() -> Iterator[None]:
    old = os.umask(0)
    yield
    os.umask(old)


def compiler(folder: Path, script: str) -> str:
    """A compiler that counts its runs in a file beside it."""
    file = folder / "cxx"
    file.write_text(f"#!/bin/sh\necho run >> {file}.log\n{script}\n")
    file.chmod(0o755)
    return str(file)


def runs(compiler: str) -> int:
    return len(Path(f"{compiler}.log").read_text().split())


def an_adapter(folder: Path) -> Product:
    source = folder / "adapter.cc"
    source.write_text("int anyop_adapter;\n")
    return Product("test_adapter", "1", "a test", [source], [], [], "no time")


def why_not_built(folder: Path, cache: Path) -> str:
    with pytest.raises(CannotBuildError) as refused:
        build.build(an_adapter(folder), str(cache))
    return str(refused.value)


def test_nothing_in_the_folder_is_others_to_write(cache: Path, umask: None) -> None:
    filled = anyop.inline(SOURCE % 1).fill(np.zeros(2, np.float32))
    assert filled.tolist() == [1, 1]
    found = [cache, *cache.rglob("*")]
    assert [p for p in found if p.suffix == ".so"]
    assert [p for p in found if p.stat().st_mode & 0o022] == []
    (so,) = (p for p in found if p.suffix == ".so")
    assert stat.S_IMODE(so.stat().st_mode) == 0o700
    assert [p.name for p in found if ".tmp" in p.name] == []


def test_others_that_use_the_folder_make_it_the_users_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: None
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    python = tmp_path / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("no program")
    with contextlib.suppress(Exception):
        next(iter(interpreters.OPPONENTS.values())).use(python)
    found = [tmp_path / "caches", *(tmp_path / "caches").rglob("*")]
    made = [p for p in found if not p.is_symlink()]
    assert [p.name for p in made] == ["caches", "anyop", "opponents"]
    assert [p for p in made if p.stat().st_mode & 0o077] == []


def test_a_folder_is_resolved_once(tmp_path: Path) -> None:
    """Where a link leads later does not matter: what is loaded is where the check was made."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir(mode=0o700)
    link.symlink_to(real)
    with Folder(link) as folder:
        link.unlink()
        link.symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        assert folder.path == real
        with folder.scratch("a") as scratch:
            (scratch / "a.so").write_text("built")
            assert folder.put(scratch / "a.so", "a.so") == real / "a.so"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_folder_below_one_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(PermissionError, match=f"others may write to {shared}, which holds it"):
        Folder(shared / "cache")
    shared.chmod(0o1777)  # as /tmp: only owners remove what is there
    Folder(shared / "cache").__exit__()
    (shared / "cache").chmod(0o770)
    with pytest.raises(PermissionError, match="others may write to it"):
        Folder(shared / "cache")


@is_root
def test_a_folder_of_another_user_is_not_used(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    (theirs / "cache").mkdir(parents=True, mode=0o700)
    os.chown(theirs, 4321, 4321)
    with pytest.raises(PermissionError, match=f"others may write to {theirs}, which holds it"):
        Folder(theirs / "cache")
    os.chown(theirs / "cache", 4321, 4321)
    with pytest.raises(PermissionError, match="others may write to it"):
        Folder(theirs / "cache")


@is_root
def test_another_users_link_in_the_folder_for_temporary_files_is_not_followed(
    cache: Path, tmp_path: Path
) -> None:
    """It leads to a folder that may be used, and would be turned to another one afterwards."""
    cache.write_text("in the way")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 4321, 4321)
    (theirs / "code").mkdir(mode=0o700)
    (tmp_path / "temporary" / f"anyop-{os.geteuid()}").symlink_to(theirs / "code")
    with pytest.raises(anyop.NotAvailable) as refused:
        anyop.inline(SOURCE % 2)
    assert f"others may write to {theirs}, which holds it" in str(refused.value)


@pytest.mark.parametrize("plant", ["writable", "link", "owner"])
def test_a_library_that_others_can_have_written_is_built_again(
    tmp_path: Path, cache: Path, plant: str
) -> None:
    if plant == "owner" and os.geteuid() != 0:
        pytest.skip("gives files to another user")
    built = tmp_path / "built.so"
    built.write_text("ours")
    cache.mkdir(mode=0o700)
    evil = tmp_path / "evil.so"
    evil.write_text("theirs")
    evil.chmod(0o700)
    if plant == "link":
        (cache / "a.so").symlink_to(evil)
    else:
        (cache / "a.so").write_text("theirs")
        (cache / "a.so").chmod(0o777 if plant == "writable" else 0o700)
        if plant == "owner":
            os.chown(cache / "a.so", 4321, 4321)
    made = _cache.built("a.so", str(cache), lambda folder, scratch: built)
    assert made == cache / "a.so"
    assert made.read_text() == "ours"
    assert not made.is_symlink()
    assert evil.read_text() == "theirs"


def test_a_lock_that_is_held_for_long_is_an_error(tmp_path: Path) -> None:
    with Folder(tmp_path / "cache") as one, Folder(tmp_path / "cache") as other, one.locked("a"):
        begin = time.monotonic()
        with pytest.raises(CannotBuildError) as refused, other.locked("a", timeout_s=0.2):
            raise AssertionError("both have the lock")
        assert 0.2 <= time.monotonic() - begin < 5
    assert str(refused.value) == (
        f"another process has held {tmp_path}/cache/a.lock for 0.2 s. Try ending it"
    )


MACHINE = [
    ("kill -KILL $$", "was ended by SIGKILL, perhaps for lack of memory"),
    ("echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1",
     "failed: g++: fatal error: Killed signal terminated program cc1plus"),
    ("echo 'clang: error: unable to execute command: Killed' >&2; exit 1", "command: Killed"),
    ("echo 'cc1plus: out of memory allocating 65536 bytes' >&2; exit 1", "out of memory"),
    ("echo 'virtual memory exhausted: Cannot allocate memory' >&2; exit 1", "exhausted"),
    ("echo 'x.cc:3:1: internal compiler error: Segmentation fault' >&2; exit 1", "internal comp"),
    ("echo 'x.cc:3:1: fatal error: error writing to /tmp/a.s: No space left on device' >&2; exit 1",
     "the disk is full: "),
    ("echo 'ld: final link failed: Disk quota exceeded' >&2; exit 1", "the disk is full: "),
    ("echo 'x.cc:1:10: fatal error: y.h: Too many open files' >&2; exit 1", "Too many open"),
]  # fmt: skip
SOURCES = [
    ("echo 'x.cc:1: error: too old' >&2; exit 1", "x.cc:1: error: too old"),
    ("echo 'x.cc:1:2: error: Signal was not declared' >&2; exit 1", "Signal was not declared"),
    ("echo 'ld: cannot find -lother: No such file or directory' >&2; exit 1", "cannot find"),
]


@pytest.mark.parametrize(("script", "why"), MACHINE)
def test_a_failure_of_the_machine_is_not_remembered(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    cxx = compiler(tmp_path, script)
    monkeypatch.setenv("CXX", cxx)
    for _ in range(2):
        assert why in why_not_built(tmp_path, cache)
    assert runs(cxx) == 2
    assert not list(cache.glob("*.failed"))
    with pytest.raises(anyop.NotAvailable, match=r"^inline: ") as refused:
        anyop.inline(SOURCE % 3)
    assert why in str(refused.value)


@pytest.mark.parametrize(("script", "why"), SOURCES)
def test_a_failure_of_the_source_is_remembered(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    cxx = compiler(tmp_path, script)
    monkeypatch.setenv("CXX", cxx)
    assert why in why_not_built(tmp_path, cache)
    again = why_not_built(tmp_path, cache)
    assert why in again
    assert again.endswith(".failed to try again)")
    assert runs(cxx) == 1
    with pytest.raises(anyop.InvalidArgument, match="refuses the source:") as refused:
        anyop.inline(SOURCE % 3)
    assert why in str(refused.value)


def test_what_killed_builds_left_is_removed(tmp_path: Path, cache: Path) -> None:
    """Those of the same library and of others, but nothing of a build that goes on."""
    (tmp_path / "built.so").write_text("")
    with Folder(cache) as other, other.locked("b-2.1"), other.scratch("b-2.1") as going_on:
        for name in ("a.x1.tmp", "c-2.1.x3.tmp"):
            (cache / name).mkdir()
            (cache / name / "made.so").write_text("")
        (cache / "a.77.tmp.so").write_text("")  # as older versions left them
        (cache / "d-2.1.78.tmp.so").write_text("")
        _cache.built("a.so", str(cache), lambda folder, scratch: tmp_path / "built.so")
        assert [p.name for p in cache.iterdir() if ".tmp" in p.name] == [going_on.name]
    assert (cache / "a.so").exists()


def test_an_inline_build_that_is_killed_leaves_nothing_for_long(
    tmp_path: Path, cache: Path
) -> None:
    program = f"import anyop; anyop.inline('''{SOURCE % 4}''')"
    env = {**os.environ, "CXX": compiler(tmp_path, "kill -KILL $PPID; exit 1")}
    done = subprocess.run([sys.executable, "-c", program], env=env, check=False)
    assert done.returncode == -9
    (left,) = cache.glob("*.tmp")
    anyop.inline(SOURCE % 4)
    assert not left.exists()
