# SPDX-License-Identifier: Apache-2.0
"""Tensors of a dtype that an operator does not take, of every operator and argument."""

from __future__ import annotations

import re

import anyop
import numpy as np
import pytest
from anyop.hosting.facts import Operator
from numpy_calls import OPERATORS, call, example


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.short_name)
def test_a_refusal_says_what_to_do(op: Operator) -> None:
    values = example(op, dtype="f32")
    for i, value in enumerate(values):
        for dtype in (np.float64, np.int16, np.bool_):
            if not isinstance(value, np.ndarray) or value.dtype == dtype:
                continue
            try:
                call(op, [*values[:i], value.astype(dtype), *values[i + 1 :]])
            except anyop.InvalidArgument as error:
                assert re.search(r"\. Try a cast( to \w+)?\.$", str(error)), error
            except anyop.Unsupported:
                continue
