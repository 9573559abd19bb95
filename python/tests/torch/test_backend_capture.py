# SPDX-License-Identifier: Apache-2.0
"""anyop.torch.capture: calls, sizes, errors, exported programs."""

from __future__ import annotations

import copy
import re
import threading
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
from backend_cases import X, Y, floats, kinds  # noqa: E402
from torch import nn  # noqa: E402


def line_of(text: str) -> str:
    """ "test_backend_capture.py:31": where this file says so."""
    lines = open(__file__).read().splitlines()  # noqa: PTH123, SIM115
    return f"test_backend_capture.py:{next(i for i, s in enumerate(lines, 1) if s.endswith(text))}"


def test_state_beside_the_arguments_is_used_where_it_lies() -> None:
    weight, cache = floats(8), torch.zeros(4, 8)

    def step(x: torch.Tensor) -> torch.Tensor:
        y = anyop.rms_norm(x, weight)
        cache[1] = y[-1]
        return y + cache.sum()

    captured = anyop.torch.capture(step, X, dynamic={"x": {0: "n"}})
    mine = cache
    for n in (2, 5):
        x = floats(n, 8)
        made, after = captured(x), mine.clone()
        mine.zero_()
        torch.testing.assert_close(made, step(x))
        torch.testing.assert_close(after, mine)
        weight.mul_(2)
    assert captured.graph.inputs == {"x": "f32[n, 8]"}


def test_a_call_reads_like_one_of_a_graph() -> None:
    captured = anyop.torch.capture(lambda x, y: x + y, X, Y, dynamic=({0: "n"}, {0: "n"}))
    x = floats(6, 8)
    torch.testing.assert_close(captured(x, y=x), x + x)
    out = torch.empty(6, 8)
    assert captured(x, x, out=out) is out
    for wrong, text in [
        ((floats(6, 7), x), "x is f32[6, 7], but must be f32[n, 8]"),
        ((x.double(), x), "x is f64[6, 8], but must be f32[n, 8]. Try a cast to f32."),
        ((x, floats(5, 8)), "y is f32[5, 8], but must be f32[n, 8], and n is 6 because x is"),
        ((x,), "y is missing"),
    ]:
        with pytest.raises((ValueError, TypeError), match=re.escape(text)):
            captured(*wrong)


def test_trees_of_arguments_and_results() -> None:
    def program(x: torch.Tensor, rows: Any, *, scale: float, how: str = "up") -> Any:
        y = x + rows["bias"][0]
        return {"y": y * scale, "same": x, "parts": (y.t(), None, how, y.shape[0])}

    rows = {"bias": [floats(8)]}
    captured = anyop.torch.capture(program, X, rows, scale=2.0)
    made, expected = (f(Y, rows, scale=2.0) for f in (captured, program))
    assert made["same"] is Y and made["parts"][1:] == (None, "up", 3)
    torch.testing.assert_close(made["y"], expected["y"])
    torch.testing.assert_close(made["parts"][0], expected["parts"][0])
    assert made["parts"][0].stride() == expected["parts"][0].stride()
    with pytest.raises(ValueError, match="an argument is 3.0, but is part of the graph as 2.0"):
        captured(Y, rows, scale=3.0)
    with pytest.raises(ValueError, match="but the graph was made of"):
        captured(Y, {"bias": []}, scale=2.0)


def test_control_flow_that_depends_on_data_is_refused_with_its_line() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:  # here
            return x + x
        return x

    with pytest.raises(ValueError, match="asks for the elements of a tensor") as error:
        anyop.torch.capture(program, X)
    assert line_of("# here") in str(error.value)


def test_sizes_for_which_the_program_does_something_else_are_refused() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 2:  # a condition
            return x + x
        return x

    captured = anyop.torch.capture(program, X, dynamic={"x": {0: "rows"}})
    for _ in range(2):
        assert captured(floats(5, 8)).shape == (5, 8)
        text = f"rows > 2 must hold, as the program asks for it at {line_of('# a condition')}"
        with pytest.raises(ValueError, match=re.escape(text)):
            captured(floats(2, 8))


