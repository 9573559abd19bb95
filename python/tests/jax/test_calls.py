# SPDX-License-Identifier: Apache-2.0
"""Calls with JAX arrays: eager and traced, their types, what they are called, what is refused."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anyop
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from anyop import _anyop
from anyop import jax as host
from anyop.hosting.facts import Operator
from jax_calls import assert_same, to_jax
from numpy_calls import LEAVES_OUT, left_out

X = np.random.default_rng(1).standard_normal((3, 8), np.float32)
W = np.random.default_rng(2).standard_normal(8, np.float32)
HEADERS = Path(__file__).parents[3] / "bindings" / "jax"


def x() -> Any:
    return jnp.asarray(X)


def w() -> Any:
    return jnp.asarray(W)


@pytest.mark.parametrize("first", ["anyop", "jax"])
def test_it_starts_in_either_order(first: str) -> None:
    second = "jax" if first == "anyop" else "anyop"
    lines = f"import {first}\nimport {second}\nimport jax.numpy as jnp\n"
    done = subprocess.run(
        [sys.executable, "-c", lines + "print(anyop.rms_norm(jnp.ones((1, 4))))"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout == "[[0.9999995 0.9999995 0.9999995 0.9999995]]\n", done.stderr


def test_starting_imports_nothing_large_of_jax() -> None:
    """What JAX itself needs is there already; Pallas alone takes as long as all of anyop."""
    code = (
        "import sys, jax\nbefore = set(sys.modules)\nimport anyop\n"
        "print(*sorted(m for m in set(sys.modules) - before if m.partition('.')[0] == 'jax'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "jax.experimental.custom_partitioning\n", done.stderr


def test_another_version_of_jax_is_refused() -> None:
    lines = (
        "import warnings, jax\njax.__version__ = '0.12.1'\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n    import anyop\n"
        "print(seen[0].message)\n"
        "try: import anyop.jax\nexcept anyop.NotAvailable as e: print(e)\n"
    )
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, timeout=60)
    why = (
        f"anyop.jax: JAX is 0.12.1, but anyop {anyop.__version__} is made for JAX from 0.10.2 on "
        "and before 0.11.0. Try pip install jax==0.10.2."
    )
    assert done.stdout == (
        f"anyop's jax host does not start: NotAvailable: {why} Try `python -m anyop doctor`.\n"
        f"{why}\n"
    ), done.stderr


def test_xla_has_the_structs_that_we_declare(tmp_path: Path) -> None:
    """jaxlib ships XLA's header: sizes, places and numbers are compared by the compiler."""
    import jaxlib

    pairs = {
        "Extension": ("XLA_FFI_Extension_Base", "size=struct_size type=type next=next"),
        "Version": ("XLA_FFI_Api_Version", "size=struct_size extensions=extension_start "
                    "major_version=major_version minor_version=minor_version"),
        "Metadata": ("XLA_FFI_Metadata", "size=struct_size version=api_version traits=traits "
                     "state_type=state_type_id"),
        "MetadataExtension": ("XLA_FFI_Metadata_Extension", "base=extension_base "
                              "metadata=metadata"),
        "Buffer": ("XLA_FFI_Buffer", "size=struct_size dtype=dtype data=data rank=rank shape=dims"),
        "Bytes": ("XLA_FFI_ByteSpan", "data=ptr size=len"),
        "Values": ("XLA_FFI_Args", "size=struct_size n=size types=types values=args"),
        "Attributes": ("XLA_FFI_Attrs", "n=size types=types names=names values=attrs"),
        "ErrorArguments": ("XLA_FFI_Error_Create_Args", "message=message code=errc"),
    }  # fmt: skip
    text = [f'#include "{HEADERS / "xla_ffi.h"}"', '#include "xla/ffi/api/c_api.h"',
            "namespace our = anyop::python::xla;"]  # fmt: skip
    for mine, (theirs, fields) in pairs.items():
        text.append(f"static_assert(sizeof(our::{mine}) == sizeof({theirs}));")
        for a, b in (pair.split("=") for pair in fields.split()):
            text.append(f"static_assert(offsetof(our::{mine}, {a}) == offsetof({theirs}, {b}));")
    # These two may be longer than what is declared of them.
    for mine, theirs, a, b in (
        ("Frame", "XLA_FFI_CallFrame", "attributes", "attrs"),
        ("Frame", "XLA_FFI_CallFrame", "inputs", "args"),
        ("Frame", "XLA_FFI_CallFrame", "results", "rets"),
        ("Api", "XLA_FFI_Api", "make_error", "XLA_FFI_Error_Create"),
    ):
        text.append(f"static_assert(offsetof(our::{mine}, {a}) == offsetof({theirs}, {b}));")
    numbers = {"kBool": "PRED", "kI8": "S8", "kI16": "S16", "kI32": "S32", "kI64": "S64",
               "kU8": "U8", "kF16": "F16", "kF32": "F32", "kF64": "F64", "kBF16": "BF16",
               "kF8E5M2": "F8E5M2", "kF8E4M3": "F8E4M3FN", "kU16": "U16", "kU32": "U32",
               "kU64": "U64", "kC64": "C64", "kC128": "C128", "kF8E8M0": "F8E8M0FNU",
               "kF8E4M3FNUZ": "F8E4M3FNUZ", "kF8E5M2FNUZ": "F8E5M2FNUZ"}  # fmt: skip
    names = {f"k{name.upper()}" for name, _, kind in _anyop.dtypes() if kind != "bool"}
    assert names - numbers.keys() == {"kF4E2M1X2"}  # the only one that JAX lacks
    text += [f"static_assert(int(our::{a}) == XLA_FFI_DataType_{b});" for a, b in numbers.items()]
    codes = {"kInvalidArgument": "INVALID_ARGUMENT", "kNotFound": "NOT_FOUND",
             "kResourceExhausted": "RESOURCE_EXHAUSTED", "kUnimplemented": "UNIMPLEMENTED",
             "kInternal": "INTERNAL"}  # fmt: skip
    text += [f"static_assert(int(our::{a}) == XLA_FFI_Error_Code_{b});" for a, b in codes.items()]
    text.append("static_assert(our::kString == XLA_FFI_AttrType_STRING);")
    text.append("static_assert(our::kMetadata == XLA_FFI_Extension_Metadata);")
    text.append("static_assert(our::kMajorVersion == XLA_FFI_API_MAJOR);")
    text.append("static_assert(our::kMinorVersion == XLA_FFI_API_MINOR);")
    file = tmp_path / "compare.cc"
    file.write_text("\n".join(text) + "\n")
    include = Path(jaxlib.__file__).parent / "include"
    command = ["c++", "-std=c++20", "-fsyntax-only", "-isystem", str(include), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_several_results_are_the_named_tuple() -> None:
    made = anyop.top_k(x(), 2)
    assert type(made).__name__ == "top_k_results"
    assert made._fields == ("values", "indices")
    again = jax.jit(lambda t: anyop.top_k(t, 2))(x())
    assert type(again) is type(made)
    np.testing.assert_array_equal(again.indices, anyop.top_k(X, 2).indices)


def test_the_operator_is_named_in_jaxprs_and_programs() -> None:
    def f(t: Any) -> Any:
        return anyop.rms_norm(t, eps=0.1)

    text = (
        "anyop.call/1 anyop.rms_norm(x = f32, weight = None, eps = 0.1, weight_offset = 0.0) -> y"
    )
    assert text in str(jax.make_jaxpr(f)(x()))
    assert "= anyop.rms_norm[" in str(jax.make_jaxpr(f)(x()))
    program = jax.jit(f).lower(x()).as_text(debug_info=True)
    assert text in program
    assert "jit(f)/anyop.rms_norm" in program  # what the profiler shows


def test_numbers_keep_their_bits() -> None:
    eps = 0.1 + 2**-50  # no f32
    made = str(jax.make_jaxpr(lambda t: anyop.rms_norm(t, eps=eps))(x()))
    assert f"eps = {eps!r}" in made


def test_results_of_64_bits_are_narrowed_without_x64() -> None:
    """Computed in 64 bits; -1 stays -1, and what does not fit is an error."""
    assert anyop.argmax(x()).dtype == jnp.int32
    below = anyop.define("below(x: f32[n]) -> (y: i64[n])", lambda x: x.astype("i8") - 1)
    np.testing.assert_array_equal(below(jnp.arange(3.0)), [-1, 0, 1])
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        anyop.wrap_index(jnp.asarray([-1]), 2**33).block_until_ready()
    assert str(caught.value) == (
        "INVALID_ARGUMENT: wrap_index: y holds 8589934591, but must fit into i32 because JAX runs "
        'without 64-bit types. Try jax.config.update("jax_enable_x64", True).'
    )
    assert anyop.cast(x(), "f64").dtype == jnp.float32
    np.testing.assert_array_equal(anyop.cast(x(), "f64"), X)
    with jax.enable_x64(True):
        assert anyop.argmax(x()).dtype == jnp.int64
        assert int(anyop.wrap_index(jnp.asarray([-1]), 2**33)[0]) == 2**33 - 1
        assert anyop.cast(x(), jnp.float64).dtype == jnp.float64
        assert anyop.cast(x(), jnp.uint64).dtype == jnp.uint64
        assert anyop.cast(x(), "c128").dtype == jnp.complex128


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "int8",
                                   "uint8", "bool", "int16", "uint16", "uint32", "complex64",
                                   "float8_e8m0fnu", "float8_e4m3fnuz",
                                   "float8_e5m2fnuz"])  # fmt: skip
