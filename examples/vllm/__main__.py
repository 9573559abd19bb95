# SPDX-License-Identifier: Apache-2.0
"""python -m examples.vllm --gguf FILE PROMPT: serves SmolLM2 with vLLM, asks it, stops it.

Run by the Python of an environment that `anyop vllm install` made; ./demo --vllm does all of it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import anyop.vllm
import click
from rich.console import Console

from .save import is_saved, save
from .server import Server

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = (
    "--dtype", "bfloat16", "--max-model-len", "2048", "--max-num-seqs", "16",
    "--kv-cache-memory-bytes", "1G", "--enforce-eager", "--served-model-name", "smollm2",
)  # fmt: skip


@click.command()
@click.argument("prompt", default="Why is the sky blue?")
@click.option("--gguf", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--tokens", default=96, show_default=True, help="The most tokens to generate.")
def main(prompt: str, gguf: Path, tokens: int) -> None:
    """Answers PROMPT over HTTP, and tells how fast, and what ran."""
    console = Console(stderr=True, highlight=False)
    folder = ROOT / "build" / "smollm2-vllm"
    if not is_saved(folder):
        with console.status("saving the weights as vLLM reads them"):
            save(gguf, folder)
    server = Server(folder, ROOT / "build" / "logs" / "vllm-serve.log", *OPTIONS)
    try:
        with console.status("vLLM starts") as status:
            server.wait(lambda seconds: status.update(f"vLLM starts: {seconds:.0f} s"))
        console.print(f"vLLM serves SmolLM2 on http://127.0.0.1:{server.port}/v1, log {server.log}")
        _ask(server, prompt, tokens)
        click.echo(f"\n{anyop.vllm.Report(server.explain())}")
    except RuntimeError as error:
        raise click.ClickException(str(error)) from None
    finally:
        server.close()


def _ask(server: Server, prompt: str, tokens: int) -> None:
    for _ in server.chat("Hello", 4):  # the first request makes plans and packs weights
        pass
    begun = time.perf_counter()
    first, count = 0.0, 0
    for piece in server.chat(prompt, tokens):
        first = first or time.perf_counter() - begun
        count += 1
        click.echo(piece, nl=False)
        sys.stdout.flush()
    rest = time.perf_counter() - begun - first
    speed = (count - 1) / rest if count > 1 else 0.0
    click.echo(f"\n\n[first token {first * 1e3:.0f} ms, then {speed:.1f} tokens/s over HTTP]")


if __name__ == "__main__":
    main()
