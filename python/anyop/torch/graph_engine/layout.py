# SPDX-License-Identifier: Apache-2.0
"""Operators that make, move, choose and join elements."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from anyop.torch.graph_engine.node import TYPES, Limits, Node, Run


def _like(x: Tensor, value: Tensor) -> Tensor:
    """A value of the graph on the other's device."""
    return value.to(x.device)


def _identity(n: Node) -> Tensor:
    value = n.values[0]
    assert value is not None
    return value


def _transposed(n: Node) -> Tensor:
    return n["x"].permute(n.ints("perm")).contiguous()


def _expanded(n: Node) -> Tensor:
    shape, x = n.ints("shape"), n["x"]
    new = len(shape) - x.dim()
    # -1 is the size that is there, as in torch.
    sizes = [x.shape[i - new] if size < 0 else size for i, size in enumerate(shape)]
    return torch.broadcast_to(x, torch.broadcast_shapes(x.shape, tuple(sizes))).contiguous()


def _unsqueezed(n: Node) -> Tensor:
    x, axes = n["x"], n.attribute("axes", [])
    for axis in sorted(a % (x.dim() + len(axes)) for a in axes):
        x = x.unsqueeze(axis)
    return x


def _squeezed(n: Node) -> Tensor:
    x, axes = n["x"], n.attribute("axis", [])
    return x.squeeze(tuple(a % x.dim() for a in axes)) if axes else x.squeeze()


def _sliced(n: Node) -> Tensor:
    x = n["x"]
    begins, ends = n.ints("begin"), n.ints("end")
    axes = list(range(len(begins))) if n.get("axes") is None else n.ints("axes")
    strides = [1] * len(begins) if n.get("strides") is None else n.ints("strides")
    dropped = []
    for i, axis in enumerate(a % x.dim() for a in axes):
        if n.attribute("shrink_axis_mask", 0) >> i & 1:
            x = x.narrow(axis, begins[i] % x.shape[axis], 1)
            dropped.append(axis)
            continue
        begin = None if n.attribute("begin_mask", 0) >> i & 1 else begins[i]
        end = None if n.attribute("end_mask", 0) >> i & 1 else ends[i]
        if strides[i] > 0:  # torch slices forwards only; others are gathered
            x = x[(slice(None),) * axis + (slice(begin, end, strides[i]),)]
            continue
        places = range(*slice(begin, end, strides[i]).indices(x.shape[axis]))
        x = x.index_select(axis, torch.tensor(list(places), device=x.device))
    return (x.squeeze(tuple(dropped)) if dropped else x).contiguous()


def _part(n: Node) -> Tensor:
    x = n["x"]
    for axis, (begin, size) in enumerate(zip(n.ints("offsets"), n.ints("size"), strict=True)):
        x = x.narrow(axis, begin, x.shape[axis] - begin if size < 0 else size)
    return x.contiguous()


def _gathered(n: Node) -> Tensor:
    x = n["x"]
    axis = n.number("axis") if n.get("axis") is not None else 0
    indices = n["indices"].to(torch.int64)
    if x.device != indices.device:
        indices = indices.to(x.device)
    axis %= max(1, x.dim())
    indices = torch.where(indices < 0, indices + x.shape[axis], indices)
    chosen = torch.index_select(x, axis, indices.reshape(-1))
    return chosen.reshape(x.shape[:axis] + indices.shape + x.shape[axis + 1 :])


def _indexed(n: Node) -> Tensor:
    x, left = n["x"], n.all("indices")
    mask = n.attribute("indices_mask", [1] * len(left))
    index = [_like(x, left.pop(0)) if is_given else None for is_given in mask]
    chosen: Tensor = torch.ops.aten.index(x, index)
    return chosen


def _gathered_elements(n: Node) -> Tensor:
    return torch.gather(n["x"], n.attribute("dim", 0), _like(n["x"], n["index"]).to(torch.int64))


_REDUCTIONS = {"add": "sum", "mul": "prod"}


def _scattered(n: Node) -> Tensor:
    x, axis, reduction = n["data"], n.attribute("axis", 0), n.attribute("reduction", "none")
    indices, updates = _like(x, n["indices"]).to(torch.int64), _like(x, n["updates"])
    if reduction == "none":
        return torch.scatter(x, axis, indices, updates)
    return torch.scatter_reduce(x, axis, indices, updates, _REDUCTIONS[reduction])


def _index_added(n: Node) -> Tensor:
    x, alpha = n["var"], n.get("alpha")
    updates = n["updates"] if alpha is None else n["updates"] * alpha
    return torch.index_add(x, n.attribute("axis"), _like(x, n["indices"]), _like(x, updates))


def _split(n: Node) -> tuple[Tensor, ...]:
    x, axis = n["x"], n.number("split_dim")
    sizes = n.ints("size_splits")
    rest = x.shape[axis] - sum(s for s in sizes if s >= 0)
    return tuple(y.contiguous() for y in x.split([rest if s < 0 else s for s in sizes], axis))


def _unpacked(n: Node) -> tuple[Tensor, ...]:
    return tuple(y.contiguous() for y in torch.unbind(n["x"], n.attribute("axis", 0)))