def test_dtypes_pass(dtype: str) -> None:
    made = anyop.cast(x(), getattr(jnp, dtype))
    assert made.dtype == jnp.dtype(dtype)
    back = anyop.cast(made, "f32")
    ours = anyop.cast(anyop.cast(X, np.asarray(made).dtype), "f32")
    np.testing.assert_array_equal(back, ours)


def test_a_dtype_that_jax_lacks_is_refused_by_name() -> None:
    pairs = anyop.define("pairs(x: f32[n]) -> (y: f4e2m1x2[n])", lambda x: x, library="lacks")
    for call in (pairs, jax.jit(pairs)):
        with pytest.raises(anyop.NotAvailable) as caught:
            call(w())
        assert str(caught.value) == "JAX has no dtype for f4e2m1x2."


def test_what_an_operator_writes_beside_its_results_forbids_no_gradient() -> None:
    anyop.define("tally_backward(dy: f32[n]) -> (dx: f32[n]?)", lambda dy: 2 * dy)

    @anyop.define("tally(x: f32[n], seen: mut f32[n]) -> (y: f32[n])", gradient="tally_backward")
    def tally(x: Any, seen: Any) -> Any:
        seen += x
        return 2 * x

    def loss(x: Any, seen: Any) -> Any:
        made = tally(x, seen)
        return made.y.sum(), made.seen

    slope, seen = jax.jit(jax.grad(loss, has_aux=True))(w(), jnp.zeros(8))
    np.testing.assert_array_equal(slope, np.full(8, 2, "f4"))
    np.testing.assert_array_equal(seen, w())
    with pytest.raises(anyop.Unsupported) as caught:
        jax.grad(lambda seen: tally(w(), seen).y.sum())(jnp.zeros(8))
    assert "seen" in str(caught.value) and "no gradient for it" in str(caught.value)


