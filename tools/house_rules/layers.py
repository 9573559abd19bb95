# SPDX-License-Identifier: Apache-2.0
"""Rules about what may use what, as ARCHITECTURE.md says: arrows point down, in no circle."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from house_rules.imports import LATE, Import, imports, module_name
from house_rules.tree import CPP, Breach, Tree, is_test, line_of

_SOURCE = (
    "include/anyop",
    "src/platform",
    "src/signature",
    "src/runtime",
    "src/graph",
    "src/hosting",
)


def _graph(*rooms: str) -> tuple[str, ...]:
    return (*_SOURCE[:4], *(f"src/graph/{room}" for room in rooms))


def _runtime(*rooms: str) -> tuple[str, ...]:
    return (*_SOURCE[:3], *(f"src/runtime/{room}" for room in rooms))


# The folder of a file, and the folders that it may include; the longest that fits decides. Every
# folder may include itself.
CPP_LAYERS: dict[str, tuple[str, ...]] = {
    "include/anyop": (),
    "src/platform": _SOURCE[:1],
    "src/signature": _SOURCE[:2],
    "src/runtime": _SOURCE[:4],  # its front, above its rooms
    "src/runtime/memory": _runtime(),
    "src/runtime/device": _runtime(),
    "src/runtime/registry": _runtime("memory", "device"),
    "src/runtime/plan": _runtime("memory", "device", "registry"),
    "src/runtime/run": _runtime("memory", "device", "registry", "plan"),
    "src/runtime/observe": _runtime("memory", "device", "registry", "plan", "run"),
    "src/graph": _SOURCE[:5],  # its front, above its rooms
    "src/graph/ir": _graph(),
    "src/graph/builder": _graph("ir"),
    "src/graph/memory": _graph("ir"),
    "src/graph/specialise": _graph("ir", "memory"),
    "src/graph/replay": _graph("ir", "memory", "specialise"),
    "src/graph/passes": _graph("ir", "builder", "memory", "replay"),
    "src/graph/saved": _graph("ir", "builder"),
    "src/hosting": _SOURCE[:5],
    "programs": ("include/anyop",),
    "examples": ("include/anyop", "ascend/include"),
    "devices": ("include/anyop", "ascend/include"),
    # The table of a device; and nothing includes it but kernels in its dialect.
    "ascend": ("include/anyop",),
    "ops": ("include/anyop", "ops/common", "ascend/include"),
    "optest": (*_SOURCE[:4],),
    "tests": (*_SOURCE, "bindings"),
    "bindings": _SOURCE,
    "bindings/torch": _SOURCE[:4],
    "bindings/vllm": (*_SOURCE[:4], "bindings/torch"),  # in the adapter of torch
    "bindings/mindspore": _SOURCE[:1],
    "python/anyop/template": ("include/anyop",),
    "python/anyop/template_ops": ("include/anyop", "python/anyop/template_ops"),
    "python/tests": ("include/anyop",),
}
# Sources, no headers, that use a higher room: what they hold is called from there as well.
CALLS_UP: dict[str, tuple[str, ...]] = {
    # An operator's entry is the function that runs it, or the one that watches it; what is
    # registered, loaded or replaced drops plans, and its composition is followed to be checked.
    "src/runtime/registry/registry.cc": (
        "src/runtime/plan", "src/runtime/run", "src/runtime/observe",
    ),
    "src/runtime/registry/library.cc": ("src/runtime/plan",),
    "src/runtime/registry/replace.cc": ("src/runtime/plan", "src/runtime/run"),
    # A plan knows which copies its run will make; explain and tune make calls to tell of them.
    "src/runtime/plan/make_plan.cc": ("src/runtime/run",),
    "src/runtime/plan/explain.cc": ("src/runtime/run",),
    "src/runtime/plan/tuned.cc": ("src/runtime/run",),
    # Check mode is a step of the run, between its checks and the kernel.
    "src/runtime/run/run.cc": ("src/runtime/observe",),
    "src/runtime/run/device_call.cc": ("src/runtime/observe",),
}  # fmt: skip
# Folders of one layer with rooms, whose tests may use all of them.
ROOMS = ("src/graph/", "src/runtime/")
# The rooms of bindings, from the lowest on; "" is bindings itself. No file includes one of a higher
# room.
BINDINGS = (
    "", "operators", "host", "numpy", "jax", "torch_unlinked", "calls", "graphs", "functions",
    "module",
)  # fmt: skip
# Of frameworks: libraries of their own.
ADAPTERS = ("bindings/torch/", "bindings/vllm/", "bindings/mindspore/")
# Plain words of an adapter, which its host in _anyop says as well.
WORDS_OF_ADAPTERS = {"bindings/torch/texts.h": "bindings/torch_unlinked/"}
# Of include/anyop, what operators are written with; their tests may use it all, and optest.
FOR_OPERATORS = re.compile(
    r"include/anyop/(op|simd|dtype|storage|reference)\.h|include/anyop/simd/.*"
)
# And their kernels for CUDA cards, what these are written with.
FOR_CARDS = ("devices/cuda/kernel.h",)
# Headers of frameworks, and what includes them: the adapter, and what a bench compares it with.
FRAMEWORKS = {
    r"(torch|ATen|c10)/.*": (
        "bindings/torch/",
        "bindings/vllm/",
        "devices/virtual/torch/",
        "devices/npu/torch/",
        "ascend/include/packages/torch_npu/",
        "python/anyop/bench/commands/by_hand.cc",
    ),
    r"ms_extension/.*": (
        "python/anyop/bench/commands/by_hand_mindspore.cc",
        "ascend/include/packages/",
        "examples/mindspore_operator/old_way_runner.cc",
    ),
    r"Python\.h|numpy/.*": ("bindings/", "include/anyop/python_host.h", "examples/host/"),
}
TESTS_WITH = ("optest/optest.h",)  # what this project's tests of operators include
# What no file of the runtime says, be it in a comment; but for the table of environment variables.
FRAMEWORK_WORDS = re.compile(r"torch|jax|mindspore|vllm", re.IGNORECASE)
MAY_SAY_FRAMEWORKS = ("src/platform/env.cc",)
# The rooms of bindings that serve every host, and their files whose code may name a framework
# nevertheless: the module, which calls each host's function, the hosts that are compiled in, and
# graphs that were captured of torch.
SHARED_ROOMS = ("", "operators", "host", "calls", "graphs", "functions")
MAY_NAME_HOSTS = (
    "bindings/module_functions.h", "bindings/host/host.h", "bindings/host/host.cc",
    "bindings/calls/call.h", "bindings/calls/convert.h", "bindings/graphs/captured.cc",
)  # fmt: skip
# Folders that includes begin at, and folders whose files name their neighbours without any.
ROOTS = (
    "src/", "include/", "", "optest/", "ascend/include/", "ascend/include/packages/",
    "ascend/include/stubs/", "ascend/include/npu/",
)  # fmt: skip
BARE_NEIGHBOURS = ("ascend", "bindings", "devices", "programs", "tests", "examples", "python")
DIALECT = "ascend/include/kernel_operator.h"  # kernels include it by its name alone
# The rooms of anyop.torch, from the lowest on; each may import those before it.
_TORCH = ("_route", "_dispatch", "_nodes", "_proof", "patterns", "_lower", "_compile")
_TORCH_ROOMS = tuple(f"torch.{room}" for room in _TORCH)
# A part of python/anyop, and the parts that it may import; "" is the core. The longest that fits a
# module decides.
PYTHON_LAYERS: dict[str, tuple[str, ...]] = {
    "": ("", "_hosts"),
    "_hosts": ("_hosts", "hosting"),  # the table of hosts, which the core starts and tells
    "hosting": ("", "hosting"),
    "testing": ("", "hosting", "testing"),
    **{room: ("", "hosting", *_TORCH_ROOMS[: i + 1]) for i, room in enumerate(_TORCH_ROOMS)},
    "torch": ("", "hosting", "torch", *_TORCH_ROOMS),
    "torch.virtual_device": ("", "hosting", "npu", "torch._route", "torch.virtual_device"),
    "torch.graph_engine": ("", "torch.graph_engine"),
    "npu": ("", "_hosts", "torch.graph_engine", "npu"),
    "ascend": ("", "torch.virtual_device", "ascend"),
    "jax": ("", "hosting", "jax"),
    "mindspore": ("", "hosting", "mindspore"),
    "vllm": ("", "hosting", "torch", "vllm"),
    "bench": ("", "bench"),
    "vllm._bench": ("", "bench", "vllm", "vllm._bench"),
    "vllm.bench": ("vllm._bench",),
    "bench.commands": ("", "torch", "bench", "bench.commands", "vllm.bench"),
    "cli": (
        "",
        "hosting",
        "testing",
        "torch",
        "npu",
        "ascend",
        "jax",
        "mindspore",
        "vllm",
        "bench",
        "bench.commands",
        "cli",
    ),
    "__main__": ("cli",),
}
# Modules that import a framework when they are imported, its own host first.
KNOWS = {
    "torch": (
        "anyop.torch", "anyop.bench.commands.calls_torch", "anyop.bench.commands.graph_torch",
        "anyop.bench.torch_side", "anyop.bench.elsewhere.vllm", "anyop.vllm._",
    ),
    "jax": ("anyop.jax", "anyop.bench.commands.calls_jax"),
    "mindspore": ("anyop.mindspore", "anyop.bench.commands.calls_mindspore"),
    "vllm": ("anyop.vllm._",),
}  # fmt: skip
TEMPLATE = "python/anyop/template/"  # a package of its own


def resolve(tree: Tree, name: str, path: str) -> str | None:
    """The project's file that an include names, None if it is none of ours. There is one way: from
    a root, but for neighbours in folders that are no root's.
    """
    if path == DIALECT.rpartition("/")[2]:
        return DIALECT
    if "/" not in path:
        neighbour = f"{name.rpartition('/')[0]}/{path}"
        is_bare = name.split("/")[0] in BARE_NEIGHBOURS
        return neighbour if is_bare and neighbour in tree.known else None
    return next((root + path for root in ROOTS if root + path in tree.known), None)


def layers(tree: Tree) -> Iterator[Breach]:
    """C++ includes only what lies below it."""
    for name in tree.named(*CPP):
        layer = max((k for k in CPP_LAYERS if name.startswith(k + "/")), key=len, default=None)
        for line, path, is_quoted in tree.cpp(name).includes:
            if not is_quoted:
                continue
            target = resolve(tree, name, path)
            if target is None:
                yield Breach(name, line, f'includes "{path}", which is below no root: see ROOTS')
            elif layer is None:
                yield Breach(name, line, "lies in no layer: see CPP_LAYERS")
            elif not _may_include(name, layer, target):
                yield Breach(name, line, f"includes {target}, but {_allowed(name, layer)}")


def _home(name: str) -> str:
    """The folder whose files are one room: an operator's, a layer's."""
    parts = name.split("/")
    if (room := "/".join(parts[:3])) in CPP_LAYERS:
        return room
    return "/".join(parts[: 2 if parts[0] in ("src", "ops", "include", "examples") else 1])


def _may_include(name: str, layer: str, target: str) -> bool:
    if _home(name) == _home(target):
        if name.startswith(WORDS_OF_ADAPTERS.get(target, "no file")):
            return True
        return layer != "bindings" or not target.startswith(ADAPTERS)
    if is_test(name) and any(layer.startswith(f) and target.startswith(f) for f in ROOMS):
        return True
    if target.startswith(tuple(f"{folder}/" for folder in CALLS_UP.get(name, ()))):
        return True
    if layer == "ops" and name.endswith(".cu") and target in FOR_CARDS:
        return True
    if layer == "ops" and target.startswith("include/") and not is_test(name):
        return FOR_OPERATORS.fullmatch(target) is not None
    if layer == "ops" and is_test(name) and target.startswith("optest/"):
        return True
    return target.startswith(tuple(f"{folder}/" for folder in CPP_LAYERS[layer]))


def _allowed(name: str, layer: str) -> str:
    rooms = ", ".join(CPP_LAYERS[layer]) or "nothing else"
    if layer == "ops" and not is_test(name):
        rooms = "op.h, dtype.h, storage.h, reference.h and simd.h of include/anyop, and ops/common"
        rooms += ", or " + ", ".join(FOR_CARDS) if name.endswith(".cu") else ""
    return f"{_home(name)} may include itself and {rooms}"


def rooms(tree: Tree) -> Iterator[Breach]:
    """A file of bindings includes headers of its room and of lower ones."""
    for name in tree.named(*CPP, below="bindings/"):
        if name.startswith(ADAPTERS):
            continue
        if (room := _room(name)) not in BINDINGS:
            yield Breach(name, 0, f"lies in bindings/{room}, which is no room: see BINDINGS")
            continue
        lower = BINDINGS[: BINDINGS.index(room) + 1]
        for line, path, is_quoted in tree.cpp(name).includes:
            target = resolve(tree, name, path) if is_quoted else None
            if target and name.startswith(WORDS_OF_ADAPTERS.get(target, "no file")):
                continue
            if target and target.startswith("bindings/") and _room(target) not in lower:
                yield Breach(name, line, f"includes {target}, of a higher room: see BINDINGS")


def _room(name: str) -> str:
    return name.removeprefix("bindings/").rpartition("/")[0]


def frameworks(tree: Tree) -> Iterator[Breach]:
    """The runtime says no framework's name, nor does code that all hosts share; headers of each are
    included in one folder only.
    """
    for name, text in tree.texts(*CPP, below="src/"):
        for match in FRAMEWORK_WORDS.finditer(text if name not in MAY_SAY_FRAMEWORKS else ""):
            why = f"says {match[0]}, but the runtime knows no framework"
            yield Breach(name, line_of(text, match), why)
    for name in tree.named(*CPP, below="bindings/"):
        if _room(name) in SHARED_ROOMS and name not in MAY_NAME_HOSTS:
            code = tree.cpp(name).code
            for match in FRAMEWORK_WORDS.finditer(code):
                why = f"names {match[0]}, but bindings/{_room(name)} serves every host"
                yield Breach(name, line_of(code, match), why)
    for name in tree.named(*CPP):
        for line, path, _ in tree.cpp(name).includes:
            for pattern, homes in FRAMEWORKS.items():
                if re.fullmatch(pattern, path) and not name.startswith(homes):
                    yield Breach(name, line, f"includes <{path}>, which only {homes[0]} may")
    for name in _package(tree):
        for found in imports(tree, name, outside=True):
            framework = found.target.split(".")[0]
            homes = KNOWS.get(framework)
            if homes and not found.is_late and not module_name(name).startswith(homes):
                why = f"imports {framework}, which only {homes[0]} may"
                yield Breach(name, found.line, why)


def without_googletest(tree: Tree) -> Iterator[Breach]:
    """What users build of optest needs no library that only this project's tests have."""
    for name in tree.named(*CPP, below="optest/"):
        if name.startswith("optest/gtest/") or name in TESTS_WITH or name.endswith("_test.cc"):
            continue
        for line, path, _ in tree.cpp(name).includes:
            if path.startswith(("gtest/", "gmock/", "optest/gtest/")) or path in TESTS_WITH:
                why = f"includes {path}, but `anyop test` builds this file where no GoogleTest is"
                yield Breach(name, line, why)


