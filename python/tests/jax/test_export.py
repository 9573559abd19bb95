# SPDX-License-Identifier: Apache-2.0
"""Programs that outlive their process: exported with symbols for sizes, and kept in XLA's cache."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyop
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from anyop import jax as host

DEFINED = """
anyop.define("twice_exported(x: f32[n]) -> (y: f32[n])", lambda x: x * 2)
"""
CHANGED = """
anyop.define("twice_exported(x: f32[n]) -> (y: f32[n]) where n >= 1", lambda x: x * 2)
"""
CALL = """
import sys
import jax, numpy as np, anyop
{defines}
program = jax.export.deserialize(open(sys.argv[1], "rb").read())
try:
    for n in (2, 5):
        print(np.asarray(program.call(np.ones({shape}, "f4"))).tolist())
except Exception as error:
    print(str(error).splitlines()[0])
"""


def export(f: Any, *sizes: str) -> Any:
    types = [jax.ShapeDtypeStruct(shape, "float32") for shape in _shapes(sizes)]
    return jax.export.export(jax.jit(f), disabled_checks=host.export_checks())(*types)


def _shapes(sizes: tuple[str, ...]) -> list[Any]:
    scope = jax.export.SymbolicScope()
    return [jax.export.symbolic_shape(text, scope=scope) for text in sizes]


def in_another_process(exported: Any, path: Path, defines: str = "", shape: str = "n") -> list[str]:
    path.write_bytes(exported.serialize())
    code = CALL.format(defines=defines, shape=shape)
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_program_with_symbols_runs_in_another_process(tmp_path: Path) -> None:
    weight = jnp.full(4, 3.0)
    exported = export(lambda x: anyop.rms_norm(x, weight, eps=0.0), "n, 4")
    assert str(exported.out_avals[0].shape) == "(n, 4)"
    lines = in_another_process(exported, tmp_path / "program", shape="(n, 4)")
    assert lines == [str([[3.0] * 4] * 2), str([[3.0] * 4] * 5)]


def test_a_gradient_is_exported(tmp_path: Path) -> None:
    f = jax.grad(lambda x: (anyop.softmax(x) ** 2).sum())
    exported = export(f, "n, 8")
    x = np.random.default_rng(1).standard_normal((3, 8), np.float32)
    np.testing.assert_allclose(exported.call(x), f(jnp.asarray(x)), rtol=1e-6)


def test_another_library_is_refused(tmp_path: Path) -> None:
    anyop.define("twice_exported(x: f32[n]) -> (y: f32[n])", lambda x: x * 2)
    exported = export(anyop.ops.user.twice_exported, "n")
    path = tmp_path / "program"
    assert in_another_process(exported, path, DEFINED) == ["[2.0, 2.0]", str([2.0] * 5)]
    (missing,) = in_another_process(exported, path)
    assert missing == "NOT_FOUND: there is no operator 'user.twice_exported'."
    (changed,) = in_another_process(exported, path, CHANGED)
    assert re.sub("[0-9a-f]{32}", "H", changed) == (
        "INVALID_ARGUMENT: user.twice_exported: the program was made with contract H, but the "
        "library that is loaded has contract H. Try making the program anew, or load the library "
        "that it was made with."
    )


def test_conditions_on_symbols_are_checked_when_called() -> None:
    exported = export(lambda x: anyop.top_k(x, 4).values, "n, d")
    np.testing.assert_array_equal(exported.call(np.arange(5.0, dtype="f4")[None]), [[4, 3, 2, 1]])
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(exported.call(np.ones((1, 3), "f4")))
    assert str(caught.value).splitlines()[0] == (
        "INVALID_ARGUMENT: top_k: k <= d must hold, but k is 4, d is 3 (x is f32[1, 3])."
    )


def test_sizes_follow_the_signature() -> None:
    exported = export(anyop.silu_and_mul, "n, 2*d")
    assert str(exported.out_avals[0].shape) == "(n, d)"
    odd = export(anyop.silu_and_mul, "n, d")
    assert str(odd.out_avals[0].shape) == "(n, floordiv(d, 2))"
    with pytest.raises(ValueError) as caught:
        export(lambda x: anyop.rms_norm(x, jnp.ones(4)), "n, 8")
    assert str(caught.value).splitlines()[0] == (
        "rms_norm: weight is f32[4], but must be f32[8] because x is f32[?, 8]."
    )


def test_the_cache_on_disk_knows_contracts(tmp_path: Path) -> None:
    """Programs of one operator whose contract changed are two entries."""
    code = """
import sys, jax, numpy as np, anyop
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
{defines}
print(np.asarray(anyop.ops.user.twice_exported(jax.numpy.ones(2))).tolist())
"""
    entries = []
    for defines in (DEFINED, DEFINED, CHANGED):
        done = subprocess.run(
            [sys.executable, "-c", code.format(defines=defines), str(tmp_path)],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.stdout == "[2.0, 2.0]\n", done.stderr
        entries.append(len(list(tmp_path.glob("jit_twice_exported*-cache"))))
    assert entries[0] == entries[1] >= 1
    assert entries[2] == entries[1] + 1
