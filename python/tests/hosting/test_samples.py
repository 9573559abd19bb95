# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy_calls
import samples


def test_a_sample_has_each_two_features_that_are_found_together() -> None:
    chosen = [op for op in numpy_calls.OPERATORS if op.short_name in samples.sample()]
    had = [samples.features(op) for op in chosen]
    for op in numpy_calls.OPERATORS:
        for one in samples.features(op):
            for other in samples.features(op):
                assert any({one, other} <= features for features in had), (op, one, other)
    assert 2 * len(chosen) < len(numpy_calls.OPERATORS)


def test_an_operator_with_a_feature_of_its_own_is_chosen() -> None:
    lists = {op.short_name for op in numpy_calls.OPERATORS if "tensors" in samples.features(op)}
    assert lists and lists & samples.sample()
