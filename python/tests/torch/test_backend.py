# SPDX-License-Identifier: Apache-2.0
"""torch.compile with the backend anyop: mutation, sizes, training, weights that change, threads."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from backend_cases import compiled_last, floats  # noqa: E402
from torch import nn  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    from anyop.torch._compile import backend

    torch._dynamo.reset()
    backend._programs.clear()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def compiled(program: Any, **options: Any) -> Any:
    return torch.compile(program, backend="anyop", **options)


def text() -> str:
    return str(compiled_last().lowered.graph)


class Block(nn.Module):
    """A decoder block; `own` takes the norms from anyop."""

    def __init__(self, own: bool, width: int = 32) -> None:
        super().__init__()
        self.own = own
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(2 * width, width)
        self.norm = nn.Parameter(torch.rand(width))

    def normed(self, x: torch.Tensor) -> torch.Tensor:
        if self.own:
            return anyop.rms_norm(x, self.norm, 1e-5)
        return F.rms_norm(x, (x.shape[-1],), self.norm, 1e-5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = self.qkv(self.normed(x)).view(b, t, 3, 4, d // 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        gate, up = self.up(self.normed(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Cache(nn.Module):
    """Writes what it is given to its buffer and reads all of it."""

    cache: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(16, 8))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        self.cache.index_copy_(0, at, x)
        return torch.softmax(self.cache, -1)


@pytest.mark.parametrize("own", [False, True])
def test_training_steps_are_as_torchs(own: bool) -> None:
    plain = nn.Sequential(Block(own), Block(own))
    mine = copy.deepcopy(plain)
    step = compiled(mine)
    optimizers = [torch.optim.SGD(m.parameters(), 0.1) for m in (plain, mine)]
    for i in range(5):
        x = floats(2, 5, 32, seed=i)
        losses = [(f(x) - x.roll(1, 1)).square().mean() for f in (plain, step)]
        for loss, optimizer in zip(losses, optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
        torch.testing.assert_close(losses[1], losses[0])
        for p, q in zip(plain.parameters(), mine.parameters(), strict=True):
            torch.testing.assert_close(q.grad, p.grad, rtol=1e-4, atol=1e-5)
        for optimizer in optimizers:
            optimizer.step()
    names = {p.name.partition("_")[0] for p in programs() if p.lowered is not None}
    assert names == {"forward", "backward"}


def programs() -> list[Any]:
    from anyop.torch._compile import backend

    return [p for ref in backend._programs if (p := ref()) is not None]


def test_gradients_of_inputs() -> None:
    x = floats(3, 8).requires_grad_()
    y = x.detach().clone().requires_grad_()

    def program(x: torch.Tensor) -> Any:
        return anyop.softmax(x.t().contiguous()), (x * x).sum(), x.t()

    for f, z in ((program, x), (compiled(program), y)):
        a, b, c = f(z)
        (a.square().sum() + b + (c * c).sum()).backward()
    torch.testing.assert_close(y.grad, x.grad)


def test_sizes_vary_without_a_new_graph() -> None:
    block = Block(True)
    step = compiled(block, dynamic=True)
    with torch.no_grad():
        for t in (5, 9, 16, 3):
            x = floats(2, t, 32)
            torch.testing.assert_close(step(x), block(x))
    assert len(programs()) == 1 and compiled_last().why_not == ""


def test_computed_sizes() -> None:
    def program(x: torch.Tensor) -> Any:
        n = x.shape[0]
        a = torch.sigmoid(x[: n // 2].cos())
        return a, torch.sigmoid(x.reshape(-1)[: 2 * n]), x.new_ones(n // 3 + 1, n % 3 + 1).sum(), n

    step = compiled(program, dynamic=True)
    for n in (6, 7, 11):
        x = floats(n, 4)
        torch.testing.assert_close(step(x), program(x))
    assert compiled_last().why_not == ""


def test_a_cache_is_written_where_it_lies() -> None:
    plain, mine = Cache(), Cache()
    address = mine.cache.data_ptr()
    step = compiled(mine)
    with torch.no_grad():
        for i in range(4):
            x, at = floats(2, 8, seed=i), torch.tensor([i, 15 - i])
            torch.testing.assert_close(step(x, at), plain(x, at))
            torch.testing.assert_close(mine.cache, plain.cache)
    assert mine.cache.data_ptr() == address
    assert "cast" not in text() and "clone" not in text()  # nothing copies it


def test_mutated_operators_of_anyop_write_in_place() -> None:
    key_cache, value_cache = torch.zeros(2, 4, 3, 8), torch.zeros(2, 4, 3, 8)

    def program(k: torch.Tensor, v: torch.Tensor, c: Any, d: Any, slots: torch.Tensor) -> Any:
        qk = k * 2.0
        anyop.rotary_embedding(None, qk[:, :2], None, torch.ones(5, 8))
        anyop.reshape_and_cache(qk, v, c, d, slots)
        return c.sum() + anyop.softmax(qk).sum()

    k, v, slots = floats(5, 3, 8), floats(5, 3, 8, seed=2), torch.tensor([0, 3, -1, 7, 5])
    caches = (key_cache, value_cache)
    mine = tuple(c.clone() for c in caches)
    step = compiled(program)
    for _ in range(2):
        torch.testing.assert_close(step(k, v, *mine, slots), program(k, v, *caches, slots))
        torch.testing.assert_close(mine, caches)
    assert "cast" not in text() and kinds_of()["anyop.reshape_and_cache.default"] == {"operator"}
    assert kinds_of()["anyop.rotary_embedding.default"] == {"operator"}


def kinds_of() -> dict[str, set[str]]:
    from anyop.torch._compile.report import report_of

    found: dict[str, set[str]] = {}
    for row in report_of([compiled_last()]):
        found.setdefault(row["operator"], set()).add(row["kind"])
    return found


def test_what_is_read_after_a_write_is_what_was_there() -> None:
    def program(x: torch.Tensor, cache: torch.Tensor, at: torch.Tensor) -> Any:
        before = cache * 1.0
        view = cache[1:3]
        old = torch.sigmoid(view)
        cache.index_copy_(0, at, x)
        middle = torch.sigmoid(view)
        cache[0:2] = x * 3.0
        cache[3] += cache[1]
        anyop.rotary_embedding(None, cache.view(4, 1, 8), None, torch.ones(4, 8))
        return before, old, middle, view * 1.0, cache.cos()

    step = compiled(program)
    mine = floats(4, 8)
    plain = mine.clone()
    for i in range(2):
        args = floats(2, 8, seed=i), torch.tensor([3, 1])
        expected = program(args[0], plain, args[1])
        torch.testing.assert_close(step(args[0], mine, args[1]), expected)
        torch.testing.assert_close(mine, plain)
    assert compiled_last().why_not == ""


def test_old_contents_that_are_read_later_are_kept() -> None:
    def program(x: torch.Tensor, cache: torch.Tensor, at: torch.Tensor) -> Any:
        new = cache.index_copy(0, at, x)
        old = torch.sigmoid(cache)
        cache.copy_(new)
        return old, new.sum()

    step = compiled(program)
    mine, at = floats(4, 8), torch.tensor([3, 1])
    plain = mine.clone()
    for i in range(2):
        x = floats(2, 8, seed=i)
        torch.testing.assert_close(step(x, mine, at), program(x, plain, at))
        torch.testing.assert_close(mine, plain)


def test_an_input_with_gaps_is_written() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x.index_fill_(0, torch.tensor([1]), 7.0)
        x.add_(1)
        return x.sum()

    mine, plain = floats(6, 8), floats(6, 8)
    step = compiled(program)
    for _ in range(2):
        torch.testing.assert_close(step(mine[::2, 1:5]), program(plain[::2, 1:5]))
        torch.testing.assert_close(mine, plain)


def test_weights_that_are_written_or_replaced_are_seen() -> None:
    layer = nn.Linear(8, 5)
    x = floats(3, 8)
    for options in ({}, {"freeze": True}):
        torch._dynamo.reset()
        step = compiled(layer, options=options)
        with torch.no_grad():
            torch.testing.assert_close(step(x), layer(x))
            layer.weight.mul_(2)
            torch.testing.assert_close(step(x), layer(x))
            layer.weight.data = floats(5, 8, seed=7)
            torch.testing.assert_close(step(x), layer(x))
            layer.bias = nn.Parameter(floats(5))
            torch.testing.assert_close(step(x), layer(x))
        assert ("frozen packed" in text()) is bool(options)


def test_inference_mode() -> None:
    with torch.inference_mode():
        layer, x = nn.Linear(8, 5), floats(3, 8)
        step = compiled(layer, options={"freeze": True})
        torch.testing.assert_close(step(x), layer(x))
        layer.weight.mul_(2)  # nobody counts that: such weights are never frozen
        torch.testing.assert_close(step(x), layer(x))


def test_options_are_checked() -> None:
    with pytest.raises(Exception, match="has no option 'freezing'. Did you mean 'freeze'"):
        compiled(lambda x: x + 1, options={"freezing": True})(floats(2))


def test_graph_breaks_and_bigger_programs() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        y = anyop.softmax(x)
        torch._dynamo.graph_break()
        return y * 2.0

    step = compiled(inner)
    x = floats(3, 8)
    torch.testing.assert_close(step(x), inner(x))
    assert len(programs()) == 2

    def outer(x: torch.Tensor) -> torch.Tensor:
        return step(x) + step(x * 3.0).numpy().sum()  # type: ignore[no-any-return]

    torch.testing.assert_close(outer(x), inner(x) + inner(x * 3.0).sum())


def test_what_no_graph_can_hold_runs_through_torch() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(x > 0).float().mean()

    step = torch.compile(program, backend="anyop")
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        torch.testing.assert_close(step(floats(3, 8)), program(floats(3, 8)))
    assert compiled_last().why_not
    row = anyop.torch.report()[-1]
    assert row["kind"] == "torch" and row["operator"] == "(all of it)"


def test_errors_of_torch_come_as_they_are() -> None:
    step = compiled(lambda x, at: torch.sigmoid(x[at].cos()))
    with pytest.raises(IndexError, match="out of range|out of bounds"):
        step(floats(3, 8), torch.tensor([5]))


def test_a_profiler_sees_torchs_operators() -> None:
    step = compiled(lambda x: torch.sigmoid(x).cos())
    x = floats(3, 8)
    expected = step(x)
    with torch.profiler.profile() as profile:
        torch.testing.assert_close(step(x), expected)
    assert any("aten::cos" in e.key for e in profile.key_averages())


def test_two_programs_and_threads() -> None:
    first, second = Block(False), Block(True)
    steps = [compiled(first, dynamic=True), compiled(second, dynamic=True)]
    inputs = [floats(2, t, 32) for t in (4, 6)]
    with torch.no_grad():
        expected = [[m(x) for x in inputs] for m in (first, second)]
        for step, rows in zip(steps, expected, strict=True):
            torch.testing.assert_close([step(x) for x in inputs], rows)
    wrong: list[Any] = []

    def work(k: int) -> None:
        try:
            with torch.no_grad():
                for i in range(30):
                    torch.testing.assert_close(steps[k](inputs[i % 2]), expected[k][i % 2])
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(k % 2,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_random_layers() -> None:
    layer = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5))
    step = compiled(layer)
    x = floats(64, 8)
    with torch.no_grad():
        step(x)
        made = [step(x) for _ in range(2)]
    assert not torch.equal(*made)
    assert 0.3 < (made[0] == 0).float().mean() < 0.7


def test_the_log_shows_the_table(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANYOP_LOG", "graph")
    compiled(lambda x: torch.sigmoid(x).cos())(floats(3, 8))
    assert "aten.cos.default" in capfd.readouterr().err


ORDERS = {
    "torch alone": "import torch",
    "anyop before torch": "import anyop, torch",
    "anyop after torch has searched": """
import torch
assert "anyop" in torch._dynamo.list_backends()
import anyop
""",
}


@pytest.mark.parametrize(
    "order",
    [pytest.param(o, marks=() if "after" in o else pytest.mark.exhaustive) for o in ORDERS],
)
def test_torch_finds_the_backend_in_whatever_order_of_imports(order: str, tmp_path: Path) -> None:
    tomllib = pytest.importorskip("tomllib")
    from checkout import ROOT

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["entry-points"]["torch_dynamo_backends"]["anyop"]
    info = tmp_path / "as_installed-1.0.dist-info"  # as the wheel has it
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: as-installed\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[torch_dynamo_backends]\nanyop = {declared}\n")
    program = f"""{ORDERS[order]}
f = torch.compile(lambda x: torch.sigmoid(x) * 2, backend="anyop")
x = torch.randn(3, 8)
torch.testing.assert_close(f(x), torch.sigmoid(x) * 2)
import anyop
assert anyop.torch.report()
g = torch.compile(lambda x: torch.sigmoid(x) * 3, backend="anyop")
torch.testing.assert_close(g(x), torch.sigmoid(x) * 3)
assert torch._dynamo.list_backends().count("anyop") == 1
"""
    path = [str(tmp_path), *([os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else [])]
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
