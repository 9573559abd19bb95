# SPDX-License-Identifier: Apache-2.0
"""PyTorch as a host: every operator of every loaded library is a torch operator.

    y = anyop.rms_norm(x, weight)                       # torch tensors in, torch tensors out
    y = torch.ops.anyop.rms_norm(x, weight)             # the same, through torch's dispatcher
    torch.ops.anyop.rms_norm.out(x, weight, out=y)      # writes y
    torch.ops.anyop.rms_norm_(x, weight)                # writes x, where the signature allows it

Gradients come from the operators' `.gradient`; torch.compile, torch.export and torch.func know the
operators from their signatures. Under torch.autocast an operator runs in the dtypes that it is
given; only float tensors that must share a dtype and do not are cast, to autocast's dtype.
"""

from __future__ import annotations

from anyop.torch import _fast, _inductor
from anyop.torch._register import register_new
from anyop.torch._route import status
from anyop.torch.custom_op import direct_register_custom_op

__all__ = ["direct_register_custom_op", "register_new", "status"]

_fast.start()
_inductor.start()
register_new()
