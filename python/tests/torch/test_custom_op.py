# SPDX-License-Identifier: Apache-2.0
"""direct_register_custom_op: what it registers, and what it refuses."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from anyop.torch.custom_op import direct_register_custom_op  # noqa: E402

X = torch.arange(6.0).reshape(2, 3)
_number = iter(range(10**6))


def fresh() -> str:
    return f"custom_{next(_number)}"


def scaled(x: torch.Tensor, by: float = 2.0, shift: int | None = None) -> torch.Tensor:
    return x * by + (shift or 0)


def scaled_fake(x: torch.Tensor, by: float = 2.0, shift: int | None = None) -> torch.Tensor:
    return torch.empty_like(x)


def add_to(x: torch.Tensor, y: torch.Tensor) -> None:
    x += y


def add_to_fake(x: torch.Tensor, y: torch.Tensor) -> None:
    return None


def test_registers_in_our_library_and_returns_the_operator() -> None:
    name = fresh()
    op = direct_register_custom_op(name, scaled, [], fake_impl=scaled_fake)
    assert op is getattr(torch.ops.user, name)
    torch.testing.assert_close(op(X, 3.0), X * 3)
    assert str(op.default._schema) == (
        f"user::{name}(Tensor x, float by=2., SymInt? shift=None) -> Tensor"
    )
    torch.library.opcheck(op.default, (X, 3.0))


def test_takes_vllms_parameters_by_name_and_in_order() -> None:
    library = torch.library.Library("other_lib", "FRAGMENT")
    name = fresh()
    direct_register_custom_op(
        name, scaled, [], scaled_fake, library, "CPU", (torch.Tag.needs_fixed_stride_order,)
    )
    op = getattr(torch.ops.other_lib, name)
    assert torch.Tag.needs_fixed_stride_order in op.default.tags
    torch.testing.assert_close(op(X), X * 2)
    direct_register_custom_op(
        op_name=f"other_lib::{fresh()}",
        op_func=scaled,
        mutates_args=[],
        fake_impl=None,
        target_lib=library,
        dispatch_key=None,
        tags=(),
    )


def test_a_mutating_operator_writes_its_argument_also_when_compiled() -> None:
    op = direct_register_custom_op(fresh(), add_to, ["x"], fake_impl=add_to_fake)

    def f(x: torch.Tensor) -> torch.Tensor:
        op(x, x.clone())
        return x * 2

    expected = f(X.clone())
    x = X.clone()
    torch.testing.assert_close(torch.compile(f, fullgraph=True, backend="aot_eager")(x), expected)
    torch.testing.assert_close(x, X * 2)
    torch.library.opcheck(op.default, (X.clone(), X))


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_with_inductor_in_one_graph(dynamic: bool) -> None:
    op = direct_register_custom_op(fresh(), scaled, [], fake_impl=scaled_fake)
    f = torch.compile(lambda x: op(x + 1, 3.0).sum(0), fullgraph=True, dynamic=dynamic)
    for n in (2, 5):
        x = torch.randn(n, 3)
        torch.testing.assert_close(f(x), ((x + 1) * 3).sum(0))


def no_return(x: torch.Tensor):  # type: ignore[no-untyped-def]  # noqa: ANN201
    return x


def no_hint(x) -> torch.Tensor:  # type: ignore[no-untyped-def]  # noqa: ANN001
    return x


def does_nothing(x: torch.Tensor) -> None: ...


def other_default(x: torch.Tensor, by: float = 1.0, shift: int | None = None) -> torch.Tensor:
    return x


def no_default(x: torch.Tensor, by: float, shift: int | None = None) -> torch.Tensor:
    return x


def other_type(x: torch.Tensor, by: float = 2.0, shift: int | None = None) -> list[torch.Tensor]:
    return [x]


def keyword(x: torch.Tensor, *, by: float = 2.0, shift: int | None = None) -> torch.Tensor:
    return x


REFUSED: list[tuple[Callable[..., Any], Any, Any, dict[str, Any], str]] = [
    (
        scaled,
        ["z"],
        None,
        {},
        "mutates_args names 'z', but scaled() has the parameters (x, by, shift). Leave it out.",
    ),
    (
        scaled,
        ["shitf"],
        None,
        {},
        "mutates_args names 'shitf', but scaled() has the parameters (x, by, shift). "
        "Did you mean 'shift'?",
    ),
    (scaled, "x", None, {}, "mutates_args is 'x', but must be a list of names. Try ['x']."),
    (add_to, ["x", "x"], None, {}, "mutates_args names an argument twice: ['x', 'x']."),
    (
        does_nothing,
        [],
        None,
        {},
        "does_nothing() returns nothing and writes nothing, so compilers leave out its calls. "
        "Try naming what it writes in mutates_args.",
    ),
    (
        scaled,
        [],
        lambda x: x,
        {},
        "fake_impl takes (x), but must take the parameters of scaled(): (x, by, shift).",
    ),
    (
        scaled,
        [],
        other_default,
        {},
        "in fake_impl by has the default 1.0, but in scaled() it has the default 2.0.",
    ),
    (
        scaled,
        [],
        no_default,
        {},
        "in fake_impl by has no default, but in scaled() it has the default 2.0.",
    ),
    (
        scaled,
        [],
        keyword,
        {},
        "in fake_impl by is keyword-only, but in scaled() it is positional or keyword.",
    ),
    (
        scaled,
        [],
        other_type,
        {},
        "fake_impl is (Tensor x, float by=2.0, SymInt? shift=None) -> Tensor[], but scaled() is "
        "(Tensor x, float by=2.0, SymInt? shift=None) -> Tensor.",
    ),
    (scaled, [], None, {"dispatch_key": "CPUX"}, "torch has no dispatch key 'CPUX'. Try 'CPU'."),
    (scaled, [], None, {"dispatch_key": 3}, "torch has no dispatch key 3. Try 'CPU'."),
    *(
        (
            scaled,
            [],
            scaled_fake,
            {"dispatch_key": key},
            f"fake_impl is given, but a {key} function runs on fake tensors itself, so torch takes "
            "no other for them. Try fake_impl=None.",
        )
        for key in ("CompositeImplicitAutograd", "Undefined")
    ),
    *(
        (
            scaled,
            [],
            scaled_fake,
            {"tags": tags},
            f"tags holds {shown}, but each must be one of torch's. "
            "Try torch.Tag.pt2_compliant_tag.",
        )
        for tags, shown in (
            (("core",), "'core' (str)"),
            ("core", "'core' (str)"),
            ((torch.Tag.core, None), "None (NoneType)"),
            (None, "None (NoneType)"),
        )
    ),
    (scaled, [], 3, {}, "fake_impl is 3 (int), but must be a Python function."),
    (scaled, [], int, {}, "fake_impl is <class 'int'> (type), but must be a Python function."),
    (None, [], None, {}, "op_func is None (NoneType), but must be a Python function."),
]


@pytest.mark.parametrize(("op_func", "mutates_args", "fake_impl", "options", "text"), REFUSED)
def test_contradictions_are_refused(
    op_func: Any, mutates_args: Any, fake_impl: Any, options: dict[str, Any], text: str
) -> None:
    name = fresh()
    with pytest.raises(ValueError) as caught:
        direct_register_custom_op(name, op_func, mutates_args, fake_impl, **options)
    assert str(caught.value) == f"user::{name}: {text}"
    assert not hasattr(torch.ops.user, name)
    direct_register_custom_op(name, scaled, [], scaled_fake)  # nothing of it was left behind


@pytest.mark.parametrize(
    ("op_func", "mutates_args", "text"),
    [
        (no_return, [], "No return type annotation"),
        (no_hint, [], "Parameter x must have a type annotation"),
        (scaled, ["by"], "only Tensors"),
    ],
)
def test_what_torch_finds_no_schema_for_is_refused(
    op_func: Any, mutates_args: Any, text: str
) -> None:
    with pytest.raises(ValueError, match=f"torch finds no schema for .*{text}"):
        direct_register_custom_op(fresh(), op_func, mutates_args)


def test_what_only_torch_refuses_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, name: str, function: Any) -> None:
        raise RuntimeError("no.")

    name = fresh()
    with monkeypatch.context() as patched:
        patched.setattr(torch.library.Library, "_register_fake", refuse)
        with pytest.raises(ValueError) as caught:
            direct_register_custom_op(name, scaled, [], scaled_fake)
    assert str(caught.value) == f"user::{name}: torch refuses to register it: no."
    assert not hasattr(torch.ops.user, name)
    torch.testing.assert_close(direct_register_custom_op(name, scaled, [], scaled_fake)(X), X * 2)


@pytest.mark.parametrize(
    "key", ["CompositeImplicitAutograd", "CompositeExplicitAutograd", "Undefined"]
)
def test_a_function_of_torch_operators_serves_every_backend(key: str) -> None:
    op = direct_register_custom_op(fresh(), scaled, [], dispatch_key=key, tags=torch.Tag.core)
    torch.testing.assert_close(op(X, 3.0), X * 3)
    assert op(X.to("meta"), 3.0).shape == X.shape
    assert torch.Tag.core in op.default.tags


def by_name(
    x: torch.Tensor, *, by: float, y: torch.Tensor, shift: int = 1, out: torch.Tensor
) -> torch.Tensor:
    out.copy_(x * by + shift)
    return y - x


def by_name_fake(
    x: torch.Tensor, *, out: torch.Tensor, shift: int = 1, y: torch.Tensor, by: float
) -> torch.Tensor:
    return torch.empty_like(y)


def test_keyword_only_arguments_go_by_name_in_every_order() -> None:
    op = direct_register_custom_op(fresh(), by_name, ["out"], by_name_fake)
    assert "*, float by, Tensor y, SymInt shift=1, Tensor(a4!) out" in str(op.default._schema)
    for order in itertools.permutations(["by", "y", "shift", "out"]):
        for names in (order, [n for n in order if n != "shift"]):
            given = {"by": 2.0, "y": X.flip(0), "shift": 3, "out": torch.zeros_like(X)}
            result = op(X, **{n: given[n] for n in names})
            torch.testing.assert_close(result, X.flip(0) - X)
            torch.testing.assert_close(given["out"], X * 2 + (3 if "shift" in names else 1))


@pytest.mark.parametrize("backend", ["anyop", pytest.param("inductor", marks=pytest.mark.slow)])
def test_keyword_only_arguments_go_by_name_also_when_compiled(backend: str) -> None:
    op = direct_register_custom_op(fresh(), by_name, ["out"], by_name_fake)

    def f(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        first = op(x, out=out, y=y, by=2.0)
        second = op(out=y, shift=3, y=out, x=x, by=0.5)
        return first + 2 * second

    eager, ours = ([X.clone(), X.flip(0).clone(), torch.zeros_like(X)] for _ in range(2))
    torch._dynamo.reset()
    result = torch.compile(f, fullgraph=True, backend=backend)(*ours)
    for a, b in zip((result, *ours), (f(*eager), *eager), strict=True):
        torch.testing.assert_close(a, b)


def test_a_name_is_registered_once() -> None:
    name = fresh()
    direct_register_custom_op(name, scaled, [])
    with pytest.raises(ValueError, match=f"of this name is registered already: user::{name}"):
        direct_register_custom_op(name, scaled, [])
    with pytest.raises(ValueError, match="has letters, digits and _ only"):
        direct_register_custom_op("two words", scaled, [])
    with pytest.raises(ValueError, match="the library's name is user. Try 'user::x'"):
        direct_register_custom_op("vllm::x", scaled, [])
