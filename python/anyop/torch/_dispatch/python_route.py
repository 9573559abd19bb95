# SPDX-License-Identifier: Apache-2.0
"""The torch operators without a compiled adapter: kernels and gradients in Python.

The same behaviour as bindings/torch, some microseconds more a call, for tensors on the CPU. Those
of devices are refused: streams and memory of torch's devices are not to be had from Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import _C
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad

from anyop import _anyop
from anyop.hosting import gradient, shapes
from anyop.torch._dispatch import autocast, texts
from anyop.torch._dispatch.operators import NAMES, Call, Operator, dtype_name
from anyop.torch._route import route

WORDING = gradient.Wording(
    asks=texts.part("asks"),
    stop=lambda name: texts.part("stop", name=name),
    around=texts.part("around"),
)
Implement = Callable[..., None]  # (torch name, dispatch key, function, with_keyset)


def register(op: Operator, implement: Implement) -> None:
    """Implements every overload of an operator."""
    for overload, schema in op.schemas.items():
        if not schema:
            continue
        name = op.torch_name(overload)
        kernel = _Kernel(op, overload)
        implement(name, "CPU", kernel)
        for key in texts.WRONG_LAYOUT_KEYS:
            implement(name, key, _WrongLayout(op, overload))
        if not op.needs_tensor:  # without any tensor, a call has no key of a device
            implement(name, "CompositeExplicitAutograd", kernel)
        if overload or op.written:
            implement(name, "ADInplaceOrView", _BumpVersions(op, overload), True)
        if overload or (op.written and op.wiring is None):
            implement(name, "Autograd", _RefuseGradients(op, overload), True)
        else:
            implement(name, "Autograd", _Differentiate(op), True)
        if not overload and op.dtype_groups:
            implement(name, "AutocastCPU", autocast.Autocast(op), True)


def refuse_devices(op: Operator, implement: Implement) -> None:
    """Says of every overload that it takes no tensors of devices."""
    for overload, schema in op.schemas.items():
        for key in texts.DEVICE_KEYS if schema else ():
            implement(op.torch_name(overload), key, _OnDevice(op, overload))


class _Kernel:
    """Runs a call on the tensors' memory."""

    def __init__(self, op: Operator, overload: str) -> None:
        self.op, self.overload = op, overload

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        op = self.op
        call = op.bind(self.overload, args, kwargs)
        arguments = tuple(shapes.describe(op, call.values, self.describe, NAMES))
        given: list[Any] = [False if d else None for d in op.declined(call)]
        for i, out in enumerate(call.outs):
            if given[i] is None:
                given[i] = self.describe(op.out_names[i], out)
        made = _anyop.call_memory(op.name, arguments, tuple(given), self.allocate, "torch")
        return op.returned(self.overload, made, call.outs)

    def allocate(self, dtype: str, shape: tuple[int, ...]) -> Any:
        t = torch.empty(shape, dtype=NAMES.dtype(dtype))
        return t, self.describe("", t)

    def describe(self, name: str, t: torch.Tensor) -> Any:
        wrong, words = "", {"name": name, "device": t.device, "rank": t.dim()}
        if t.device.type != "cpu":
            wrong = "device"
        elif t.dim() > 8:
            wrong = "many_dimensions"
        else:
            dtype = dtype_name(self.op, name, t)
            address = t.data_ptr()
            if not address and t.numel():
                wrong = "no_memory"
        if wrong:
            raise _anyop.InvalidArgument(texts.said(wrong, self.op, **words))
        return address, dtype, tuple(t.shape), t.stride()


class _WrongLayout:
    """Names the tensor whose layout no kernel reads."""

    def __init__(self, op: Operator, overload: str) -> None:
        self.op, self.overload = op, overload

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = texts.said("some_layout", self.op)
        call = self.op.bind(self.overload, args, kwargs)
        tensors = [(name, t) for _, name, t in self.op.inputs(call)]
        for name, t in (*tensors, *self.op.written_tensors(self.overload, call)):
            if t.is_quantized or t.is_nested or t.layout != torch.strided:
                found = texts.wrong_layout(self.op, name, _layout(t))
        raise _anyop.InvalidArgument(found)


def _layout(t: torch.Tensor) -> str:
    if t.is_quantized or t.is_nested:
        return "quantized" if t.is_quantized else "nested"
    return "mkldnn" if t.is_mkldnn else "sparse"


class _OnDevice:
    """Names the tensor that is on a device, and how to get what takes such tensors."""

    def __init__(self, op: Operator, overload: str) -> None:
        self.op, self.overload = op, overload

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = self.op.bind(self.overload, args, kwargs)
        tensors = [(name, t) for _, name, t in self.op.inputs(call)]
        tensors += self.op.written_tensors(self.overload, call)
        on_device = (f"{name} is on {t.device}" for name, t in tensors if t.device.type != "cpu")
        raise _anyop.Unsupported(
            f"{self.op.display_name}: {next(on_device, 'a tensor is on a device')}, but must be on "
            "cpu, because only the compiled adapter for torch takes tensors of devices, and "
            f"{route.why_no_adapter()}."
        )