def test_a_size_that_cannot_vary_is_refused() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x + x if x.shape[0] == 3 else x  # fixed

    with pytest.raises(ValueError, match="rows varies, but the program works for rows = 3 only"):
        anyop.torch.capture(program, X, dynamic={"x": {0: "rows"}})
    with pytest.raises(ValueError, match="dynamic names 'z', but the tensors are x"):
        anyop.torch.capture(program, X, dynamic={"z": {0: "rows"}})


def test_a_refused_size_is_told_with_the_spelling_that_works() -> None:
    layer = nn.Linear(16, 5)
    only = "Linear: input_1 varies, but the program works for input_1 = 16 only"
    with pytest.raises(ValueError) as caught:
        anyop.torch.capture(layer, floats(3, 16), dynamic=True)
    assert str(caught.value).startswith(only)
    assert str(caught.value).endswith(". Try dynamic={'input': {0: 'input_0'}}.")
    spelled = eval(str(caught.value).split("dynamic=")[1][:-1])
    captured = anyop.torch.capture(layer, floats(3, 16), dynamic=spelled)
    assert captured(floats(7, 16)).shape == (7, 5)
    with pytest.raises(ValueError, match="fixed sizes, without dynamic"):
        anyop.torch.capture(layer, floats(3, 16), dynamic={"input": {1: "n"}})
    for wrong in ([1], 3, {"input": 0}):
        with pytest.raises(ValueError) as caught:
            anyop.torch.capture(layer, floats(3, 16), dynamic=wrong)
        assert str(caught.value).endswith(
            "but must have a name for each size that varies, by its dimension. "
            "Try dynamic={'input': {0: 'n'}}, or dynamic=True."
        )


def test_every_size_may_vary() -> None:
    captured = anyop.torch.capture(lambda x, w: torch.softmax(x @ w.t(), -1), X, Y, dynamic=True)
    for n, m in ((4, 2), (7, 5)):
        x, w = floats(n, 16), floats(m, 16, seed=1)
        torch.testing.assert_close(captured(x, w), torch.softmax(x @ w.t(), -1))


@pytest.mark.parametrize("freeze", [False, True])
def test_weights_that_are_written_or_moved_are_seen(freeze: bool) -> None:
    layer = nn.Linear(8, 5)
    captured = anyop.torch.capture(layer, X, freeze=freeze)
    with torch.no_grad():
        torch.testing.assert_close(captured(X), layer(X))
        layer.weight.mul_(3)
        torch.testing.assert_close(captured(X), layer(X))
        layer.weight.data = floats(5, 8, seed=9)
        torch.testing.assert_close(captured(X), layer(X))
    assert ("linear_packed" in str(captured)) is freeze


def test_exported_programs() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)
            self.register_buffer("seen", torch.zeros(1))
            self.register_buffer("cache", torch.zeros(4, 8))

        def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            self.seen.add_(1)
            self.cache.index_copy_(0, at, self.layer(x)[:1])
            return torch.softmax(self.cache, -1) + anyop.rms_norm(x).sum()

    model, at = Model(), torch.tensor([2])
    plain = copy.deepcopy(model)
    exported = torch.export.export(
        model, (X, at), dynamic_shapes=({0: torch.export.Dim("n", min=2)}, None)
    )
    captured = anyop.torch.capture(exported)
    for n in (2, 6):
        x = floats(n, 8)
        torch.testing.assert_close(captured(x, at), plain(x, at))
    assert kinds(captured)["anyop.rms_norm.default"] == {"operator"}


def test_models_of_tokens_keep_their_bits() -> None:
    """The same operators in the same order."""
    weight, table = floats(32, 16), floats(50, 16)

    def program(ids: torch.Tensor) -> torch.Tensor:
        x = anyop.embedding(ids, table)
        return anyop.softmax(anyop.linear(anyop.rms_norm(x), weight))

    captured = anyop.torch.capture(program, torch.arange(4), dynamic={"ids": {0: "t"}})
    for t in (3, 11):
        ids = torch.arange(t) * 3
        assert torch.equal(captured(ids), program(ids))


