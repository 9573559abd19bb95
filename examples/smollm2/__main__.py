# SPDX-License-Identifier: Apache-2.0
"""python -m examples.smollm2 PROMPT: SmolLM2-135M-Instruct on anyop's operators."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyop
import click

from .generate import Sampling, generate
from .hosts import DTYPES, HOSTS
from .model import Model
from .perplexity import show as show_perplexity
from .save import save
from .weights import ModelFileError, load


@click.command()
@click.argument("prompt", default="")
@click.option("--raw", is_flag=True, help="Take the prompt as it is; special tokens are parsed.")
@click.option("--dtype", type=click.Choice(DTYPES), default="bf16", show_default=True)
@click.option("--host", type=click.Choice(list(HOSTS)), default="numpy", show_default=True)
@click.option(
    "--compile", "compiled", type=click.Choice(["inductor", "anyop"]), is_flag=False,
    flag_value="inductor", help="Decode in a graph of torch.compile, by this backend [inductor].",
)  # fmt: skip
@click.option("--capture", "captured", is_flag=True, help="Run all steps as a graph of anyop's.")
@click.option("--tokens", default=128, show_default=True, help="The most tokens to generate.")
@click.option("--threads", type=int, help="Threads to use; all cores if not given.")
@click.option("--temperature", default=0.0, show_default=True, help="0 takes the likeliest token.")
@click.option("--top-k", default=0, show_default=True, help="Sample among the k likeliest; 0: all.")
@click.option("--top-p", default=1.0, show_default=True, help="Sample in the nucleus of this mass.")
@click.option("--seed", default=0, show_default=True, help="Of the random numbers for sampling.")
@click.option(
    "--model", type=click.Path(path_type=Path), help="Another GGUF file of a Llama model."
)
@click.option("--json", "as_json", is_flag=True, help="End with one line of JSON.")
@click.option(
    "--perplexity", is_flag=False, flag_value="", metavar="[FILE]",
    help="Instead of answering, how well each way to store the weights predicts a text [Python's "
    "help], beside llama.cpp.",
)  # fmt: skip
@click.option(
    "--save",
    "folder",
    type=click.Path(path_type=Path),
    help="Instead of answering, write the model for anyop-run and anyop generate.",
)
def main(
    prompt: str, raw: bool, dtype: str, host: str, compiled: str | None, captured: bool,
    tokens: int, threads: int | None, temperature: float, top_k: int, top_p: float, seed: int,
    model: Path | None, as_json: bool, folder: Path | None, perplexity: str | None,
) -> None:  # fmt: skip
    """Answers PROMPT, streaming the text."""
    if not prompt and folder is None and perplexity is None:
        raise click.UsageError("Missing argument 'PROMPT'.")
    try:
        if threads is not None:
            anyop.set_num_threads(threads)
        if perplexity is not None:
            show_perplexity(perplexity, model, as_json)
            return
        file = load(model)
        if folder is not None:
            with click.progressbar(length=1, label=f"writing {folder}") as bar:

                def written(done: int, every: int) -> None:
                    bar.length = every
                    bar.update(done - bar.pos)

                save(file, folder, dtype, progress=written)
            return
        sampling = Sampling(temperature, top_k, top_p, seed)

        def show(text: str) -> None:
            print(text, end="", flush=True)

        decoder = Model(file, dtype, host=host, compiled=compiled or False, captured=captured)
        limit = max(0, min(tokens, decoder.max_tokens))
        result = generate(file, decoder, prompt, limit, sampling, raw, show)
    except (ModelFileError, ValueError, ModuleNotFoundError, OSError) as error:
        raise click.ClickException(str(error)) from error
    print()
    if as_json:
        print(
            json.dumps(
                {
                    "prompt_ids": result.prompt_ids,
                    "ids": result.ids,
                    "text": result.text,
                    "first_token_s": round(result.first_token_s, 4),
                    "tokens_per_s": round(result.tokens_per_s, 2),
                }
            )
        )
    else:
        print(
            f"[{len(result.ids)} tokens, first after {result.first_token_s * 1e3:.0f} ms, "
            f"then {result.tokens_per_s:.1f} tokens/s]",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
