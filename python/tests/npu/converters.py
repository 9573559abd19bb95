# SPDX-License-Identifier: Apache-2.0
"""torchair's converters on the virtual NPU: what each makes of its samples, computed as on the CPU?

    ANYOP_NPU=1 ENVIRONMENT/bin/python python/tests/npu/converters.py [--all] [NAME ...]

Samples are those that torchair declares beside its converters, and those of torch's own table of
operators (OpInfo), forwards and with gradients. A sample becomes a graph. Either the graph computes
what the CPU computes; or it is refused, by torchair or by the virtual NPU with the engine's
operators by name. Without --all one sample of every fourth operator that torchair has samples for.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from opinfo import table

EACH = 4  # of a slice
CHUNK = 60
SAMPLES = 3  # of an entry of OpInfo
LARGEST = 1 << 18  # elements of a sample: products of matrices in f16 take the CPU minutes
REFUSED, TORCHAIR, NO_CPU = "refused", "torchair", "the CPU"  # kinds of answers that are no failure
# Operators with samples that may differ, each with why.
EXCEPTIONS = {
    "imag": "a view of a complex tensor, whose form torch's functionalization does not find again",
    "sparse.mm.reduce": "sparse tensors are not there",
    "sparse.sampled_addmm": "sparse tensors are not there",
}
# Results without values: see opinfo_device.py.
RANDOM = (*table.WITHOUT_VALUES, "native_dropout", "rand")
Flat = Callable[..., tuple[Any, ...]]


def declared() -> dict[str, Any]:
    """Operators by name, with the samples that torchair declares for each."""
    import torch_npu  # noqa: F401  (which brings torchair)
    from torch._ops import OpOverload
    from torchair._ge_concrete_graph import fx2ge_converter

    found = fx2ge_converter._declare_supported_converters().items()
    operators = {op: made for op, made in found if isinstance(op, OpOverload)}
    return {f"torchair:{op}": (op, made.supported_cases) for op, made in operators.items()}


def names() -> list[str]:
    return [*declared(), *(table.name_of(op) for op in table.entries())]


def samples(name: str, count: int) -> Iterator[tuple[Any, Any, Any]]:
    """Operators with arguments, on the CPU."""
    import torch

    if name.startswith("torchair:"):
        op, cases = declared()[name]
        made = [tree_of(case.args, case.kwargs) for case in cases]
        small = sorted((call for call in made if elements(call) <= LARGEST), key=elements)
        for call in small if count > 1 else small[-1:]:
            yield op, *call
        return
    op = next(entry for entry in table.entries() if table.name_of(entry) == name)
    known = [d for d in (getattr(torch, one) for one in table.DTYPES) if d in op.dtypes]
    made = op.sample_inputs("cpu", known[0] if known else torch.float32, requires_grad=False)
    for sample in itertools.islice(made, count):
        yield op, (sample.input, *sample.args), sample.kwargs


def elements(call: Any) -> int:
    import torch
    from torch.utils import _pytree as pytree

    leaves = pytree.tree_leaves(call)
    return sum(leaf.numel() for leaf in leaves if isinstance(leaf, torch.Tensor))


def tree_of(*declared: Any) -> tuple[Any, ...]:
    """Tensors in the place of torchair's words for them."""
    import torch
    from torchair._ge_concrete_graph.supported_declaration import _TypedTensor

    def tensor(word: Any) -> Any:
        if isinstance(word, (list, tuple)):
            return [tensor(one) for one in word]
        if isinstance(word, dict):
            return {key: tensor(one) for key, one in word.items()}
        if not isinstance(word, _TypedTensor):
            return word
        if word.value is not None:
            return torch.tensor(word.value, dtype=word.dtype)
        sizes = tuple(word.dims)
        low, high = word.value_range or (0, 2)
        if word.dtype.is_floating_point or word.dtype.is_complex:
            made = torch.randn(sizes, dtype=torch.float32)
            made = made if word.value_range is None else made.sigmoid() * (high - low) + low
            return made.to(word.dtype)
        return torch.randint(int(low), max(int(high), int(low) + 1), sizes).to(word.dtype)

    return tuple(tensor(one) for one in declared)


