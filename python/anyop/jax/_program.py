# SPDX-License-Identifier: Apache-2.0
"""Calls in compiled programs: what XLA is told of each, and that it runs at all."""

from __future__ import annotations

from typing import Any

import jax
from jax._src import dispatch
from jax._src.core import Primitive
from jax.interpreters import mlir

from anyop import _anyop
from anyop.jax import _shapes, _shards
from anyop.jax._calls import Call

TARGET = "anyop"  # the custom call of every operator


# The call of one device, in programs that XLA divides: the operator's own primitive would be
# divided again.
_whole = Primitive("anyop.whole")
_whole.multiple_results = True
_whole.def_abstract_eval(_shapes.result_avals)


def install(primitive: Primitive) -> None:
    primitive.def_abstract_eval(_shapes.result_avals)
    primitive.def_impl(_run)
    # `_lower` asks whether the program runs on several devices.
    dispatch.prim_requires_devices_during_lowering.add(primitive)
    mlir.register_lowering(primitive, _refuse_platform)
    mlir.register_lowering(primitive, _lower, platform="cpu")


def _run(*tensors: Any, call: Call) -> Any:
    """Compiled even under `jax.disable_jit`: there is nothing inside that could be stepped through,
    and `jitted` would only get here again.
    """
    with jax.disable_jit(False):
        return call.jitted(*tensors)


def _lower(context: Any, *operands: Any, call: Call) -> Any:
    if not _shards.is_divided(context.module_context.axis_context):
        return _custom_call(context, *operands, call=call)

    def one(*tensors: Any) -> list[Any]:
        made: list[Any] = _whole.bind(*tensors, call=call)
        return made

    types = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in context.avals_in]
    function = _shards.divided(call, one, types)
    return mlir.lower_fun(function, multiple_results=True)(context, *operands)


def _custom_call(context: Any, *operands: Any, call: Call) -> Any:
    """One custom call. What it writes has the memory of the input that it was, so that XLA copies
    only what somebody else still reads.
    """
    aliases = {k: r for r, k in enumerate(call.written)}
    rule = jax.ffi.ffi_lowering(TARGET, operand_output_aliases=aliases)
    return rule(context, *operands, call=call.text, contract=call.contract)


def _refuse_platform(context: Any, *operands: Any, call: Call) -> Any:
    platforms = context.module_context.platforms
    raise _anyop.Unsupported(
        f"{call.op.display_name}: the call is compiled for {', '.join(platforms)}, but anyop's "
        "kernels run on the CPU. Try jax.device_put(x, jax.devices('cpu')[0]) of its arguments."
    )


mlir.register_lowering(_whole, _custom_call, platform="cpu")