def _joined(n: Node) -> Tensor:
    return torch.cat(n.all("x"), n.number("concat_dim"))


def _shape(n: Node) -> Tensor:
    return torch.tensor(list(n["x"].shape), dtype=TYPES[n.attribute("dtype", 3)])


def _range(n: Node) -> Tensor:
    start, limit, delta = n["start"], n["limit"], n["delta"]
    kind = torch.result_type(start, limit)
    return torch.arange(start.item(), limit.item(), delta.item(), dtype=kind)


def _filled(n: Node) -> Tensor:
    return n["value"].reshape(()).expand(n.ints("dims")).contiguous()


def _padded(n: Node) -> Tensor:
    pads, x = n.ints("paddings"), n["x"]
    given = n.get("constant_values")
    value = 0 if given is None else given.item()
    # torch's pad takes the last dimension first.
    backwards = [p for i in reversed(range(x.dim())) for p in pads[2 * i : 2 * i + 2]]
    return F.pad(x, backwards, value=value)


def _ordered(n: Node) -> tuple[Tensor, Tensor]:
    values, places = torch.sort(
        n["x"],
        stable=bool(n.attribute("stable", False)),
        dim=n.attribute("axis", -1),
        descending=bool(n.attribute("descending", False)),
    )
    return values, places.to(torch.int32)


def _top(n: Node) -> tuple[Tensor, Tensor]:
    how = (n.attribute("dim", -1), n.attribute("largest", True), n.attribute("sorted", True))
    values, places = torch.topk(n["x"], n.number("k"), *how)
    return values, places.to(torch.int32)


def _chosen(n: Node) -> Tensor:
    return torch.where(n["condition"], n["then"], n["else"])


def _assigned(n: Node) -> Tensor:
    return n["ref"].copy_(n["value"])


def _strided(n: Node) -> Tensor:
    where = (n.ints("size"), n.ints("stride"), n.number("storage_offset"))
    return n["x"].contiguous().as_strided(*where).contiguous()


def _view_copied(n: Node) -> Tensor:
    where = (n.ints("dst_size"), n.ints("dst_stride"), n.number("dst_storage_offset"))
    return torch.as_strided_scatter(n["dst"].contiguous(), n["src"], *where)


def _masked(n: Node) -> Tensor:
    x, value = n["x"], n["value"]
    return torch.where(_like(x, n["mask"]), value.to(x.dtype).reshape(()), x)


OPERATORS: dict[str, Run] = {
    "AsStrided": _strided,
    "Assign": _assigned,
    "Bitcast": lambda n: n["x"].view(TYPES[n.attribute("type")]),
    "BroadcastTo": _expanded,
    "ConcatV2": _joined,
    "Expand": _expanded,
    "ExpandDims": lambda n: n["x"].unsqueeze(n.number("axis")),
    "Fill": _filled,
    "FlattenV2": lambda n: n["x"].flatten(n.attribute("axis", 1), n.attribute("end_axis", -1)),
    "Gather": _gathered,
    "GatherElements": _gathered_elements,
    "GatherV2": _gathered,
    "Identity": _identity,
    "IndexByTensor": _indexed,
    "InplaceIndexAdd": _index_added,
    "MaskedFill": _masked,
    "Pack": lambda n: torch.stack(n.all("x"), n.attribute("axis", 0)),
    "PadV3": _padded,
    "Permute": lambda n: n["x"].permute(n.attribute("order")).contiguous(),
    "Range": _range,
    "Reshape": lambda n: n["x"].reshape(n.ints("shape")),
    "ReverseV2": lambda n: n["x"].flip(n.ints("axis")),
    "ScatterElements": _scattered,
    "SelectV2": _chosen,
    "Shape": _shape,
    "Slice": _part,
    "Sort": _ordered,
    "SplitV": _split,
    "Squeeze": _squeezed,
    "StridedSlice": _sliced,
    "StridedSliceV2": _sliced,
    "TensorMove": lambda n: _identity(n).clone(),
    "Tile": lambda n: n["x"].repeat(n.ints("multiples")),
    "TopKV2": _top,
    "Transpose": _transposed,
    "Tril": lambda n: n["x"].tril(n.attribute("diagonal", 0)),
    "Triu": lambda n: n["x"].triu(n.attribute("diagonal", 0)),
    "Unpack": _unpacked,
    "Unsqueeze": _unsqueezed,
    "ViewCopy": _view_copied,
}
_NO_MASKS = {"ellipsis_mask": (0,), "new_axis_mask": (0,)}
LIMITS: Limits = {
    "Bitcast": {"type": tuple(TYPES), "keep_dim": (False,)},
    "Gather": {"batch_dims": (0,)},
    "GatherV2": {"batch_dims": (0,)},
    "PadV3": {"mode": ("constant",), "paddings_contiguous": (True,)},
    "ScatterElements": {"reduction": ("none", *_REDUCTIONS)},
    "StridedSlice": _NO_MASKS,
    "StridedSliceV2": _NO_MASKS,
}