def _package(tree: Tree) -> list[str]:
    return [f for f in tree.named(".py", below="python/anyop/") if not f.startswith(TEMPLATE)]


def _part(module: str) -> str:
    path = module.split(".")[1:]
    parts = (".".join(path[:end]) for end in range(len(path), 0, -1))
    return next((part for part in parts if part in PYTHON_LAYERS), "")


def python_layers(tree: Tree) -> Iterator[Breach]:
    """Python imports only what lies below it, in functions too."""
    for name in _package(tree):
        module = module_name(name)
        for found in imports(tree, name):
            part, target = _part(module), _part(found.target)
            if target not in PYTHON_LAYERS[part] and (module, found.target) not in LATE:
                why = f"imports {found.target}, but anyop.{part}".rstrip(".") + " lies below it"
                yield Breach(name, found.line, why)


def private(tree: Tree) -> Iterator[Breach]:
    """What begins with _ is for the package that holds it; the extension, for anyop and tools."""
    for name in tree.named(".py"):
        module = module_name(name)
        if name.startswith(("python/tests/", "tests/")):
            continue
        for found in imports(tree, name):
            may_extend = name.startswith(("python/anyop/", "tools/"))
            if (what := _private(tree, module, found, may_extend)) is not None:
                yield Breach(name, found.line, f"imports {what}, which is private to its package")


