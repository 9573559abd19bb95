# SPDX-License-Identifier: Apache-2.0
"""An operator as a host sees it: what the core says of its contract, as typed data."""

from __future__ import annotations

import functools
import json
from typing import Any, NamedTuple

from anyop import _anyop


class Parameter(NamedTuple):
    """kind: "tensor", "tensors", "int", "float", "bool", "word", "dtype", "ints" or "floats".

    default: as Python has it, a dtype by its name; None also where there is none. words: those of
    all forms.
    """

    name: str
    kind: str
    is_optional: bool
    is_mut: bool
    has_default: bool
    default: Any
    words: tuple[str, ...]

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor or a list of them."""
        return self.kind in ("tensor", "tensors")


class Result(NamedTuple):
    """is_optional: a caller may decline it. declined_without: the number of the optional parameter
    without which it is left out, as the gradient of an absent argument is; None if there is none.
    """

    name: str
    is_optional: bool
    declined_without: int | None


class Wiring(NamedTuple):
    """How an operator and its gradient fit together.

    operator: the gradient's full name. sources: per parameter of the gradient, where its value
    comes from: ("result_gradient", r), ("param", p) or ("result", r) of the operator. targets: per
    result of the gradient, the parameter it is the gradient of. words: of some parameters, those
    words that the gradient takes, where it takes fewer.
    """

    operator: str
    sources: tuple[tuple[str, int], ...]
    targets: tuple[int, ...]
    words: dict[int, tuple[str, ...]]

    @property
    def results(self) -> set[int]:
        """The results of the operator whose gradients it takes; the others have none."""
        return {index for kind, index in self.sources if kind == "result_gradient"}


class Operator:
    """One operator of a loaded library. Everything but its name is read when it is asked for."""

    def __init__(self, name: str) -> None:
        self.name = name  # "anyop.rms_norm"
        self.library, _, self.short_name = name.rpartition(".")
        self.display_name = self.short_name if self.library == "anyop" else name
        self.function = _anyop.functions()[name]

    @functools.cached_property
    def contract(self) -> dict[str, Any]:
        """As `anyop.contract` gives it: the signature with its forms, as data."""
        contract: dict[str, Any] = json.loads(_anyop.contract_json(self.name))
        return contract

    @functools.cached_property
    def params(self) -> tuple[Parameter, ...]:
        """In the order in which a call takes them."""
        return tuple(
            Parameter(
                name=p["name"],
                kind=p["kind"],
                is_optional=bool(p.get("optional")),
                is_mut=bool(p.get("mut")),
                has_default="default" in p,
                default=p.get("default"),
                words=tuple(p.get("words", ())),
            )
            for p in self.contract["params"]
        )

    @functools.cached_property
    def results(self) -> tuple[Result, ...]:
        """In the order in which a call returns them."""
        return tuple(
            Result(r["name"], bool(r.get("optional")), r.get("declined_without"))
            for r in self.contract["results"]
        )

    @functools.cached_property
    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = self.contract["facts"]
        return facts

    @property
    def has_out(self) -> bool:
        """Whether a caller may give the memory of the results."""
        return bool(self._facts["has_out"])

    @property
    def has_lone_result(self) -> bool:
        """Whether there is one result, and a call writes nothing else: what a variant that is given
        the result's memory may return.
        """
        return bool(self._facts["has_lone_result"])

    @property
    def has_in_place(self) -> bool:
        """Whether the lone result may take the first parameter's memory, in every form."""
        return bool(self._facts["has_in_place"])

    @property
    def takes_mask(self) -> bool:
        """Whether there are several results, of which a caller may decline some. Where there is one
        result there is no mask, as a call without it would do nothing.
        """
        return bool(self._facts["takes_mask"])

    @property
    def left_out_by_keyword(self) -> dict[str, int]:
        """The parameters, and their places, that only a call by keyword can leave out (None then):
        one that must be there follows.
        """
        return {self.params[i].name: i for i in self._facts["by_keyword"]}

    @property
    def needs_tensor(self) -> bool:
        """Whether every call has a tensor among its arguments, which tells the host."""
        return bool(self._facts["needs_tensor"])

    @property
    def dtype_groups(self) -> list[list[int]]:
        """Parameters that must be of one dtype: two or more tensors that are only read. Where a
        call brings several dtypes, casting these makes it right (autocast).
        """
        groups: list[list[int]] = self._facts["dtype_groups"]
        return groups

    @functools.cached_property
    def planned(self) -> frozenset[int]:
        """The parameters that lie on the CPU, on whatever device the call is."""
        return frozenset(i for i, p in enumerate(self.contract["params"]) if p.get("planned"))

    @functools.cached_property
    def written(self) -> tuple[int, ...]:
        """The parameters that a call writes."""
        return tuple(i for i, p in enumerate(self.contract["params"]) if p.get("mut"))

    @functools.cached_property
    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = json.loads(_anyop.info_json(self.name))
        return info

    @property
    def has_flops(self) -> bool:
        """Whether the operator says what a call costs: see `anyop._anyop.flops_memory`."""
        return bool(self._info["flops"])

    @functools.cached_property
    def wiring(self) -> Wiring | None:
        """How the gradient is called; None for an operator without one."""
        found = self._info["gradient"]
        if not found:
            return None
        params = [p.name for p in self.params]
        results = [r.name for r in self.results]
        return Wiring(
            found["op"],
            tuple((k, (params if k == "param" else results).index(n)) for k, n in found["sources"]),
            tuple(params.index(name) for name in found["targets"]),
            {params.index(name): tuple(words) for name, words in found["words"].items()},
        )
