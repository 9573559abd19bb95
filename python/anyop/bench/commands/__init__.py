# SPDX-License-Identifier: Apache-2.0
"""`anyop bench`: what its commands measure and how they print it."""

import click

from anyop.bench.commands import calls, graph, hosts, model, opponents, ops
from anyop.vllm import bench as vllm


@click.group("bench")
def command() -> None:
    """Measure calls, operators and a model beside what frameworks offer, and compare saved runs."""


for _command in (
    calls.calls, ops.ops, ops.compare, ops.plot_command, model.model, graph.graph,
    hosts.hosts, vllm.command, opponents.opponents,
):  # fmt: skip
    command.add_command(_command)
