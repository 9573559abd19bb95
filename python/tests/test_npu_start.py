# SPDX-License-Identifier: Apache-2.0
"""How torch_npu on the virtual NPU starts and what is refused, without torch_npu: a package of its
name stands in for it. With the real one: python/tests/npu.
"""

from __future__ import annotations

import http.server
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import anyop
import click
import pytest
from anyop import _environments
from anyop.npu import environments, startup

PACKAGE = Path(anyop.__file__).parent
OURS = ("ANYOP_", "ASCEND_", "LD_LIBRARY_PATH", "PIP_")
TORCH_NPU = """\
import ctypes
asked = ctypes.CDLL("libascendcl.so")  # as the loader does for what torch_npu links
asked.aclrtGetSocName.restype = ctypes.c_char_p
count = ctypes.c_uint32()
asked.aclrtGetDeviceCount(ctypes.byref(count))
print(asked.aclrtGetSocName().decode(), count.value)
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages as `anyop npu install` lays them out, but for torch and torch_npu."""
    folder = tmp_path / "site"
    (folder / "torch_npu").mkdir(parents=True)
    (folder / "torch_npu" / "__init__.py").write_text(TORCH_NPU)
    (folder / "torch.py").write_text('__version__ = "2.13.0+stand.in"\n')
    name_version(folder, environments.DEFAULT)
    (folder / "anyop").symlink_to(PACKAGE)
    shutil.copy(PACKAGE / "npu" / "startup.py", folder / f"{environments.STARTUP}.py")
    return folder


def name_version(site: Path, version: str) -> None:
    for old in site.glob("torch_npu-*.dist-info"):
        shutil.rmtree(old)
    info = site / f"torch_npu-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch_npu\nVersion: {version}\n")


def run(site: Path, code: str, **settings: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = [{str(site)!r}]\n"
         f"import {environments.STARTUP}\n{code}"],
        env={**kept, "ANYOP_NPU": "1", **settings}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def refusal(site: Path, **settings: str) -> str:
    ran = run(site, "import torch_npu", **settings)
    assert ran.returncode == 1, ran.stdout
    return ran.stderr.splitlines()[-1].removeprefix("ImportError: ")


# ---- The start of a process.


@pytest.mark.parametrize(
    ("soc", "name"),
    [
        ("ascend910b", "Ascend910B3"),
        ("ascend910_93", "Ascend910_9391"),
        ("ascend310p", "Ascend310P3"),
        ("ascend950", "Ascend950PR_957bx"),
    ],
)
def test_libraries_are_there_for_torch_npu(site: Path, soc: str, name: str) -> None:
    ran = run(site, "import torch_npu", ANYOP_ASCEND_SOC=soc, ANYOP_ASCEND_DEVICES="3")
    assert ran.stdout == f"{name} 3\n"
    file = PACKAGE / "npu" / "npu_torch-2.13.0+stand.in.so"
    assert f"{site}/anyop/npu/{file.name} is missing: this environment was made for another" in (
        ran.stderr
    )


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"ANYOP_NPU": "late"},
            "anyop.npu: virtual NPU: ANYOP_NPU is 'late', but must be empty, or of the words 1, "
            "protect, aclnn, delay and trace.",
        ),
        (
            {"ANYOP_NPU": "protect,delay,on"},
            "anyop.npu: virtual NPU: ANYOP_NPU is 'protect,delay,on', but must be empty, or of "
            "the words 1, protect, aclnn, delay and trace.",
        ),
        (
            {"ANYOP_ASCEND_SOC": "Ascend910B3"},
            "anyop.npu: virtual NPU: ANYOP_ASCEND_SOC is 'Ascend910B3', but must be ascend910b | "
            "ascend910_93 | ascend310p | ascend950.",
        ),
        (
            {"ANYOP_ASCEND_DEVICES": "17"},
            "anyop.npu: virtual NPU: ANYOP_ASCEND_DEVICES is '17', but must be an integer from 1 "
            "to 16.",
        ),
        (
            {"ASCEND_HOME_PATH": "/opt/cann"},
            "anyop.npu: ANYOP_NPU asks for the virtual NPU, but a CANN is here: ASCEND_HOME_PATH "
            "is /opt/cann. Try without one of them.",
        ),
        (
            {"ASCEND_TOOLKIT_HOME": "/opt/cann"},
            "anyop.npu: ANYOP_NPU asks for the virtual NPU, but a CANN is here: "
            "ASCEND_TOOLKIT_HOME is /opt/cann. Try without one of them.",
        ),
    ],
)
def test_what_is_refused_at_the_start(site: Path, settings: dict[str, str], told: str) -> None:
    assert refusal(site, **settings) == told


