# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

import anyop.vllm

if TYPE_CHECKING:
    from collections.abc import Iterator

UNKNOWN = {"ignore_unknown_options": True, "allow_interspersed_args": True}


@click.command("explain", context_settings=UNKNOWN)
@click.argument("model")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF VLLM]...")
@click.option("--json", "as_json", is_flag=True, help="Print a list with a dict per worker.")
@click.option(
    "--tokens", default=2, show_default=True, metavar="N", help="Generate N before counting."
)
def command(model: str, options: tuple[str, ...], as_json: bool, tokens: int) -> None:
    """Show what a model's layers and operators run on, and why.

    MODEL is loaded as `vllm serve` loads it, with vLLM's own options behind it, and makes a few
    tokens: `--dtype bfloat16 -cc.custom_ops+=none`.
    """
    with _to_stderr() as out:
        report = _explain(model, list(options), tokens)
        text = json.dumps(report) if as_json else str(report)
        print(text, file=out, flush=True)


@contextmanager
def _to_stderr() -> Iterator[Any]:
    """What vLLM and its processes print goes to standard error; the report has the output alone."""
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with os.fdopen(os.dup(kept), "w", encoding="utf-8") as out:
            yield out
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _explain(model: str, options: list[str], tokens: int) -> Any:
    try:
        from vllm import LLM, SamplingParams
    except ModuleNotFoundError as error:
        if error.name != "vllm":
            raise
        raise click.ClickException(
            "explain needs vLLM in this environment. `anyop vllm install FOLDER` makes one that "
            "has it."
        ) from None
    from vllm.engine.arg_utils import EngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = EngineArgs.add_cli_args(FlexibleArgumentParser(prog="anyop vllm explain MODEL"))
    given = parser.parse_args(["--model", model, *options])
    llm = LLM(**vars(EngineArgs.from_cli_args(given)))
    if tokens > 0:
        sampling = SamplingParams(
            temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False
        )
        llm.generate({"prompt_token_ids": [1, 2, 3]}, sampling, use_tqdm=False)
    try:
        return anyop.vllm.explain(llm)
    except anyop.NotAvailable as error:
        raise click.ClickException(str(error)) from None