def _private(tree: Tree, module: str, found: Import, may_extend: bool) -> str | None:
    """The private thing that is imported; None if there is none, or the importer may."""
    path = found.target.split(".")
    is_package = f"python/{'/'.join(path)}/__init__.py" in tree.known
    for at, part in enumerate([*path, found.name]):
        is_open = not part.startswith("_") or part.startswith("__")
        if is_open or (part == "_anyop" and may_extend):
            continue
        room = path[: at if at < len(path) or is_package else at - 1]
        if f"{module}.".startswith(".".join(room) + "."):
            continue
        return f"{found.target}.{found.name}".rstrip(".")
    return None


def include_cycles(tree: Tree) -> Iterator[Breach]:
    """No header includes itself through others, no folder another that includes it, but for what
    CALLS_UP lists; an entry there that nothing uses is a breach too.
    """
    unused = {(name, room) for name in CALLS_UP if name in tree.known for room in CALLS_UP[name]}
    headers: dict[str, set[str]] = defaultdict(set)
    folders: dict[str, set[str]] = defaultdict(set)
    places: dict[tuple[str, str], tuple[str, int]] = {}
    for name in tree.named(*CPP):
        for line, path, is_quoted in tree.cpp(name).includes:
            target = resolve(tree, name, path) if is_quoted else None
            if target is None:
                continue
            headers[name].add(target)
            places.setdefault((name, target), (name, line))
            if (a := _home(name)) == (b := _home(target)) or is_test(name):
                continue
            if b in CALLS_UP.get(name, ()):
                unused.discard((name, b))
            else:
                folders[a].add(b)
                places.setdefault((a, b), (name, line))
    for graph in (headers, folders):
        yield from _circles(graph, places)
    for name, room in sorted(unused):
        yield Breach(name, 0, f"includes nothing of {room}: see CALLS_UP")