class _BumpVersions:
    """Tells autograd which tensors were written."""

    def __init__(self, op: Operator, overload: str) -> None:
        self.op, self.overload = op, overload

    def __call__(self, keys: Any, *args: Any, **kwargs: Any) -> Any:
        call = self.op.bind(self.overload, args, kwargs)
        written = list(self.op.written_tensors(self.overload, call))
        for name, t in written:
            if t.is_inference() and not torch.is_inference_mode_enabled():
                text = texts.said("inference", self.op, name=name.partition("[")[0])
                raise _anyop.InvalidArgument(text)
        overload = self.op.torch_op(self.overload)
        with _C._AutoDispatchBelowADInplaceOrView():
            result = overload.redispatch(keys & _C._after_ADInplaceOrView_keyset, *args, **kwargs)
        for _, t in written:
            if not t.is_inference():  # inference tensors have no version
                torch.autograd.graph.increment_version(t)
        return result


def _refuse_tangents(op: Operator, tensors: list[tuple[str, torch.Tensor]]) -> None:
    if forward_ad._current_level < 0:
        return
    for name, t in tensors:
        if forward_ad.unpack_dual(t).tangent is not None:
            raise NotImplementedError(texts.said("tangent", op, name=name))


class _RefuseGradients:
    """Refuses gradients of overloads that write into tensors."""

    def __init__(self, op: Operator, overload: str) -> None:
        self.op, self.overload = op, overload

    def __call__(self, keys: Any, *args: Any, **kwargs: Any) -> Any:
        op = self.op
        call = op.bind(self.overload, args, kwargs)
        tensors = [(name, t) for _, name, t in op.inputs(call)]
        if self.overload == "out":  # what the other overloads write is among their inputs
            tensors += op.written_tensors(self.overload, call)
        _refuse_tangents(op, tensors)
        for name, t in tensors if torch.is_grad_enabled() else []:
            if t.requires_grad:
                raise NotImplementedError(texts.said("written_gradient", op, name=name))
        overload = op.torch_op(self.overload)
        with _C._AutoDispatchBelowAutograd():
            return overload.redispatch(keys & _C._after_autograd_keyset, *args, **kwargs)


class _Differentiate:
    """Records the gradient where one is needed."""

    def __init__(self, op: Operator) -> None:
        self.op = op

    def __call__(self, keys: Any, *args: Any, **kwargs: Any) -> Any:
        op = self.op
        call = op.bind("", args, kwargs)
        inputs = list(op.inputs(call))
        _refuse_tangents(op, [(name, t) for _, name, t in inputs])
        if torch.is_grad_enabled():
            needed = [i for i, _, t in inputs if t.requires_grad]
            if needed:
                gradient.refuse_missing(op, call.values, needed, WORDING)
                params, given = [i for i, _, _ in inputs], [t for _, _, t in inputs]
                made = _Function.record(op, keys, call, params, *given)
                return op.returned("", made, [])
        overload = op.torch_op("")
        with _C._AutoDispatchBelowAutograd():
            return overload.redispatch(keys & _C._after_autograd_keyset, *args, **kwargs)


class _Function(torch.autograd.Function):
    """The gradient of any operator, as `.gradient` wires it."""

    @classmethod
    def record(cls, *args: Any) -> Any:
        """`apply` on the level of torch.func's transforms that the dispatcher has chosen already.

        The public `apply` would choose once more.
        """
        with enable_single_level_autograd_function():
            return super(torch.autograd.Function, cls).apply(*args)  # type: ignore[misc]

    @staticmethod
    def forward(
        ctx: Any, op: Operator, keys: Any, call: Call, params: list[int], *tensors: torch.Tensor
    ) -> Any:
        with _C._AutoDispatchBelowAutograd():
            results = op.torch_op("").redispatch(keys & _C._after_autograd_keyset, *call.arguments)
        made = results if isinstance(results, tuple) else (results,)
        ctx.params, ctx.gradient = params, op.gradient
        ctx.set_materialize_grads(False)  # backward makes the zeros that `.gradient` asks for
        ctx.shapes = [None if r is None else (r.shape, r.dtype, r.device) for r in made]
        if op.gradient is None:
            ctx.refusal = gradient.no_gradient(op, WORDING)
            return made
        ctx.overload = op.gradient_operator.torch_op("")
        kept = op.gradient.keep(call.values, made)
        ctx.places = [i for i, value in enumerate(kept) if isinstance(value, torch.Tensor)]
        ctx.save_for_backward(*[kept[i] for i in ctx.places])
        ctx.kept = [None if isinstance(value, torch.Tensor) else value for value in kept]
        used = op.wiring.results if op.wiring else ()
        ctx.mark_non_differentiable(
            *[r for i, r in enumerate(made) if r is not None and i not in used]
        )
        return made

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        """Compiled autograd traces it: it reads nothing but ctx."""
        if ctx.gradient is None:
            raise NotImplementedError(ctx.refusal)
        kept = list(ctx.kept)
        for i, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            kept[i] = tensor

        def zeros(result: int) -> torch.Tensor | None:
            if ctx.shapes[result] is None:
                return None
            shape, dtype, device = ctx.shapes[result]
            return torch.zeros(shape, dtype=dtype, device=device)

        arguments = ctx.gradient.arguments(kept, grads, zeros)
        if ctx.gradient.takes_mask:
            # The first four arguments of forward are no tensors.
            asked = zip(ctx.params, ctx.needs_input_grad[4:], strict=True)
            arguments.append(ctx.gradient.wanted([i for i, is_needed in asked if is_needed]))
        results = ctx.overload(*arguments)
        made = ctx.gradient.by_parameter(results if isinstance(results, tuple) else (results,))
        return (None, None, None, None, *[made.get(i) for i in ctx.params])
