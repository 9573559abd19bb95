# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import anyop
from anyop.cli import load_libraries
from anyop.cli.listing import summary

# The last line of every file that this command writes, and so may write again.
MARK = "<!-- Made by `anyop docs` from signatures and spec comments. -->\n"


@click.command("docs")
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.option("--library", default=None, help="Only this library's operators.")
def command(out: Path, library: str | None) -> None:
    """Write a page per operator, and an index, to the folder OUT (Markdown)."""
    load_libraries()
    specs = [s for s in anyop.specs() if library in (None, s["library"])]
    pages = {out / f"{spec['name']}.md": page(spec) for spec in specs}
    pages[out / "README.md"] = index(specs)
    for path in pages:
        if not may_write(path):
            raise click.ClickException(
                f"{click.format_filename(path)} is there already, and `anyop docs` did not write "
                "it. Try an empty folder."
            )
    out.mkdir(parents=True, exist_ok=True)
    for path, text in pages.items():
        path.write_text(text + "\n" + MARK, encoding="utf-8")
    name = click.format_filename(out)
    click.echo(f"Wrote {len(specs)} pages and README.md to {name}.")


def may_write(path: Path) -> bool:
    """Whether nothing is there, or a page that this command wrote."""
    if path.is_symlink() or not path.exists():
        return not path.is_symlink()
    return path.is_file() and path.read_bytes().endswith(MARK.encode())


def index(specs: list[dict[str, Any]]) -> str:
    lines = ["# Operators", ""]
    lines += ["| operator | what it computes |", "|---|---|"]
    for spec in specs:
        text = summary(spec).replace("|", "\\|")
        lines.append(f"| [{spec['name']}]({spec['name']}.md) | {text} |")
    return "\n".join(lines) + "\n"


def page(spec: dict[str, Any]) -> str:
    """Signature, document, kernels: everything that is known of one operator."""
    rest = spec["doc"].partition("\n")[2].strip("\n")
    first = summary(spec)
    parts = [f"# {spec['name']}", first[:1].upper() + first[1:], block(spec["signature"])]
    if rest:
        parts.append(block(rest))
    parts.append("\n".join(facts(spec)))
    parts.append("\n".join(kernels(spec)))
    return "\n\n".join(p for p in parts if p) + "\n"


def block(text: str) -> str:
    return f"```\n{text}\n```"


def facts(spec: dict[str, Any]) -> list[str]:
    lines = []
    gradient = spec.get("gradient")
    if gradient:
        lines.append(f"- Gradient: `{gradient['op']}`, of {', '.join(gradient['targets'])}")
    if spec.get("means") and spec["kernels"]:
        lines.append(f"- Means: `{spec['means']}`")
    if spec.get("source"):
        lines.append(f"- Source: `{spec['source']}`")
    return lines


def kernels(spec: dict[str, Any]) -> list[str]:
    if spec["means"] and not spec["kernels"]:
        calls = spec["means"].replace("; ", "\n")
        return ["It has no kernel: it is these calls.", "", block(calls)]
    lines = ["| kernel | takes | needs |", "|---|---|---|"]
    for kernel in spec["kernels"]:
        if kernel["state"] == "not built":
            lines.append(f"| {kernel['name']} | not built for this machine | |")
            continue
        when = str(kernel["when"] or "every call").replace("|", "\\|")
        lines.append(f"| {kernel['name']} | {when} | {kernel['needs'] or '-'} |")
    return lines