def import_cycles(tree: Tree) -> Iterator[Breach]:
    """No module imports itself through others, be it late or for types.

    LATE lists the imports that may; an entry that closes no circle is a breach too.
    """
    graph: dict[str, set[str]] = defaultdict(set)
    places: dict[tuple[str, str], tuple[str, int]] = {}
    late: dict[tuple[str, str], bool] = {}
    for name in tree.named(".py", below=("python/anyop/", "tools/", "examples/")):
        module = module_name(name)
        for found in imports(tree, name):
            edge = (module, found.target)
            places.setdefault(edge, (name, found.line))
            if edge in LATE:
                late[edge] = late.get(edge, True) and found.is_late
            else:
                graph[module].add(found.target)
    yield from _circles(graph, places)
    for edge in LATE:
        file = "python/" + edge[0].replace(".", "/")
        source = next((f for f in tree.files if f in (f"{file}.py", f"{file}/__init__.py")), None)
        if source is None:
            continue
        if edge not in late:
            yield Breach(source, 0, f"does not import {edge[1]} any more: see LATE")
        elif not late[edge]:
            yield Breach(*places[edge], f"imports {edge[1]} when it is imported, not late")
        elif not _reaches(graph, edge[1], edge[0]):
            why = f"imports {edge[1]} late, but they form no circle: see LATE"
            yield Breach(*places[edge], why)


