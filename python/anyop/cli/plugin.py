# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import click

from anyop import _mindspore_interface as interface


@click.command("plugin")
@click.argument("framework", type=click.Choice(["mindspore"]))
def command(framework: str) -> None:
    """Print the file of a plug-in, by which a framework's own operators run on anyop's kernels.

    export MS_OP_PLUGIN_PATH=$(anyop plugin mindspore)
    """
    why = interface.difference(interface.KERNEL_INPUTS)
    if why:
        raise click.ClickException(
            f"{why}, but the plug-in is built for the interface of MindSpore 2.10. Try that "
            "MindSpore, or an anyop that is built for yours."
        )
    click.echo(interface.VIEWS, err=True)
    click.echo(str(interface.PLUGIN))
