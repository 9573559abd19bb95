# SPDX-License-Identifier: Apache-2.0
"""`torch.compile(model, backend="anyop")`."""

from __future__ import annotations

import itertools
import operator
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import default_partition
from torch._guards import TracingContext
from torch.fx import GraphModule

from anyop import _anyop
from anyop.hosting.sentences import clause
from anyop.torch._compile.functional import keeping_random
from anyop.torch._compile.program import Program
from anyop.torch._compile.report import Report, report_of

_OPTIONS = ("freeze",)
_programs: list[weakref.ref[Program]] = []
_numbers = itertools.count()


def _static_places() -> list[int]:
    """The arguments of the forward graph that are parameters and buffers."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    return list(metadata.static_input_indices or []) if metadata is not None else []


def _guard_lengths(module: GraphModule) -> None:
    """Asks whether sizes that attention needs equal are so. torch asks only when attention runs, so
    that those of different arguments would vary apart. Each answer here becomes a guard: where it
    differs, Dynamo compiles anew."""
    for node in module.graph.nodes:
        if node.target is not torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default:
            continue
        q, k, v = (n.meta["val"].shape for n in node.args[:3])
        pairs = [(q[0], k[0]), (q[3], k[3]), *zip(k[:3], v[:3], strict=True)]
        mask = node.kwargs.get("attn_mask")
        if mask is not None:
            pairs += zip(reversed(mask.meta["val"].shape), (k[2], q[2], q[1], q[0]), strict=False)
        for a, b in pairs:
            bool(a == b)


def _compiler(kind: str, freeze: bool) -> Callable[..., Any]:
    def compile_graph(module: GraphModule, examples: Any) -> Callable[[Any], Any]:
        _guard_lengths(module)
        # The places are those of the forward graph: a backward graph has other arguments.
        bound = [] if kind == "backward" else _static_places()
        name = f"{kind}_{next(_numbers)}"
        program = Program(module, bound, freeze and kind == "inference", name)
        _programs.append(weakref.ref(program))

        def call(args: Any) -> Any:
            made = program(args)
            if isinstance(args, list):
                args.clear()  # a boxed call owns the list: tensors that nobody else has are freed
            return made

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    return compile_graph


def _check(options: Mapping[str, Any]) -> None:
    for key in options:
        if key not in _OPTIONS:
            raise _anyop.InvalidArgument(
                f"torch.compile: the backend anyop has no option {key!r}."
                f"{_anyop.did_you_mean(key, list(_OPTIONS))} Its options are: "
                f"{', '.join(_OPTIONS)}."
            )


def _partition(joint: GraphModule, inputs: Any, **options: Any) -> Any:
    """torch's own, which refuses an operator of several results of which nobody reads one: an
    attention that is not used is left in programs, since it may draw random numbers."""
    for node in list(joint.graph.nodes):
        results = node.meta.get("val")
        is_unread = node.op == "call_function" and not node.users
        if is_unread and isinstance(results, (tuple, list)) and results:
            with joint.graph.inserting_after(node):
                first = joint.graph.call_function(operator.getitem, (node, 0))
            first.meta = {**node.meta, "val": results[0]}
    return default_partition(joint, inputs, **options)


def backend(
    module: GraphModule, examples: list[Any], *, options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Any:  # fmt: skip
    """Compiles what Dynamo traced. options={"freeze": True}: weights are packed ahead of time."""
    options = dict(options or {})
    _check(options)
    freeze = bool(options.get("freeze"))
    compiled = aot_autograd(
        fw_compiler=_compiler("forward", freeze),
        bw_compiler=_compiler("backward", freeze),
        inference_compiler=_compiler("inference", freeze),
        partition_fn=_partition,
        # The last writes of arguments stay in the graph, where in_place.py lowers them.
        keep_inference_input_mutations=True,
    )
    try:
        with keeping_random():
            return compiled(module, examples)
    except NotImplementedError as error:  # a derivative that nobody has, and perhaps none asks for
        if _anyop.is_strict():
            raise
        return _through_torch(module, clause(error))


def _through_torch(module: GraphModule, why: str) -> Callable[..., Any]:
    program = Program(module, name=f"program_{next(_numbers)}")
    program.why_not = why
    _programs.append(weakref.ref(program))

    def call(*args: Any, _keeps: Any = program) -> Any:
        return module(*args)

    return call


def report(compiled: Any = None) -> Report:
    """What became of a program that `capture` made, or, with no argument, of all that
    torch.compile made with the backend anyop and that is still alive."""
    if compiled is not None:
        details = getattr(compiled, "details", compiled)
        if not hasattr(details, "lowered"):
            raise _anyop.WrongType(
                f"anyop.torch.report: {compiled!r} is given, but must be what capture returned. "
                "Try no argument, which reports on all that torch.compile made."
            )
        return report_of([details])
    alive = [program for ref in _programs if (program := ref()) is not None]
    _programs[:] = [weakref.ref(program) for program in alive]
    return report_of(alive)
