# SPDX-License-Identifier: Apache-2.0
"""What explain says of a convolution, and torch's own on the same numbers."""

from __future__ import annotations

import anyop
import numpy as np
import pytest

X = np.random.default_rng(0).standard_normal((2, 4, 12, 14), np.float32)
PATCHES = np.random.default_rng(1).standard_normal((6, 4, 3, 5), np.float32)


def kernel(x: np.ndarray, weight: np.ndarray, *lists: list[int]) -> str:
    return str(anyop.explain(anyop.conv2d, x, weight, None, *lists).kernel)


def test_explain_names_the_matrix_form_where_patches_do_not_overlap() -> None:
    assert kernel(X, PATCHES, [3, 5]).endswith("_matrix")
    assert not kernel(X, PATCHES, [3, 4]).endswith("_matrix")
    assert not kernel(X, PATCHES, [3, 5], [0, 1]).endswith("_matrix")
    volume, filters = X[:, :, None].repeat(2, 2), PATCHES[:, :, None].repeat(2, 2)
    found = anyop.explain(anyop.conv3d, volume, filters, None, [2, 3, 5])
    assert str(found.kernel).endswith("_matrix")


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_conv2d_is_torchs(groups: int) -> None:
    torch = pytest.importorskip("torch")
    weight = np.random.default_rng(2).standard_normal((8, 4 // groups, 3, 4), np.float32)
    arguments = ([2, 1], [1, 3], [1, 2], groups)
    theirs = torch.nn.functional.conv2d(torch.tensor(X), torch.tensor(weight), None, *arguments)
    ours = anyop.conv2d(X, weight, None, *arguments)
    np.testing.assert_allclose(np.asarray(ours), theirs.numpy(), atol=2e-5)
    same = anyop.conv2d(X, weight, groups=groups, pad="same")
    theirs = torch.nn.functional.conv2d(
        torch.tensor(X), torch.tensor(weight), padding="same", groups=groups
    )
    np.testing.assert_allclose(np.asarray(same), theirs.numpy(), atol=2e-5)
