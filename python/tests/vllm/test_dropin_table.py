# SPDX-License-Identifier: Apache-2.0
"""The table of vLLM's names: schemas, versions, what torch makes of them, and a `_C` that is there
already.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import anyop  # noqa: E402
from anyop.vllm import _dropin  # noqa: E402
from anyop.vllm._rows import ROWS  # noqa: E402

_dropin.load("0.32.0")
C = torch.ops._C


def run(code: str, **env: str) -> str:
    """What a process of its own prints."""
    before = "import anyop, torch\nfrom anyop.vllm import _dropin\n"
    done = subprocess.run(
        [sys.executable, "-c", before + code],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def refused(text: str, call: object, kind: type[Exception] = ValueError) -> None:
    with pytest.raises(kind) as caught:
        call()  # type: ignore[operator]
    assert str(caught.value) == text


def attention() -> dict[str, tuple[Any, ...]]:
    starts, lengths = torch.tensor([0, 1, 3]).int(), torch.tensor([4, 2]).int()
    table, key = torch.tensor([[1, 0], [2, 0]]).int(), torch.randn(3, 2, 16)
    cache = torch.zeros(3, 2, 16, 16)
    shape = (2, 4, 2, 16, lengths, torch.float32, starts, True, -1, "vec", True, None)
    query, metadata = torch.randn(3, 4, 16), C.get_scheduler_metadata(*shape)
    run = (query, cache, cache.clone(), query.clone(), starts, lengths, 0.25, True, None, -1, table)
    slots = torch.tensor([4, 2, 9])
    return {
        "get_scheduler_metadata": shape,
        "cpu_attention_with_kv_cache": (*run, 0.0, metadata, None, None),
        "cpu_attn_reshape_and_cache": (
            key,
            key.clone(),
            cache.clone(),
            cache.clone(),
            slots,
            "vec",
        ),
        "compute_slot_mapping_kernel_impl": (starts, torch.arange(3), table, slots, 16),
        "mla_decode_kvcache": (
            torch.empty(2, 4, 8),
            torch.randn(2, 4, 12),
            torch.randn(3, 16, 12),
            0.1,
            table,
            lengths,
        ),
    }


def of_bytes() -> dict[str, tuple[Any, ...]]:
    x, q, scale = torch.randn(3, 8), torch.empty(3, 8, dtype=torch.int8), torch.empty(3, 1)
    weight = torch.ones(8, 4, dtype=torch.int8)
    made = C.create_onednn_scaled_mm_handler(weight, torch.ones(1), torch.float32, True, True, 32)
    zero, out = torch.zeros(3, 1, dtype=torch.int32), torch.empty(3, 4)
    return {
        "onednn_scaled_mm": (
            out,
            torch.ones_like(q),
            torch.ones(3, 1),
            zero,
            torch.ones(1, 4),
            torch.randn(4),
            torch.tensor(made),
        ),
        "static_scaled_int8_quant": (q, x, torch.ones(1), zero[:1, 0]),
        "dynamic_scaled_int8_quant": (q, x, scale, zero),
    }


def calls() -> dict[str, tuple[Any, ...]]:
    """Of each name that takes a tensor, a call."""
    x, half = torch.randn(3, 8), torch.empty(3, 4)
    handle = torch.tensor(C.create_onednn_mm_handler(torch.randn(8, 4), 32))
    w13, w2 = torch.randn(2, 64, 32), torch.randn(2, 32, 32)
    weights, ids = torch.rand(3, 1), torch.zeros(3, 1, dtype=torch.int32)
    moe = (torch.empty(3, 32), torch.randn(3, 32), w13, w2, None, None, weights, ids, False)
    packed = C.convert_weight_packed(torch.randn(4, 8))
    plain = ("gelu_tanh", "gelu_new", "gelu_fast", "gelu_quick")
    return {
        **attention(),
        **of_bytes(),
        **{name: (torch.empty_like(x), x) for name in plain},
        **dict.fromkeys(("silu_and_mul", "gelu_and_mul", "gelu_tanh_and_mul"), (half, x)),
        "rms_norm": (torch.empty_like(x), x, torch.randn(8), 1e-6),
        "fused_add_rms_norm": (x, x.clone(), torch.randn(8), 1e-6),
        "rotary_embedding": (
            torch.arange(3),
            x.clone(),
            x.clone(),
            4,
            torch.randn(9, 4),
            True,
            0,
            False,
        ),
        "onednn_mm": (half, x, torch.randn(4), handle),
        "convert_weight_packed": (torch.randn(4, 8),),
        "weight_packed_linear": (half, x, packed, None, True),
        "prepack_moe_weight": (w13, torch.empty_like(w13), "vec"),
        "cpu_fused_moe": (*moe, "silu", "vec"),
        "cpu_gemm_wna16": (
            x,
            torch.zeros(1, 16).int(),
            torch.empty(3, 16),
            torch.ones(1, 16),
            None,
            None,
            8,
            "vec",
        ),
        "greedy_argmax": (x,),
        "fused_gumbel_argmax": (x, torch.arange(3)),
    }


CALLS = calls()
NO_TENSOR = {
    "init_cpu_memory_env",
    "cpu_attn_has_isa",
    "is_onednn_acl_supported",
    "release_dnnl_matmul_handler",
}
NO_GRAPH = {
    "create_onednn_mm_handler",  # returns a number, when a model is loaded
    "create_onednn_scaled_mm_handler",
    # vLLM brings what torch.compile needs of these.
    "convert_weight_packed_scale_zp",
    "int4_scaled_mm_cpu",
    "int8_scaled_mm_with_quant",
}


def test_every_row_is_checked() -> None:
    assert {row.name for row in ROWS} == set(CALLS) | NO_TENSOR | NO_GRAPH


@pytest.mark.parametrize("name", CALLS)
def test_opcheck(name: str) -> None:
    """That it writes what its schema says and nothing else, and torch.compile can have it."""
    torch.library.opcheck(getattr(C, name).default, CALLS[name])


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_counted(name: str) -> None:
    before = _dropin.counters()
    getattr(C, name)(*CALLS[name])
    after = _dropin.counters()
    assert after[name] == before[name] + 1
    assert sum(after.values()) == sum(before.values()) + 1


def test_names_without_tensors() -> None:
    assert C.init_cpu_memory_env([0, 1]) is None
    assert C.cpu_attn_has_isa("rvv") is False
    assert C.is_onednn_acl_supported() is False


def test_in_a_compiled_function() -> None:
    weight = torch.randn(8)
    handle = torch.tensor(C.create_onednn_mm_handler(torch.randn(8, 4), 32))
    table = torch.randn(9, 4)

    def layer(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        normed = torch.empty_like(x)
        C.rms_norm(normed, x, weight, 1e-6)
        out = torch.empty(x.shape[0], 4)
        C.onednn_mm(out, normed * 2, None, handle)
        C.rotary_embedding(positions, out, None, 4, table, True)
        return out + 1

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
    for n in (3, 5):
        x, positions = torch.randn(n, 8), torch.arange(n)
        torch.testing.assert_close(compiled(x, positions), layer(x, positions))


def test_what_needs_a_gradient_is_refused() -> None:
    x = torch.randn(3, 8, requires_grad=True)
    out = torch.empty(3, 8)
    refused(
        "_C.rms_norm: input requires grad, but vLLM's operators have no gradient. Try "
        "torch.no_grad() or detach().",
        lambda: C.rms_norm(out, x, None, 1e-6),
        NotImplementedError,
    )
    with torch.no_grad():
        C.rms_norm(out, x, None, 1e-6)
    torch.testing.assert_close(out, torch.nn.functional.rms_norm(x.detach(), (8,), eps=1e-6))


def test_what_is_written_gets_a_new_version() -> None:
    out = torch.empty(3, 4)
    before = out._version
    C.silu_and_mul(out, torch.randn(3, 8))
    assert out._version == before + 1


def test_wrong_calls() -> None:
    x = torch.randn(3, 8)
    refused(
        "silu_and_mul: y is f32[3, 5], but must be f32[3, 4] because x is f32[3, 8].",
        lambda: C.silu_and_mul(torch.empty(3, 5), x),
    )
    refused(
        "rms_norm: weight is f32[7], but must be f32[8] because x is f32[3, 8].",
        lambda: C.rms_norm(x.clone(), x, torch.randn(7), 1e-6),
    )
    refused(
        "rms_norm: x is complex32[3, 8], but anyop has no such dtype. Try a cast to f32 or i64.",
        lambda: C.rms_norm(x.clone(), x.to(torch.complex32), None, 1e-6),
    )


@pytest.mark.parametrize(("name", "purpose"), _dropin.unsupported("0.32.0").items())
def test_names_without_a_kernel(name: str, purpose: str) -> None:
    refused(
        f"_C.{name}: vLLM calls it for {purpose}, but anyop has no kernel of it. Try a model, or "
        "options, without.",
        lambda: getattr(C, name)(1, anything="at all"),
        anyop.Unsupported,
    )


def test_compilers_find_the_names_where_torch_has_them() -> None:
    """Inductor writes an operator's module into its code."""
    theirs = torch.ops.aten.add.Tensor.__module__
    assert C.rms_norm.default.__module__ == theirs.replace("aten", "_C")
    compiled = torch.compile(lambda y, x: C.rms_norm(y, x, None, 1e-6), fullgraph=True)
    x = torch.randn(3, 8)
    y, want = torch.empty_like(x), torch.empty_like(x)
    compiled(y, x)
    C.rms_norm(want, x, None, 1e-6)
    assert torch.equal(y, want)


