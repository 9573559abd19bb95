# SPDX-License-Identifier: Apache-2.0
"""./tools/docs: the site of the documents, build/site/index.html, with a search and one index.

Made of docs/, a page for every built-in operator, the docstrings of the Python API, the comments of
the public headers, and pictures of the runs in docs/runs. A link that leads nowhere is an error.
What is missing is made first: .venv, its packages, anyop itself.
"""

from __future__ import annotations

import posixpath
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import prepare
import site_links
from prepare import PYTHON, ROOT, StepFailed, main_guard, run

DOCS = ROOT / "docs"
PAGES = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"
RUNS = DOCS / "runs"
RUN, MODEL, PROFILE = (RUNS / f"{name}.json" for name in ("operators", "smollm2", "layer"))
GRAPH = ("examples.layer:layer", "f32[n, 64]", "i32[2]", "--at", "n=16")
# The headers that authors and C++ users include, in the order in which they are met.
HEADERS = ("op.h", "tensor.h", "dtype.h", "simd.h", "reference.h", "runtime.h", "graph.h",
           "error.h", "scope.h", "stream.h", "value.h", "abi.h", "device.h", "host.h",
           "python_host.h")  # fmt: skip
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def opening_comment(text: str) -> str:
    """What a header says of itself, without the comment's signs."""
    lines = []
    for line in text.splitlines()[1:]:
        bare = line.strip()
        if not bare.startswith(("//", "/*", "*")) and lines:
            break
        if bare.startswith("//"):
            lines.append(re.sub(r"^// ?", "", bare))
        elif bare.startswith(("/*", "*")):
            lines.append(re.sub(r"^(/\*+ ?|\*/ ?|\* ?)|\*/$", "", bare).rstrip())
    return "\n".join(lines).strip()


def headers_page() -> str:
    parts = ["# Headers", "What each public header says of itself, and a link to all of it."]
    for name in HEADERS:
        text = (ROOT / "include" / "anyop" / name).read_text(encoding="utf-8")
        link = source_link(f"include/anyop/{name}")
        parts += [f"## anyop/{name}", prose(opening_comment(text)), f"[The whole header]({link})"]
    return "\n\n".join(parts) + "\n"


def prose(comment: str) -> str:
    """A comment as Markdown: paragraphs run on, and blocks that are set in are code."""
    shown = []
    for block in re.split(r"\n\s*\n", comment):
        lines = block.splitlines()
        if any(line.startswith("  ") for line in lines):
            told = [line for line in lines if not line.startswith("  ")]
            if told == lines[: len(told)]:  # a sentence, then what it introduces
                shown += [plain(" ".join(told))] if told else []
                lines = lines[len(told) :]
            shown.append("```text\n" + "\n".join(lines) + "\n```")
        else:
            shown.append(plain(" ".join(line.strip() for line in lines)))
    return "\n\n".join(shown)


def plain(text: str) -> str:
    """Markdown that shows these very characters, but for the words in backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"([\\*_\[\]#|])", r"\\\1", p).replace("<", "&lt;") for p in parts[::2]]
    return "".join(parts)


def repository() -> str:
    """The setting `repo_url` of mkdocs.yml; empty while the sources are nowhere."""
    found = re.search(r'^repo_url: "?([^"\n]*)"?$', (ROOT / "mkdocs.yml").read_text("utf-8"), re.M)
    return found[1].rstrip("/") if found else ""


def source_link(file: str) -> str:
    """Where a file of the repository can be read: there, or on a page of this site."""
    return f"{repository()}/blob/main/{file}" if repository() else f"source/{file}.md"


def source_files() -> list[str]:
    """The files that pages link: headers, and those of signatures."""
    files = [f"include/anyop/{name}" for name in HEADERS]
    for file in sorted((ROOT / "ops").glob("*/*.cc")):
        if "extern constinit const Op " in file.read_text(encoding="utf-8"):
            files.append(str(file.relative_to(ROOT)))
    return files


def make_source_pages() -> None:
    """A page for each of them, which the search leaves out."""
    for file in source_files():
        page = PAGES / "source" / f"{file}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / file).read_text(encoding="utf-8").rstrip()
        head = f"---\nsearch:\n  exclude: true\n---\n\n# {file}\n\n"
        page.write_text(f"{head}````cpp\n{text}\n````\n", encoding="utf-8")


def broken_links(pages: dict[str, str]) -> list[str]:
    """Links between pages, by name, that lead to no page or no heading of it."""
    broken = []
    for name, text in pages.items():
        code = re.compile(r"```.*?```|`[^`\n]*`", re.S)
        for target in LINK.findall(code.sub("", text)):
            if "://" in target:
                continue
            path, _, anchor = target.partition("#")
            page = posixpath.normpath(Path(name).parent / path) if path else name
            if Path(page).suffix != ".md" and (DOCS / page).is_file():
                continue
            if page not in pages:
                broken.append(f"{name}: [...]({target}) leads to no page")
            elif anchor and anchor not in anchors(pages[page]):
                broken.append(f"{name}: [...]({target}) leads to no heading")
    return broken


def anchors(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def for_the_site(text: str) -> str:
    """A page as mkdocs reads it. GitHub wants `a \\| b` for a bar in code in a table; there mkdocs
    would show the backslash.
    """
    blocks = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    for i in range(0, len(blocks), 2):
        blocks[i] = re.sub(
            r"^\|.*$",
            lambda row: re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), row[0]),
            blocks[i],
            flags=re.M,
        )
    return tabs("".join(blocks))


def tabs(text: str) -> str:
    """The examples of an operator, one for each host, as tabs."""
    host = re.compile(
        r"^### (NumPy|PyTorch|JAX|MindSpore|C\+\+)\n\n(```\w+\n.*?^```$)", re.M | re.S
    )
    return host.sub(lambda m: f'=== "{m[1]}"\n\n{set_in(m[2])}', text)


def set_in(block: str) -> str:
    return re.sub(r"^(?=.)", "    ", block, flags=re.M)


def explained_call() -> list[str]:
    """The command of the page that shows its picture, up to the picture's name."""
    command = re.search(r"^anyop (explain .* --svg) ", (DOCS / "how.md").read_text("utf-8"), re.M)
    assert command, "docs/how.md has no anyop explain ... --svg"
    return shlex.split(command[1])


