# SPDX-License-Identifier: Apache-2.0
"""python -m examples.smollm2 PROMPT: SmolLM2-135M-Instruct on anyop's operators."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyop
import click

from .batch import PROMPTS, BatchResult, generate_batch
from .generate import PREFILL_CHUNK, Result, Sampling, generate
from .hosts import DTYPES, HOSTS
from .model import Model
from .perplexity import show as show_perplexity
from .save import save
from .weights import ModelFile, ModelFileError, load


def batch_prompts(text: str) -> list[str]:
    """The lines of a file, or as many built-in prompts, in turn."""
    if text.isdecimal():
        return [PROMPTS[i % len(PROMPTS)] for i in range(int(text))]
    try:
        lines = Path(text).read_text().splitlines()
    except OSError as error:
        raise click.ClickException(
            f"--batch {text}: {error.strerror}. Give a file with a prompt on each line, or how "
            "many of the built-in ones."
        ) from error
    return [line for line in lines if line.strip()]


def show_batch(file: ModelFile, prompts: list[str], result: BatchResult, as_json: bool) -> None:
    count = sum(len(r.ids) for r in result.requests)
    for prompt, request in zip(prompts, result.requests, strict=True):
        text = file.tokenizer.decode(request.ids, skip_special_tokens=True)
        if as_json:
            print(json.dumps({"prompt": prompt, "ids": request.ids, "text": text}))
        else:
            print(f"> {prompt}\n{text}\n")
    if as_json:
        total = {"requests": len(prompts), "tokens": count, "steps": result.steps}
        print(json.dumps(total | {"tokens_per_s": round(result.tokens_per_s, 2)}))
    else:
        print(
            f"[{count} tokens of {len(prompts)} requests in {result.steps} steps, "
            f"{result.tokens_per_s:.1f} tokens/s]",
            file=sys.stderr,
        )


def show_answer(result: Result, as_json: bool) -> None:
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


@click.command()
@click.argument("prompt", default="")
@click.option("--raw", is_flag=True, help="Take the prompt as it is; special tokens are parsed.")
@click.option("--dtype", type=click.Choice(DTYPES), default="bf16", show_default=True)
@click.option("--host", type=click.Choice(list(HOSTS)), default="numpy", show_default=True)
@click.option(
    "--compile", "compiled", type=click.Choice(["inductor", "anyop"]), is_flag=False,
    flag_value="inductor",
    help="Decode in a graph of torch.compile, by this backend [inductor]; with host mindspore, all "
    "steps are graphs of its own.",
)  # fmt: skip
@click.option("--capture", "captured", is_flag=True, help="Run all steps as a graph of anyop's.")
@click.option(
    "--batch", metavar="FILE|N", help="Answer the lines of a file, or N prompts, at once."
)
@click.option(
    "--concurrent", type=click.IntRange(1), default=16, show_default=True,
    help="Of a batch: the most requests at once.",
)  # fmt: skip
@click.option(
    "--prefill-block", type=click.IntRange(1), default=PREFILL_CHUNK, show_default=True,
    help="The most tokens of prompts in a step.",
)  # fmt: skip
@click.option(
    "--cache", type=click.Choice(["f32", "bf16", "f8e4m3"]),
    help="What keys and values are stored as; activations if not given.",
)  # fmt: skip
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
    batch: str | None, concurrent: int, prefill_block: int, cache: str | None,
    tokens: int, threads: int | None, temperature: float, top_k: int, top_p: float, seed: int,
    model: Path | None, as_json: bool, folder: Path | None, perplexity: str | None,
) -> None:  # fmt: skip
    """Answers PROMPT, streaming the text."""
    if not prompt and folder is None and perplexity is None and batch is None:
        raise click.UsageError("Missing argument 'PROMPT'.")
    if batch is not None and (compiled or prompt or host == "jax"):
        raise click.UsageError("--batch goes without a PROMPT, --compile and --host jax.")
    if host == "mindspore" and (compiled == "anyop" or captured):
        raise click.UsageError("--host mindspore goes without --compile anyop and --capture.")
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

        if batch is not None:
            prompts = batch_prompts(batch)
            model_of_all = Model(
                file, dtype, host=host, captured=captured, cache=cache,
                cache_tokens=1024 * concurrent,
            )  # fmt: skip
            answers = generate_batch(
                file, model_of_all, prompts, tokens, sampling, raw,
                concurrent=concurrent, prefill_block=prefill_block,
            )  # fmt: skip
            show_batch(file, prompts, answers, as_json)
            return
        if host == "jax":
            if compiled or captured:
                raise click.UsageError("--host jax goes without --compile and without --capture.")
            from .jax_model import JaxModel

            decoder: Model = JaxModel(file, dtype, cache=cache)
        elif host == "mindspore" and compiled:
            from .mindspore_model import MindSporeModel

            decoder = MindSporeModel(file, dtype, cache=cache)
        else:
            decoder = Model(
                file, dtype, host=host, compiled=compiled or False, captured=captured, cache=cache
            )
        limit = max(0, min(tokens, decoder.max_tokens))
        result = generate(
            file, decoder, prompt, limit, sampling, raw, show=show, prefill_block=prefill_block
        )
    except (ModelFileError, ValueError, ModuleNotFoundError) as error:
        raise click.ClickException(str(error)) from error
    show_answer(result, as_json)


if __name__ == "__main__":
    main()
