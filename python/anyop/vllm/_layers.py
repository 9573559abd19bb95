# SPDX-License-Identifier: Apache-2.0
"""How layers of vLLM call our operators, where an operator takes other arguments than its layer.

Each function here makes the `forward` of a layer. It gets the row's operator and a function that
runs vLLM's own code for what the operator does not take: `native(layer, why, *arguments)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import anyop

FLOATS = frozenset((torch.float32, torch.float16, torch.bfloat16))

Native = Callable[..., Any]
Forward = Callable[..., Any]


def activation(op: Any, native: Native, name: str, has_arguments: bool) -> Forward:
    """A layer of one tensor; `_anyop_arguments` of the layer are the operator's others."""

    def forward(self: Any, x: torch.Tensor) -> Any:
        if x.dtype in FLOATS:
            return op(x)
        return native(self, f"x is {x.dtype}", x)

    def forward_with_arguments(self: Any, x: torch.Tensor) -> Any:
        if x.dtype in FLOATS:
            return op(x, **self._anyop_arguments)
        return native(self, f"x is {x.dtype}", x)

    chosen = forward_with_arguments if has_arguments else forward
    chosen.__name__ = name
    return chosen


def gelu_in_steps(op: Any, native: Native) -> Forward:
    """The formula of tanh. vLLM rounds each of its steps to the dtype of x; in bf16 one element in
    a hundred is beyond the tolerance of vLLM's tests if only the result is rounded.
    """

    def forward(self: Any, x: torch.Tensor) -> Any:
        if x.dtype == torch.float32:
            return op(x, "tanh")
        return native(self, f"x is {x.dtype}, and each step of the formula is rounded to it", x)

    return forward


def _unfit(x: torch.Tensor, weight: torch.Tensor | None) -> str:
    """Why a norm cannot take these; "" if it can."""
    if x.dtype not in FLOATS:
        return f"x is {x.dtype}"
    if weight is not None and weight.dtype != x.dtype:
        return f"x is {x.dtype}, its weight {weight.dtype}"
    return ""


def gemma_norm(op: Any, native: Native) -> Forward:
    def forward(self: Any, x: torch.Tensor, residual: torch.Tensor | None = None) -> Any:
        weight = self.weight.data
        if why := _unfit(x, weight):
            return native(self, why, x, residual)
        if residual is None:
            return op(x, weight, self.variance_epsilon, 1.0)
        return anyop.add_rms_norm(x, residual, weight, self.variance_epsilon, 1.0)

    return forward


def norm(op: Any, native: Native) -> Forward:
    def forward(self: Any, x: torch.Tensor, residual: torch.Tensor | None = None) -> Any:
        weight = self.weight.data if self.has_weight else None
        why = _unfit(x, weight)
        if self.variance_size_override is not None:
            why = "the variance is that of a part"
        if why:
            return native(self, why, x, residual)
        if residual is None:
            return op(x, weight, self.variance_epsilon)
        return anyop.add_rms_norm(x, residual, weight, self.variance_epsilon)

    return forward


def layer_norm(op: Any, native: Native) -> Forward:
    def forward(self: Any, x: torch.Tensor) -> Any:
        if why := _unfit(x, self.weight):
            return native(self, why, x)
        return op(x, self.weight, self.bias, self.eps)

    return forward


def conv(op: Any, native: Native) -> Forward:
    """vLLM's own code pads with zeros, whatever the layer's `padding_mode` is."""

    def forward(self: Any, x: torch.Tensor) -> Any:
        if why := _unfit(x, self.weight):
            return native(self, why, x)
        sizes = (list(self.stride), list(self.padding), list(self.dilation))
        return op(x, self.weight, self.bias, *sizes, self.groups)

    return forward


def _style(layer: Any) -> str:
    return "neox" if layer.is_neox_style else "gptj"


def rope(op: Any, native: Native) -> Forward:
    """Writes query and key, as vLLM's own kernels do."""

    def forward(
        self: Any,
        positions: torch.Tensor,
        query: torch.Tensor,
        key: torch.Tensor | None = None,
    ) -> Any:
        if query.dtype not in FLOATS:
            return native(self, f"query is {query.dtype}", positions, query, key)
        places = positions.flatten()
        shape = (places.shape[0], -1, self.head_size)
        keys = key if key is None else key.view(shape)
        op(places, query.view(shape), keys, self.cos_sin_cache, 0, _style(self))
        return query, key

    return forward


def deepseek_rope(op: Any, native: Native) -> Forward:
    """Heads have a dimension of their own, [tokens, heads, size]."""

    def forward(
        self: Any,
        positions: torch.Tensor,
        query: torch.Tensor,
        key: torch.Tensor | None = None,
        offsets: torch.Tensor | None = None,
    ) -> Any:
        if query.dtype not in FLOATS or query.dim() != 3:
            why = f"query is {query.dtype} of {query.dim()} dimensions"
            return native(self, why, positions, query, key, offsets)
        places = positions if offsets is None else positions + offsets
        op(places, query, key, self.cos_sin_cache, 0, _style(self))
        return query, key

    return forward


