# SPDX-License-Identifier: Apache-2.0
"""The same decoder in plain PyTorch, eager or compiled: the opponent on that host.

Of the ways to write each step, the fastest measured: merged weights, inference mode, rotation as
one complex product, and in decode the query heads of a group as rows of one small attention.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .weights import Config, ModelFile

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


class Layer(nn.Module):
    """Weights [out, in] and the caches [kv_heads, max_tokens, head_dim] of a decoder layer."""

    keys: Tensor
    values: Tensor

    def __init__(self, c: Config, weights: dict[str, Tensor], max_tokens: int) -> None:
        super().__init__()

        def merged(*names: str) -> nn.Parameter:
            return matrix(torch.cat([weights[n] for n in names]))

        self.c = c
        self.attn_norm, self.ffn_norm = merged("attn_norm"), merged("ffn_norm")
        self.qkv = merged("attn_q", "attn_k", "attn_v")
        self.output, self.down = merged("attn_output"), merged("ffn_down")
        self.gate_up = merged("ffn_gate", "ffn_up")
        cache = self.qkv.new_zeros(c.kv_heads, max_tokens, c.head_dim)
        self.register_buffer("keys", cache)
        self.register_buffer("values", cache.clone())

    def attention(self, qkv: Tensor, turn: Tensor, at: Tensor, start: int) -> Tensor:
        """qkv [t, hidden + 2 kv] of the tokens at start ... start + t - 1. Returns [t, hidden]."""
        c, t, end = self.c, len(qkv), start + len(qkv)
        heads = qkv.view(t, c.heads + 2 * c.kv_heads, c.head_dim).transpose(0, 1)
        qk = rotate(heads[: -c.kv_heads], turn)
        # By index: Inductor copies the whole cache for an assignment to a slice of it.
        self.keys.index_copy_(1, at, qk[c.heads :])
        self.values.index_copy_(1, at, heads[-c.kv_heads :])
        q, k, v = qk[: c.heads], self.keys[:, :end], self.values[:, :end]
        if t == 1:
            q = q.view(c.kv_heads, -1, c.head_dim)
            y = F.scaled_dot_product_attention(q[None], k[None], v[None])
            return y.view(1, c.hidden)
        mask = None if start == 0 else torch.ones(t, end, dtype=torch.bool).tril(start)
        y = F.scaled_dot_product_attention(
            q[None], k[None], v[None], mask, is_causal=mask is None, enable_gqa=True
        )
        return y[0].transpose(0, 1).reshape(t, c.hidden)

    def forward(self, x: Tensor, turn: Tensor, at: Tensor, start: int) -> Tensor:
        c = self.c
        y = F.rms_norm(x, (c.hidden,), self.attn_norm, c.eps)
        x = x + F.linear(self.attention(F.linear(y, self.qkv), turn, at, start), self.output)
        y = F.rms_norm(x, (c.hidden,), self.ffn_norm, c.eps)
        gate, up = F.linear(y, self.gate_up).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, self.down)


def matrix(weight: Tensor) -> nn.Parameter:
    """A weight as it is multiplied fastest: MKL likes wide ones in f32 stored by columns."""
    wide = weight.dim() == 2 and weight.dtype == torch.float32 and len(weight) > weight.shape[1]
    return nn.Parameter(weight.t().contiguous().t() if wide else weight, requires_grad=False)


def rotate(x: Tensor, turn: Tensor) -> Tensor:
    """x [heads, t, head_dim], neighbours in pairs, by turn [t, head_dim / 2, 2] (cos, sin)."""
    pairs = x.float().view(*x.shape[:-1], -1, 2)
    if torch.compiler.is_compiling():  # Inductor fuses this, but not complex numbers
        (a, b), (cos, sin) = pairs.unbind(-1), turn.unbind(-1)
        y = torch.stack((a * cos - b * sin, b * cos + a * sin), -1)
    else:
        y = torch.view_as_real(torch.view_as_complex(pairs) * torch.view_as_complex(turn))
    return y.flatten(-2).to(x.dtype)


class TorchModel(nn.Module):
    """One sequence at a time; with `compiled`, decode steps are one graph of torch.compile,
    by Inductor or the backend that it names."""

    turn: Tensor  # [max_tokens, head_dim / 2, 2]: cosine and sine of each position

    def __init__(
        self, file: ModelFile, dtype: str = "bf16", max_tokens: int = 2048,
        compiled: bool | str = False,
    ) -> None:  # fmt: skip
        super().__init__()
        c = self.config = file.config
        self.max_tokens, self.length = max_tokens, 0
        weights = {n: torch.tensor(w).to(DTYPES[dtype]) for n, w in file.tensors.items()}

        def layer(i: int) -> Layer:
            start, end = f"blk.{i}.", ".weight"
            mine = {n[len(start) : -len(end)]: w for n, w in weights.items() if n.startswith(start)}
            return Layer(c, mine, max_tokens)

        self.layers = nn.ModuleList(layer(i) for i in range(c.layers))
        self.embedding = nn.Parameter(weights["token_embd.weight"], requires_grad=False)
        self.head = matrix(weights.get("output.weight", self.embedding))
        self.norm = matrix(weights["output_norm.weight"])
        powers = -torch.arange(0, c.head_dim, 2, dtype=torch.float64) / c.head_dim
        angle = torch.arange(max_tokens, dtype=torch.float64)[:, None] * c.rope_base**powers
        self.register_buffer("turn", torch.stack((angle.cos(), angle.sin()), -1).float())
        backend = compiled if isinstance(compiled, str) else "inductor"
        self._compiled = bool(compiled)
        if compiled:
            self._decode = self.step_by(backend, {"freeze": True} if backend == "anyop" else {})

    def step_by(self, backend: str, options: dict[str, Any]) -> Any:
        """A decode step, its weights packed when it is compiled, by its first call."""
        if backend == "inductor":
            import torch._inductor.config as config

            config.freezing = True  # torch 2.13 does not heed it as an option
        return torch.compile(
            self._run, dynamic=True, fullgraph=True, backend=backend, options=options
        )

    def reset(self) -> None:
        self.length = 0

    def _run(self, ids: Tensor, start: int) -> Tensor:
        x = F.embedding(ids, self.embedding)
        at = torch.arange(start, start + len(ids))
        turn = self.turn[start : start + len(ids)]
        for layer in self.layers:
            x = layer(x, turn, at, start)
        x = F.rms_norm(x[-1:], (self.config.hidden,), self.norm, self.config.eps)
        return F.linear(x, self.head).float()

    @torch.inference_mode()
    def forward(self, ids: Any) -> Tensor:
        """Appends ids[t]; returns the last token's logits f32[1, vocab]."""
        ids = torch.from_numpy(np.asarray(ids, np.int64))
        step = self._decode if self._compiled and len(ids) == 1 else self._run
        logits: Tensor = step(ids, self.length)
        self.length += len(ids)
        return logits
