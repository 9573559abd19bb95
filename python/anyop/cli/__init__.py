# SPDX-License-Identifier: Apache-2.0
"""Commands: `anyop list | explain | graph | generate | doctor | tune | new | docs | ...`."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

COMMANDS = {
    "list": "cli.listing",
    "explain": "cli.explain",
    "graph": "cli.graph",
    "generate": "cli.generate",
    "doctor": "cli.doctor",
    "tune": "cli.tune",
    "new": "cli.new",
    "docs": "cli.docs",
    "stubs": "cli.stubs",
    "bench": "bench.commands",
}


class Commands(click.Group):
    """Imports a command's module when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        try:
            command: click.Command = importlib.import_module(f"anyop.{COMMANDS[cmd_name]}").command
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
        anyop.load_installed()
    except anyop.NotAvailable as error:
        click.secho(str(error), fg="yellow", err=True)


def main() -> None:
    """The entry point: errors of anyop end with their text and status 1."""
    try:
        app()
    except Exception as error:
        import anyop

        if not isinstance(error, anyop.Error):
            raise
        click.secho(str(error), fg="red", err=True)
        sys.exit(1)
