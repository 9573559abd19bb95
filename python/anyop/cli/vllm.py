# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
from pathlib import Path

import click

from anyop.cli import making
from anyop.vllm import environments

# Commands in files of their own, by name, with what the list says of them.
OTHERS = {"explain": ("vllm_explain", "Show what a model's layers and operators run on, and why.")}


class Commands(click.Group):
    """Imports a command's module when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *OTHERS})

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        told = {name: command.get_short_help_str() for name, command in self.commands.items()}
        told.update({name: text for name, (_, text) in OTHERS.items()})
        with formatter.section("Commands"):
            formatter.write_dl(sorted(told.items()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in OTHERS:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"anyop.cli.{OTHERS[cmd_name][0]}")
        command: click.Command = module.command
        return command


@click.group("vllm", cls=Commands)
def command() -> None:
    """Run vLLM's CPU platform on anyop's operators."""


@command.command("install")
@making.arguments("vLLM", environments.SUPPORTED, environments.SUPPORTED[-1])
def install(folder: Path, version: str, index: str) -> None:
    """Make an environment with vLLM and this anyop.

    From packages alone, in about three minutes; 2 GB with a torch without CUDA. FOLDER becomes a
    virtual environment; one that was made before and fits is left as it is.
    """
    environment = environments.environment(folder, version)
    made = making.make(environment, f"vLLM {environment.version}", index)
    if made:
        click.echo(f"{made} Try: {environment.folder}/bin/vllm serve MODEL")
