# SPDX-License-Identifier: Apache-2.0
"""The torch operators without a compiled adapter: kernels and gradients in Python.

The same behaviour as bindings/torch, some microseconds more a call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import _C
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad

from anyop import _anyop
from anyop.torch._dispatch import autocast
from anyop.torch._dispatch.fake import describe_all
from anyop.torch._dispatch.operators import (
    TORCH_DTYPES,
    Call,
    Operator,
    dtype_name,
    tensors_of,
)

_WRONG_LAYOUTS = ("SparseCPU", "SparseCsrCPU", "MkldnnCPU", "QuantizedCPU", "NestedTensorCPU")
Implement = Callable[..., None]  # (torch name, dispatch key, function, with_keyset)


def register(op: Operator, implement: Implement) -> None:
    """Implements every overload of an operator."""
    for overload, schema in op.schemas.items():
        if not schema:
            continue
        name = op.torch_name(overload)
        kernel = _Kernel(op, overload)
        implement(name, "CPU", kernel)
        for key in _WRONG_LAYOUTS:
            implement(name, key, _WrongLayout(op, overload))
        if not any(p["kind"] in ("tensor", "tensors") for p in op.params):
            implement(name, "CompositeExplicitAutograd", kernel)
        if overload or any(p.get("mut") for p in op.params):
            implement(name, "ADInplaceOrView", _BumpVersions(op, overload), True)
            implement(name, "Autograd", _RefuseGradients(op, overload), True)
        else:
            implement(name, "Autograd", _Differentiate(op), True)
        if not overload and autocast.groups(op):
            implement(name, "AutocastCPU", autocast.Autocast(op), True)


class _Kernel:
    """Runs a call on the tensors' memory."""

    def __init__(self, op: Operator, overload: str) -> None:
        self.op, self.overload = op, overload

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        op = self.op
        call = op.bind(self.overload, args, kwargs)
        arguments = tuple(describe_all(op, call.values, self.describe))
        given: list[Any] = [False if d else None for d in op.declined(call)]
        for i, out in enumerate(call.outs):
            if given[i] is None:
                given[i] = self.describe(op.out_names[i], out)
        made = _anyop.call_memory(op.name, arguments, tuple(given), self.allocate, "torch")
        return op.returned(self.overload, made, call.outs)

    def allocate(self, dtype: str, shape: tuple[int, ...]) -> Any:
        t = torch.empty(shape, dtype=TORCH_DTYPES[dtype])
        return t, self.describe("", t)

    def describe(self, name: str, t: torch.Tensor) -> Any:
        op = self.op.display_name
        wrong = ""
        address, shape = 0, tuple(t.shape)
        if t.device.type != "cpu":
            wrong = f"is on {t.device}, but must be on cpu. Try {name}.to('cpu')."
        elif len(shape) > 8:
            wrong = f"has {len(shape)} dimensions, but must have at most 8."
        else:
            dtype = dtype_name(op, name, t)
            address = t.data_ptr()
            if not address and t.numel():
                wrong = "has no memory: its storage was resized to nothing."
        if wrong:
            raise _anyop.InvalidArgument(f"{op}: {name} {wrong}")
        return address, dtype, shape, t.stride()


class _WrongLayout:
    """Names the tensor whose layout no kernel reads."""

    def __init__(self, op: Operator, overload: str) -> None:
        self.op, self.overload = op, overload

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = "a tensor has a layout that anyop does not read. Try a dense one."
        for name, t in _inputs(self.op, self.op.bind(self.overload, args, kwargs)):
            if t.is_quantized:
                found = (
                    f"{name} is quantized, but must be a strided tensor. Try {name}.dequantize()."
                )
            elif t.is_nested:
                call = f"{name}.to_padded_tensor(0.0)"
                found = f"{name} is nested, but must be a strided tensor. Try {call}."
            elif t.layout != torch.strided:
                layout = "mkldnn" if t.is_mkldnn else "sparse"
                found = f"{name} is {layout}, but must be a strided tensor. Try {name}.to_dense()."
        raise _anyop.InvalidArgument(f"{self.op.display_name}: {found}")