def test_names_that_are_asked_for_are_not_there() -> None:
    for name in ("init_shm_manager", "dynamic_4bit_int_moe", "marlin_gemm"):
        assert not hasattr(C, name)
        assert getattr(C, name, None) is None
        refused(
            f"_C.{name}: vLLM asks for it, but anyop has no kernel of it. Try a model, or options, "
            "without.",
            lambda name=name: getattr(C, name),
            anyop.Unsupported,
        )
    refused(
        "_moe_C.topk_softmax: vLLM asks for it, but anyop has no kernel of it. Try a model, or "
        "options, without.",
        lambda: torch.ops._moe_C.topk_softmax,
        anyop.Unsupported,
    )
    newer = set(_dropin.unsupported("0.32.0")) - set(_dropin.unsupported("0.27.1"))
    assert newer == {"fused_experts_cpu"}  # 0.27 asks


def test_versions() -> None:
    old, middle, new = (
        {row.name for row in _dropin.rows(v)} for v in ("0.27.1+cpu", "0.31.0", "0.32.0")
    )
    assert new - middle == {"greedy_argmax", "fused_gumbel_argmax"}
    assert old == middle < new
    assert _dropin.rows("0.28.0") == _dropin.rows("0.27.1")
    changed = {row.name for row in set(_dropin.rows("0.31.0")) - set(_dropin.rows("0.28.0"))}
    assert changed == {"weight_packed_linear", "cpu_gemm_wna16"}
    refused(
        "anyop.vllm: the version is 'main', but must be like '0.27.1'.",
        lambda: _dropin.rows("main"),
        anyop.InvalidArgument,
    )


