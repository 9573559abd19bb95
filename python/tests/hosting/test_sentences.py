# SPDX-License-Identifier: Apache-2.0
"""Errors that quote errors: one full stop after a sentence, and each name once."""

from __future__ import annotations

import pytest
from anyop.hosting.sentences import clause


@pytest.mark.parametrize(
    ("said", "quoted"),
    [
        (ValueError("f: x is 3, but must be 2. Try 2."), "x is 3, but must be 2. Try 2"),
        (ValueError("no full stop"), "no full stop"),
        (ValueError("the first line.\nanother."), "the first line"),
        (ValueError("g: of another"), "g: of another"),
        (KeyError(), "KeyError"),
        ("a text.", "a text"),
    ],
)
def test_an_error_is_quoted_without_its_end_and_the_name_of_whom_it_is_about(
    said: Exception | str, quoted: str
) -> None:
    assert clause(said, "f") == quoted


def test_two_full_stops_are_found_in_every_expected_error() -> None:
    for text in ("f[..., 2] of ../x. Try it...", "one."):
        with pytest.raises(ValueError):
            raise ValueError(text)
    found = ""
    try:
        with pytest.raises(ValueError):
            raise ValueError("a. Try b.. Try c.")
    except AssertionError as error:
        found = str(error)
    assert found.startswith("two full stops: a. Try b.. Try c.")
