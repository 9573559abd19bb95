# SPDX-License-Identifier: Apache-2.0
"""Calls in compiled programs: what XLA is told of each, and that it runs at all."""

from __future__ import annotations

from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import mlir

from anyop import _anyop
from anyop.jax import _shapes
from anyop.jax._calls import Call

TARGET = "anyop"  # the custom call of every operator


def install(primitive: Primitive) -> None:
    primitive.def_abstract_eval(_shapes.result_avals)
    primitive.def_impl(_run)
    mlir.register_lowering(primitive, _refuse_platform)
    mlir.register_lowering(primitive, _custom_call, platform="cpu")


def _run(*tensors: Any, call: Call) -> Any:
    return call.jitted(*tensors)


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
