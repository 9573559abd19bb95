# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import anyop
from anyop.cli import load_libraries
from anyop.cli.docs_beside import times_of, tolerances_of
from anyop.cli.docs_page import Beside, escaped, page
from anyop.cli.listing import summary

# The last line of every file that this command writes, and so may write again.
MARK = "<!-- Made by `anyop docs` from signatures and spec comments. -->\n"


@click.command("docs")
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.option("--library", default=None, help="Only this library's operators.")
@click.option(
    "--sources", type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The folder of the operators' folders: pages then state the tolerance of each test.cc.",
)  # fmt: skip
@click.option(
    "--source-url", default="", metavar="TEXT",
    help="A link to each source file, in which {file} is its name: 'https://host/ops/{file}'.",
)  # fmt: skip
@click.option(
    "--run", "run_file", type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A run that `anyop bench ops --save` wrote: pages then have its times.",
)  # fmt: skip
@click.option(
    "--pictures", default="", metavar="URL",
    help="Where the pictures of `anyop bench plot --format svg --each` of this run are.",
)  # fmt: skip
def command(
    out: Path, library: str | None, sources: Path | None, source_url: str, run_file: Path | None,
    pictures: str,
) -> None:  # fmt: skip
    """Write a page per operator, and an index, to the folder OUT (Markdown).

    Each operator is called with small arrays, to find a call that it accepts: the page's example.
    """
    load_libraries()
    specs = [s for s in anyop.specs() if library in (None, s["library"])]
    for name in [*(s["name"] for s in specs), "README"]:
        if not may_write(out / f"{name}.md"):
            raise click.ClickException(
                f"{click.format_filename(out / f'{name}.md')} is there already, and `anyop docs` "
                "did not write it. Try an empty folder."
            )
    tolerances = tolerances_of(sources) if sources else {}
    times = times_of(run_file, pictures) if run_file else {}
    texts = _pages(specs, tolerances, times, source_url)
    out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (out / f"{name}.md").write_text(text + "\n" + MARK, encoding="utf-8")
    name = click.format_filename(out)
    click.echo(f"Wrote {len(specs)} pages and README.md to {name}.")


def _pages(
    specs: list[dict[str, Any]], tolerances: dict[str, str], times: dict[str, list[str]],
    source_url: str,
) -> dict[str, str]:  # fmt: skip
    backward = {s["gradient"]["op"]: s["name"] for s in specs if s.get("gradient")}
    names = frozenset(s["name"] for s in specs)
    texts = {"README": index(specs, frozenset(backward))}
    for spec in specs:
        word = spec["name"].rpartition(".")[2]
        beside = Beside(
            tolerances.get(word, ""), times.get(word, ()),
            lambda file: source_url.replace("{file}", file),
            backward.get(spec["name"], ""), names,
        )  # fmt: skip
        texts[spec["name"]] = page(spec, beside)
    return texts


def may_write(path: Path) -> bool:
    """Whether nothing is there, or a page that this command wrote."""
    if path.is_symlink() or not path.exists():
        return not path.is_symlink()
    return path.is_file() and path.read_bytes().endswith(MARK.encode())


def index(specs: list[dict[str, Any]], backward: frozenset[str]) -> str:
    lines = ["# Operators", "", *_table([s for s in specs if s["name"] not in backward])]
    if gradients := [s for s in specs if s["name"] in backward]:
        lines += ["", "## Gradients", "", *_table(gradients)]
    return "\n".join(lines) + "\n"


def _table(specs: list[dict[str, Any]]) -> list[str]:
    rows = [f"| [{s['name']}]({s['name']}.md) | {escaped(summary(s))} |" for s in specs]
    return ["| operator | what it computes |", "|---|---|", *rows]