def test_a_row_that_fits_no_operator_is_an_error() -> None:
    code = """
_dropin.load("0.27.1")
define = _dropin._library().anyop_vllm_define
for schema, operators, constants, is_function in (
    ("a(Tensor x, Tensor y) -> Tensor", "argmax", "", 0),
    ("b(Tensor x) -> Tensor", "top_k", "", 0),
    ("c(Tensor x) -> Tensor", "gelu", "sort = 'tanh'", 0),
    ("d(Tensor! x, Tensor! y, Tensor z) -> ()", "argmax", "", 0),
    ("e(Tensor x) -> Tensor", "argmax", "", 1),
):
    print(define(schema.encode(), operators.encode(), constants.encode(), is_function, 0).decode())
"""
    assert run(code).splitlines() == [
        "no parameter of argmax takes y",
        "nothing is left for k of top_k, which has no default",
        "gelu has no parameter sort",
        "argmax has 1 results, but 2 are asked for",
        "bindings/vllm has no function of this name",
    ]


def test_load_again() -> None:
    _dropin.load("0.32.0")
    refused(
        "anyop.vllm: _C is defined for vLLM 0.32.0 in this process, but 0.27.1 is asked for. Try "
        "another process.",
        lambda: _dropin.load("0.27.1"),
        anyop.InvalidArgument,
    )


@pytest.mark.exhaustive
def test_layers_without_a_handle_until_0_28() -> None:
    """vLLM takes them for small layers where a machine has AMX; they return their result."""
    code = """
_dropin.load("0.28.0")
C = torch.ops._C
for n, k in (16, 32), (5, 7), (48, 64):
    for dtype in torch.bfloat16, torch.float32:
        x, weight, bias = (torch.randn(*s).to(dtype) for s in ((2, 3, k), (n, k), (n,)))
        packed = C.convert_weight_packed(weight)
        assert packed.shape == weight.shape  # by which vLLM's fake knows the result
        for given in (bias.float(), None):
            wanted = x.double() @ weight.double().T + (0 if given is None else given.double())
            got = C.weight_packed_linear(x, packed, given, True).double()
            torch.testing.assert_close(got, wanted, rtol=1e-2, atol=2e-2)
for mat1, mat2 in (x[..., 1:], packed), (x, torch.randn(5, 64)), (x, packed[None]):
    try:
        C.weight_packed_linear(mat1, mat2, None, True)
    except ValueError as error:
        print(error)
"""
    assert run(code).splitlines() == [
        "_C.weight_packed_linear: mat1 has rows of 63 elements, but mat2 takes 64.",
        "_C.weight_packed_linear: mat2 is a plain weight, but must be what convert_weight_packed "
        "made of one.",
        "_C.weight_packed_linear: mat2 has 3 dimensions, but must be [features, inputs].",
    ]


def test_a_load_that_failed_says_why_again() -> None:
    code = """
from anyop.vllm._rows import Row
_dropin.ROWS += (Row("broken(Tensor x) -> Tensor", ("no_such_operator",)),)
for _ in range(2):
    try:
        _dropin.load("0.32.0")
    except ValueError as error:
        print(error)
"""
    first, second = run(code).splitlines()
    assert first == second
    assert first.startswith("anyop.vllm: broken: ")


