# SPDX-License-Identifier: Apache-2.0
import anyop
import my_ops
import numpy as np
import pytest


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 5), (2, 3, 17), (4, 4096)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_scales_every_element(shape: tuple[int, ...], dtype: type) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    expected = (x.astype(np.float32) * np.float32(2.5)).astype(dtype)
    np.testing.assert_array_equal(my_ops.scale(x, 2.5), expected)


def test_doubles_by_default() -> None:
    x = np.array([1, -2], np.float32)
    np.testing.assert_array_equal(my_ops.scale(x), x * 2)


def test_may_write_over_its_input() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert my_ops.scale(x, factor=10, out=x) is x
    np.testing.assert_array_equal(x, [[0, 10, 20], [30, 40, 50]])


def test_takes_rows_with_gaps() -> None:
    x = np.arange(20, dtype=np.float32).reshape(4, 5)[::2, :3]
    np.testing.assert_array_equal(my_ops.scale(x), x * 2)


def test_refuses_integers() -> None:
    with pytest.raises(ValueError, match="T must be f32, f16 or bf16"):
        my_ops.scale(np.arange(3))


def test_is_listed() -> None:
    assert "my_ops.scale" in [spec["name"] for spec in anyop.specs()]
