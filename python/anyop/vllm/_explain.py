# SPDX-License-Identifier: Apache-2.0
"""What of a model runs on anyop in vLLM, by which kernels, and why the rest does not."""

from __future__ import annotations

import dataclasses
import importlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import torch

import anyop
from anyop import _anyop
from anyop.vllm import _classes, _native, _providers, _tables, _trial

WORKER = "anyop.vllm._worker.AnyopCpuWorker"
THEIRS = ("auto", "vllm.v1.worker.cpu_worker.CPUWorker")

# Why a layer stays vLLM's own: who asked for it, or a lack of ours.
CUSTOM_OPS, PRIORITY, LACK, SUBCLASS, PLUGIN, TORCH = (
    "custom_ops", "ir_op_priority", "no operator", "subclass", "another plug-in", "torch",
)  # fmt: skip
# Modules of torch that compute nothing.
STRUCTURE = ("Identity", "Dropout", "Flatten", "Unflatten")


@dataclasses.dataclass
class Line:
    """A kind of layer in a model, an operator of vLLM IR, or a name of the extension `_C`."""

    name: str
    kind: str  # layer, ir or _C
    switch: str  # the name that vLLM's options call it by
    operator: str  # ours, with libraries' names; "" if there is none, or a function in Python
    instances: int | None
    replaced: bool
    cause: str  # why not: one of the words above; "" if it is replaced
    why: str  # in words
    kernels: dict[str, int]  # calls of each kernel of the operator so far
    calls: int | None  # of the operator; None if nobody counts them


def announce(vllm_config: Any) -> None:
    """Has workers say at their start what runs on anyop, and answer `explain`."""
    parallel = vllm_config.parallel_config
    if parallel.worker_cls in THEIRS:
        parallel.worker_cls = WORKER
    # Part of the key of compiled models that vLLM keeps: one that calls another operator is
    # another one.
    if isinstance(vllm_config.additional_config, dict):
        vllm_config.additional_config["anyop"] = _classes.identity()


def lines(model: Any, custom_ops: list[str]) -> list[Line]:
    """Of the model of this process."""
    kernels = _kernels()
    found = Counter(map(_key, _layers_of(model)))
    made = [_layer(cls, is_on, n, kernels, custom_ops) for (cls, is_on), n in found.items()]
    others = (*_quantized(model), *_looped(model), *_torch(model))
    layers = [*(line for line in made if line is not None), *others]
    norms = sum(_goes_through_ir(cls, is_on) * n for (cls, is_on), n in found.items())
    ir = _ir(norms, kernels) if norms else ()
    return [*sorted(layers, key=lambda line: line.name), *ir, *_extension(kernels)]


def _goes_through_ir(cls: type, is_on: bool) -> bool:
    names = {base.__name__ for base in cls.__mro__}
    return bool(names & {"RMSNorm", "GemmaRMSNorm"}) and not (_made(cls) and is_on)


def _kernels() -> dict[str, dict[str, int]]:
    counted: dict[str, dict[str, int]] = {}
    calls = _trial.without({(row.op, row.kernel): row.calls for row in anyop.counters()})
    for (operator, kernel), n in calls.items():
        if n:
            counted.setdefault(operator, {})[kernel] = n
    return counted


def _line(name: str, kind: str, switch: str, operator: str, **more: Any) -> Line:
    return Line(name, kind, switch, operator, **more)


# ---- layers ---------------------------------------------------------------------------------


def _layers_of(model: Any) -> Iterator[Any]:
    oot = importlib.import_module("vllm.model_executor.custom_op")
    for module in model.modules():
        if isinstance(module, (oot.CustomOp, oot.PluggableLayer)) or _made(type(module)):
            yield module


def _made(cls: type) -> _classes.Replacement | None:
    return vars(cls).get("_anyop")