@pytest.mark.exhaustive
def test_an_older_version_has_fewer_names() -> None:
    code = "_dropin.load('0.27.1')\nprint(hasattr(torch.ops._C, 'greedy_argmax'))"
    assert run(code) == "False"


OTHERS = """
def fill(out, *_):
    out.fill_(7)

lib = torch.library.Library("_C", "DEF")
lib.define("rms_norm(Tensor! out, Tensor input, Tensor? weight, float epsilon) -> ()")
lib.impl("rms_norm", fill, "CPU")
lib.define("silu_and_mul(Tensor! out, Tensor input) -> ()")
lib.impl("silu_and_mul", fill, "CPU")
lib.define("is_onednn_acl_supported() -> bool")
lib.impl("is_onednn_acl_supported", lambda: True, "CompositeImplicitAutograd")
lib.define("marlin_gemm(Tensor a) -> Tensor")
x = torch.randn(2, 8)
"""


def test_another_library_is_refused() -> None:
    code = """
try:
    _dropin.load("0.27.1")
except _dropin.AlreadyLoadedError as error:
    print(error)
torch.ops._C.rms_norm(x, x, None, 1e-6)
print((x == 7).all().item())
"""
    assert run(OTHERS + code).splitlines() == [
        "anyop.vllm: _C has 4 operators of another library (is_onednn_acl_supported, ...), but "
        "anyop defines them itself. Try an empty build of vLLM, or ANYOP_VLLM=override to take "
        "them over.",
        "True",
    ]


def test_another_library_is_taken_over() -> None:
    """Name by name: what it does not have stays away, and what only it has stays."""
    code = """
_dropin.load("0.27.1")
torch.ops._C.rms_norm(x, x.clone(), None, 1e-6)
print((x == 7).any().item(), _dropin.counters()["rms_norm"])
print(torch.ops._C.is_onednn_acl_supported(), sorted(_dropin.counters()))
print(hasattr(torch.ops._C, "marlin_gemm"), hasattr(torch.ops._C, "onednn_mm"))
"""
    assert run(OTHERS + code, ANYOP_VLLM="override").splitlines() == [
        "False 1",
        "False ['is_onednn_acl_supported', 'rms_norm', 'silu_and_mul']",
        "True False",
    ]


def test_one_name_is_taken_over() -> None:
    code = """
_dropin.load("0.27.1", ["silu_and_mul"])
out = torch.empty(2, 4)
torch.ops._C.rms_norm(x, x.clone(), None, 1e-6)
torch.ops._C.silu_and_mul(out, x)
print((x == 7).all().item(), (out == 7).any().item())
"""
    assert run(OTHERS + code, ANYOP_VLLM="override") == "True False"


def test_another_schema_is_not_taken_over() -> None:
    code = """
lib = torch.library.Library("_C", "DEF")
lib.define("rms_norm(Tensor! out, Tensor input, Tensor weight, float epsilon) -> ()")
try:
    _dropin.load("0.27.1")
except anyop.InvalidArgument as error:
    print(error)
"""
    assert run(code, ANYOP_VLLM="override") == (
        "anyop.vllm: rms_norm: _C.rms_norm: the library that is loaded has "
        "_C::rms_norm(Tensor($0! -> ) out, Tensor input, Tensor weight, float epsilon) -> (), but "
        "_C::rms_norm(Tensor($0! -> ) out, Tensor input, Tensor? weight, float epsilon) -> () is "
        "what is taken over."
    )


def test_names_that_belong_together() -> None:
    code = """
for names in (["onednn_mm"], ["softmax"]):
    try:
        _dropin.load("0.27.1", names)
    except anyop.InvalidArgument as error:
        print(error)
"""
    first, second = run(code).splitlines()
    assert first == (
        "anyop.vllm: onednn_mm comes without create_onednn_mm_handler, but what one of them leaves "
        "the other reads. Try create_onednn_mm_handler, onednn_mm, release_dnnl_matmul_handler, "
        "create_onednn_scaled_mm_handler, onednn_scaled_mm together."
    )
    assert second.startswith("anyop.vllm: _C.softmax is no name that anyop has, but init_cpu")


def test_without_the_adapter() -> None:
    code = """
try:
    _dropin.load("0.27.1")
except anyop.NotAvailable as error:
    print(error)
"""
    assert run(code, ANYOP_TORCH="python") == (
        f"anyop.vllm: torch {torch.__version__} has no compiled adapter, because ANYOP_TORCH is "
        "python, but vLLM's operators run through it. Try a C++ compiler on the path, such as g++ "
        "12."
    )
