# SPDX-License-Identifier: Apache-2.0
"""What ./demo shows: an answer, streamed, and a table of where the time went."""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyop
import click
import threadpoolctl
from anyop.cli.generate import run
from rich.console import Console
from rich.table import Table

from .generate import Result, generate
from .model import Model
from .numpy_model import NumpyModel
from .save import save
from .weights import ModelFile, ModelFileError, load

PLAIN_TOKENS = 24  # of the slower rows


class Timed:
    """Passes operator calls on and adds up their time."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operator = getattr(anyop, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            result = operator(*args, **kwargs)
            self.seconds[name] += time.perf_counter() - start
            self.calls[name] += 1
            return result

        setattr(self, name, call)
        return call


def speed_table(rows: dict[str, Result]) -> Table:
    table = Table(title="SmolLM2-135M-Instruct")
    for column in ("host and weights", "prompt tokens", "first token", "tokens/s", "x NumPy"):
        table.add_column(column, justify="left" if column.startswith("host") else "right")
    base = max(r.tokens_per_s for name, r in rows.items() if "NumPy (" in name) or 1.0
    for name, r in rows.items():
        table.add_row(
            name, str(len(r.prompt_ids)), f"{r.first_token_s * 1e3:.0f} ms",
            f"{r.tokens_per_s:.1f}", f"{r.tokens_per_s / base:.1f}",
        )  # fmt: skip
    return table


def operator_table(timed: Timed, total: float) -> Table:
    table = Table(title="Where the time of the bf16 generation goes")
    for column in ("operator", "calls", "ms", "share", "kernels that ran"):
        table.add_column(
            column, justify="left" if column in ("operator", "kernels that ran") else "right"
        )
    ran = defaultdict(list)
    for counter in anyop.counters():
        ran[counter.op].append(counter.kernel)
    for name, seconds in sorted(timed.seconds.items(), key=lambda i: -i[1]):
        kernels = ", ".join(ran[f"anyop.{name}"])
        table.add_row(
            name, str(timed.calls[name]), f"{seconds * 1e3:.1f}", f"{seconds / total:.1%}", kernels
        )
    inside = sum(timed.seconds.values())
    table.add_row(
        "Python between the calls",
        "",
        f"{(total - inside) * 1e3:.1f}",
        f"{1 - inside / total:.1%}",
        "",
    )
    return table


def saved_row(file: ModelFile, answer: Result) -> Result:
    """The model as a folder, run by a program without Python: the very answer."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "smollm2.anyop"
        save(file, path, "bf16")
        result = Result(prompt_ids=answer.prompt_ids)
        *ids, facts = run(path, answer.prompt_ids, ["--tokens", str(len(answer.ids))])
    assert isinstance(facts, dict)
    assert ids == answer.ids
    result.ids, result.first_token_s = facts["ids"], facts["first_token_s"]
    result.decode_s = (len(ids) - 1) / facts["tokens_per_s"] if len(ids) > 1 else 0.0
    return result


def torch_rows(
    file: ModelFile, prompt: str, answer: Result, compiled: bool, console: Console
) -> dict[str, Result]:
    """anyop over torch tensors gives the very answer; plain PyTorch its first tokens."""
    if not importlib.util.find_spec("torch"):
        console.print("No rows for PyTorch: torch is not installed.")
        return {}
    from .torch_model import TorchModel

    rows = {}
    limit = min(PLAIN_TOKENS, len(answer.ids))
    for how in ("eager", "compiled") if compiled else ("eager",):
        graph = how != "eager"
        for dtype in ("bf16", "f32"):
            with console.status(f"anyop, torch {how}, {dtype}"):
                ours = Model(file, dtype, host="torch", compiled=graph)
                generate(file, ours, prompt, 3)  # compiles
                result = generate(file, ours, prompt, len(answer.ids))
                rows[f"anyop, torch {how}, {dtype}"] = result
            assert dtype != "bf16" or result.ids == answer.ids
            with console.status(f"plain PyTorch {how}, {dtype}"):
                plain = TorchModel(file, dtype, compiled=graph)
                generate(file, plain, prompt, 3)
                rows[f"plain PyTorch {how}, {dtype}"] = generate(file, plain, prompt, limit)
    with console.status("anyop, torch.compile backend anyop, bf16"):
        ours = Model(file, "bf16", host="torch", compiled="anyop")
        generate(file, ours, prompt, 3)
        result = generate(file, ours, prompt, len(answer.ids))
        rows["anyop, torch.compile backend anyop, bf16"] = result
    assert result.ids == answer.ids
    return rows


@click.command()
@click.argument("prompt", default="Why is the sky blue? Answer in two sentences.")
@click.option("--tokens", default=96, show_default=True, help="The most tokens to generate.")
@click.option("--compiled", is_flag=True, help="Rows for torch.compile too; takes some minutes.")
def main(prompt: str, tokens: int, compiled: bool) -> None:
    """Answers PROMPT with SmolLM2 and shows what ran. With --bench, ./demo measures the project's
    goals instead."""
    console = Console(highlight=False)
    try:
        with console.status("reading the model file"):
            file: ModelFile = load()
    except ModelFileError as error:
        raise click.ClickException(str(error)) from error
    with console.status("packing weights (bf16)"):
        model = Model(file, "bf16")
    console.print(f"[bold]> {prompt}[/bold]")
    rows = {}

    def show(text: str) -> None:
        console.print(text, end="", markup=False, soft_wrap=True)

    rows["anyop, NumPy, bf16"] = answer = generate(file, model, prompt, tokens, show=show)
    console.print("\n")
    timed = model.ops = Timed()
    anyop.reset_counters()
    again = generate(file, model, prompt, len(answer.ids))
    assert again.ids == answer.ids
    profile = operator_table(timed, again.first_token_s + again.decode_s)
    with console.status("the same as one graph"):
        captured = Model(file, "bf16", captured=True)
        generate(file, captured, prompt, 3)
        rows["anyop, one graph, bf16"] = generate(file, captured, prompt, len(answer.ids))
    assert rows["anyop, one graph, bf16"].ids == answer.ids
    with console.status("the same with the blocks of the file"):
        quantized = Model(file, "q4", captured=True)
        generate(file, quantized, prompt, 3)
        rows["anyop, one graph, q4"] = generate(file, quantized, prompt, len(answer.ids))
    with console.status("the same saved, in a program without Python"):
        rows["saved, C++ (anyop-run), bf16"] = saved_row(file, answer)
    with console.status("the same with f32 weights"):
        rows["anyop, NumPy, f32"] = generate(file, Model(file, "f32"), prompt, len(answer.ids))
    plain = NumpyModel(file)
    limit = min(PLAIN_TOKENS, len(answer.ids))
    for threads in sorted({1, anyop.get_num_threads()}):
        name = f"plain NumPy (threads: {threads}), f32"
        with console.status(name), threadpoolctl.threadpool_limits(threads):
            rows[name] = generate(file, plain, prompt, limit)
    rows |= torch_rows(file, prompt, answer, compiled, console)
    console.print(speed_table(rows))
    console.print(profile)
    console.print(
        "anyop is installed in .venv. Go on:  . .venv/bin/activate; anyop --help; "
        "anyop new my_ops && cd my_ops && anyop test",
        markup=False,
        highlight=False,
    )


if __name__ == "__main__":
    main()
