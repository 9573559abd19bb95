# SPDX-License-Identifier: Apache-2.0
"""The commands, `anyop NAME`; `anyop --help` lists them."""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import Any

import click

# Of each command: its module, and what the list says of it. The list imports no command.
COMMANDS = {
    "list": ("cli.listing", "List operators."),
    "explain": ("cli.explain", "Show which kernel a call takes, and why no other one."),
    "graph": ("cli.graph", "Show the graph that a function becomes."),
    "generate": ("cli.generate", "Answer a prompt with a saved language model."),
    "doctor": ("cli.doctor", "Show what anyop sees of this machine, and what it cannot use."),
    "tune": ("cli.tune", "Measure pairs of kernels, and take the faster ones from then on."),
    "new": ("cli.new", "Make a package of operators, or an operator in one."),
    "check": ("cli.check", "Say what is wrong in sources of operators."),
    "build": ("cli.build", "Compile what has changed in a package."),
    "develop": ("cli.develop", "Install a package so that imports take its source tree."),
    "test": ("cli.test", "Test every kernel of a package against its reference."),
    "run": ("cli.recording", "Run a program and record or check its calls of operators."),
    "replay": ("cli.replay", "Make recorded calls again, checked or timed."),
    "profile": ("cli.profile", "Run a program and show where the time of its operators goes."),
    "diff": ("cli.diff", "Compare two builds of a package, and say what its next version is."),
    "wheel": ("cli.wheel", "Make a wheel of a package, checked by auditwheel."),
    "update": ("cli.update", "Renew the headers and build files that a package has of anyop."),
    "config": ("cli.config", "Print how a C++ program is built with anyop."),
    "plugin": ("cli.plugin", "Print the file of a plug-in for a framework."),
    "vllm": ("cli.vllm", "Run vLLM's CPU platform on anyop: an environment, what runs, and why."),
    "ascend": ("cli.ascend", "Compile, check and run AscendC kernels, without an NPU."),
    "npu": ("cli.npu", "Run torch_npu without CANN and without an NPU: an environment for it."),
    "docs": ("cli.docs", "Write a page per operator, and an index."),
    "stubs": ("cli.stubs", "Write the type stubs of a library's operators."),
    "bench": ("bench.commands", "Measure calls, operators and models beside what frameworks do."),
}


class Commands(click.Group):
    """Imports a command's module when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        try:
            module = importlib.import_module(f"anyop.{COMMANDS[cmd_name][0]}")
            command: click.Command = module.command
        except ModuleNotFoundError as error:
            if not error.name or error.name.startswith("anyop"):
                raise
            return lacking(cmd_name, error.name)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS:
            import anyop

            hint = anyop._anyop.did_you_mean(args[0], list(COMMANDS))
            ctx.fail(f"No such command '{args[0]}'.{hint}")
        return super().resolve_command(ctx, args)


def lacking(name: str, package: str) -> click.Command:
    """A command that needs a package that is not installed: it says so, in the list and if run."""

    def fail(**_: Any) -> None:
        raise click.ClickException(f"{name} needs {package}. Try: pip install {package}")

    text = f"Needs the package {package}, which is not installed."
    anything = click.Argument(["arguments"], nargs=-1)
    settings = {"ignore_unknown_options": True}
    return click.Command(name, settings, callback=fail, params=[anything], help=text)


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="anyop", message="anyop %(version)s")
def app() -> None:
    """Custom operators, written once in C++ and called from every host."""


def load_libraries() -> None:
    """Loads all installed packages; one that is broken is named and does not stop the others."""
    import anyop

    try:
        with contextlib.redirect_stdout(sys.stderr):  # what packages print is no output of ours
            anyop.load_installed()
    except anyop.NotAvailable as error:
        click.secho(str(error), fg="yellow", err=True)


def main() -> None:
    """The entry point: errors of anyop and of files end with their text and status 1."""
    try:
        app()
    except OSError as error:
        if error.filename is None:
            raise
        click.secho(f"{error.filename}: {error.strerror}.", fg="red", err=True)
        sys.exit(1)
    except Exception as error:
        import anyop

        if not isinstance(error, anyop.Error):
            raise
        click.secho(str(error), fg="red", err=True)
        sys.exit(1)