class Sample:
    """A call as a function of its tensors, there and on the CPU."""

    def __init__(self, op: Any, args: Any, kwargs: Any) -> None:
        import torch
        from torch.utils import _pytree as pytree

        self.op, self.name = op, getattr(op, "name", "")
        self.name = self.name() if callable(self.name) else self.name
        self.leaves, self.tree = pytree.tree_flatten((args, kwargs))
        self.places = [i for i, v in enumerate(self.leaves) if isinstance(v, torch.Tensor)]

    def on(self, device: str, has_gradients: bool) -> tuple[Flat, list[Any]]:
        import torch
        from torch.utils import _pytree as pytree

        leaves = list(self.leaves)
        for i, value in enumerate(leaves):
            if value in ("cpu", torch.device("cpu")) if not isinstance(value, torch.Tensor) else 0:
                leaves[i] = torch.device(device)
        given = []
        for i in self.places:
            x = self.leaves[i].detach()
            x = x.clone() if device == "cpu" else table.on_device(x, "npu")
            given.append(x.requires_grad_(has_gradients and x.is_floating_point()))

        def call(*tensors: Any) -> tuple[Any, ...]:
            values = list(leaves)
            for i, tensor in zip(self.places, tensors, strict=True):
                values[i] = tensor
            args, kwargs = pytree.tree_unflatten(values, self.tree)
            results = pytree.tree_leaves(self.op(*args, **kwargs))
            return tuple(one for one in results if isinstance(one, torch.Tensor))

        return call, given


class Stages:
    """How far a graph has come: what fails before the engine gets it, torchair refuses."""

    def __init__(self) -> None:
        from anyop.torch.graph_engine import engine

        self.reached = ""
        self.types: set[str] = set()
        load, run, stages = engine.Graph.load, engine.Graph.run, self

        def loads(self: Any, graph: Any, options: Any = None) -> None:
            stages.types.update(op.type for op in graph.op)
            stages.reached = "load"
            load(self, graph, options)
            stages.reached = "loaded"

        def runs(self: Any, *args: Any, **kwargs: Any) -> Any:
            stages.reached = "run"
            results = run(self, *args, **kwargs)
            stages.reached = "compare"
            return results

        engine.Graph.load, engine.Graph.run = loads, runs  # type: ignore[method-assign]


def graph_of(call: Flat, given: list[Any]) -> Any:
    """The call, compiled by torchair as torch.compile has it compile what Dynamo traced."""
    import torch
    import torchair

    graph = torch.fx.Graph()
    inputs = tuple(graph.placeholder(f"x{i}") for i in range(len(given)))
    graph.output(graph.call_function(call, inputs))
    return torchair.get_npu_backend()(torch.fx.GraphModule({}, graph), given)


def compare(sample: Sample, has_gradients: bool, stages: Stages) -> str:
    """ "", or the kind of an answer that is no failure, with what was said."""
    import anyop
    from torch._guards import TracingContext, tracing
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    here, given_here = sample.on("cpu", has_gradients)
    try:
        want = here(*given_here)
    except Exception as error:
        return f"{NO_CPU}: {error}"
    there, given_there = sample.on("npu", has_gradients)
    stages.reached = ""
    try:
        with tracing(TracingContext(FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True))):
            got = graph_of(there, given_there)(*given_there)
        agree(sample, got, want)
        if has_gradients:
            stages.reached = ""
            gradients(sample, got, want)
            found = [x.grad for x in given_there if x.requires_grad]
            agree(sample, found, [x.grad for x in given_here if x.requires_grad])
    except Exception as error:
        if isinstance(error, anyop.Unsupported) and stages.reached == "load":
            return f"{REFUSED}: {error}"
        if not stages.reached:
            return f"{TORCHAIR}: {error}"
        raise
    return ""


def gradients(sample: Sample, got: Any, want: Any) -> None:
    import torch

    pairs = [(a, b) for a, b in zip(got, want, strict=True) if b.requires_grad]
    if not pairs:
        return
    torch.manual_seed(1)
    above = [torch.randn_like(b) for _, b in pairs]
    torch.autograd.backward([b for _, b in pairs], above)
    torch.autograd.backward([a for a, _ in pairs], [one.npu() for one in above])