def _reaches(graph: Mapping[str, set[str]], begin: str, end: str) -> bool:
    seen, open_ = set(), [begin]
    while open_:
        if (node := open_.pop()) == end:
            return True
        if node not in seen:
            seen.add(node)
            open_ += graph.get(node, ())
    return False


def _circles(
    graph: Mapping[str, set[str]], places: Mapping[tuple[str, str], tuple[str, int]]
) -> Iterator[Breach]:
    """A breach for each way back that a walk through the graph finds."""
    done: set[str] = set()
    for root in sorted(graph):
        path: list[str] = []
        walk = [(root, iter(sorted(graph.get(root, ()))))] if root not in done else []
        path += [node for node, _ in walk]
        while walk:
            node, rest = walk[-1]
            target = next(rest, None)
            if target is None:
                done.add(node)
                walk.pop()
                path.pop()
            elif target in path:
                circle = [*path[path.index(target) :], target]
                steps = zip(circle[:-1], circle[1:], strict=True)
                shown = ", ".join(f"{a} -> {b} ({_place(places[a, b])})" for a, b in steps)
                yield Breach(*places[node, target], f"closes a circle: {shown}")
            elif target not in done:
                walk.append((target, iter(sorted(graph.get(target, ())))))
                path.append(target)


def _place(place: tuple[str, int]) -> str:
    return f"{place[0]}:{place[1]}"


RULES = (
    layers, rooms, frameworks, without_googletest, python_layers, private, include_cycles,
    import_cycles,
)  # fmt: skip
