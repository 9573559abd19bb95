# SPDX-License-Identifier: Apache-2.0
"""What mkdocs asks while it builds the site: the menu lists every operator that has a page."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

MANY = 5  # columns of a table


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


def on_page_content(html: str, **_: Any) -> str:  # the builder gives it by this name
    page = re.sub(r"<table>.*?</table>", lambda table: with_names(table[0]), html, flags=re.S)
    return re.sub(
        r"<(td|h[1-6])\b[^>]*>.*?</\1>", lambda part: may_break(part[0]), page, flags=re.S
    )


def may_break(part: str) -> str:
    """A long name in a table or a title may end a line after each of its words, on a narrow screen.
    A title's link to itself has none.
    """
    return re.sub(r"((?<=\w)[_.]|::|&lt;)(?=[a-zA-Z]\w)(?![^<]*>)", r"\1<wbr>", part)


def with_names(table: str) -> str:
    """Many columns are too wide for a phone, where site.css shows each row as a block: its cells
    then need the names of their columns.
    """
    names = [escape(re.sub(r"<[^>]*>", "", cell).strip(), quote=True)
             for cell in re.findall(r"<th[^>]*>(.*?)</th>", table, re.S)]  # fmt: skip
    if len(names) < MANY:
        return table
    rows = re.split(r"(?=<tr>)", table)
    return "".join(named(row, names) for row in rows).replace("<table>", "<table data-many>", 1)


def named(row: str, names: list[str]) -> str:
    """What a cell holds is one thing beside its name; an empty cell stays empty."""
    column = iter(names)

    def cell(match: re.Match[str]) -> str:
        inside = f"<span>{match[2]}</span>" if match[2].strip() else ""
        return f'<td data-name="{next(column, "")}"{match[1]}>{inside}</td>'

    return re.sub(r"<td\b([^>]*)>(.*?)</td>", cell, row, flags=re.S)