def _key(layer: Any) -> tuple[type, bool]:
    """What tells layers apart: their class, and whether the replacement is switched on."""
    cls = type(layer)
    if method := vars(cls).get("_anyop_method"):
        return cls, type(layer.quant_method) is method
    if hasattr(layer, "_forward_method"):
        used = getattr(layer._forward_method, "__func__", None)
        return cls, used is vars(cls).get("forward_cpu", "")
    return cls, "forward" not in vars(layer)


def _layer(
    cls: type, is_on: bool, n: int, kernels: dict[str, dict[str, int]], custom_ops: list[str]
) -> Line | None:
    if made := _made(cls):
        run = _sum(kernels, made.operators)
        cause, why = ("", "") if is_on else _switched_off(made, custom_ops)
        if is_on and made.by != "anyop":
            why = f"by {made.by}"
        return _line(
            made.layer, "layer", made.switch, ", ".join(made.operators), instances=n,
            replaced=is_on, cause=cause, why=why, kernels=run if is_on else {},
            calls=sum(run.values()) if is_on and made.operators else None,
        )  # fmt: skip
    if cls.__name__ in _tables.COMPOSED:
        return None
    cause, why = _why_not(cls)
    switch = str(getattr(cls, "name", ""))
    return _unreplaced(cls.__name__, switch, n, cause, why)


