# SPDX-License-Identifier: Apache-2.0
"""What newcomers are told is what they can do. tools/newcomer.py does all of it, in ./check."""

from __future__ import annotations

import re
import sys

from checkout import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import newcomer  # noqa: E402
import systems  # noqa: E402

# anyop is on no package index; "anyop[author]" adds to an anyop that is there.
FROM_AN_INDEX = re.compile(r"pip install (?:[^`#\n]* )?['\"]?anyop(?![\[\w-])")


def test_the_commands_of_the_documents_are_found() -> None:
    (readme,) = newcomer.pieces("README.md")
    assert readme[0] == "bash"
    assert [line.split("  ")[0] for line in readme[1].splitlines()] == [
        "anyop new my_ops && cd my_ops", "anyop new --op gated --gradient", "anyop test",
        "anyop develop",
    ]  # fmt: skip
    walk = list(newcomer.pieces("docs/first_operator.md"))
    everything = "\n".join(text for _, text in walk)
    for command in ("test", "build", "develop", "wheel"):
        assert f"anyop {command}\n" in everything
    assert "import torch" in everything
    without = list(newcomer.pieces("docs/first_operator.md", has=()))
    assert "import torch" not in "\n".join(text for _, text in without)
    assert len(without) == len(walk)


def test_a_package_of_operators_is_put_to_use_in_one_way() -> None:
    """By `anyop develop`. What `pip install .` is said of is anyop itself."""
    texts = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    texts += [p for p in (ROOT / "python/anyop").rglob("*") if p.suffix in (".md", ".py")]
    assert len(texts) > 100
    of_packages = [p for p in texts if p.name != "install.md"]
    said = [p for p in of_packages if re.search(r"pip install \.(?!\S)", p.read_text("utf-8"))]
    assert not said


def test_what_outputs_advise_is_found() -> None:
    made = "Made my_ops. Now:\n  cd my_ops\n  anyop test\n  anyop develop\n"
    assert newcomer.advice(made) == ["cd my_ops && anyop test && anyop develop"]
    assert newcomer.advice("`import x` takes /x from now on. After a change: anyop build\n") == [
        "anyop build"
    ]
    assert newcomer.advice("Go on:  . .venv/bin/activate; anyop --help\n") == [
        ". .venv/bin/activate; anyop --help"
    ]
    for text in ("Try: anyop explain OP", "Try a tensor.", "Try: another name"):
        assert newcomer.advice(text) == []


def test_nobody_is_told_to_install_anyop_from_an_index() -> None:
    assert FROM_AN_INDEX.search("Try: pip install anyop") and FROM_AN_INDEX.search(
        "`pip install torch anyop cmake`"
    )
    assert not FROM_AN_INDEX.search('pip install "anyop[author]"; pip install build/anyop-0.whl')
    files = [ROOT / "README.md", ROOT / "CMakeLists.txt"]
    for folder, pattern in (("docs", "*.md"), ("cmake", "*"), ("python/anyop", "*"), ("src", "*")):
        files += [f for f in (ROOT / folder).rglob(pattern) if f.is_file()]
    texts = {f: f.read_text(encoding="utf-8") for f in files if f.suffix not in (".pyc", ".so")}
    assert [str(f) for f, text in texts.items() if FROM_AN_INDEX.search(text)] == []


def test_the_list_of_systems_is_the_one_that_is_tried() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (Debian \d+) \|", page, re.M)
    assert rows == list(systems.SYSTEMS.values())