class _BumpVersions:
    """Tells autograd which tensors were written."""

    def __init__(self, op: Operator, overload: str) -> None:
        self.op, self.overload = op, overload

    def __call__(self, keys: Any, *args: Any, **kwargs: Any) -> Any:
        call = self.op.bind(self.overload, args, kwargs)
        written = list(self.op.written(self.overload, call))
        for name, t in written:
            if t.is_inference() and not torch.is_inference_mode_enabled():
                raise _anyop.InvalidArgument(
                    f"{self.op.display_name}: {name.partition('[')[0]} is an inference tensor, but "
                    "is written outside inference mode. Try a clone()."
                )
        overload = self.op.torch_op(self.overload)
        with _C._AutoDispatchBelowADInplaceOrView():
            result = overload.redispatch(keys & _C._after_ADInplaceOrView_keyset, *args, **kwargs)
        for _, t in written:
            if not t.is_inference():
                torch.autograd.graph.increment_version(t)
        return result


def _inputs(op: Operator, call: Call) -> list[tuple[str, torch.Tensor]]:
    pairs = zip(op.params, call.values, strict=True)
    return [found for p, value in pairs for found in tensors_of(p["name"], value)]


def _refuse_tangents(op: Operator, tensors: list[tuple[str, torch.Tensor]]) -> None:
    if forward_ad._current_level < 0:
        return
    for name, t in tensors:
        if forward_ad.unpack_dual(t).tangent is not None:
            raise NotImplementedError(
                f"{op.display_name}: {name} has a tangent, but anyop's operators have no "
                "forward-mode derivative. Try torch.func.vjp."
            )


class _RefuseGradients:
    """What writes into tensors cannot be differentiated."""

    def __init__(self, op: Operator, overload: str) -> None:
        self.op, self.overload = op, overload

    def __call__(self, keys: Any, *args: Any, **kwargs: Any) -> Any:
        op = self.op
        call = op.bind(self.overload, args, kwargs)
        tensors = _inputs(op, call)
        if self.overload == "out":
            tensors += op.written(self.overload, call)
        _refuse_tangents(op, tensors)
        for name, t in tensors if torch.is_grad_enabled() else []:
            if t.requires_grad:
                raise NotImplementedError(
                    f"{op.display_name}: {name} requires grad, but this call writes into its "
                    "arguments, which cannot be differentiated. Try torch.no_grad() or detach()."
                )
        overload = op.torch_op(self.overload)
        with _C._AutoDispatchBelowAutograd():
            return overload.redispatch(keys & _C._after_autograd_keyset, *args, **kwargs)


def _refuse_missing_gradients(op: Operator, call: Call, needing: list[str]) -> None:
    """Refuses what the gradient would silently lack. needing: the tensors that require grad."""
    if not op.gradient:
        return  # backward says so
    for name in needing:
        if name not in op.gradient["targets"]:
            param = name.partition("[")[0]
            raise NotImplementedError(
                f"{op.display_name}: {param} requires grad, but {op.display_name} has no gradient "
                f"for it. Try {param}.detach()."
            )
    taken = op.gradient_operator
    words = {p["name"]: p.get("words") for p in taken.params}
    for p, value in zip(op.params, call.values, strict=True):
        known = words.get(p["name"])
        if known and value not in known:
            shown = " or ".join(f"'{word}'" for word in known)
            raise NotImplementedError(
                f"{op.display_name}: {p['name']} is '{value}', but must be {shown} where a "
                f"gradient is needed, because {taken.display_name} takes no other. "
                "Try torch.no_grad() around the call, or detach() its arguments."
            )


class _Differentiate:
    """Records the gradient where one is needed."""

    def __init__(self, op: Operator) -> None:
        self.op = op

    def __call__(self, keys: Any, *args: Any, **kwargs: Any) -> Any:
        op = self.op
        call = op.bind("", args, kwargs)
        tensors = _inputs(op, call)
        _refuse_tangents(op, tensors)
        if torch.is_grad_enabled():
            needing = [n for n, t in tensors if t.requires_grad]
            if needing:
                _refuse_missing_gradients(op, call, needing)
                names, given = [n for n, _ in tensors], [t for _, t in tensors]
                made = _Function.record(op, keys, call, names, *given)
                return op.returned("", made, [])
        overload = op.torch_op("")
        with _C._AutoDispatchBelowAutograd():
            return overload.redispatch(keys & _C._after_autograd_keyset, *args, **kwargs)