def test_calls_without_tensors_say_like() -> None:
    made = anyop.rotary_cache(4, 8, like=jax)
    assert isinstance(made, jax.Array)
    np.testing.assert_array_equal(made, anyop.rotary_cache(4, 8, like=np))


def test_scopes_belong_to_the_call() -> None:
    """Around a trace: of the compiled call. Around an eager call: of that call."""

    def f(t: Any) -> Any:
        return anyop.rms_norm(t)

    with anyop.batch_invariant(), anyop.policy("rms_norm=cpu_portable"):
        compiled = jax.jit(f).lower(x())
        anyop.reset_counters()
        f(x()).block_until_ready()
        assert [c.kernel for c in anyop.counters() if c.calls] == ["cpu_portable"]
    assert "rms_norm=cpu_portable" in compiled.as_text()
    anyop.reset_counters()
    jax.block_until_ready(compiled.compile()(x()))
    assert [c.kernel for c in anyop.counters() if c.calls] == ["cpu_portable"]
    anyop.reset_counters()
    f(x()).block_until_ready()
    assert [c.kernel for c in anyop.counters() if c.calls] != ["cpu_portable"]
    assert "rms_norm=cpu_portable" in str(
        jax.make_jaxpr(lambda t: anyop.rms_norm(t, policy="rms_norm=cpu_portable"))(x())
    )


def test_explain_takes_arrays_and_traced_values() -> None:
    assert anyop.explain(anyop.rms_norm, x(), w()).kernel
    seen = []
    jax.jit(lambda t: seen.append(anyop.explain(anyop.rms_norm, t).kernel) or t).lower(x())
    assert seen[0]


