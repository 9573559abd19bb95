# SPDX-License-Identifier: Apache-2.0
"""What an operator's `bench.py` is written with.

A file defines `cases()`, which yields a Case per size:

    def cases():
        for d in (576, 4096):
            x = normal((16, d))
            yield Case(
                f"f32[16, {d}]",
                {"x": x, "y": np.empty_like(x)},
                ours=lambda a: partial(anyop.add, a.x, a.x, out=a.y),
                numpy=lambda a: partial(np.add, a.x, a.x, out=a.y),
                torch=lambda t, a: t.call(t.torch.add, a.x, a.x),
                moved=2 * x.nbytes,
                flops=x.size,
            )

`anyop bench ops` runs the built-in ones, `anyop bench ops --folder ops` those of a library's own
folder.

An opponent that needs an environment of its own (`anyop bench opponents`) runs there: `others`
names a function of a file beside bench.py, which gets the side (`elsewhere/NAME.py`) and arrays,
and returns a call and what the call fills (None: the call returns it):

    others={"vllm": "silu"},              # in bench.py

    def silu(side, a):                    # in bench_vllm.py
        out = side.torch.empty_like(a.x)
        return partial(side.ops.silu, out, a.x), out
"""

from typing import TYPE_CHECKING, Any

from anyop.bench._case import BF16, DTYPES, F16, F32, RATES, Case, each_dtype, normal
from anyop.bench._elsewhere import Elsewhere, RemoteContender
from anyop.bench.interpreters import installed
from anyop.bench.models import Asked, ModelBench, Way

if TYPE_CHECKING:
    from anyop.bench.torch_side import TorchSide

__all__ = [
    "BF16",
    "DTYPES",
    "F16",
    "F32",
    "RATES",
    "Asked",
    "Case",
    "Elsewhere",
    "ModelBench",
    "RemoteContender",
    "TorchSide",
    "Way",
    "each_dtype",
    "installed",
    "normal",
]


def __getattr__(name: str) -> Any:
    """TorchSide imports torch, which the commands' help needs as little as a case without it."""
    if name != "TorchSide":
        raise AttributeError(f"anyop.bench has no attribute '{name}'.")
    from anyop.bench import torch_side

    return torch_side.TorchSide