def _sum(kernels: dict[str, dict[str, int]], operators: Iterable[str]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for operator in operators:
        total.update(kernels.get(operator, {}))
    return dict(total)


def _unreplaced(name: str, switch: str, n: int, cause: str, why: str) -> Line:
    return _line(
        name, "layer", switch, "", instances=n, replaced=False, cause=cause, why=why, kernels={},
        calls=None,
    )  # fmt: skip


def _quantized(model: Any) -> Iterator[Line]:
    """Layers with quantized weights that methods of vLLM's own compute with."""
    methods = Counter(
        (type(layer).__name__, type(layer.quant_method).__name__)
        for layer in _layers_of(model)
        if getattr(layer, "quant_method", None) is not None and not _has_kernel(layer)
    )
    for (layer, method), n in methods.items():
        if method not in _tables.PLAIN_METHODS:
            yield _unreplaced(layer, "", n, LACK, f"its weights are of {method}")


def _has_kernel(layer: Any) -> bool:
    """Whether a name of `_C` that anyop has multiplies by its weights."""
    holders = (layer.quant_method, getattr(layer, "scheme", None))
    kernels = (type(getattr(holder, "kernel", None)).__name__ for holder in holders)
    return any(name in ("CPUWNA16LinearKernel", "CPUInt8ScaledMMLinearKernel") for name in kernels)


def _looped(model: Any) -> Iterator[Line]:
    """Experts that vLLM 0.27 computes one by one: its own build has no kernel for some processors,
    and where anyop takes over from a build (ANYOP_VLLM=override), it takes only what that has.
    """
    methods = [getattr(layer, "quant_method", None) for layer in _layers_of(model)]
    kernels = [getattr(method, "cpu_fused_moe", None) for method in methods]
    n = sum(
        getattr(getattr(kernel, "forward_method", None), "__name__", "") == "forward_torch"
        for kernel in kernels
    )
    if n:
        why = "vLLM loops over experts in torch"
        yield _unreplaced("FusedMoE", "", n, LACK, why)


def _torch(model: Any) -> Iterator[Line]:
    """Layers of torch's own, which a model uses as they are."""
    found = Counter(
        type(module).__name__
        for module in model.modules()
        if type(module).__module__.startswith("torch.nn.modules.")
        and not any(True for _ in module.children())
    )
    for name, n in found.items():
        if not name.startswith(STRUCTURE) and not name.endswith(("List", "Dict", "Sequential")):
            why = "a layer of torch's, which vLLM lets nobody replace"
            yield _unreplaced(f"torch.nn.{name}", "", n, TORCH, why)


def _switched_off(made: _classes.Replacement, custom_ops: list[str]) -> tuple[str, str]:
    asked = [op for op in custom_ops if op in ("all", "none") or op[1:] == made.switch]
    if "all" in asked and len(asked) == 1:
        return LACK, "its weights are not plain"
    return CUSTOM_OPS, f"custom_ops has {', '.join(asked) or 'nothing'}"


def _why_not(cls: type) -> tuple[str, str]:
    oot = importlib.import_module("vllm.model_executor.custom_op")
    if cls in oot.op_registry_oot.values():
        return PLUGIN, f"{cls.__module__}.{cls.__qualname__} takes its place"
    for row in _tables.NATIVE:
        if row.layer == cls.__name__:
            return LACK, row.why
    for base in cls.__mro__[1:]:
        name = base.__name__
        if is_replaced(name):
            return SUBCLASS, f"a subclass of {name}, and vLLM replaces classes by their exact name"
    return LACK, "anyop's table of layers does not have it; anyop.vllm.replace takes an operator"


def is_replaced(layer: str) -> bool:
    made = _classes.register()
    return layer in _classes.users() or any(layer == one.layer for one in made)


# ---- vLLM IR and the extension --------------------------------------------------------------


def _ir(norms: int, kernels: dict[str, dict[str, int]]) -> Iterator[Line]:
    try:
        registry = importlib.import_module("vllm.ir.op").IrOp.registry
    except ModuleNotFoundError:
        return
    for name, ours in _tables.IR.items():
        priority = registry[name].get_priority() or ["native"]
        run = kernels.get(f"anyop.{ours}", {})
        is_on = priority[0] == _providers.PROVIDER
        yield _line(
            name, "ir", name, f"anyop.{ours}", instances=norms, replaced=is_on,
            cause="" if is_on else PRIORITY,
            why="" if is_on else f"ir_op_priority has {', '.join(priority)}",
            kernels=run if is_on else {}, calls=sum(run.values()) if is_on else None,
        )  # fmt: skip


def _extension(kernels: dict[str, dict[str, int]]) -> Iterator[Line]:
    """Names of `_C` that were called."""
    try:
        dropin = importlib.import_module("anyop.vllm._dropin")
    except ModuleNotFoundError:
        return
    operators = {row.name: row.operators for row in dropin.rows(_release())}
    for name, calls in sorted(_trial.without(dropin.counters()).items()):
        if calls:
            ours = [f"anyop.{operator}" for operator in operators.get(name, ())]
            yield _line(
                name, "_C", "", ", ".join(ours), instances=None, replaced=True, cause="", why="",
                kernels=_sum(kernels, ours), calls=calls,
            )  # fmt: skip


def _release() -> str:
    return str(importlib.import_module("vllm").__version__).partition("+")[0]


# ---- workers --------------------------------------------------------------------------------


def of_worker(worker: Any) -> dict[str, Any]:
    """What a worker answers: plain data, which vLLM can send."""
    config = worker.vllm_config
    priority = getattr(config.kernel_config, "ir_op_priority", None)
    return {
        "rank": int(worker.rank),
        "pid": os.getpid(),
        "vllm": str(importlib.import_module("vllm").__version__),
        "anyop": anyop.__version__,
        "dtype": str(config.model_config.dtype).removeprefix("torch."),
        "threads": min(anyop.get_num_threads(), torch.get_num_threads()),  # as calls use them
        "custom_ops": list(config.compilation_config.custom_ops),
        "ir_op_priority": dataclasses.asdict(priority) if priority else {},
        "strict": _anyop.is_strict(),
        "lines": [dataclasses.asdict(line) for line in _lines_of(worker)],
        "native": [[what, why, n] for (what, why), n in sorted(_native.calls.items())],
    }


def _lines_of(worker: Any) -> list[Line]:
    return lines(worker.get_model(), worker.vllm_config.compilation_config.custom_ops)


def after_load(worker: Any) -> None:
    """One line per engine; in strict mode an error where a layer has no operator of ours."""
    found = [line for line in _lines_of(worker) if line.kind != "_C"]
    if _anyop.is_strict():
        _refuse([line for line in found if line.cause in (LACK, SUBCLASS)])
    if worker.rank == 0:
        _native.log.info("%s", summary(found))


def _refuse(missing: list[Line]) -> None:
    if missing:
        named = "; ".join(f"{line.name} ({line.why})" for line in missing)
        raise _anyop.Unsupported(
            f"anyop.vllm: layers of the model have no operator of anyop: {named}, but strict mode "
            f"allows no other code to run. Give them one with anyop.vllm.replace, or unset "
            f"ANYOP_STRICT."
        )


def summary(found: list[Line]) -> str:
    parts = []
    for kind, words in (("layer", "kinds of layers"), ("ir", "operators of vLLM IR")):
        of_kind = [line for line in found if line.kind == kind]
        if of_kind:
            on = [line.name for line in of_kind if line.replaced]
            names = f" ({', '.join(on)})" if on else ""
            parts.append(f"{len(on)} of {len(of_kind)} {words}{names}")
    native = [f"{line.name} ({line.why})" for line in found if not line.replaced]
    rest = f"; not: {', '.join(native)}" if native else ""
    return f"anyop {anyop.__version__} runs {', '.join(parts) or 'nothing'}{rest}"


# ---- explain --------------------------------------------------------------------------------


class Report(list[dict[str, Any]]):
    """What each worker answered, the first rank first. `str()` gives it for people."""

    def __str__(self) -> str:
        return "\n\n".join(map(_text, self))

    __repr__ = __str__


def explain(llm: Any) -> Report:
    """What of a model runs on anyop, and why the rest does not, from each worker of an engine.

        print(anyop.vllm.explain(llm))        # llm: a vllm.LLM

    A list of a dict per worker: `lines` has one for each kind of layer, operator of vLLM IR and
    name of `_C`, with the kernels that ran and their calls so far. NotAvailable if the engine's
    workers are not anyop's.
    """
    worker = llm.llm_engine.vllm_config.parallel_config.worker_cls
    if worker != WORKER:
        raise _anyop.NotAvailable(
            f"anyop.vllm.explain: the engine's worker is {worker}, but only {WORKER} answers: the "
            f"plug-in is off, or worker_cls was given. Try anyop doctor."
        )
    return Report(sorted(llm.collective_rpc("anyop_explain"), key=lambda of: int(of["rank"])))


def _text(worker: dict[str, Any]) -> str:
    titles = ("name", "runs on", "n", "kernels: calls", "why")
    rows = [_columns(line) for line in worker["lines"]]
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    table = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in (titles, *rows)
    ]
    switches = f"custom_ops {', '.join(worker['custom_ops'])}"
    for name, providers in worker["ir_op_priority"].items():
        switches += f"; ir_op_priority {name} {', '.join(providers)}"
    threads = f"{worker['threads']} thread{'s' * (worker['threads'] != 1)}"
    head = (
        f"worker {worker['rank']} (process {worker['pid']}): vLLM {worker['vllm']}, anyop "
        f"{worker['anyop']}, {worker['dtype']}, {threads}{', strict' if worker['strict'] else ''}"
    )
    native = [f"{n} calls of {what} on vLLM's own code: {why}" for what, why, n in worker["native"]]
    return "\n".join([head, switches, *table, *native])


def _columns(line: dict[str, Any]) -> tuple[str, ...]:
    kernels = ", ".join(f"{kernel}: {n}" for kernel, n in line["kernels"].items())
    if line["kind"] == "_C":  # several names may share an operator
        kernels = ", ".join([*line["kernels"], str(line["calls"])])
    nothing = "anyop" if line["kind"] == "_C" else "a function"
    runs_on = (line["operator"] or nothing) if line["replaced"] else "vLLM"
    n = "" if line["instances"] is None else str(line["instances"])
    return line["name"], runs_on, n, kernels, line["why"]