class _Function(torch.autograd.Function):
    """The gradient of any operator, as `.gradient` wires it."""

    @classmethod
    def record(cls, *args: Any) -> Any:
        """apply, where a transform of torch.func has chosen the level already."""
        with enable_single_level_autograd_function():
            return super(torch.autograd.Function, cls).apply(*args)  # type: ignore[misc]

    @staticmethod
    def forward(
        ctx: Any, op: Operator, keys: Any, call: Call, names: list[str], *tensors: torch.Tensor
    ) -> Any:
        mask = () if call.mask is None else (call.mask,)
        with _C._AutoDispatchBelowAutograd():
            results = op.torch_op("").redispatch(
                keys & _C._after_autograd_keyset, *call.values, *mask
            )
        made = results if isinstance(results, tuple) else (results,)
        ctx.op, ctx.names = op, names
        ctx.set_materialize_grads(False)
        ctx.shapes = [None if r is None else (r.shape, r.dtype, r.device) for r in made]
        ctx.refusal = (
            f"{op.display_name}: it has no gradient, but one was asked for. "
            "Try torch.no_grad() around the call, or detach() its arguments."
        )
        ctx.wiring = _save(ctx, call, made) if op.gradient else None
        return made

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        """Compiled autograd traces it: it reads nothing but ctx."""
        if ctx.wiring is None:
            raise NotImplementedError(ctx.refusal)
        saved = ctx.saved_tensors
        arguments: list[Any] = []
        for kind, at, value, is_optional in ctx.wiring.sources:
            if kind == "result_gradient":
                grad = grads[at]
                if grad is None and not is_optional and ctx.shapes[at] is not None:
                    shape, dtype, device = ctx.shapes[at]
                    grad = torch.zeros(shape, dtype=dtype, device=device)
                arguments.append(grad)
            else:
                arguments.append(value if at is None else saved[at])
        needed = dict(zip(ctx.names, ctx.needs_input_grad[4:], strict=True))
        mask = [needed.get(name, False) for name in ctx.wiring.targets]
        results = ctx.wiring.overload(*arguments, *([mask] if ctx.wiring.takes_mask else []))
        made = results if isinstance(results, tuple) else (results,)
        by_name = dict(zip(ctx.wiring.targets, made, strict=True))
        return (None, None, None, None, *[by_name.get(name) for name in ctx.names])


@dataclass
class _Wiring:
    """How backward calls the gradient."""

    overload: Any
    takes_mask: bool
    targets: list[str]
    # (kind, which result's gradient or saved tensor, a value that is no tensor, is optional)
    sources: list[tuple[str, int | None, Any, bool]]


def _save(ctx: Any, call: Call, made: Any) -> _Wiring:
    """Keeps what the gradient reads, and nothing else."""
    op = ctx.op
    gradient = op.gradient_operator
    values = dict(zip([p["name"] for p in op.params], call.values, strict=True))
    names = [r["name"] for r in op.results]
    results = dict(zip(names, made, strict=True))
    tensors: list[torch.Tensor] = []
    sources: list[tuple[str, int | None, Any, bool]] = []
    for (kind, name), param in zip(op.gradient["sources"], gradient.params, strict=True):
        is_optional = bool(param.get("optional"))
        if kind == "result_gradient":
            sources.append((kind, names.index(name), None, is_optional))
            continue
        value = values[name] if kind == "param" else results[name]
        if isinstance(value, torch.Tensor):
            sources.append((kind, len(tensors), None, is_optional))
            tensors.append(value)
        else:
            sources.append((kind, None, value, is_optional))
    ctx.save_for_backward(*tensors)
    used = {name for kind, name in op.gradient["sources"] if kind == "result_gradient"}
    other = [r for name, r in results.items() if r is not None and name not in used]
    ctx.mark_non_differentiable(*other)
    takes_mask = "output_mask" in gradient.schemas[""]
    return _Wiring(gradient.torch_op(""), takes_mask, op.gradient["targets"], sources)
