# SPDX-License-Identifier: Apache-2.0
"""The planted defects of `./check --mutants` still fit the code that they are planted in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from checkout import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import mutants

ALL = mutants.read_mutants()


@pytest.mark.parametrize("mutant", ALL, ids=lambda m: m.name)
def test_a_mutant_fits_the_code(mutant: mutants.Mutant) -> None:
    assert mutants.defect(mutant) == ""
    assert mutant.old != mutant.new


def test_there_are_mutants_of_every_layer() -> None:
    assert len(ALL) >= 40
    assert len({m.name for m in ALL}) == len(ALL)
    layers = {folder for m in ALL for folder in map(str, Path(m.file).parents)}
    for layer in ("src/signature", "src/runtime", "src/graph", "bindings", "python/anyop/torch"):
        assert layer in layers
    assert len({m.file.split("/")[1] for m in ALL if m.file.startswith("ops/")}) >= 10


def test_a_mutant_that_no_longer_fits_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.cc").write_text("one two one")
    mutant = mutants.Mutant("m", "a.cc", "a_test", "one", "two")
    assert mutants.defect(mutant, tmp_path) == (
        "its old text stands 2 times in a.cc, but must stand there once"
    )
    gone = mutants.Mutant("m", "b.cc", "a_test", "one", "two")
    assert mutants.defect(gone, tmp_path) == "there is no b.cc"
    alone = mutants.Mutant("m", "a.cc", "a_test", "two", "three")
    assert mutants.defect(alone, tmp_path) == "no file makes the test a_test"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.txt").write_text("mutant: m\nfile: a.cc\n")
    with pytest.raises(SystemExit, match="not of the form"):
        mutants.read_mutants(tmp_path / "data")
