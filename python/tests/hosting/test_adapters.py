# SPDX-License-Identifier: Apache-2.0
"""Adapters that are built when they are first needed, for a framework that is none."""

from __future__ import annotations

import ctypes
import dataclasses
import shutil
import subprocess
from pathlib import Path

import pytest
from anyop.hosting import build
from anyop.hosting.build import CannotBuildError, Product

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="there is no compiler")


@pytest.fixture
def adapter(tmp_path: Path) -> Product:
    """Two sources and a header."""
    sources, headers = tmp_path / "sources", tmp_path / "headers"
    sources.mkdir()
    headers.mkdir()
    (headers / "number.h").write_text("#define NUMBER 40\n")
    (sources / "a.cc").write_text("static int Two() { return 2; }\n")
    (sources / "b.cc").write_text(
        '#include <number.h>\nextern "C" __attribute__((visibility("default")))\n'
        "int answer() { return NUMBER + Two() + MORE; }\n"
    )
    files = sorted(sources.glob("*.cc"))
    what, lasts = "its adapter for some 1.0", "a moment"
    return Product("some_adapter", "1.0", what, files, [headers], ["-DMORE=0"], lasts)


def answer(file: Path) -> int:
    return int(ctypes.CDLL(str(file)).answer())


def test_it_is_built_once(
    adapter: Product, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cache = str(tmp_path / "cache")
    file = build.build(adapter, cache)
    assert answer(file) == 42
    assert file.parent == Path(cache) and file.name.startswith("some_adapter-1.0-")
    said = "anyop: building its adapter for some 1.0, once, a moment ...\n"
    assert capfd.readouterr().err == said
    assert build.build(adapter, cache) == file
    assert capfd.readouterr().err == ""
    assert sorted(p.suffix for p in Path(cache).iterdir()) == [".lock", ".so"]


def test_everything_that_it_is_made_of_makes_another(adapter: Product, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    first = build.build(adapter, cache)
    more = build.build(dataclasses.replace(adapter, flags=["-DMORE=1"]), cache)
    (adapter.includes[0] / "number.h").write_text("#define NUMBER 50\n")
    header = build.build(adapter, cache)
    other = build.build(dataclasses.replace(adapter, version="1.1"), cache)
    assert len({first, more, header, other}) == 4
    assert [answer(f) for f in (more, header)] == [43, 52]


def test_it_shows_no_templates_of_other_libraries(adapter: Product, tmp_path: Path) -> None:
    source = adapter.sources[0]
    source.write_text(
        "#include <string>\n#include <vector>\nstatic int Two() {\n"
        "  std::vector<std::string> many(2, std::string(40, ' '));\n"
        "  many.emplace_back();\n  return int(many.size()) - 1;\n}\n"
    )
    file = build.build(adapter, str(tmp_path / "cache"))
    assert answer(file) == 42
    shown = subprocess.run(
        ["nm", "-D", "--defined-only", file], capture_output=True, text=True, check=True
    )
    assert [line.split()[-1] for line in shown.stdout.splitlines()] == ["answer"]


def test_what_does_not_compile_is_tried_once(adapter: Product, tmp_path: Path) -> None:
    wrong = dataclasses.replace(adapter, flags=[])
    for hint in (False, True):
        with pytest.raises(CannotBuildError, match="failed: .*MORE") as error:
            build.build(wrong, str(tmp_path))
        assert ("to try again" in str(error.value)) == hint


def test_what_is_not_carried_is_said() -> None:
    assert (build.carried("include") / "anyop" / "host.h").exists()
    with pytest.raises(CannotBuildError, match="does not carry the sources in no/such"):
        build.carried("no/such/folder")
    assert build.prebuilt("some_adapter", "1.0").name == "some_adapter-1.0.so"
