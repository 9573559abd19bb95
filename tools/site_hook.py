# SPDX-License-Identifier: Apache-2.0
"""What mkdocs asks while it builds the site: the menu lists every operator that has a page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    folder = Path(config["docs_dir"]) / "operators"
    pages = sorted(p.name for p in folder.glob("*.md") if p.name != "README.md")
    (section,) = (part for entry in config["nav"] for part in entry.values() if is_operators(part))
    names = {page: page.removesuffix(".md").removeprefix("anyop.") for page in pages}
    section[:] = [{"All of them": section[0]}]
    section += [{names[page]: f"operators/{page}"} for page in pages]
    return config


def is_operators(part: Any) -> bool:
    return isinstance(part, list) and part[0] == "operators/README.md"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The front page takes the whole width: its pictures are wide, and its links are in it."""
    if page.file.src_uri == "index.md":
        page.meta["hide"] = ["navigation", "toc"]
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """A long name in a table may end a line after each of its words, on a narrow screen."""
    return re.sub(
        r"<td[^>]*>.*?</td>",
        lambda cell: re.sub(r"(?<=\w)_(?=\w)(?![^<]*>)", "_<wbr>", cell[0]), html, flags=re.S,
    )  # fmt: skip