def deepseek_v4_rope(op: Any, native: Native) -> Forward:
    """As `deepseek_rope`, but only the last elements of a head turn, and back where `inverse`."""

    def forward(
        self: Any,
        positions: torch.Tensor,
        query: torch.Tensor,
        key: torch.Tensor | None = None,
        offsets: torch.Tensor | None = None,
        inverse: bool = False,
    ) -> Any:
        sizes = {x.shape[-1] for x in (query, key) if x is not None}
        if query.dtype not in FLOATS or query.dim() != 3 or len(sizes) > 1:
            why = f"query is {query.dtype} of {query.dim()} dimensions, heads are of {sizes}"
            return native(self, why, positions, query, key, offsets, inverse)
        places = positions if offsets is None else positions + offsets
        first = query.shape[-1] - self.rotary_dim
        op(places, query, key, self.cos_sin_cache, first, _style(self), inverse)
        return query, key

    return forward


def _rotate_axes(op: Any, layer: Any, sections: list[int], order: str, given: Any) -> None:
    positions, query, key = given
    shape = (positions.shape[1], -1, layer.head_size)
    keys = key if key is None else key.view(shape)
    # Positions may have axes for which the layer has no section: by these nothing turns.
    sections = sections + [0] * (positions.shape[0] - len(sections))
    op(positions, query.view(shape), keys, layer.cos_sin_cache, sections, order, _style(layer))


def mrope(op: Any, native: Native) -> Forward:
    """Positions [tokens] of text, or [axes, tokens]."""

    def forward(
        self: Any,
        positions: torch.Tensor,
        query: torch.Tensor,
        key: torch.Tensor | None = None,
        offsets: torch.Tensor | None = None,
    ) -> Any:
        if query.dtype not in FLOATS:
            return native(self, f"query is {query.dtype}", positions, query, key, offsets)
        if positions.dim() == 1:
            shape = (positions.shape[0], -1, self.head_size)
            keys = key if key is None else key.view(shape)
            table = self.cos_sin_cache
            anyop.rotary_embedding(positions, query.view(shape), keys, table, 0, _style(self))
            return query, key
        order = "interleaved" if self.mrope_interleaved else "blocks"
        _rotate_axes(op, self, list(self.mrope_section), order, (positions, query, key))
        return query, key

    return forward


def xdrope(op: Any, native: Native) -> Forward:
    """Four axes in blocks. vLLM's own forward on CPU takes them for one."""

    def forward(
        self: Any,
        positions: torch.Tensor,
        query: torch.Tensor,
        key: torch.Tensor | None = None,
        offsets: torch.Tensor | None = None,
    ) -> Any:
        if query.dtype not in FLOATS:
            return native(self, f"query is {query.dtype}", positions, query, key, offsets)
        _rotate_axes(op, self, list(self.xdrope_section), "blocks", (positions, query, key))
        return query, key

    return forward


def phi3_rope(op: Any, native: Native) -> Forward:
    """One table holds the rows for short contexts, then those for long ones."""

    def forward(
        self: Any,
        positions: torch.Tensor,
        query: torch.Tensor,
        key: torch.Tensor | None = None,
        offsets: torch.Tensor | None = None,
    ) -> Any:
        if query.dtype not in FLOATS or positions.dim() != 1:
            why = f"query is {query.dtype}, positions have {positions.dim()} dimensions"
            return native(self, why, positions, query, key, offsets)
        places = positions if offsets is None else positions + offsets
        table = self.long_short_cos_sin_cache
        if self.use_long_rope:
            table = table[self.original_max_position_embeddings :]
        shape = (places.shape[0], -1, self.head_size)
        keys = key if key is None else key.view(shape)
        op(places, query.view(shape), keys, table, 0, "neox")
        return query, key

    return forward


def apply_rotary(op: Any, native: Native) -> Forward:
    """The cosines and sines of each token are given, not looked up: [tokens, size / 2] each."""

    def forward(self: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
        fits = x.dim() in (3, 4) and cos.dim() == 2
        fits = fits and (cos.shape[0], 2 * cos.shape[1]) == (x.shape[-3], x.shape[-1])
        if x.dtype not in FLOATS or not fits:
            why = f"x is {x.dtype} {list(x.shape)}, cos {list(cos.shape)}"
            return native(self, why, x, cos, sin)
        table = torch.cat((cos, sin), dim=-1)
        if not self.enable_fp32_compute:
            table = table.to(x.dtype)
        if x.dim() == 3:
            return op(x, None, table, 0, _style(self))
        places = torch.arange(x.shape[1], device=x.device).repeat(x.shape[0])
        return op(x.flatten(0, 1), places, table, 0, _style(self)).view(x.shape)

    return forward


def embedding(op: Any, native: Native) -> Forward:
    """For the layer's `quant_method`: what the layer does for its shards around it stays vLLM's."""

    def embed(self: Any, layer: Any, ids: torch.Tensor) -> Any:
        if layer.weight.dtype in FLOATS:
            return op(ids, layer.weight)
        return native(self, f"the table is {layer.weight.dtype}", layer, ids)

    return embed