def test_threads_share_a_captured_program() -> None:
    captured = anyop.torch.capture(lambda x: torch.sigmoid(x.cos()) + x, X, dynamic={"x": {0: "n"}})
    wrong: list[Any] = []

    def work(n: int) -> None:
        x = floats(n, 8)
        expected = torch.sigmoid(x.cos()) + x
        for _ in range(50):
            if not torch.allclose(captured(x), expected):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(2 + i % 3,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_tensors_that_require_a_gradient() -> None:
    captured = anyop.torch.capture(lambda x: x + x, X)
    x = floats(3, 8).requires_grad_()
    with torch.no_grad():
        torch.testing.assert_close(captured(x), x + x)
    with pytest.raises(ValueError, match="a graph cannot take these tensors"):
        captured(x)


def test_reports_are_of_what_capture_made() -> None:
    with pytest.raises(TypeError, match="must be what capture returned"):
        anyop.torch.report(lambda x: x)


def test_the_example_of_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    from checkout import ROOT

    code = compile((ROOT / "examples/torch_graph.py").read_text(), "torch_graph.py", "exec")
    names: dict[str, Any] = {"__name__": "torch_graph"}
    with torch.no_grad():
        try:
            exec(code, names)
            x = torch.randn(5, 64)
            torch.testing.assert_close(names["captured"](x), names["model"](x))
        finally:
            torch.set_grad_enabled(True)
    shown = capsys.readouterr().out
    assert shown.endswith(f"{names['captured']}\n")
    assert "anyop.rms_norm" in shown and "anyop.linear" in shown
    assert shown.count("torch_host.") >= 1  # cos has no converter


def test_what_torch_wrote_is_read_by_operators() -> None:
    cache, at = torch.zeros(4, 8), torch.tensor([2, 0, 1])

    def program(x: torch.Tensor) -> torch.Tensor:
        cache.index_copy_(0, at, x)
        y = torch.softmax(cache, -1)
        cache.index_fill_(0, at[:1], 3.0)
        return y + torch.softmax(cache[1:], -1).sum()

    captured = anyop.torch.capture(program, X)
    made = captured(Y)
    torch.testing.assert_close(made, program(Y))


def test_a_constant_that_is_written_is_fresh_in_each_call() -> None:
    def update(x: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        made = torch.zeros(3, 8)
        made[slots] = x
        return made + 1

    def store(x: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        cache = torch.zeros(2, 4, 1, 8)
        torch.ops.anyop.reshape_and_cache(x[:, None], None, cache, None, slots)
        return cache + 1

    for program in (update, store):
        captured = anyop.torch.capture(program, X[:1], torch.tensor([0]))
        shown = str(captured)
        assert "anyop.reshape_and_cache(" in shown and "torch_host." not in shown
        for slot in range(3):
            slots = torch.tensor([slot])
            torch.testing.assert_close(captured(Y[:1], slots), program(Y[:1], slots))


def test_memory_in_another_order_than_torchs() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.t().cos()  # torch keeps the order of x
        return torch.sigmoid(y).sum() + y.t().view(-1).cumsum(0)

    captured = anyop.torch.capture(program, X)
    torch.testing.assert_close(captured(Y), program(Y))


def test_torch_reads_before_operators_write() -> None:
    cache = floats(4, 8)

    def program(x: torch.Tensor) -> torch.Tensor:
        old = cache.cos()
        cache[1] = x[0]
        return old + cache

    captured = anyop.torch.capture(program, X)
    before = cache.clone()
    made = captured(Y)
    torch.testing.assert_close(made, before.cos() + cache)
    torch.testing.assert_close(cache[1], Y[0])


@pytest.mark.parametrize("part", [lambda x: x, lambda x: x[:1]], ids=["argument", "view"])
def test_the_form_of_an_argument_is_changed_by_torch(part: Any) -> None:
    """A squeeze_() that changes nothing counts as a write for autograd."""

    def program(x: torch.Tensor) -> torch.Tensor:
        part(x).squeeze_()
        return x + 1

    captured = anyop.torch.capture(program, torch.zeros(2, 3))
    for f in (program, captured):
        x = torch.zeros(2, 3)
        f(x)
        assert x._version == 1
    x = torch.zeros(1, 3)
    anyop.torch.capture(program, x)(x)
    assert x.shape == ((3,) if part(x) is x else (1, 3))


def test_the_form_of_a_tensor_that_the_program_holds_stays() -> None:
    held = torch.zeros(1, 3)

    def program(x: torch.Tensor) -> torch.Tensor:
        held.squeeze_(0)  # in place
        return x + held

    with pytest.raises(ValueError) as error:
        anyop.torch.capture(program, X)
    assert str(error.value) == (
        f"program: {line_of('# in place')} changes by squeeze_ the form of a tensor that the "
        "program holds, but a graph takes such tensors as they are. Try a view, as squeeze and t "
        "make one, or give the tensor as an argument."
    )
    assert held.shape == (1, 3)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("shape", [(2, 3), (0,), (3,)], ids=str)
def test_arguments_that_out_resizes_are_resized(shape: tuple[int, ...]) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch.neg(y, out=x)
        return x + 1

    made = anyop.torch.capture(program, torch.zeros(shape), torch.ones(3))
    for _ in range(2):
        x, y = torch.zeros(shape), torch.randn(3)
        assert torch.equal(made(x, y), 1 - y)
        assert torch.equal(x, -y)


def test_a_tensor_put_into_an_argument_is_refused() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.data = y
        return x + 1

    with pytest.raises(ValueError) as error:
        anyop.torch.capture(program, torch.zeros(3), torch.zeros(3))
    assert str(error.value) == (
        "program: x.data gets another tensor, but a graph knows tensors by their memory. Try "
        "x.copy_() of that tensor."
    )


def test_what_a_program_raises_is_not_its_own_cause() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        raise KeyError("a")

    with pytest.raises(KeyError) as error:
        anyop.torch.capture(program, X)
    assert error.value.__cause__ is None


@pytest.mark.parametrize("tree", [False, True])
def test_what_a_part_of_a_program_raises_is_raised(tree: bool) -> None:
    """Once the graph has begun: as it is, as a call of the program itself raises it."""

    def program(x: torch.Tensor, at: torch.Tensor) -> Any:
        x.mul_(2)
        y = torch.tan(x)[at]
        return {"y": y} if tree else y

    made = anyop.torch.capture(program, floats(4, 8), torch.tensor([0, 1]))
    with pytest.raises(IndexError, match="^index 99 is out of bounds"):
        made(floats(4, 8), torch.tensor([0, 99]))


def test_where_an_argument_begins_may_be_asked_for() -> None:
    """view_as_complex asks whether the first element lies at an even place."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(torch.view_as_complex(x.reshape(-1, 2)) * 2.0)

    captured = anyop.torch.capture(program, floats(2, 4), dynamic=True)
    x = floats(5, 4)
    for given in (x, x[2:], x[1:4, :]):
        torch.testing.assert_close(captured(given), program(given))


def test_what_torch_has_for_fixed_sizes_only_is_named() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.pad(x, (-1, 1), value=1.0)  # by less than nothing

    with pytest.raises(ValueError) as error:
        anyop.torch.capture(program, floats(3), dynamic={"x": {0: "n"}})
    assert str(error.value) == (
        f"program: {line_of('# by less than nothing')} calls what torch has for fixed sizes only "
        "(Cannot call storage_offset() on tensor with symbolic sizes/strides), but these vary: n. "
        "Try fixed sizes."
    )
    x = floats(3)
    torch.testing.assert_close(anyop.torch.capture(program, x)(x), program(x))


def test_parts_that_no_graph_has_as_views() -> None:
    """The half of a size that varies is no number of a graph's."""

    def program(x: torch.Tensor) -> torch.Tensor:
        a, b = torch.exp(x[:, :1] @ x[:, :1].mT).chunk(2, -1)
        return torch.cat((-b, a), -1) * 2

    captured = anyop.torch.capture(program, floats(6, 4), dynamic={"x": {0: "n"}})
    x = floats(8, 4)
    torch.testing.assert_close(captured(x), program(x))
    assert captured.details.why_not == "" and "aten.split" in str(captured.details.report())


def test_what_has_no_elements_expands_to_fixed_sizes_only() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.expand(2, 0)  # of nothing

    with pytest.raises(ValueError) as error:
        anyop.torch.capture(program, torch.zeros(1, 0), dynamic=True)
    assert str(error.value) == (
        f"program: {line_of('# of nothing')} calls what torch has for fixed sizes only "
        "(0 not in VR[1, 1]), but these vary: x_0, x_1. Try fixed sizes."
    )


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(TypeError) as error:
        anyop.torch.capture(3, X)
    assert str(error.value) == (
        "anyop.torch.capture: the program is 3, but must be a function, a module or an exported "
        "program."
    )
