# SPDX-License-Identifier: Apache-2.0
"""The same training over JAX's arrays: a step is one program, with gradients of anyop's operators.

Weights begin as PyTorch's run has them, and the optimizer is AdamW as PyTorch has it.
"""

from __future__ import annotations

import time
from typing import Any

import anyop
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from examples.smollm2.weights import Config

from .model import Decoder
from .training import Run, Settings

Weights = dict[str, Any]  # by the names of the decoder's parameters
BETAS, EPS, DECAY = (0.9, 0.999), 1e-8, 0.01


class JaxTrainer:
    def __init__(
        self, config: Config, tensors: dict[str, NDArray[np.float32]], s: Settings
    ) -> None:
        self.c, self.rate, self.run = config, s.learning_rate, Run()
        parameters = dict(Decoder(config, tensors, s.rank, s.seed).named_parameters())
        made = {name: jnp.asarray(p.detach().numpy()) for name, p in parameters.items()}
        self.trained = {n: w for n, w in made.items() if parameters[n].requires_grad}
        self.frozen = {n: w for n, w in made.items() if n not in self.trained}
        zeros = {n: jnp.zeros_like(w) for n, w in self.trained.items()}
        self.moments = (zeros, jax.tree.map(jnp.zeros_like, zeros))
        table = anyop.rotary_cache(s.length, config.head_dim, base=config.rope_base)
        self.cos_sin = jnp.asarray(table)
        self.positions = jnp.tile(jnp.arange(s.length), s.sequences)
        self.starts = jnp.arange(0, s.sequences * s.length + 1, s.length)
        self._update = jax.jit(self._updated, donate_argnums=(0, 1))

    def step(self, ids: Tensor, targets: Tensor) -> None:
        start = time.perf_counter()
        batch = [jnp.asarray(t.flatten().numpy().astype(np.int32)) for t in (ids, targets)]
        loss, self.trained, self.moments = self._update(
            self.trained, self.moments, self.frozen, len(self.run.losses) + 1, *batch
        )
        self.run.losses.append(float(loss))
        self.run.seconds.append(time.perf_counter() - start)

    def _updated(
        self, trained: Weights, moments: Any, frozen: Weights, step: Any, ids: Any, targets: Any
    ) -> tuple[Any, Weights, Any]:
        loss, gradients = jax.value_and_grad(
            lambda own: self.loss({**frozen, **own}, ids, targets)
        )(trained)
        first = jax.tree.map(lambda m, g: BETAS[0] * m + (1 - BETAS[0]) * g, moments[0], gradients)
        second = jax.tree.map(
            lambda v, g: BETAS[1] * v + (1 - BETAS[1]) * g * g, moments[1], gradients
        )

        def moved(w: Any, m: Any, v: Any) -> Any:
            size = jnp.sqrt(v / (1 - BETAS[1] ** step)) + EPS
            return w * (1 - self.rate * DECAY) - self.rate * m / (1 - BETAS[0] ** step) / size

        return loss, jax.tree.map(moved, trained, first, second), (first, second)

    def loss(self, w: Weights, ids: Any, targets: Any) -> Any:
        """The mean cross entropy of targets[t] after ids[t]."""
        layers = [f"layers.{i}." for i in range(self.c.layers)]
        norms = [*(w[f"{p}attn_norm"] for p in layers[1:]), w["norm"]]
        x = anyop.embedding(ids, w["embedding"])
        y = anyop.rms_norm(x, w[f"{layers[0]}attn_norm"], self.c.eps)
        for p, next_norm in zip(layers, norms, strict=True):
            delta = linear(w, f"{p}output", self.attended(linear(w, f"{p}qkv", y)))
            y, x = anyop.add_rms_norm(delta, x, w[f"{p}ffn_norm"], self.c.eps)
            delta = linear(w, f"{p}down", anyop.silu_and_mul(linear(w, f"{p}gate_up", y)))
            y, x = anyop.add_rms_norm(delta, x, next_norm, self.c.eps)
        logits = jax.nn.log_softmax(anyop.linear(y, w["embedding"]))
        return -jnp.take_along_axis(logits, targets[:, None], 1).mean()

    def attended(self, qkv: Any) -> Any:
        c, t = self.c, len(qkv)
        heads = qkv.reshape(t, -1, c.head_dim)
        q, k, v = jnp.split(heads, [c.heads, c.heads + c.kv_heads], 1)
        q, k = (anyop.rope(z, self.positions, self.cos_sin, 0, "gptj") for z in (q, k))
        y = anyop.attention(q, k, v, self.starts, self.starts, return_lse=True)[0]
        return y.reshape(t, c.hidden)


def linear(w: Weights, name: str, x: Any) -> Any:
    """x W^T, plus x A^T B^T where there are low-rank additions."""
    y = anyop.linear(x, w[f"{name}.weight"])
    if f"{name}.a" not in w:
        return y
    return anyop.add(y, anyop.linear(anyop.linear(x, w[f"{name}.a"]), w[f"{name}.b"]))
