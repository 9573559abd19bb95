# SPDX-License-Identifier: Apache-2.0
"""The documents for authors are true: their commands and code run, in their order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import anyop
import pytest
from anyop.bench import pictures, runs
from checkout import ROOT

DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "tools"))
import docs as site  # noqa: E402

BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```$", re.M | re.S)
WAITING_S = 90  # of the ten minutes of the walk; what a machine needs that does nothing else
RUN_PYTHON = ("packaging.md", "python_operators.md")


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.exhaustive
def test_the_walk_of_the_first_operator(tmp_path: Path) -> None:
    """Every block of the page beside torch, in an empty folder. By default tools/wheel.py walks it
    in an empty environment.
    """
    pytest.importorskip("torch")
    blocks = BLOCK.findall(page("first_operator.md"))
    assert len(blocks) >= 9
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for name, module in (("anyop", "-m anyop"), ("python", "")):
        script = bin_folder / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        script.chmod(0o755)
    own = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{own}{os.pathsep}{os.environ['PATH']}"}
    walk = tmp_path / "walk"
    walk.mkdir()
    before = os.times().children_user
    pieces = ["set -e"]
    code: list[str] = []
    for language, text in blocks:
        if language == "python":
            code.append(text)
            continue
        if "anyop develop" in text:  # installs into the environment: here its effect is enough
            text = 'export PYTHONPATH="$PWD/src"\n'
        if code:
            pieces.append(python_piece(code))
            code = []
        pieces.append(text)
    script = "\n".join(pieces)
    done = subprocess.run(["bash", "-c", script], cwd=walk, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" passed, 0 failed") == 2
    assert "\n3\n" in done.stdout  # of the C++ program
    assert "py3-none-manylinux" in done.stdout
    used = os.times().children_user - before
    assert used < 2 * WAITING_S, f"{used:.0f} s of computing"


def python_piece(code: list[str]) -> str:
    text = "\n".join(code)
    return f"python - <<'END_OF_PYTHON'\n{text}\nEND_OF_PYTHON"


@pytest.mark.parametrize("name", RUN_PYTHON)
def test_the_code_of_a_page_runs(name: str) -> None:
    code = [text for language, text in BLOCK.findall(page(name)) if language == "python"]
    assert code
    subprocess.run([sys.executable, "-c", "\n".join(code)], check=True)


def test_the_page_of_compositions_prints_what_its_example_prints() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "composition.py")], capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    shown = re.sub(r"cpu_\w+", "cpu", page("composition.md").split("It prints\n\n```\n")[1])
    assert shown.startswith(re.sub(r"cpu_\w+", "cpu", done.stdout) + "```")
    assert done.stdout.splitlines()[0] == done.stdout.splitlines()[2] == "mul_add: cpu_portable"


def test_mistakes_of_signatures_have_their_sentences() -> None:
    rows = re.findall(
        r"^\| `([^`]*)` \| (.*) \|$", page("signatures.md").split("## Mistakes")[1], re.M
    )
    assert len(rows) >= 9
    for signature, sentence in rows:
        with pytest.raises(anyop.InvalidArgument) as caught:
            anyop._anyop.parse(signature)
        assert re.search(r"column \d+: (.*)", str(caught.value))[1] == sentence  # type: ignore[index]


def test_what_the_page_says_of_signatures_parses() -> None:
    text = page("signatures.md").split("## Mistakes")[0]
    tables = re.findall(r"^\| (`.*?`.*?) \| .* \|$", text, re.M)
    forms = [form for row in tables for form in re.findall(r"`((?:[^`]|\\`)*)`", row)]
    parameters = [f.replace("\\|", "|") for f in forms if re.match(r"\w+: ", f)]
    assert len(parameters) > 15
    for parameter in parameters:
        bound = "".join(
            f", of_{n}: f32[{n}]" for n in re.findall(r"(?:below|offsets) (\w)", parameter)
        )
        dtypes = " where T in f32 | f16" if re.search(r"\bT\[", parameter) else ""
        anyop._anyop.parse(f"f({parameter}{bound}) -> (z: f32[1]){dtypes}")


def test_the_fields_stand_in_the_order_in_which_cpp_wants_them() -> None:
    header = (ROOT / "include" / "anyop" / "op.h").read_text(encoding="utf-8")
    kernel, operator = page("kernels.md").split("## The fields of a kernel")[1].split("itself, in")
    for struct, table in (("Kernel", kernel), ("Op", operator.split("##")[0])):
        body = re.search(rf"^struct {struct} {{$(.*?)^}};$", header, re.M | re.S)
        assert body
        declared = re.findall(r"^  [\w:]+(?: char\*)? (\w+)(?: = .*|{});", body[1], re.M)
        told = [
            name
            for cell in re.findall(r"^\| (`\..*?) \|", table, re.M)
            for name in re.findall(r"`\.(\w+)`", cell)
        ]
        assert len(told) >= 7
        assert told == [name for name in declared if name in told]


def test_the_site_shows_no_backslash_before_a_bar_in_code() -> None:
    row = r"| `x: f32\|bf16[n]` | \|x\| and `where T in f32 \| bf16` |"
    shown = r"| `x: f32|bf16[n]` | \|x\| and `where T in f32 | bf16` |"
    code = "```\n| `a \\| b` |\n```"
    assert (
        site.for_the_site(f"{row}\n\n{code}\n\n`a \\| b`\n") == f"{shown}\n\n{code}\n\n`a \\| b`\n"
    )


def test_every_page_is_in_the_index_and_no_link_is_broken(tmp_path: Path) -> None:
    pages = {p.name: p.read_text(encoding="utf-8") for p in DOCS.glob("*.md")}
    listed = (ROOT / "mkdocs.yml").read_text()
    for name in pages:
        assert f": {name}\n" in listed, f"{name} is in no menu"
    pages["headers.md"] = site.headers_page()
    pictures_of = ("pictures/rows.md", "pictures/graph.svg", "pictures/model/rows.md")
    made = dict.fromkeys(("operators/README.md", *pictures_of), "")
    sources = {f"source/{file}.md": "" for file in site.source_files()}
    pages |= {**made, **sources}
    assert site.broken_links(pages) == []
    broken = {**pages, "bad.md": "[a](none.md) [b](faq.md#nothing) [c](graphs.md)"}
    assert site.broken_links(broken) == [
        "bad.md: [...](none.md) leads to no page",
        "bad.md: [...](faq.md#nothing) leads to no heading",
    ]
    assert "anyop/op.h" in pages["headers.md"]


def test_a_page_links_another_one_rather_than_naming_its_file() -> None:
    """A reader of the site has no files."""
    for path in DOCS.glob("*.md"):
        text = re.sub(
            r"```.*?```|`[^`\n]*`|<!--.*?-->|\]\([^)]*\)", "", page(path.name), flags=re.S
        )
        assert not re.findall(r"[\w/]*\w\.md\b", text), path.name


def test_the_page_of_python_has_all_that_a_program_may_call() -> None:
    listed = re.findall(r"^::: anyop\.(\w+)$", page("api.md"), re.M)
    assert len(listed) == len(set(listed))
    assert set(listed) == set(anyop.__all__) - {"ops"}
    for name in re.findall(r"^::: anyop\.torch\.(\w+)$", page("api.md"), re.M):
        assert f'    "{name}",' in (ROOT / "python/anyop/torch/__init__.py").read_text()


def test_the_page_of_headers_has_every_word_of_their_comments() -> None:
    shown = "".join(site.headers_page().replace("\\", "").replace("&lt;", "<").split())
    for name in site.HEADERS:
        comment = site.opening_comment((ROOT / "include" / "anyop" / name).read_text("utf-8"))
        assert len(comment) > 20, name
        for paragraph in re.split(r"\n\s*\n", comment):
            assert "".join(paragraph.replace("\\", "").split()) in shown, name


def test_a_comment_becomes_paragraphs_and_code() -> None:
    comment = "One *line*\nand more:\n\n    f(x);  // a\n    g();\n\nEnd of a[1]:\n  x  y"
    assert site.prose(comment) == (
        "One \\*line\\* and more:\n\n```text\n    f(x);  // a\n    g();\n```\n\n"
        "End of a\\[1\\]:\n\n```text\n  x  y\n```"
    )


def test_examples_of_an_operator_are_tabs_on_the_site() -> None:
    text = "## Example\n\n### NumPy\n\n```python\na = 1\n\nb = 2\n```\n\n### Else\n"
    assert site.for_the_site(text) == (
        '## Example\n\n=== "NumPy"\n\n    ```python\n    a = 1\n\n    b = 2\n    ```\n\n### Else\n'
    )


def test_the_page_of_measuring_shows_every_picture_of_the_saved_run() -> None:
    run = runs.load(site.RUN)
    beside = [r for r in run.rows if len(r.timings) > 1]
    expected = {"summary", "roofline", "profile", "model/tokens", "model/prompt"}
    for name, rows in (("bars", beside), ("bound", run.rows)):
        expected |= {
            name if n == 0 else f"{name}-{n + 1}" for n in range(len(pictures._pages(rows)))
        }
    shown = re.findall(r'src="pictures/([\w/-]+)\.svg"', page("bench.md"))
    assert sorted(shown) == sorted(expected)
    assert re.findall(r'src="(\S+)"', page("index.md")) == [
        "call.svg", "pictures/summary.svg", "pictures/model/tokens.svg", "pictures/graph.svg",
    ]  # fmt: skip


def test_the_pages_name_the_commands_of_their_pictures() -> None:
    names = list(dict.fromkeys(r.operator for r in runs.load(site.RUN).rows))
    for text in (page("index.md"), page("bench.md")):
        command = re.search(r"anyop bench ops ([\w\s\\]+) --threads 1 --against torch ", text)
        assert command
        assert sorted(command[1].replace("\\\n", " ").split()) == sorted(names)
    assert "anyop graph " + " ".join(
        f'"{word}"' if "[" in word else word for word in site.GRAPH
    ) in page("index.md")


def test_the_graph_of_the_front_page_fuses_as_the_page_says() -> None:
    run = [sys.executable, str(ROOT / "examples" / "layer.py")]
    graph = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert graph.count("anyop.add_rms_norm(") == graph.count("anyop.add(") == 1
    assert "`add` and `rms_norm`, became one: `add_rms_norm`" in page("index.md")


def test_a_source_is_linked_where_the_repository_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "repository", lambda: "")
    assert site.source_link("include/anyop/op.h") == "source/include/anyop/op.h.md"
    monkeypatch.setattr(site, "repository", lambda: "https://host/anyop")
    assert site.source_link("ops/add/add.cc") == "https://host/anyop/blob/main/ops/add/add.cc"


def test_the_site_builds_anyop_where_it_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[str] = []
    for step in ("ensure_system_packages", "ensure_requirements", "install_anyop"):
        monkeypatch.setattr(site.prepare, step, lambda *_, step=step, **__: done.append(step))
    monkeypatch.setattr(site, "PYTHON", sys.executable)
    site.ensure_anyop()
    assert done == []
    monkeypatch.setattr(site, "PYTHON", "/bin/false")
    site.ensure_anyop()
    assert done == ["ensure_system_packages", "ensure_requirements", "install_anyop"]
    assert "it is built first, some minutes." in capsys.readouterr().out


def test_the_menu_lists_every_page_of_an_operator(tmp_path: Path) -> None:
    import site_hook

    (tmp_path / "operators").mkdir()
    for name in ("README", "anyop.softmax", "anyop.add"):
        (tmp_path / "operators" / f"{name}.md").touch()
    nav = [{"Start": ["index.md"]}, {"Operators": ["operators/README.md"]}]
    site_hook.on_config({"docs_dir": tmp_path, "nav": nav})
    assert nav[1]["Operators"] == [
        {"All of them": "operators/README.md"}, {"add": "operators/anyop.add.md"},
        {"softmax": "operators/anyop.softmax.md"},
    ]  # fmt: skip


def test_a_long_name_in_a_table_may_end_a_line_after_each_word() -> None:
    import site_hook

    html = '<p>a_b</p><td align="x_y"><a href="c_d.html"><code>state_in_use</code></a></td>'
    assert site_hook.on_page_content(html) == html.replace("state_in_use", "state_<wbr>in_<wbr>use")
    title = '<h1 id="anyop.rms_norm">anyop.rms_norm</h1>'
    assert site_hook.on_page_content(title) == (
        '<h1 id="anyop.rms_norm">anyop.<wbr>rms_<wbr>norm</h1>'
    )


def test_the_cells_of_a_wide_table_know_their_columns() -> None:
    """A phone shows its rows as blocks."""
    import site_hook

    def table(n: int) -> str:
        head = "".join(f"<th><code>c{i}</code></th>" for i in range(n))
        row = "".join(f'<td align="right">{i}</td>' for i in range(n))
        return f"<table><thead><tr>{head}</tr></thead><tbody><tr>{row}</tr></tbody></table>"

    assert site_hook.on_page_content(table(4)) == table(4)
    wide = site_hook.on_page_content(table(5))
    assert wide.startswith("<table data-many>")
    cell = r'<td data-name="(c\d)" align="right"><span>(\d)</span></td>'
    assert re.findall(cell, wide) == [(f"c{i}", str(i)) for i in range(5)]
    empty = site_hook.on_page_content(table(5).replace(">3</td>", "></td>"))
    assert '<td data-name="c3" align="right"></td>' in empty


def test_a_dead_link_of_the_built_site_is_found(tmp_path: Path) -> None:
    import site_links

    (tmp_path / "a").mkdir()
    (tmp_path / "x.svg").touch()
    (tmp_path / "index.html").write_text(
        '<h1 id="top">I</h1><a href="a/p.html#here">p</a><a href="#top">t</a><img src="x.svg">'
        '<a href="https://semver.org">s</a><source srcset="x.svg 1x, none.svg 2x">'
        '<a href="a/p.html#gone">g</a><a href=".">home</a><a href="../etc">out</a>'
    )
    (tmp_path / "a" / "p.html").write_text('<p id="here">p</p><a href="../index.html">i</a>')
    assert list(site_links.broken(tmp_path)) == [
        "index.html: none.svg leads to no file",
        "index.html: a/p.html#gone leads to no place of its page",
        "index.html: . leads to no file",
        "index.html: ../etc leads out of the site",
    ]


def test_the_program_of_the_page_of_cpp_is_built_as_the_page_says(tmp_path: Path) -> None:
    text = page("cpp.md")
    program = re.search(r"```cpp\n(.*?)```", text, re.S)
    command = re.search(r"^c\+\+ main.cc .*$", text, re.M)
    assert program and command
    (tmp_path / "main.cc").write_text(program[1])
    script = command[0].replace("anyop config", f'"{sys.executable}" -m anyop config')
    subprocess.run(["bash", "-c", script], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert done.stdout == "0.5000 0.5000\n2 results\n0.5000\n"


def test_cmake_finds_the_package(tmp_path: Path) -> None:
    text = re.search(r"```cmake\n(.*?)```", page("cpp.md"), re.S)
    assert text
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.25)\nproject(main LANGUAGES CXX)\n{text[1]}"
    )
    (tmp_path / "main.cc").write_text((ROOT / "examples/hello.cc").read_text())
    # Neither flags, generators and job servers of who runs the tests, nor what a test before this
    # one left in the environment.
    kept = {k: os.environ[k] for k in ("PATH", "HOME", "TMPDIR") if k in os.environ}

    def run(*command: object) -> str:
        options = {"capture_output": True, "text": True, "check": True}
        words = [str(c) for c in command]
        done = subprocess.run(words, cwd=tmp_path, env=kept, **options)  # type: ignore[call-overload]
        return str(done.stdout)

    where = run(sys.executable, "-m", "anyop", "config", "--cmakedir").strip()
    run("cmake", "-S", tmp_path, "-B", tmp_path / "b", f"-Danyop_DIR={where}")
    run("cmake", "--build", tmp_path / "b")
    assert run(tmp_path / "b" / "main").startswith("0.5000 0.5000\n")