def test_functions_get_arrays_and_raise_through_xla() -> None:
    seen = []

    @anyop.define("tripled(x: T[n]) -> (y: T[n]) where T in f32")
    def tripled(x: Any) -> Any:
        seen.append(type(x))
        if x[0] < 0:
            raise ValueError("below zero")
        return x * 3

    np.testing.assert_array_equal(tripled(jnp.ones(3)), [3, 3, 3])

    @jax.jit
    def loop(t: Any) -> Any:
        return jax.lax.fori_loop(0, 20, lambda _, v: tripled(v) / 3, t)

    threads = [threading.Thread(target=lambda: loop(jnp.ones(4))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert set(seen) == {np.ndarray}
    # As it was raised, where XLA runs the call on the thread that made it.
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="below zero"):
        tripled(-jnp.ones(3)).block_until_ready()
    # XLA hands on a text: it has all that the exception says.
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.jit(lambda t: tripled(t) + 1)(-jnp.ones(3)).block_until_ready()
    text = r"user.tripled: tripled\(\) raised ValueError: below zero \(test_calls.py, line \d+\)"
    assert re.search(text, str(caught.value))


def test_operators_that_are_loaded_later_need_nothing() -> None:
    made = anyop.define("loaded_later(x: T[n]) -> (y: T[n]) where T in f32", lambda x: x + 1)
    np.testing.assert_array_equal(jax.jit(made)(jnp.zeros(2)), [1, 1])


@pytest.mark.parametrize("way", ["eager", "jit", "grad"])
def test_debug_nans_names_the_operator(way: str) -> None:
    call = {
        "eager": anyop.softmax,
        "jit": jax.jit(lambda x: anyop.softmax(x) + 1),
        "grad": jax.grad(lambda x: anyop.softmax(x).sum()),
    }[way]
    zeros, x = jnp.zeros(4), jnp.asarray([np.nan, 1, 2, 3])
    with jax.debug_nans(True):
        np.testing.assert_array_equal(anyop.softmax(zeros), np.full(4, 0.25, np.float32))
        with pytest.raises(FloatingPointError) as caught:
            call(x)
    assert str(caught.value) == "invalid value (nan) encountered in softmax"


def test_two_threads_call_at_once() -> None:
    made: list[Any] = []

    def run() -> None:
        for n in range(1, 20):
            made.append(np.asarray(anyop.softmax(jnp.ones((n, 4)))).shape)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(made) == sorted([(n, 4) for n in range(1, 20)] * 2)


NOT_OURS = jnp.zeros((2, 3), jnp.int4)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: anyop.rms_norm(x(), w()[:5]), ValueError,
         "rms_norm: weight is f32[5], but must be f32[8] because x is f32[3, 8]."),
        (lambda: jax.jit(anyop.rms_norm)(x(), w()[:5]), ValueError,
         "rms_norm: weight is f32[5], but must be f32[8] because x is f32[3, 8]."),
        (lambda: anyop.rms_norm(x(), w().astype("bfloat16")), ValueError,
         "rms_norm: weight is bf16[8], but must be f32[8] because x is f32[3, 8]. Try a "
         "cast to f32."),
        (lambda: anyop.rms_norm(NOT_OURS), ValueError,
         "rms_norm: x is int4[2, 3], but anyop has no such dtype. Try a cast to f32 or i64."),
        (lambda: anyop.gelu(x(), "tan"), ValueError,
         "gelu: kind is 'tan', but must be 'none', 'tanh' or 'quick'. Did you mean 'tanh'?"),
        (lambda: anyop.rms_norm(x(), W), TypeError,
         "rms_norm: weight is a NumPy array, but the call has JAX arrays, and all must come from "
         "one host. Try jax.numpy.asarray(weight)."),
        (lambda: anyop.rms_norm(X, w()), TypeError,
         "rms_norm: weight is a JAX array, but the call has NumPy arrays, and all must come from "
         "one host. Try numpy.asarray(weight)."),
        (lambda: anyop.rms_norm(x(), out=x()), TypeError,
         "rms_norm: out is given, but JAX's arrays are never written, so that a call returns fresh "
         "ones. Leave it out."),
        (lambda: anyop.rms_norm(x(), out=(x(),)), TypeError,
         "rms_norm: out is given, but JAX's arrays are never written, so that a call returns fresh "
         "ones. Leave it out."),
        (lambda: anyop.rms_norm(x(), out=(False,)), TypeError,
         "rms_norm: out is given, but JAX's arrays are never written, so that a call returns fresh "
         "ones. Leave it out."),
        (lambda: jax.jit(lambda t: anyop.rms_norm(t, out=[t]))(x()), TypeError,
         "rms_norm: out is given, but JAX's arrays are never written, so that a call returns fresh "
         "ones. Leave it out."),
        (lambda: anyop.rms_norm(x(), out=X), TypeError,
         "rms_norm: out is given, but JAX's arrays are never written, so that a call returns fresh "
         "ones. Leave it out."),
        (lambda: jax.jit(lambda e: anyop.rms_norm(x(), eps=e))(1e-5), TypeError,
         "rms_norm: eps is JitTracer(~float32[]), but must be a number. A traced value is not "
         "known when the program is made. Try a number of Python, or static_argnums of jax.jit."),
        (lambda: anyop.softmax(jnp.zeros((1,) * 9)), ValueError,
         "softmax: x has 9 dimensions, but must have at most 8."),
        (lambda: anyop.rms_norm(x(), epss=1), TypeError,
         "rms_norm: unknown argument 'epss'. Did you mean 'eps'?"),
        (lambda: jax.jit(anyop.rms_norm).trace(x()).lower(lowering_platforms=("cuda",)),
         NotImplementedError,
         "rms_norm: the call is compiled for cuda, but anyop's kernels run on the CPU. Try "
         "jax.device_put(x, jax.devices('cpu')[0]) of its arguments."),
        (lambda: anyop.graph(lambda t: anyop.rms_norm(t), "f32[n, 8]")(x()), ValueError,
         "lambda: a graph cannot take these tensors: JAX traces and compiles every call. Try "
         "detached CPU tensors."),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_as_anywhere(call: Any, error: type, text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text


class Counted:
    """A number that counts how often it is asked for."""

    def __init__(self) -> None:
        self.times = 0

    def __index__(self) -> int:
        self.times += 1
        return 2


class Listed(list[Any]):
    """A list that counts how often it is read."""

    times = 0

    def __iter__(self) -> Any:
        self.times += 1
        return super().__iter__()


@pytest.mark.parametrize("way", [lambda f: f, jax.jit], ids=["eager", "traced"])
def test_arguments_are_converted_once(way: Any) -> None:
    k = Counted()
    made = way(lambda t: anyop.top_k(t, k))(x())
    assert_same(made.values, anyop.top_k(X, 2).values)
    assert k.times == 1

    outs, lses = Listed([x()[:, None]] * 2), Listed([jnp.zeros((1, 3))] * 2)
    merged = way(lambda: anyop.merge_attention_states(outs, lses))()
    np.testing.assert_allclose(merged.y, X[:, None], rtol=1e-6)
    assert (outs.times, lses.times) == (1, 1)


def test_torch_tensors_beside_ours_are_refused() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError) as caught:
        anyop.rms_norm(x(), torch.ones(8))
    assert str(caught.value) == (
        "rms_norm: weight is a torch tensor, but the call has JAX arrays, and all must come from "
        "one host. Try jax.numpy.asarray(weight.numpy())."
    )