def test_library_of_cann_on_the_path_is_refused(site: Path, tmp_path: Path) -> None:
    (tmp_path / "libascendcl.so").write_text("")
    told = refusal(site, LD_LIBRARY_PATH=f"/none:{tmp_path}")
    assert f"LD_LIBRARY_PATH leads to {tmp_path}/libascendcl.so." in told


def test_library_of_cann_that_is_loaded_is_refused(site: Path) -> None:
    library = PACKAGE / "npu" / "lib" / "libascendcl.so"
    ran = run(site, f"import ctypes; ctypes.CDLL({str(library)!r})\nimport torch_npu")
    assert "a CANN is here: libascendcl.so is loaded already." in ran.stderr


def test_another_torch_npu_is_refused(site: Path) -> None:
    name_version(site, "2.9.0")
    assert refusal(site) == (
        "anyop.npu: torch_npu 2.9.0 is here, but the virtual NPU is made for 2.14.0, 2.13.0. "
        "Try `anyop npu install` with a new folder."
    )


def test_nothing_is_loaded_or_kept_without_the_variable(site: Path) -> None:
    code = "import sys\nprint(sys.meta_path[0], open('/proc/self/maps').read().count('anyop'))"
    finder, count = run(site, code, ANYOP_NPU="").stdout.split()[-2:]
    assert environments.STARTUP not in finder
    assert count == "0"
    loaded = "print([m for m in sys.modules if 'anyop' in m])"
    assert run(site, loaded, ANYOP_NPU="").stdout == f"['{environments.STARTUP}']\n"


def test_one_start_is_enough(site: Path) -> None:
    """The installer's modules import the same file."""
    code = "import anyop.npu.startup\nprint(sum('Finder' in str(f) for f in sys.meta_path))"
    plain = run(site, "print(sum('Finder' in str(f) for f in sys.meta_path))")
    paths = "sys.path.append(" + repr(str(Path(click.__file__).parents[1])) + ")\n"
    assert run(site, paths + code).stdout == plain.stdout


# ---- anyop npu install.


def test_versions(tmp_path: Path) -> None:
    made = {v: environments.environment(tmp_path / "new", v).version for v in ("", "2.13", "2.14")}
    assert made == {"": "2.13.0", "2.13": "2.13.0", "2.14": "2.14.0"}
    for wrong in ("2.1", "3", "2.13.1"):
        with pytest.raises(anyop.NotAvailable) as error:
            environments.environment(tmp_path / "new", wrong)
        assert str(error.value) == (
            f"anyop.npu: version {wrong} of torch_npu is asked for, but the virtual NPU is made "
            "for 2.14.0, 2.13.0. Try --version 2.13.0."
        )
    for version in startup.VERSIONS:
        assert f"torch_npu=={version}\n" in environments.requirements(version).read_text()


def test_folders_that_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("")
    refused = {
        file: f"{file} is a file, but the environment is a folder. Try another name.",
        full: f"{full} has files in it, but the environment is made anew and would replace them. "
        "Try another folder.",
        file / "in": f"nothing can be written into {file}/in: Not a directory. Try another folder.",
        Path("/proc/npu"): "nothing can be written into /proc/npu: No such file or directory. "
        "Try another folder.",
        Path(sys.prefix): f"{sys.prefix} is the environment that this runs in, which would be "
        "replaced while it runs. Try another folder.",
    }
    for folder, told in refused.items():
        with pytest.raises(anyop.Error) as error:
            environments.environment(folder).install("", lambda step, line: None)
        assert str(error.value) == f"anyop.npu: {told}"
    assert file.read_text() == "mine" and (full / "mine").exists()


def test_a_machine_with_cann_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_HOME_PATH", "/opt/cann")
    with pytest.raises(anyop.NotAvailable, match="ASCEND_HOME_PATH is /opt/cann"):
        environments.environment(tmp_path / "new")


def test_index_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PIP_RETRIES": "1",
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_NO_CACHE_DIR": "1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    with pytest.raises(anyop.NotAvailable) as error:
        environments.environment(tmp_path / "new").install("", lambda step, line: None)
    told = str(error.value)
    assert told.startswith(f"anyop.npu: torch cannot be installed in {tmp_path}/new: ERROR: ")
    assert told.endswith(
        "The index of packages does not answer. Try again with a network, or --index."
    )


