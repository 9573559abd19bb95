# SPDX-License-Identifier: Apache-2.0
"""Every operator and form, generated from the registry: JAX computes what NumPy computes."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import jax_calls
import numpy as np
import numpy_calls
import pytest
import samples
from anyop import _anyop, symbolic
from anyop import jax as host
from anyop.hosting.facts import Operator
from jax_calls import (
    FORMS,
    OTHER_DTYPES,
    assert_same,
    call,
    find,
    holds,
    name_of,
    to_jax,
    traced,
    wanted,
)

NAME = re.compile(r"\b[a-z]\w*\b")
# By default the first form in both dtypes, the others in one.
EACH_FORM = pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case, marks=pytest.mark.exhaustive if case[1] and case[2] == "f32" else (),
            id=name_of(case),
        )
        for case in FORMS
    ],
)  # fmt: skip
# What compiles for every case: by default for a sample of the operators, one dtype each.
SAMPLED_FORM = pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case, id=name_of(case),
            marks=() if case[0].short_name in samples.sample() and case[2] == "f32"
            else pytest.mark.exhaustive,
        )
        for case in FORMS
    ],
)  # fmt: skip


@EACH_FORM
def test_eager_and_jitted_calls_are_those_of_numpy(case: Any) -> None:
    op, form, dtype = case
    values = find(op, form, dtype)
    if values is None:
        pytest.skip("no such call")
    theirs = wanted(op, values)
    before = [jax_calls.copied(v) for v in values]
    tensors = [to_jax(v) for v in values]
    for made in (call(op, tensors), _jitted(op, values)):
        assert len(made) == len(theirs)
        for one, other in zip(made, theirs, strict=True):
            assert_same(one, other)
    for tensor, array in zip(tensors, before, strict=True):  # what is written is a copy
        if isinstance(array, np.ndarray):
            assert_same(tensor, array)


def _jitted(op: Operator, values: list[Any]) -> list[Any]:
    function, flat = traced(op, values)
    made: list[Any] = function(*flat)
    return made


@pytest.mark.parametrize("case", OTHER_DTYPES, ids=name_of)
def test_calls_with_every_other_dtype_are_those_of_numpy(case: Any) -> None:
    """f16, f8, i8, bool and all others that a form's variables may be; those of 64 bits where JAX
    has them.
    """
    op, form, dtype = case
    with jax.enable_x64(dtype in ("i64", "u64", "f64", "c128")):
        values = find(op, form, dtype)
        assert values is not None and holds(op, values, dtype)
        for one, other in zip(_jitted(op, values), wanted(op, values), strict=True):
            assert_same(one, other)


@SAMPLED_FORM
def test_a_batch_is_the_calls_of_its_examples(case: Any) -> None:
    """Two examples, the second with the tensors of floats negated; only these are batched."""
    op, form, dtype = case
    values = find(op, form, dtype)
    if values is None:
        pytest.skip("no such call")
    if not any(isinstance(v, np.ndarray) for v in values):
        pytest.skip("no tensor to batch")
    is_batched = [isinstance(v, np.ndarray) and _is_float(v) for v in values]
    if not any(is_batched):
        is_batched = [isinstance(v, np.ndarray) for v in values]
    other = [
        np.asarray(np.negative(v), v.dtype) if b and _is_float(v) else v
        for v, b in zip(values, is_batched, strict=True)
    ]
    function, flat = traced(op, values, lambda f: f)
    _, flat_other = traced(op, other, lambda f: f)
    flags = _flat_flags(values, is_batched)
    stacked = [
        jnp.stack([a, b]) if flag else a for a, b, flag in zip(flat, flat_other, flags, strict=True)
    ]
    axes = [0 if flag else None for flag in flags]
    made = jax.jit(jax.vmap(function, in_axes=axes))(*stacked)
    for k, own in enumerate((values, other)):
        for one, theirs in zip(made, wanted(op, own), strict=True):
            _assert_close(jax.tree.map(lambda t, k=k: t[k], one), theirs, dtype)


def _flat_flags(values: list[Any], is_batched: list[bool]) -> list[bool]:
    flags = []
    for value, flag in zip(values, is_batched, strict=True):
        if isinstance(value, np.ndarray):
            flags.append(flag)
        elif jax_calls.holds_arrays(value):
            flags += [False] * len(value)
    return flags


def _is_float(array: np.ndarray) -> bool:
    return bool(jnp.issubdtype(array.dtype, jnp.floating))


def _assert_close(made: Any, theirs: Any, dtype: str) -> None:
    """Another shape may be another kernel, which rounds differently."""
    tolerance = 1e-5 if dtype == "f32" else 2e-2
    for one, other in zip(jax.tree.leaves(made), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(
            np.asarray(one, "f4"), np.asarray(other, "f4"), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize(
    "dtype", ["f32", "bf16", pytest.param("f16", marks=pytest.mark.exhaustive)]
)
@pytest.mark.parametrize("op", numpy_calls.DIFFERENTIABLE, ids=lambda op: op.short_name)
def test_gradients_are_those_of_the_gradient_operator(op: Operator, dtype: str) -> None:
    """Of every float input that has one, jitted or not; in f32 against central differences too."""
    values = jax_calls.example(op, -1, dtype, words=True)
    assert op.wiring is not None and holds(op, values, dtype)
    function, flat = traced(op, values, lambda f: f)
    targets = [
        k
        for k, (i, v) in enumerate((i, v) for i, v in enumerate(values) if _is_array(v))
        if i in op.wiring.targets and _is_float(v)
    ]
    results = function(*flat)
    r = min(op.wiring.results)
    random = np.random.default_rng(3)
    dy = jnp.asarray(random.standard_normal(results[r].shape), results[r].dtype)

    def scalar(*tensors: Any) -> Any:
        return (function(*tensors)[r].astype(jnp.float32) * dy.astype(jnp.float32)).sum()

    made = jax.grad(scalar, argnums=targets)(*flat)
    again = jax.jit(jax.grad(scalar, argnums=targets))(*flat)
    theirs = _by_numpy(op, values, np.asarray(dy), r)
    places = [i for i, v in enumerate(values) if _is_array(v)]
    for k, one, other in zip(targets, made, again, strict=True):
        assert_same(one, theirs[places[k]])
        assert_same(other, theirs[places[k]])
        if dtype == "f32":
            assert_central_differences(scalar, flat, k, np.asarray(one), random)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _by_numpy(op: Operator, values: list[Any], dy: np.ndarray, r: int) -> dict[int, np.ndarray]:
    """The gradient operator on arrays, by the parameter that it is the gradient of."""
    assert op.wiring is not None
    gradient = Operator(op.wiring.operator)
    places = {"param": values, "result": numpy_calls.call(op, values)}
    arguments: list[Any] = []
    for (kind, index), p in zip(op.wiring.sources, gradient.params, strict=True):
        if kind != "result_gradient":
            arguments.append(places[kind][index])
        elif index == r:
            arguments.append(dy)
        else:
            arguments.append(None if p.is_optional else np.zeros_like(places["result"][index]))
    return dict(zip(op.wiring.targets, numpy_calls.call(gradient, arguments), strict=True))


def assert_central_differences(
    scalar: Any, tensors: list[Any], k: int, gradient: np.ndarray, random: Any
) -> None:
    """Along one direction, in the direction of the gradient so that the change is large."""
    norm = float(np.linalg.norm(gradient.astype("f8")))
    if norm == 0:
        return
    step = 2e-3
    direction = jnp.asarray(gradient / norm, tensors[k].dtype)

    def at(distance: float) -> float:
        moved = list(tensors)
        moved[k] = tensors[k] + distance * direction
        return float(scalar(*moved))

    change = (at(step) - at(-step)) / (2 * step)
    assert abs(change - norm) <= 0.05 * norm + 1e-2, (change, norm)


@pytest.mark.parametrize("op", samples.sampled(), ids=lambda op: op.short_name)
def test_a_program_with_a_symbol_for_a_size_is_exported(op: Operator) -> None:
    """One size of the signature as a symbol; exported, written, read and called."""
    drawn = (find(op, -1, dtype) for dtype in ("f32", "bf16", "f16"))
    values = next(v for v in drawn if v and (not _arrays(v) or any(a.ndim for a in _arrays(v))))
    function, flat = traced(op, values)
    places = [i for i, v in enumerate(values) if _is_array(v)]
    if len(places) != len(flat) or not flat:
        pytest.skip("no tensors, or lists of them")
    for symbol in _symbols(op, values):
        specs = _with_symbol(op, values, places, flat, symbol)
        if specs is None:
            continue
        try:
            exported = jax.export.export(function, disabled_checks=host.export_checks())(*specs)
        except (ValueError, NotImplementedError):
            continue  # the size cannot be any
        read = jax.export.deserialize(exported.serialize())
        for one, theirs in zip(read.call(*flat), function(*flat), strict=True):
            for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(theirs), strict=True):
                np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
        return
    raise AssertionError("no size can be a symbol")


def _arrays(values: list[Any]) -> list[np.ndarray]:
    return [v for v in values if _is_array(v)]


def _form(op: Operator, values: list[Any]) -> dict[str, Any]:
    types = [
        symbolic.TensorType(_anyop.dtype_name(v.dtype), v.shape) if _is_array(v) else v
        for v in values
    ]
    form: dict[str, Any] = op.contract["forms"][symbolic.choose_form(op.name, types)]
    return form


def _symbols(op: Operator, values: list[Any]) -> list[str]:
    """The first of the leading dimensions as "...", then the names of sizes."""
    form = _form(op, values)
    dims = " ".join(d for p in form["params"] for d in p.get("dims", ()))
    return ["...", *dict.fromkeys(NAME.findall(dims))]


def _with_symbol(
    op: Operator, values: list[Any], places: list[int], flat: list[Any], symbol: str
) -> list[Any] | None:
    """The types of the tensors where that size is not known; None where none has it."""
    form = _form(op, values)
    scope = jax.export.SymbolicScope()
    found, specs = False, []
    for i, tensor in zip(places, flat, strict=True):
        dims = form["params"][i]["dims"]
        leading = tensor.ndim - len(dims)
        sizes: list[Any] = list(tensor.shape)
        if symbol == "..." and leading:
            sizes[0], found = jax.export.symbolic_shape("rows", scope=scope)[0], True
        for d, text in enumerate(dims, leading):
            if NAME.findall(text) == [symbol]:
                sizes[d], found = jax.export.symbolic_shape(text, scope=scope)[0], True
        specs.append(jax.ShapeDtypeStruct(tuple(sizes), tensor.dtype))
    return specs if found else None
