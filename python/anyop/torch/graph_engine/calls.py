# SPDX-License-Identifier: Apache-2.0
"""Nodes that call an operator of torch, in the place of operators that the engine here lacks.

They stand where a converter of torchair makes nodes of operators that the engine here lacks, and
where nobody has written a converter: for operators of anyop, of packages and of torch.library.
Without a converter torchair does the same on an NPU, with an engine that calls back.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from anyop.torch.graph_engine.node import Node, Run

TYPE = "TorchCall"  # of the node
# Operators of these namespaces are torchair's to convert: without a converter it refuses them, as
# on an NPU.
_BUILTIN = ("_c10d_functional", "air", "aten", "npu", "npu_define", "prim", "prims", "rngprims")
# torchair's word for an operator of a package that the engine would know on an NPU.
_UNKNOWN = "was found to be registered"
_NAMED = (torch.dtype, torch.layout, torch.memory_format)


def add_converters(module: Any, is_here: Callable[[Any], bool]) -> None:
    """module: torchair's fx2ge_converter, of which this takes one function's place. is_here: of a
    node of the protocol, whether the engine here can run it.
    """
    known = module.get_or_auto_gen_converter

    def converter(target: Any) -> Any:
        if not isinstance(target, OpOverload):
            return known(target)
        if target.namespace not in _BUILTIN and module._get_converter(target) is None:
            module.register_fx_node_ge_converter(target)(_converter(target))
        return _or_called(target, known(target), module.get_default_ge_graph, is_here)

    module.get_or_auto_gen_converter = converter
    # Of operators that it does not know, torchair runs one on memory of any content to learn sizes.
    setattr(module.ge, TYPE, _converter)


def _or_called(target: OpOverload, made: Any, graph: Any, is_here: Callable[[Any], bool]) -> Any:
    """The converter, or a call where it makes nodes that cannot be run."""

    def convert(*args: Any, meta_outputs: Any = None, **kwargs: Any) -> Any:
        before = len(graph().op)
        has_meta = made.require_meta and meta_outputs is not None
        more = {"meta_outputs": meta_outputs} if has_meta else {}
        try:
            results = made(*args, **kwargs, **more)
        except RuntimeError as error:
            if target.namespace in _BUILTIN or _UNKNOWN not in str(error):
                raise
        else:
            if not _remove_others(graph().op, before, is_here):
                return results
        return _converter(target)(*args, meta_outputs=meta_outputs, **kwargs)

    convert.require_meta = True  # type: ignore[attr-defined]
    return convert


def _remove_others(nodes: Any, begin: int, is_here: Callable[[Any], bool]) -> bool:
    """Removes the nodes behind `begin` that cannot be run, and all that use them. Others stay,
    because torchair keeps some of them, such as the size of a tensor, for its next converter.
    """
    removed: list[Any] = []
    names: set[str] = set()
    for node in list(nodes)[begin:]:
        if not is_here(node) or names & {source.rpartition(":")[0] for source in node.input}:
            removed.append(node)
            names.add(node.name)
    for node in removed:
        nodes.remove(node)
    return bool(removed)


def _converter(target: OpOverload) -> Any:
    def convert(*args: Any, meta_outputs: Any = None, **kwargs: Any) -> Any:
        from torchair import ge

        inputs: dict[str, Any] = {}
        writes: list[str] = []
        call: dict[str, Any] = {}
        for i, argument in enumerate(target._schema.arguments):
            if i >= len(args) and argument.name not in kwargs:
                continue
            given = args[i] if i < len(args) else kwargs[argument.name]
            before = len(inputs)
            call[argument.name] = _noted(target, argument.name, given, inputs)
            if argument.alias_info is not None and argument.alias_info.is_write:
                writes += list(inputs)[before:]
        results = _results(target, meta_outputs)
        # An output with the name of an input is that input, written to.
        made = ge.custom_op(
            TYPE, inputs=inputs, outputs=[*results, *writes],
            attrs={"call": ge.attr.Str(json.dumps([str(target), call]))},
        )  # fmt: skip
        parts = made if isinstance(made, tuple) else (made,)
        if not results:
            return None
        return parts[0] if len(results) == 1 else tuple(parts[: len(results)])

    return convert


def _results(target: OpOverload, meta: Any) -> list[str | tuple[str, int]]:
    """Names of results, with a number for a list of tensors."""
    names: list[str | tuple[str, int]] = []
    returns = target._schema.returns
    metas = [meta] if len(returns) == 1 else list(meta or [None] * len(returns))
    for i, (result, its_meta) in enumerate(zip(returns, metas, strict=True)):
        if str(result.type) == "Tensor":
            names.append(f"y{i}")
        elif str(result.type) == "List[Tensor]" and its_meta is not None:
            names.append((f"y{i}_", len(its_meta)))
        else:
            raise RuntimeError(
                f"torchair: {target} returns {result.type}, but in a graph of the virtual NPU an "
                "operator without a converter returns tensors. Try to register a converter, by "
                "torchair.register_fx_node_ge_converter."
            )
    return names


def _noted(target: OpOverload, name: str, given: Any, inputs: dict[str, Any]) -> Any:
    """An argument as JSON has it; tensors become inputs of the node."""
    from torchair.ge import Tensor as Value

    if isinstance(given, Value):
        inputs[f"x{len(inputs)}"] = given
        return {"input": f"x{len(inputs) - 1}"}
    if isinstance(given, (list, tuple)):
        return [_noted(target, name, one, inputs) for one in given]
    if given is None or isinstance(given, (bool, int, float, str)):
        return given
    if isinstance(given, torch.device):
        return {"device": str(given)}
    if isinstance(given, _NAMED):
        return {"named": str(given).removeprefix("torch.")}
    raise RuntimeError(
        f"torchair: {target} has the argument {name} {given!r}, which a graph of the virtual NPU "
        "does not hold. Try to register a converter, by torchair.register_fx_node_ge_converter."
    )


def _call(n: Node) -> tuple[Tensor, ...]:
    described, call = json.loads(n.attribute("call"))
    target = _found(described)
    kinds = {argument.name: str(argument.type) for argument in target._schema.arguments}
    given = {name: _value(n, value, kinds[name]) for name, value in call.items()}
    made = target(**given)
    results: list[Any] = []
    returns = made if len(target._schema.returns) > 1 else [made] * len(target._schema.returns)
    for one in returns:  # None where a gradient is not asked for
        results += one if isinstance(one, (tuple, list)) else [one]
    for argument in target._schema.arguments:
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = given.get(argument.name)
            results += value if isinstance(value, list) else [value] * (value is not None)
    return tuple(results)


def _found(described: str) -> OpOverload:
    namespace, name, overload = described.split(".")
    found: OpOverload = getattr(getattr(getattr(torch.ops, namespace), name), overload)
    return found


def _value(n: Node, noted: Any, kind: str) -> Any:
    """kind: the argument's type in the schema. Sizes that are known when the graph runs are
    tensors of the graph.
    """
    if isinstance(noted, list):
        return [_value(n, one, kind) for one in noted]
    if not isinstance(noted, dict):
        return noted
    if "input" not in noted:
        return (
            torch.device(noted["device"]) if "device" in noted else getattr(torch, noted["named"])
        )
    value = n[noted["input"]]
    return value if "Tensor" in kind else value.tolist()


OPERATORS: dict[str, Run] = {TYPE: _call}