def test_an_index_outside_is_found_when_the_program_runs() -> None:
    @jax.jit
    def f(ids: Any, table: Any) -> Any:
        return anyop.embedding(ids, table)

    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        f(jnp.asarray([1, 99]), x()).block_until_ready()
    assert str(caught.value) == (
        "INVALID_ARGUMENT: embedding: ids[1] is 99, but must be less than 3 (v)."
    )
    np.testing.assert_array_equal(f(jnp.asarray([1]), x()), X[1:2])  # the process goes on


def test_nothing_runs_where_only_shapes_are_asked_for() -> None:
    anyop.reset_counters()
    made = jax.eval_shape(lambda t: anyop.top_k(t, 2), jax.ShapeDtypeStruct((5, 8), "float32"))
    assert (made.values.shape, made.indices.dtype) == ((5, 2), jnp.int32)
    assert not [c for c in anyop.counters() if c.calls]


def test_the_checks_of_export_are_told() -> None:
    assert host.export_checks() == [jax.export.DisabledSafetyCheck.custom_call("anyop")]


def test_doctor_knows_the_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from anyop.cli import doctor

    assert doctor.framework("jax")["status"] == "ok"

    (tmp_path / "jax.py").write_text("raise ImportError('jax is broken')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    status = doctor.framework("jax")["status"]
    assert status == "its host does not start: ImportError: jax is broken"


@pytest.mark.parametrize("op", LEAVES_OUT, ids=lambda op: op.name)
def test_what_may_be_absent_is_left_out_by_keyword(op: Operator) -> None:
    with_none, without = ({n: to_jax(v) for n, v in some.items()} for some in left_out(op))
    arrays = {n: v for n, v in without.items() if isinstance(v, jax.Array)}
    rest = {n: v for n, v in without.items() if n not in arrays}
    jitted = jax.jit(lambda arrays: op.function(**arrays, **rest))
    wanted = jax.tree.leaves(op.function(**with_none))
    assert wanted
    for made in (op.function(**without), jitted(arrays)):
        for one, other in zip(jax.tree.leaves(made), wanted, strict=True):
            assert_same(one, np.asarray(other))
