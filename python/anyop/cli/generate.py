# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import anyop
from anyop import _anyop
from anyop.cli import chat_template, load_libraries
from anyop.cli.run import program


@click.command("generate")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--prompt", required=True, help="What the model is asked.")
@click.option("--raw", is_flag=True, help="Take the prompt as it is, without the chat template.")
@click.option("--tokens", default=128, show_default=True, help="The most tokens to generate.")
@click.option("--threads", type=int, help="Threads to use; all cores if not given.")
@click.option("--no-verify", is_flag=True, help="Do not compare the files with their digests.")
@click.option("--json", "as_json", is_flag=True, help="End with one line of JSON.")
def command(
    model: Path,
    prompt: str,
    raw: bool,
    tokens: int,
    threads: int | None,
    no_verify: bool,
    as_json: bool,
) -> None:
    """Answer a prompt with the saved language model in the folder MODEL, streaming the text.

    The tokens come from anyop-run, a program without Python; the text is the tokenizer's.
    """
    load_libraries()
    text = Text(model)
    prompt_ids = text.encode(prompt if raw else text.chat(prompt))
    options = ["--tokens", str(tokens)]
    if threads is not None:
        options += ["--threads", str(threads)]
    if no_verify:
        options.append("--no-verify")
    ids: list[int] = []
    shown = ""
    facts: dict[str, Any] = {}
    for row in run(model, prompt_ids, options):
        if isinstance(row, dict):
            facts = row
            continue
        ids.append(row)
        whole = text.decode(ids)
        if not whole.endswith("\ufffd"):  # half of a character waits for its other bytes
            click.echo(whole[len(shown) :], nl=False)
            sys.stdout.flush()
            shown = whole
    click.echo()
    if as_json:
        click.echo(json.dumps({**facts, "text": shown}))
    else:
        click.echo(
            f"[{len(ids)} tokens, loaded in {facts['load_s'] * 1e3:.0f} ms, first after "
            f"{facts['first_token_s'] * 1e3:.0f} ms, then {facts['tokens_per_s']:.1f} tokens/s]",
            err=True,
        )


class Text:
    """Prompts to tokens and back, by the files of a saved model. Raises NotAvailable."""

    def __init__(self, model: Path) -> None:
        self._model = model
        try:
            manifest = json.loads((model / "manifest.json").read_text(encoding="utf-8"))
            self._facts = dict(manifest["metadata"])
            file = _within(model, self._facts["tokenizer"])
            self._tokenizer = _import("tokenizers").Tokenizer.from_file(str(file))
        except anyop.Error:
            raise
        except FileNotFoundError as error:
            raise anyop.NotAvailable(
                f"generate: {model} is no saved model: there is no {error.filename}."
            ) from error
        except Exception as error:  # tokenizers raises plain exceptions
            raise anyop.InvalidArgument(
                f"generate: {model} has no tokenizer that can be read "
                f"({type(error).__name__}: {error}). Try anyop-run with token ids."
            ) from error

    def chat(self, prompt: str) -> str:
        """What the model was trained to see of a question; the prompt itself without a template."""
        if "chat_template" not in self._facts:
            return prompt
        try:
            return chat_template.render(self._facts["chat_template"], prompt)
        except chat_template.TemplateError as error:
            raise anyop.InvalidArgument(
                f"generate: the chat template of {self._model} {error} Try --raw."
            ) from error
        except ImportError as error:
            raise _missing(error) from error

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True)
        return text


def _within(model: Path, name: object) -> Path:
    """A file of the folder: a model names no other file of this machine."""
    file = model / str(name)
    if not isinstance(name, str) or file.resolve().parent != model.resolve():
        raise anyop.InvalidArgument(
            f"generate: the tokenizer of {model} is {name!r}, but must be a file in that folder. "
            "Save the model again."
        )
    return file


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise _missing(error) from error


def _missing(error: ImportError) -> anyop.NotAvailable:
    return anyop.NotAvailable(f"generate: {error}. Try: pip install 'anyop[generate]'.")


def run(model: Path, ids: list[int], options: list[str]) -> Iterator[int | dict[str, Any]]:
    """The ids that anyop-run prints, as they come, then its line of JSON."""
    command: list[str | Path] = [program(), model, "--ids", ",".join(map(str, ids)), "--json"]
    for name, _, file in _anyop.libraries():
        if name != "anyop" and Path(file).suffix == ".so":
            command += ["--library", file]
    process = subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",  # messages name files, which may be any bytes
    )
    assert process.stdout and process.stderr
    try:
        for line in process.stdout:
            yield json.loads(line)
        error = process.stderr.read().strip()
        if process.wait() != 0:
            raise anyop.InvalidArgument(error or f"anyop-run ended with {process.returncode}.")
    finally:
        process.terminate()
        process.wait()
