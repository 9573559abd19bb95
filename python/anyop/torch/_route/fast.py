# SPDX-License-Identifier: Apache-2.0
"""The fast path: eager calls with plain CPU tensors go from Python straight to the kernel.

It reads torch's tensors without linking torch, so what it relies on is measured here, on tensors
made for the purpose, and compared with what torch itself says. Where anything differs, the fast
path stays off, every call goes through torch's dispatcher, and `anyop doctor` tells why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from anyop import _anyop
from anyop.hosting import when_imported
from anyop.hosting.facts import Operator
from anyop.hosting.sentences import clause
from anyop.torch._route import route
from anyop.torch._route.numbers import MAKERS

_reason = "not started"


def _keys(t: torch.Tensor) -> int:
    keys: int = torch._C._dispatch_keys(t).raw_repr()
    return keys


def _probes() -> list[tuple[object, ...]]:
    """Tensors, each with the values that are searched for in its memory.

    They differ in every field: an offset is taken only if it alone fits all of them.
    """
    plain = torch.zeros(7, 11, 13)
    tensors = [
        plain,
        plain[3:, 2].t(),
        torch.zeros(3, 5, dtype=torch.bfloat16)[1:],
        torch.zeros(17, dtype=torch.int64)[5:],
        torch.zeros(2, requires_grad=True),
        torch.zeros(4, 9, dtype=torch.float64, requires_grad=True),
        torch.zeros(6, dtype=torch.int32),
        torch.zeros(2, dtype=torch.float16)[:1],
        torch._neg_view(plain),
        torch.frombuffer(bytearray(12), dtype=torch.float32),  # memory of another owner
    ]
    return [
        (
            t,
            t.untyped_storage()._cdata,
            t.untyped_storage().data_ptr(),
            _keys(t),
            t.storage_offset(),
            t.dtype,
            tuple(t.shape),
            t.stride(),
            # autograd's fields: 1 with them, 0 without, -1 unknown: torch gives them to some views
            1 if t.requires_grad else -1 if t._is_view() else 0,
        )
        for t in tensors
    ]


def _calibrate() -> str:
    from torch.autograd import forward_ad

    with torch.inference_mode():
        inference_keys = _keys(torch.empty(2))
    return _anyop.torch_calibrate(forward_ad, _probes(), _keys(torch.empty(2)), inference_keys)


def _sees_rightly() -> str:
    """What the fast path sees of tensors, compared with torch: "" or the first difference."""
    base = torch.zeros(3, 4, 5)
    # Up to 5 dimensions lie in the tensor itself; torch keeps more of them behind a pointer.
    deep = torch.zeros(1, 2, 1, 2, 3, 2, 2).transpose(1, 4)
    views = [base, base[1:, 2], base.transpose(0, 2), base[0, 0, 0], base[:0], base[:, :1], deep]
    dtypes = (torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.bool)
    for view in views:
        for t in (view, view.contiguous(), view.expand(2, *view.shape), *(map(view.to, dtypes))):
            address, _, shape, strides = _anyop.torch_view(t)
            # torch says 0 for the address of a tensor without elements, wherever its memory is.
            address = address if t.numel() else t.data_ptr()
            seen = (address, shape, t.is_contiguous() if strides is None else strides)
            if seen != (t.data_ptr(), tuple(t.shape), strides is None or t.stride()):
                return f"a tensor of shape {tuple(t.shape)} is seen as {shape}, {strides}"
    made = _anyop.torch_empty("bf16", (3, 5))
    if (made.dtype, tuple(made.shape), made.is_contiguous()) != (torch.bfloat16, (3, 5), True):
        return "allocated tensors are not what was asked for"
    if _keys(made) != _keys(torch.empty(2)) or made.requires_grad or made._version != 0:
        return "allocated tensors are not like torch's"
    return ""


def _refuses_rightly() -> str:
    """Each of these must go through the dispatcher: "", or the first that would not."""
    plain = torch.zeros(2, 2)
    cases: dict[str, torch.Tensor] = {
        "requires_grad": torch.zeros(2, requires_grad=True),
        "negative": torch._neg_view(plain),
        "meta": torch.empty(2, device="meta"),
        "sparse": torch.zeros(2, 2).to_sparse(),
        "conjugate": torch.zeros(2, dtype=torch.complex64).conj(),
    }
    for name, t in cases.items():
        if not _anyop.torch_reason(t):
            return f"a tensor ({name}) that needs the dispatcher would not get it"
    if _anyop.torch_reason(plain):
        return f"a plain tensor is refused: {_anyop.torch_reason(plain)}"
    return ""


def start() -> str:
    """Turns the fast path on if this torch is what it expects. Returns why not, or ""."""
    global _reason
    _anyop.torch_know(torch)
    # Two pools that take turns keep each other's threads from the cores: with ours beside torch's,
    # a chain of both takes up to 1.7 times as long.
    _anyop.torch_threads("torch")
    _anyop.torch_enable(False, 0, 0)
    adapter = route.adapter()
    try:
        _reason = _calibrate()
        if not _reason:
            if adapter:
                _anyop.torch_set_functions(adapter.empty, adapter.device_of)
            # A thread's keys are 0, except within inference mode, which the fast path takes too.
            with torch.inference_mode():
                keys = _anyop.torch_thread_keys()
            _anyop.torch_enable(True, *keys)
            with torch.no_grad():
                _reason = _sees_rightly()
            # requires_grad is a reason for the dispatcher only while gradients are recorded.
            with torch.enable_grad():
                _reason = _reason or _refuses_rightly()
    except Exception as error:  # whatever another torch raises: its calls take the dispatcher
        _reason = f"{type(error).__name__}: {clause(error)}"
    if _reason:
        _anyop.torch_enable(False, 0, 0)
    return _reason


def status() -> dict[str, Any]:
    """`{"active": bool, "reason": str}`: whether eager calls skip the dispatcher, or why not."""
    return {"active": not _reason, "reason": _reason}


_pending: list[tuple[Callable[..., Any], Any, Any, Any]] = []


def trace_as(function: Callable[..., Any], default: Any, out: Any, op: Operator) -> None:
    """Makes torch.compile trace `function` as the torch operator of the same signature.

    Takes effect when torch's tracer is imported, which costs seconds and which few programs do.
    One hook serves all functions that wait; once the tracer is there, it runs at once.
    """
    _pending.append((function, default, out, op))
    if len(_pending) == 1:
        when_imported("torch._dynamo", _substitute_pending)


def _substitute_pending() -> None:
    from torch._dynamo.decorators import substitute_in_graph

    while _pending:
        row = _pending.pop()
        substitute_in_graph(row[0], skip_signature_check=True)(_traced(*row))


def _traced(
    function: Callable[..., Any], default: Any, out_overload: Any, op: Operator
) -> Callable[..., Any]:
    """The function that torch.compile traces in place of `function`."""
    named: Any = _anyop.result_type(function)
    names = named._fields if named else ()
    takes_mask = op.takes_mask
    makers = {p.name: MAKERS[p.kind] for p in op.params if p.kind in MAKERS}
    by_place = [makers.get(p.name) for p in op.params]
    optional = op.left_out_by_keyword  # torch's schemas have no default there

    def traced(
        *args: Any, out: Any = None, policy: Any = None, like: Any = None, **kwargs: Any
    ) -> Any:
        if policy is not None:
            raise ValueError("policy= cannot be compiled. Try `with anyop.policy(...)` around.")
        args = tuple([a if make is None else make(a) for make, a in zip(by_place, args)])  # noqa: B905
        for name, make in makers.items():
            if name in kwargs:
                kwargs[name] = make(kwargs[name])
        for name, place in optional.items():
            if place >= len(args):
                kwargs.setdefault(name, None)
        if out is None:
            result = default(*args, **kwargs)
            return named(*result) if named else result
        if not names:
            if out is False:
                return None
            out_overload(*args, out=out, **kwargs)
            return out
        if all(t is not None and t is not False for t in out):
            given = {f"out_{name}": t for name, t in zip(names, out, strict=True)}
            out_overload(*args, **given, **kwargs)
            return named(*out)
        if takes_mask:
            kwargs["output_mask"] = [t is not False for t in out]
        made = default(*args, **kwargs)
        return named(*[_place(m, t) for m, t in zip(made, out, strict=True)])

    return traced


def _place(made: Any, out: Any) -> Any:
    """A result where the caller wants it. out: None for anywhere, False for nowhere."""
    return made if out is None or out is False or made is None else out.copy_(made)
