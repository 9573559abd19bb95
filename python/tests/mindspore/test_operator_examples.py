# SPDX-License-Identifier: Apache-2.0
"""The example for MindSpore on each operator's page runs."""

from __future__ import annotations

from typing import Any

import anyop
from anyop.cli import docs_calls, docs_example


def test_the_examples_run() -> None:
    ran, others = 0, []
    for spec in anyop.specs():
        if spec["library"] != "anyop":
            continue
        example = docs_example.example(spec)
        assert example is not None, spec["name"]
        if "MindSpore" not in docs_calls.hosts(example):
            others.append(spec["name"])
            continue
        names: dict[str, Any] = {}
        exec(docs_calls.program(example, "MindSpore"), names)
        assert all(result in names for result in example.results), spec["name"]
        ran += 1
    assert ran > 100
    assert others == ["anyop.quantize_fp8", "anyop.quantize_fp8_dynamic"]
