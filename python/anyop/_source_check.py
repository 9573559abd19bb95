# SPDX-License-Identifier: Apache-2.0
"""What is wrong in the sources of operators, told before the compiler runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anyop import _anyop, _source_rules
from anyop._packages import tool


class _Language:
    """The core's parser, as tools/check_ops.py asks for it: that file needs no anyop itself."""

    def parse(self, signature: str) -> dict[str, Any]:
        contract: dict[str, Any] = json.loads(_anyop.parse(signature))
        for value in contract["params"] + contract["results"]:
            value.setdefault("optional", False)
        return {**contract, "text": signature}

    def expression(self, signature: str, kind: str, text: str) -> None:
        _anyop.parse_expression(signature, kind, text)

    def between(self, checker: Any) -> Iterator[Any]:
        return _source_rules.findings(checker)


def check_sources(paths: list[Path]) -> list[Any]:
    """The findings, in the order of files and lines. Each prints as file:line:column, a sentence,
    the line and a caret.
    """
    check_ops = tool("check_ops")
    kernel_files = tool("kernel_files")
    isas = kernel_files.isas_of(kernel_files.ISA_TABLE)
    findings: list[Any] = check_ops.check(paths, isas, _Language())
    return findings
