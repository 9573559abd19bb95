# SPDX-License-Identifier: Apache-2.0
"""MindSpore's own primitives by the operator plug-in: the bits of our operators, in both modes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import anyop
import anyop.mindspore
import mindspore as ms
import numpy as np
import pytest
from anyop import _anyop
from anyop import _mindspore_interface as interface
from anyop.cli import app
from anyop.mindspore import _plugin
from calls import assert_bits, to_array, to_tensor
from click.testing import CliRunner
from mindspore import Parameter, Tensor, nn
from mindspore.ops import auto_generate as primitives

RANDOM = np.random.default_rng(0)
FLOATS = ("f32", "f16", "bf16")


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


class Case(NamedTuple):
    """A primitive, what it is given (arrays of f32 get the dtype of the test), and what our
    operators make of it. None among the results: nobody compares it.
    """

    primitive: Any
    given: tuple[Any, ...]
    expected: Callable[..., Any]
    dtypes: tuple[str, ...] = FLOATS


def inverse_rms(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    return (1 / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)).astype(np.float32)


def norm(x: Any, weight: Any, _: Any) -> Any:
    return anyop.rms_norm(x, weight, eps=1e-6), inverse_rms(x)


def norm_slopes(dy: Any, x: Any, rstd: Any, weight: Any) -> Any:
    wide = [a.astype(np.float32) for a in (dy, x, weight)]
    dx, dweight = anyop.rms_norm_backward(*wide, eps=1e-6, weight_offset=0.0)
    return anyop.cast(dx, str(_anyop.dtype_name(x.dtype))), dweight


def add_norm(x: Any, y: Any, weight: Any, _: Any) -> Any:
    made, total = anyop.add_rms_norm(x, y, weight, eps=1e-6)
    return made, inverse_rms(total), total


def swiglu(x: Any, axis: int) -> Any:
    return np.moveaxis(anyop.swiglu(np.moveaxis(x, axis, -1).copy()), -1, axis)


def swiglu_slope(dy: Any, x: Any, axis: int) -> Any:
    moved = [np.moveaxis(a, axis, -1).copy() for a in (dy, x)]
    return np.moveaxis(anyop.swiglu_backward(*moved, None, 1.0, 0.0, "halves"), -1, axis)


def table(cos: Any, sin: Any, step: int) -> Any:
    half = cos.shape[-1] // 2
    one = np.s_[..., ::2] if step == 2 else np.s_[..., :half]
    return np.concatenate([cos[one], sin[one]], -1)


def rope_of_tokens(query: Any, key: Any, cos: Any, sin: Any, positions: Any, form: int) -> Any:
    d, style = cos.shape[-1], ("neox", "gptj")[form % 2]
    angles = table(cos, sin, 1 + form % 2)
    made = []
    for x in (query, key):
        at = np.resize(positions, x.size // x.shape[-1]).astype(np.int32)
        y = anyop.rope(x.reshape(at.size, -1, d), at, angles, style=style)
        made.append(y.reshape(x.shape))
    return tuple(made)


def rope_of_rows(x: Any, cos: Any, sin: Any, mode: int, inverse: bool = False) -> Any:
    angles = np.broadcast_to(table(cos, sin, 1 + mode), x.shape).reshape(-1, x.shape[-1]).copy()
    rows = x.reshape(-1, 1, x.shape[-1])
    style = ("neox", "gptj")[mode]
    return anyop.rope(rows, None, angles, style=style, inverse=inverse).reshape(x.shape)


def rope_slopes(dy: Any, cos: Any, sin: Any, _: Any, mode: int) -> Any:
    return rope_of_rows(dy, cos, sin, mode, inverse=True), np.zeros_like(cos), np.zeros_like(sin)


def written(key: Any, value: Any, keys: Any, values: Any, slots: Any) -> Any:
    anyop.reshape_and_cache(key.reshape(3, 2, 4), value.reshape(3, 2, 4), keys, values, slots)
    return key


def attention(query: Any, keys: Any, values: Any, table: Any, lengths: Any, *rest: Any) -> Any:
    lengths_of_queries = rest[3]
    starts = None
    if lengths_of_queries is not None:
        starts = np.concatenate([[0], np.cumsum(lengths_of_queries)]).astype(np.int32)
    shaped = query.reshape(-1, 4, 8)
    made = anyop.paged_attention(shaped, keys, values, table, lengths, starts, scale=0.3)[0]
    return made.reshape(query.shape)


def experts(x: Any, _: Any, k: int) -> Any:
    weights, ids = anyop.topk_router(x, k)
    rows = np.arange(len(x) * k, dtype=np.int32).reshape(k, len(x)).T
    return anyop.cast(weights, str(_anyop.dtype_name(x.dtype))), ids, np.ascontiguousarray(rows)


def quantized(x: Any, _: Any) -> Any:
    made, scale, _ = anyop.quantize_int8_dynamic(x)
    return made, scale.reshape(x.shape[:-1])


def angles(rows: int, d: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin as MindSpore has them: each angle twice."""
    found = []
    for function in (np.cos, np.sin):
        one = function(normal(rows, d // 2))
        found.append(np.repeat(one, 2, -1) if step == 2 else np.concatenate([one, one], -1))
    return found[0], found[1]


X, W = normal(5, 12), normal(12)
HALVES, PAIRS, TOKENS = angles(9, 4, 1), angles(9, 4, 2), angles(6, 4, 1)
Q, K = normal(2, 3, 8), normal(2, 3, 4)
AT = np.array([4, 0, 7], np.int32)
ROWS = normal(2, 3, 5, 4)
BSND = [a.reshape(1, 1, 5, 4) for a in angles(5, 4, 1)]
EACH = [a.reshape(2, 1, 5, 4) for a in angles(10, 4, 2)]
SLOTS = np.array([6, -1, 1], np.int32)
CACHE = normal(3, 4, 2, 8), normal(3, 4, 2, 8)
BLOCKS, LENGTHS = np.array([[2, 0], [1, 2]], np.int32), np.array([7, 5], np.int32)
QUERIES = np.array([2, 3], np.int32)
CAUSAL = np.float32([
    [0] * 6 + [1, 1], [0] * 7 + [1], [0] * 3 + [1] * 5, [0] * 4 + [1] * 4, [0] * 5 + [1] * 3,
])  # fmt: skip
CASES: dict[str, Case] = {
    "RmsNorm": Case(primitives.RmsNorm(1e-6), (X, W), lambda x, w: norm(x, w, 0)),
    "RmsNormGrad": Case(primitives.RmsNormGrad(), (X, X + 1, inverse_rms(X + 1), W), norm_slopes,
                        ("f32",)),
    "AddRmsNorm": Case(primitives.AddRmsNorm(), (X, X + 1, W, 1e-6), add_norm),
    "Swiglu": Case(primitives.Swiglu(), (X, -1), swiglu),
    "Swiglu of rows": Case(primitives.Swiglu(), (normal(3, 4, 5), 1), swiglu),
    "SwigluGrad": Case(primitives.SwigluGrad(), (X[:, :6], X, -1), swiglu_slope),
    "SwigluGrad of rows": Case(primitives.SwigluGrad(), (X[:2], X[:4], 0), swiglu_slope),
    "ApplyRotaryPosEmb": Case(primitives.ApplyRotaryPosEmb(0), (Q, K, *HALVES, AT),
                              lambda *a: rope_of_tokens(*a, 0), ("f16", "bf16")),
    "ApplyRotaryPosEmb of pairs": Case(primitives.ApplyRotaryPosEmb(1), (Q, K, *PAIRS, AT),
                                       lambda *a: rope_of_tokens(*a, 1), ("f16", "bf16")),
    "ApplyRotaryPosEmb of tokens": Case(
        primitives.ApplyRotaryPosEmb(2), (Q, K, *TOKENS, AT),
        lambda q, k, c, s, _: rope_of_tokens(q, k, c, s, np.arange(6), 2), ("f16", "bf16")),
    "ApplyRotaryPosEmb of lengths": Case(
        primitives.ApplyRotaryPosEmb(2), (Q, K, *HALVES, np.array([4, 2], np.int32)),
        lambda q, k, c, s, _: rope_of_tokens(q, k, c, s, np.array([0, 1, 2, 3, 0, 1]), 2),
        ("f16", "bf16")),
    "ApplyRotaryPosEmb of nothing": Case(
        primitives.ApplyRotaryPosEmb(0), (Q[:, :0], K[:, :0], *HALVES, AT[:0]),
        lambda q, k, *_: (q, k), ("f16",)),
    "RotaryPositionEmbedding": Case(primitives.RotaryPositionEmbedding(), (ROWS, *BSND, 0),
                                    rope_of_rows),
    "RotaryPositionEmbedding of pairs": Case(
        primitives.RotaryPositionEmbedding(), (ROWS, *EACH, 1), rope_of_rows),
    "RotaryPositionEmbeddingGrad": Case(
        primitives.RotaryPositionEmbeddingGrad(), (ROWS, *BSND, None, 0), rope_slopes),
    "ReshapeAndCache": Case(
        primitives.ReshapeAndCache(),
        (X[:3, :8], X[:3, 4:], normal(2, 4, 2, 4), normal(2, 4, 2, 4), SLOTS), written,
        ("f16", "bf16")),
    "PagedAttention": Case(
        primitives.PagedAttention(4, 0.3, 2),
        (normal(2, 32), *CACHE, BLOCKS, LENGTHS, *(None,) * 5), attention, ("f16", "bf16")),
    "PagedAttention of queries": Case(
        primitives.PagedAttention(4, 0.3, 2),
        (normal(5, 32), *CACHE, BLOCKS, LENGTHS, None, None, CAUSAL, QUERIES, None), attention,
        ("f16", "bf16")),
    "MoeGatingTopKSoftmax": Case(primitives.MoeGatingTopKSoftmax(), (X, None, 3), experts),
    "DynamicQuantExt": Case(primitives.DynamicQuantExt(), (X, None), quantized, ("f16", "bf16")),
}  # fmt: skip
RUNS = [(name, dtype) for name, case in CASES.items() for dtype in case.dtypes]


class Net(nn.Cell):
    """A primitive as a Cell that takes the tensors."""

    def __init__(self, primitive: Any, arguments: list[Any]) -> None:
        super().__init__()
        self.primitive, self.n = primitive, len(arguments)
        self.is_tensor = tuple(isinstance(a, Tensor) for a in arguments)
        self.rest = tuple(None if isinstance(a, Tensor) else a for a in arguments)

    def construct(self, *tensors: Any) -> Any:
        args: list[Any] = []
        used = 0
        for i in range(self.n):
            if self.is_tensor[i]:
                args = args + [tensors[used]]
                used = used + 1
            else:
                args = args + [self.rest[i]]
        return self.primitive(*args)


def as_dtype(value: Any, dtype: str) -> Any:
    is_float = isinstance(value, np.ndarray) and value.dtype == np.float32
    return anyop.cast(value, dtype) if is_float else value


def strided(tensor: Any) -> Any:
    """The same elements in a view with gaps, which begins behind others."""
    array = to_array(tensor)
    wide = to_tensor(np.concatenate([array, array, array], -1))
    return wide[..., array.shape[-1] : 2 * array.shape[-1]]


@pytest.mark.parametrize("mode", ["pynative", "strided", "jit"])
@pytest.mark.parametrize(("name", "dtype"), RUNS, ids=[f"{n}-{d}" for n, d in RUNS])
def test_a_row_has_the_bits_of_our_operators(name: str, dtype: str, mode: str) -> None:
    case = CASES[name]
    ours = [as_dtype(v, dtype) for v in case.given]
    theirs = [to_tensor(v) for v in ours]
    if mode == "strided":
        theirs = [strided(t) if isinstance(t, Tensor) else t for t in theirs]
    net = Net(case.primitive, theirs)
    tensors = [t for t in theirs if isinstance(t, Tensor)]
    made = ms.jit(net.construct)(*tensors) if mode == "jit" else case.primitive(*theirs)
    wanted = case.expected(*ours)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    made = made if isinstance(made, tuple) else (made,)
    for one, other in zip(made, wanted, strict=True):
        if name.startswith(("RmsNorm", "AddRmsNorm")) and other.dtype == np.float32:
            np.testing.assert_allclose(to_array(one), other, rtol=2e-6, atol=1e-6)
        else:
            assert_bits(to_array(one), other)
    if name == "ReshapeAndCache":
        for i in (2, 3):
            assert_bits(np.ascontiguousarray(to_array(theirs[i])), ours[i])


def test_every_row_is_tested() -> None:
    assert {name.partition(" ")[0] for name in CASES} == set(interface.primitives())


def swiglu_loss(x: Any) -> Any:
    return primitives.Swiglu()(x, -1).sum()


def test_gradients_of_mindspores_primitives() -> None:
    x, w = Tensor(X), Tensor(W)
    dx, dw = ms.grad(lambda x, w: primitives.RmsNorm(1e-6)(x, w)[0].sum(), (0, 1))(x, w)
    ours = anyop.rms_norm_backward(np.ones_like(X), X, W, eps=1e-6, weight_offset=0.0)
    np.testing.assert_allclose(dx.asnumpy(), ours[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dw.asnumpy(), ours[1], rtol=1e-5, atol=1e-6)
    slope = ms.jit(ms.grad(swiglu_loss))(x)
    one = np.ones((5, 6), np.float32)
    assert_bits(slope.asnumpy(), swiglu_slope(one, X, -1))


class Decoder(nn.Cell):
    """A layer as scripts for Ascend write it."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = Parameter(Tensor(np.zeros((3, 4, 2, 8), np.float16)), name="keys")
        self.values = Parameter(Tensor(np.zeros((3, 4, 2, 8), np.float16)), name="values")
        self.write = primitives.ReshapeAndCache()
        self.attend = primitives.PagedAttention(4, 0.3, 2)

    def construct(self, query: Any, key: Any, slots: Any, table: Any, lengths: Any) -> Any:
        self.write(key, key, self.keys, self.values, slots)
        return self.attend(query, self.keys, self.values, table, lengths)


def test_a_decoder_written_for_ascend() -> None:
    keys, values = np.zeros((2, 3, 4, 2, 8), np.float16)
    eager, compiled = Decoder(), Decoder()
    step = ms.jit(compiled.construct)
    blocks = np.array([[2, 0]], np.int32)
    for token in range(6):
        query, key = normal(1, 32).astype(np.float16), normal(1, 16).astype(np.float16)
        slot = np.array([blocks[0, token // 4] * 4 + token % 4], np.int32)
        length = np.array([token + 1], np.int32)
        anyop.reshape_and_cache(key.reshape(1, 2, 8), key.reshape(1, 2, 8), keys, values, slot)
        wanted = attention(query, keys, values, blocks, length, *(None,) * 5)
        given = [Tensor(a) for a in (query, key, slot, blocks, length)]
        assert_bits(eager(*given).asnumpy(), wanted)
        assert_bits(step(*given).asnumpy(), wanted)


def half(array: Any) -> Any:
    return Tensor(array.astype(np.float16))


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: primitives.RmsNorm(1e-6)(Tensor(X), half(W))[0],
     "RmsNorm: rms_norm: weight is f16[12], but must be f32[12] because x is f32[5, 12]. "
     "Try a cast to f32."),
    (lambda: primitives.DynamicQuantExt()(half(X), half(W))[0],
     "DynamicQuantExt: smooth_scales is given, but anyop's kernels take none. Try None."),
    (lambda: primitives.ApplyRotaryPosEmb(0)(
        half(Q), half(K), half(HALVES[0]), half(HALVES[1]), Tensor(AT + 5))[0],
     "ApplyRotaryPosEmb: a position is 9, but must be below 9, the rows of cos."),
    (lambda: primitives.ApplyRotaryPosEmb(0)(
        half(Q), half(K), half(PAIRS[0]), half(PAIRS[1]), Tensor(AT))[0],
     "ApplyRotaryPosEmb: cos[4] has two values for angle 0, but rope rotates pairs by one. Try a "
     "table whose halves are equal."),
    (lambda: primitives.PagedAttention(4, 0.3, 2)(
        half(normal(5, 32)), half(CACHE[0]), half(CACHE[1]), Tensor(BLOCKS), Tensor(LENGTHS), None,
        None, half(1 - CAUSAL), Tensor(QUERIES)),
     "PagedAttention: row 0 of attn_mask is not causal, but anyop's kernels know the causal mask "
     "alone, 0 where a token sees a key. Try None."),
    (lambda: primitives.PagedAttention(4, 0.3, 2)(
        half(normal(5, 32)), half(CACHE[0]), half(CACHE[1]), Tensor(BLOCKS), Tensor(LENGTHS)),
     "PagedAttention: 5 tokens come with the lengths of 2 contexts, but must be shared among them "
     "evenly. Try q_seq_lens."),
]  # fmt: skip


@pytest.mark.parametrize(("call", "text"), REFUSED)
def test_what_a_row_refuses(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        call().asnumpy()
    assert str(caught.value).split("\n")[0] == text


# ---- How it is named.


def test_the_command_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(app, ["plugin", "mindspore"])
    assert done.stdout.strip() == str(interface.PLUGIN) and interface.PLUGIN.exists()
    assert done.stderr.strip() == interface.VIEWS
    monkeypatch.setattr(interface, "difference", lambda mirrored: "function 3 is another")
    done = CliRunner().invoke(app, ["plugin", "mindspore"])
    assert done.exit_code == 1
    assert done.output == (
        "Error: function 3 is another, but the plug-in is built for the interface of MindSpore "
        "2.10. Try that MindSpore, or an anyop that is built for yours.\n"
    )


def test_what_is_said_of_views_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    column = Tensor(X)[:, 1]
    assert not np.array_equal((column * 2).asnumpy(), X[:, 1] * 2)  # else VIEWS can go
    np.testing.assert_array_equal((column.contiguous() * 2).asnumpy(), X[:, 1] * 2)
    np.testing.assert_array_equal(anyop.gelu(column).asnumpy(), anyop.gelu(X[:, 1].copy()))
    monkeypatch.delenv("MS_OP_PLUGIN_PATH")
    with pytest.warns(RuntimeWarning) as warned:
        anyop.mindspore.use_plugin()
    assert str(warned[0].message) == f"use_plugin: {interface.VIEWS}"


def test_a_plugin_that_is_named_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    anyop.mindspore.use_plugin()  # again: it is in use
    assert (Tensor(X) + Tensor(X)).asnumpy().any()
    monkeypatch.setattr(_plugin, "_is_loaded", lambda: False)
    with pytest.raises(anyop.NotAvailable) as caught:
        anyop.mindspore.use_plugin()
    assert str(caught.value) == (
        "use_plugin: MindSpore has run an operator, but looks for plug-ins before the first one "
        "alone. Try the call right after the import of mindspore, or export "
        "MS_OP_PLUGIN_PATH=$(anyop plugin mindspore)."
    )


def test_another_plugin_and_another_mindspore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MS_OP_PLUGIN_PATH", "/other.so")
    with pytest.raises(anyop.InvalidArgument) as caught:
        anyop.mindspore.use_plugin()
    assert str(caught.value) == (
        "use_plugin: MS_OP_PLUGIN_PATH is /other.so, but MindSpore loads one plug-in for a "
        "process. Try without MS_OP_PLUGIN_PATH."
    )
    monkeypatch.setattr(interface, "difference", lambda mirrored: "function 3 is another")
    with pytest.raises(anyop.NotAvailable) as caught:
        anyop.mindspore.use_plugin()
    assert str(caught.value) == (
        "use_plugin: function 3 is another, but the plug-in is built for the interface of "
        "MindSpore 2.10. Try that MindSpore, or an anyop that is built for yours."
    )


def test_the_mirror_is_compared_with_mindspores_header(tmp_path: Path) -> None:
    include = Path(ms.__file__).parent / "include" / "mindspore"
    for mirrored in (interface.ATTRIBUTES, interface.KERNEL_INPUTS):
        assert interface.difference(mirrored) == ""
        (header, functions), = mirrored.items()  # fmt: skip
        text = (include / header).read_text()
        assert functions[1] in text
        changed = tmp_path / header
        changed.parent.mkdir(parents=True)
        changed.write_text(text.replace(functions[1] + "(", "Other("))
        why = interface.difference(mirrored, tmp_path)
        assert why == f"function 1 of MindSpore's {changed.name} is Other, not {functions[1]}"
    header = next(iter(interface.ATTRIBUTES))
    text = (include / header).read_text()
    (tmp_path / header).write_text(text.replace("> workspace_;", "> workspace_;\n  int id_;"))
    why = interface.difference(interface.ATTRIBUTES, tmp_path)
    assert why == "field 1 of MindSpore's custom_aot_extra.h is id_, not kernel_data_"


def test_rows_that_this_mindspore_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(is_known for _, is_known in anyop.mindspore.plugin_rows())
    monkeypatch.delattr(_plugin.gen_ops_prim, "Swiglu")
    lacking = [name for name, is_known in anyop.mindspore.plugin_rows() if not is_known]
    assert lacking == ["Swiglu"]
