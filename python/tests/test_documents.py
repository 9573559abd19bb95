# SPDX-License-Identifier: Apache-2.0
"""The documents say what is true: messages of the FAQ, code of the README."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import anyop
import ml_dtypes
import numpy as np
import pytest
from anyop import testing

ROOT = Path(__file__).parent.parent.parent
ENTRIES = re.findall(
    r"^### (.*?)\n\n```python\n(.*?)```", (ROOT / "docs/faq.md").read_text(), re.M | re.S
)


def test_the_faq_has_entries() -> None:
    assert len(ENTRIES) == (ROOT / "docs/faq.md").read_text().count("### ") > 5


@pytest.mark.parametrize(("message", "code"), ENTRIES, ids=[m[:40] for m, _ in ENTRIES])
def test_the_faq_quotes_the_message(
    message: str, code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"anyop": anyop, "np": np, "bfloat16": ml_dtypes.bfloat16}
    with pytest.raises(anyop.Error) as caught:
        exec(code, names)
    assert str(caught.value).removeprefix(f"{tmp_path}/") == message


def test_the_documents_hold_the_code_of_the_examples() -> None:
    command = [sys.executable, str(ROOT / "tools/readme.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_example_runs_from_numpy_and_from_cpp() -> None:
    tests = ROOT / "build/release/tests"
    if not (tests / "my_ops.so").exists():
        pytest.skip("the C++ tests are not built")
    lines = {}
    for command in ([sys.executable, str(ROOT / "examples/hello.py")], [str(tests / "hello")]):
        out = subprocess.run(
            [*command, str(tests / "my_ops.so")], capture_output=True, text=True, check=True
        ).stdout
        lines[command[0]] = out.splitlines()
    python, cpp = lines.values()
    assert cpp == ["0.5000 0.5000", "1.0000"]
    assert python[:2] == cpp
    assert python[-1] == (
        "rms_norm: weight is f32[63], but must be f32[64] because x is f32[2, 64]."
    )


def test_the_operators_of_the_documents_pass_their_tests() -> None:
    library = ROOT / "build/release/tests/my_ops.so"
    if not library.exists():
        pytest.skip("the C++ tests are not built")
    cases = testing.cases_of(testing.target_of(library))
    assert {case.operator for case in cases} == {"add_rows", "scale_rows", "take_rows"}
    for case in cases:
        case.run()


def test_the_site_breaks_no_name_in_a_table() -> None:
    (name,) = re.findall(r"^extra_css: \[(.*)\]$", (ROOT / "mkdocs.yml").read_text(), re.M)
    rules = dict(re.findall(r"^(\S.*?) \{ (.*) \}$", (ROOT / "docs" / name).read_text(), re.M))
    assert rules[".md-typeset td code"] == "word-break: normal; overflow-wrap: normal;"


def test_the_package_carries_no_page_for_those_who_change_it() -> None:
    package = Path(anyop.__file__).parent
    found = {path.relative_to(package).as_posix() for path in package.rglob("*.md")}
    assert found == {"template/README.md"}


UNIT = r"(?:%|x|us|ms|s|ns|tokens/s|GB/s|GB|MB|KB)"
TWO_NUMBERS = re.compile(rf"\d ?{UNIT}? ?[/;,] ?\d")
NO_MEASURE = re.compile(r"ulp in .*|\[[^\]]*\]|`[^`]*`|(?<=\d),(?=\d{3})|\d+/\d+ heads")


def test_a_cell_of_measurements_has_one_number() -> None:
    """Or a range of them. Cells of sentences and of sizes, and the first one, may have more."""
    seen, found = 0, []
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for line in path.read_text(encoding="utf-8").splitlines():
            if not line.startswith("|"):
                continue
            for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))[1:]:
                text = NO_MEASURE.sub("", cell)
                if len(re.findall(r"[a-z]{4,}", text)) > 4:
                    continue
                seen += bool(re.search(r"\d", text))
                if TWO_NUMBERS.search(text):
                    found.append(f"{path.name}: {cell.strip()}")
    assert seen > 400
    assert not found, "\n".join(found)
