# SPDX-License-Identifier: Apache-2.0
"""What documents and spec comments say of operators is what the registry says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyop
import pytest
from checkout import ROOT

DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
NAME = r"[a-z_][a-z_0-9]*"
OWN = re.compile(r'(define\(|signature =)\s*"$')  # before the signature of an example's operator
# "  k_scale, v_scale  one per key head ...": the arguments that a spec comment explains.
EXPLAINED = re.compile(rf"  ({NAME}(?:, {NAME})*)  +(?![=<>])\S")


def built_in() -> list[dict[str, Any]]:
    return [s for s in anyop.specs() if s["library"] == "anyop"]


def names(spec: dict[str, Any]) -> set[str]:
    return set(re.findall(NAME, spec["signature"]))


def explained(spec: dict[str, Any]) -> Iterator[str]:
    for line in spec["doc"].partition("\n")[2].partition("Numerics  ")[0].splitlines():
        if match := EXPLAINED.match(line):
            yield from match[1].split(", ")


def quoted(text: str, operator: str) -> Iterator[str]:
    """The signatures of an operator that a document shows, up to the end of their parameters.

    One that an example gives to an operator of its own is none.
    """
    for match in re.finditer(rf"(?<![\w.]){operator}\({NAME}: ", text):
        if OWN.search(text, 0, match.start()):
            continue
        depth = 0
        for end in range(match.end() - len(match[0]), len(text)):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if text[end] == ")" and depth == 0:
                yield text[match.start() : end + 1]
                break


def packed(text: str) -> str:
    return re.sub(r'["\s]', "", text)


def unknown(spec: dict[str, Any]) -> list[str]:
    return [name for name in explained(spec) if name not in names(spec)]


def wrong(text: str, specs: list[dict[str, Any]]) -> list[str]:
    return [
        shown
        for spec in specs
        for shown in quoted(text, spec["name"].removeprefix("anyop."))
        if packed(shown) not in packed(spec["signature"])
    ]


def test_a_page_explains_arguments_that_the_signature_has() -> None:
    explains = {spec["name"]: unknown(spec) for spec in built_in()}
    assert {name: found for name, found in explains.items() if found} == {}
    assert sum(len(list(explained(spec))) for spec in built_in()) > 200, "the pattern finds nothing"


def test_a_page_that_explains_an_argument_of_another_name_is_found() -> None:
    spec = next(s for s in built_in() if s["name"] == "anyop.rms_norm")
    assert unknown({**spec, "doc": spec["doc"].replace("  eps    ", "  epsilon")}) == ["epsilon"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_a_document_shows_signatures_as_the_registry_has_them(document: Path) -> None:
    assert wrong(document.read_text("utf-8"), built_in()) == []


def test_a_signature_of_another_time_is_found() -> None:
    old = "rms_norm(x: T[..., d], weight: T[d]?, eps: float = 1e-6)"
    assert wrong(f"`{old} -> (y: T[..., d])`", built_in()) == [old]


def test_the_layouts_of_k_quants_are_on_their_page() -> None:
    pages = {s["name"]: s["doc"] for s in built_in()}
    for text in ("s[p] = a[p] & 63", "(a[p - 4] >> 6) << 4", "(h[32*i + j] >> 2*p) & 3"):
        assert text in pages["anyop.linear_blocks"], text
