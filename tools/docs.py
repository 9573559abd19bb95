# SPDX-License-Identifier: Apache-2.0
"""./tools/docs: the site of the documents, build/site/index.html, with a search and one index.

Made of docs/, a page for every built-in operator, and the comments of the public headers. A link
that leads nowhere is an error.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import prepare
from prepare import PYTHON, ROOT, StepFailed, main_guard, run

PAGES = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"
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
    parts = ["# Headers", "What each public header says of itself; the header says the rest."]
    for name in HEADERS:
        comment = opening_comment((ROOT / "include" / "anyop" / name).read_text(encoding="utf-8"))
        parts += [f"## anyop/{name}", f"```\n{comment}\n```"]
    return "\n\n".join(parts) + "\n"


def broken_links(pages: dict[str, str]) -> list[str]:
    """Links between pages, by name, that lead to no page or no heading of it."""
    broken = []
    for name, text in pages.items():
        code = re.compile(r"```.*?```|`[^`\n]*`", re.S)
        for target in LINK.findall(code.sub("", text)):
            if "://" in target:
                continue
            path, _, anchor = target.partition("#")
            page = (Path(name).parent / path).as_posix() if path else name
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
    return "".join(blocks)


def make_pages() -> None:
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    for page in PAGES.glob("*.md"):
        page.write_text(for_the_site(page.read_text("utf-8")), encoding="utf-8")
    (PAGES / "headers.md").write_text(headers_page(), encoding="utf-8")
    run("pages of the operators", [PYTHON, "-m", "anyop", "docs", PAGES / "operators",
                                   "--library", "anyop"])  # fmt: skip


def main() -> int:
    prepare.ensure_venv()
    prepare.ensure_requirements("docs")
    make_pages()
    pages = {p.relative_to(PAGES).as_posix(): p.read_text("utf-8") for p in PAGES.rglob("*.md")}
    broken = broken_links(pages)
    if broken:
        raise StepFailed("\n".join(broken))
    quiet = {"NO_MKDOCS_2_WARNING": "1"}  # the theme advertises its successor
    run("the site", [PYTHON, "-m", "mkdocs", "build", "--strict", "--quiet"], env=quiet, cwd=ROOT)
    print(f"  {SITE / 'index.html'}: {len(pages)} pages")
    return 0


if __name__ == "__main__":
    main_guard(main)