def test_torch_for_cuda_is_refused_beside_2_14(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(
        "import types\n__version__ = '2.14.0+cu130'\nversion = types.SimpleNamespace(cuda='13.0')\n"
    )
    made = environments.environment(tmp_path / "new", "2.14")
    step = next(s for s in made._steps(["--no-index"]) if s.title == "a torch without CUDA")
    ran = subprocess.run(
        [sys.executable, *step.arguments], env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.stderr == (
        "ERROR: torch_npu 2.14.0 does not load beside torch 2.14.0+cu130, which is built for CUDA. "
        f"Try --index {_environments.PYTORCH}.\n"
    )
    older = environments.environment(tmp_path / "new", "2.13")
    assert not [s for s in older._steps(["--no-index"]) if s.title == step.title]


@pytest.mark.parametrize(
    "line",
    [
        "ERROR: No matching distribution found for torch==2.14.0+cpu",
        "ERROR: Cannot install torch==2.14.0+cpu because these package versions have conflicting "
        "dependencies.",  # with a file of constraints
    ],
)
def test_index_without_such_a_torch(tmp_path: Path, line: str) -> None:
    made = environments.environment(tmp_path / "new", "2.14")
    assert made._reason([f"{line}\n"]) == (
        "torch_npu 2.14.0 needs a torch without CUDA, 2.14.0+cpu, and no index that pip reaches "
        "has it."
    )
    there = f" Try --index {_environments.PYTORCH}"
    assert made._advice([f"{line}\n"]) == f"{there}, or --version 2.13.0."
    silent = f"WARNING: Connection refused\n{line}\n"
    assert made._advice([silent]).endswith("with a network, or --index, or --version 2.13.0.")
    older = environments.environment(tmp_path / "new", "2.13")
    line = line.replace("2.14.0+cpu", "2.13.0")
    assert older._reason([f"{line}\n"]) == line and older._advice([f"{line}\n"]) == f"{there}."


def test_version_whose_torch_no_index_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip itself, without any index."""
    monkeypatch.setattr(environments, "answers", lambda index: False)
    monkeypatch.setattr(environments, "IS_CUDA_USUAL", True)
    for name, value in {
        "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PIP_NO_INDEX": "1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    folder = tmp_path / "new"
    with pytest.raises(anyop.NotAvailable) as error:
        environments.environment(folder, "2.14").install("", lambda step, line: None)
    assert str(error.value) == (
        f"anyop.npu: torch cannot be installed in {folder}: torch_npu 2.14.0 needs a torch without "
        "CUDA, 2.14.0+cpu, and no index that pip reaches has it. The whole output is in "
        f"{folder}/install.log. Try --index {_environments.PYTORCH}, or --version 2.13.0."
    )


@pytest.mark.parametrize("is_there", [False, True])
def test_torch_without_cuda_is_what_pip_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """PyPI's torch for x86-64 is the one for CUDA."""
    asked: list[str] = []
    monkeypatch.setattr(environments, "answers", lambda index: asked.append(index) or is_there)
    monkeypatch.setattr(environments, "IS_CUDA_USUAL", True)
    index = ["--extra-index-url", _environments.PYTORCH] if is_there else []
    for version, wanted in (("2.13", "torch==2.13.0"), ("2.14", "torch==2.14.0+cpu")):
        first = next(iter(environments.environment(tmp_path / "new", version)._steps([])))
        assert list(first.arguments[5:]) == [*index, wanted]
    assert asked == [_environments.PYTORCH] * 2
    mine = ["--extra-index-url", "http://127.0.0.1:9"]
    first = next(iter(environments.environment(tmp_path / "new", "2.13")._steps(mine)))
    assert list(first.arguments[5:]) == [*mine, "torch==2.13.0"] and len(asked) == 2
    monkeypatch.setattr(environments, "IS_CUDA_USUAL", False)
    first = next(iter(environments.environment(tmp_path / "new", "2.14")._steps([])))
    assert list(first.arguments[5:]) == ["torch==2.14.0"] and len(asked) == 2


def test_index_is_asked_once_and_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    assert not environments.answers("http://127.0.0.1:9")
    assert not environments.answers("no index")
    # The plain handler knows no method at all, and says so.
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        assert environments.answers(f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    assert not environments.answers(_environments.PYTORCH)


@pytest.mark.parametrize("name", ["plain", "with a blank", "n\u00e9w $HOME", "long" * 40])
def test_scripts_of_folders_with_any_name(tmp_path: Path, name: str) -> None:
    python = tmp_path / name / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    script = python.with_name("told")
    first = _environments._first_lines(str(python))
    script.write_text(f"{first}\nimport sys\nprint(sys.argv[1:])\n")
    script.chmod(0o755)
    ran = subprocess.run([script, "a b", "c"], capture_output=True, text=True, check=False)
    assert ran.stdout == "['a b', 'c']\n", ran.stderr
