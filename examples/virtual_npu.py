# SPDX-License-Identifier: Apache-2.0
"""A step of training on the virtual NPU: docs/ascend.md."""

# ---8<---
import anyop.ascend
import torch

anyop.ascend.start_torch()  # once for each process
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).to("ascend")
x = torch.randn(4, 8).to("ascend")
loss = anyop.rms_norm(model(x)).square().sum()  # operators of torch and of anyop
loss.backward()
torch.ascend.synchronize()
print(loss.device, loss.cpu().shape, model[0].weight.grad.device)
# --->8---
