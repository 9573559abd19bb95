# SPDX-License-Identifier: Apache-2.0
"""A PyTorch model as a graph of anyop's: through torch.compile, and captured."""

import anyop
import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, 256), nn.Linear(128, 64)
        self.norm = nn.Parameter(torch.ones(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.up(anyop.rms_norm(x, self.norm)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up).cos()  # cos has no converter


torch.manual_seed(0)
torch.set_grad_enabled(False)
model, x = Model(), torch.randn(4, 64)
# ---8<---
compiled = torch.compile(model, backend="anyop")  # through Dynamo: guards, graph breaks, training
captured = anyop.torch.capture(model, x, dynamic={"x": {0: "n"}})  # one graph, called directly

for n in (2, 7):
    x = torch.randn(n, 64)
    torch.testing.assert_close(compiled(x), model(x))
    torch.testing.assert_close(captured(x), model(x))
print(anyop.torch.report(captured))
print(captured)
# --->8---