def make_pages() -> None:
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(DOCS, PAGES)
    (PAGES / "headers.md").write_text(headers_page(), encoding="utf-8")
    if not repository():
        make_source_pages()
    link = f"{repository()}/blob/main/ops/{{file}}" if repository() else "../source/ops/{file}.md"
    anyop, pictures = [PYTHON, "-m", "anyop"], PAGES / "pictures"
    run("pages of the operators", [*anyop, "docs", PAGES / "operators", "--library", "anyop",
        "--sources", ROOT / "ops", "--source-url", link, "--run", RUN,
        "--pictures", "../pictures"])  # fmt: skip
    plot = [*anyop, "bench", "plot", "--format", "svg"]
    run("pictures of the operators", [*plot, "--each", RUN, pictures])
    run("pictures of a model", [*plot, MODEL, pictures / "model"])
    run("pictures of a graph", [*anyop, "graph", *GRAPH, "--svg", pictures / "graph.svg",
        "--narrow", pictures / "graph-narrow.svg", "--arena", pictures / "arena.svg"])  # fmt: skip
    run("a picture of a profile", [*anyop, "graph", *GRAPH, "--times", PROFILE,
        "--chart", pictures / "profile.svg"])  # fmt: skip
    run("a picture of a dispatch", [*anyop, *explained_call(), pictures / "explain.svg"])
    for page in PAGES.rglob("*.md"):
        if "source" not in page.relative_to(PAGES).parts:
            page.write_text(for_the_site(page.read_text("utf-8")), encoding="utf-8")


def ensure_anyop() -> None:
    """An installed anyop tells of its operators, and has the docstrings of what is compiled."""
    if subprocess.run([PYTHON, "-c", "import anyop"], cwd="/", capture_output=True).returncode == 0:
        return
    print("  .venv has no anyop, which tells of its operators: it is built first, some minutes.")
    prepare.ensure_system_packages(prepare.BUILD_TOOLS)
    prepare.ensure_requirements("build")
    prepare.install_anyop(tests=False)


def main() -> int:
    prepare.ensure_venv()
    ensure_anyop()
    prepare.ensure_requirements("docs")
    make_pages()
    pages = {p.relative_to(PAGES).as_posix(): p.read_text("utf-8") for p in PAGES.rglob("*.md")}
    pages |= {p.relative_to(PAGES).as_posix(): "" for p in PAGES.rglob("*.svg")}
    broken = broken_links(pages)
    if broken:
        raise StepFailed("\n".join(broken))
    quiet = {"NO_MKDOCS_2_WARNING": "1"}  # the theme advertises its successor
    run("the site", [PYTHON, "-m", "mkdocs", "build", "--strict", "--quiet"], env=quiet, cwd=ROOT)
    if dead := list(site_links.broken(SITE)):
        raise StepFailed("\n".join(dead))
    count = sum(name.endswith(".md") for name in pages)
    print(f"  {SITE / 'index.html'}: {count} pages")
    return 0


if __name__ == "__main__":
    main_guard(main)