def agree(sample: Sample, got: Any, want: Any) -> None:
    import torch

    assert len(got) == len(want), f"{len(got)} results, but must be {len(want)}"
    floats = [b.dtype for b in want if b is not None and b.is_floating_point()]
    short = max(1e-4, *(4 * torch.finfo(dtype).eps for dtype in floats), 0)
    for a, b in zip(got, want, strict=True):
        if a is None or b is None:
            assert a is None or not a.cpu().any(), "a gradient that the CPU has not"
            continue
        if "batch_norm" in sample.name and not b.numel():
            continue  # the CPU leaves empty what other devices fill
        if "layer_norm" in sample.name and a.dtype == torch.float32:
            b = b.float()  # the mean of f16 is f32 on other devices
        if any(word in sample.name for word in RANDOM):
            assert (a.shape, a.dtype) == (b.shape, b.dtype), f"{a.shape} {a.dtype}"
            continue
        a, b = a.detach().cpu(), b.detach()
        if b.dtype == torch.float64:  # which this chip has not
            a, b = a.float(), b.float()
        tolerance = {"rtol": short, "atol": short} if b.is_floating_point() else {}
        torch.testing.assert_close(a, b, equal_nan=True, check_stride=False, **tolerance)


def work(chosen: list[str], count: int) -> None:
    """Prints a line for each operator before it runs, and another after it."""
    import torch
    import torch_npu  # noqa: F401

    warnings.simplefilter("ignore")
    stages = Stages()
    for name in chosen:
        print(json.dumps([name]), flush=True)
        found: list[str] = []
        for has_gradients in (False,) if name.startswith("torchair:") else (False, True):
            torch.manual_seed(0)
            for call in samples(name, count):
                sample = Sample(*call)
                if has_gradients and not differentiates(sample):
                    continue
                try:
                    said = compare(sample, has_gradients, stages)
                except Exception as error:
                    said = f"WRONG ({stages.reached}) {type(error).__name__}: {error}"
                found.append(" ".join(said.split())[:400])
        print(json.dumps([name, found, sorted(stages.types)]), flush=True)
        stages.types.clear()


def differentiates(sample: Sample) -> bool:
    leaves = [sample.leaves[i] for i in sample.places]
    return getattr(sample.op, "supports_autograd", False) and any(
        leaf.is_floating_point() for leaf in leaves
    )


def run(chosen: list[str], count: int) -> tuple[dict[str, list[str]], set[str]]:
    """What was said of each operator's samples, and the engine's operators that were asked for."""
    found: dict[str, list[str]] = {}
    types: set[str] = set()
    left = list(chosen)
    while left:
        program = [sys.executable, __file__, "--work", str(count), *left[:CHUNK]]
        ran = subprocess.run(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        lines = [line for line in ran.stdout.splitlines() if line.startswith('["')]
        for name, *rest in map(json.loads, lines):
            found[name] = rest[0] if rest else [f"WRONG: the process ended with {ran.returncode}"]
            types.update(rest[1] if rest else ())
        left = [name for name in left if name not in found]
        if not lines:
            raise SystemExit(f"no operator runs: exit status {ran.returncode}")
    return found, types


def report(found: dict[str, list[str]], types: set[str], verbose: bool) -> list[str]:
    """The names of operators with a sample that is wrong."""
    from anyop.torch.graph_engine import engine

    kinds: Counter[str] = Counter()
    wrong = []
    for name, said in found.items():
        bad = [one for one in said if one.startswith("WRONG")]
        for one in said:
            kinds["agree" if not one else one.partition(":")[0].partition(" ")[0]] += 1
            if verbose or (bad and one in bad):
                print(f"  {name}: {one or 'agrees'}")
        if bad and name not in EXCEPTIONS:
            wrong.append(name)
    there = types & {*engine.OPERATORS, *engine.AROUND}
    print(
        f"{kinds['agree']} of {sum(kinds.values())} samples agree with the CPU, "
        f"{kinds[TORCHAIR]} are refused by torchair, {kinds[REFUSED]} by the virtual NPU by name"
    )
    print(
        f"{len(there)} of {len(types)} operators of the engine are there; others: "
        f"{', '.join(sorted(types - there)) or 'none'}"
    )
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--all", action="store_true", help="every operator, all samples")
    parser.add_argument("--verbose", action="store_true", help="print what was said of each")
    parser.add_argument("names", nargs="*", help="operators")
    args = parser.parse_args()
    chosen = args.names or (names() if args.all else [*declared()][::EACH])
    found, types = run(chosen, SAMPLES if args.all or args.names else 1)
    wrong = report(found, types, args.verbose)
    if wrong:
        print(f"not as {Path(__file__).name} has it: {', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[3:], int(sys.argv[2]))
    else:
        sys.exit(main())
