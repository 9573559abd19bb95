# SPDX-License-Identifier: Apache-2.0
"""Links of the built site: pages, pictures, scripts, and places in pages."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What the theme looks for at an address that only a server has.
OF_A_SERVER = ("404.html",)


class Page(HTMLParser):
    """The places of a page that links may name, and what it links to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: dict[str, None] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.places.add(value)
            elif name in ("href", "src") and value:
                self.links[value] = None
            elif name == "srcset" and value:
                self.links.update(dict.fromkeys(part.split()[0] for part in value.split(",")))


def broken(site: Path) -> Iterator[str]:
    """A sentence for each link of a page that leads to no file, or to no place of its page."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        if name in OF_A_SERVER:
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_relative_to(site.resolve()) and parts.path:
                yield f"{name}: {link} leads out of the site"
            elif not target.is_file():
                yield f"{name}: {link} leads to no file"
            elif parts.fragment and not _has(pages, target, unquote(parts.fragment)):
                yield f"{name}: {link} leads to no place of its page"


def _has(pages: dict[Path, Page], target: Path, place: str) -> bool:
    """Whether a page has a place. What is no page, such as a picture, has its own."""
    return target not in pages or place in pages[target].places or place == "__skip"
