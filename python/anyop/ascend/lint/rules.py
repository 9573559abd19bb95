# SPDX-License-Identifier: Apache-2.0
"""Where schemas, Meta functions and converters of an operator do not fit each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from anyop import _anyop
from anyop.ascend.lint.functions import CONVERTER, KERNEL, META, Parameter, Registered, Result
from anyop.ascend.lint.package import Package
from anyop.ascend.lint.schema import NO_LITERAL, NONE_GIVEN, Argument, Schema

META_OUTPUTS = "meta_outputs"  # the engine passes what the Meta function gave by this name
# Operators of torch and of the vendor's backend: their schemas stand in no package.
_OTHERS = ("aten", "prims", "prim", "quantized", "npu", "npu_inference", "higher_order")
# Keys whose implementation serves Meta tensors too.
_SERVE_META = ("Meta", "", "CompositeImplicitAutograd", "CompositeExplicitAutograd")


@dataclass(frozen=True)
class Finding:
    """What does not fit, at its line; there: the line of the schema, if it is another one."""

    kind: str
    level: str  # "error"
    operator: str
    text: str
    file: str
    line: int
    there_file: str = ""
    there_line: int = 0


def findings(package: Package) -> list[Finding]:
    """What does not fit, by file and line."""
    found = [_wrong(*each) for each in package.wrong]
    found += [Finding("unread", "error", "", why, p.file, p.line) for p, why in package.unread]
    known: dict[str, dict[str, Schema]] = {}
    for schema in package.schemas:
        overloads = known.setdefault(schema.operator, {})
        if schema.overload in overloads:
            found.append(_of(schema, "schema-twice", f"{schema.full} has a schema twice"))
        overloads[schema.overload] = schema
    for function in package.registered:
        overloads = known.get(function.operator, {})
        schema_of = overloads.get(function.overload)
        if schema_of:
            found += _compared(schema_of, function)
        elif function.operator not in package.unknown and function.space not in _OTHERS:
            found.append(_without_schema(function, overloads, known))
    found += _missing(package, known)
    return sorted(dict.fromkeys(found), key=lambda f: (f.file, f.line, f.kind, f.text))


def _wrong(place: object, text: str, why: str) -> Finding:
    file, line = getattr(place, "file", ""), getattr(place, "line", 0)
    shown = text if len(text) < 60 else text[:57] + "..."
    return Finding("schema", "error", "", f"'{shown}' is no schema: {why}", file, line)


def _of(schema: Schema, kind: str, text: str) -> Finding:
    return Finding(kind, "error", schema.full, text, schema.place.file, schema.place.line)


def _at(
    function: Registered, kind: str, text: str, schema: Schema | None = None, line: int = 0
) -> Finding:
    place = function.place
    there = (schema.place.file, schema.place.line) if schema else ("", 0)
    text = f"the {function.role} of {function.full} {text}"
    return Finding(kind, "error", function.full, text, place.file, line or place.line, *there)


def _without_schema(
    function: Registered, overloads: dict[str, Schema], known: Iterable[str]
) -> Finding:
    if overloads:
        there = next(iter(overloads.values()))
        names = ", ".join(sorted(overloads))
        return _at(function, "overload", f"is for an overload without schema: {names}", there)
    near = _anyop.did_you_mean(function.operator, list(known))
    return _at(function, "no-schema", f"has no schema.{near}" if near else "has no schema")


def _compared(schema: Schema, function: Registered) -> Iterator[Finding]:
    if function.parameters is not None:
        if function.is_python:
            yield from _parameters(schema, function)
        elif len(function.parameters) != len(schema.arguments):
            counts = f"{len(function.parameters)}, but the schema has {len(schema.arguments)}"
            yield _at(function, "argument-count", f"has {counts} arguments", schema)
    yield from _writes(schema, function)
    if function.role == CONVERTER and not function.returns and schema.returns != "()":
        yield _at(function, "not-returned", f"returns nothing, but {schema.returns}", schema)
    else:
        yield from _results(schema, function)


def _results(schema: Schema, function: Registered) -> Iterator[Finding]:
    """A Meta function says of which shapes a graph's results are, one for each."""
    for result in function.results:
        shown = _unlike(result, schema)
        if shown:
            count = len(schema.results)
            has = f"{count or 'no'} result{'s' * (count != 1)} ({schema.returns})"
            what = f"returns {shown}, but the schema has {has}"
            yield _at(function, "result-count", what, schema, result.line)


def _unlike(result: Result, schema: Schema) -> str:
    """What is returned, if it cannot be what the schema returns; else ""."""
    expected = schema.results
    only = expected[0] if len(expected) == 1 else ""
    if result.parameter:
        types = {a.name: a.type for a in schema.arguments}
        kind = types.get(result.parameter, "")
        is_one = kind.startswith("Tensor") and "[" not in kind and len(expected) != 1
        return f"'{result.parameter}' alone" if is_one else ""
    if "[" in only and (result.is_sequence or result.is_list):  # Tensor[]: of any length
        return ""
    if result.is_list:
        return "a list"
    if result.is_sequence:
        is_right = result.count == len(expected) and len(expected) != 1
        return "" if is_right else f"a tuple of {result.count}"
    if result.count == 0:
        return "" if not expected or "?" in only else "nothing"
    return "" if only and "[" not in only else "one tensor"


def _parameters(schema: Schema, function: Registered) -> Iterator[Finding]:
    """Arguments before the schema's * come by position or name, the others by name alone."""
    given = [p for p in function.parameters or () if p.name != META_OUTPUTS]
    lacks = len(given) == len(function.parameters or ())
    if function.role == CONVERTER and lacks and not function.takes_any:
        yield _at(function, "meta-outputs", f"has no parameter '{META_OUTPUTS}'", schema)
    by_name = {p.name: p for p in given}
    declared = {a.name for a in schema.arguments}
    strangers = [p for p in given if p.name not in declared]
    moved = []
    for i, argument in enumerate(schema.arguments):
        parameter = by_name.get(argument.name)
        if parameter is None:
            parameter = _renamed(argument, i, given, strangers)
            if parameter is None and not function.takes_any:
                what = f"has no parameter '{argument.name}' ({argument.text})"
                yield _at(function, "argument-dropped", what, schema)
            elif parameter and (function.role == CONVERTER or argument.keyword_only):
                what = f"calls '{argument.name}' ({argument.text}) '{parameter.name}'"
                yield _at(function, "argument-renamed", what, schema)
        elif not argument.keyword_only and (parameter.keyword_only or given.index(parameter) != i):
            moved.append(_at(function, "argument-order", _order(argument, i, parameter), schema))
        if parameter:
            yield from _default(schema, function, argument, parameter)
    unknown = [p.name for p in strangers if p.default is NONE_GIVEN]
    for name in unknown:
        what = f"has a parameter '{name}', which the schema does not have"
        yield _at(function, "argument-unknown", what, schema)
    if not unknown and not function.takes_any:  # an unknown one has moved those behind it
        yield from moved


def _renamed(
    argument: Argument, at: int, given: list[Parameter], strangers: list[Parameter]
) -> Parameter | None:
    """The parameter that stands in the argument's place, under a name of its own; it is no
    stranger any more.
    """
    there = given[at] if at < len(given) else None
    if there is None or there not in strangers or there.keyword_only != argument.keyword_only:
        return None
    strangers.remove(there)
    return there


def _order(argument: Argument, at: int, parameter: Parameter) -> str:
    if parameter.keyword_only:
        return f"takes '{argument.name}' by name alone, but it may come by position"
    return f"has '{argument.name}' in another place than the schema, where it is number {at + 1}"


def _default(
    schema: Schema, function: Registered, argument: Argument, parameter: Parameter
) -> Iterator[Finding]:
    """What a caller leaves out is not passed on, so that the function's own default counts."""
    if argument.default is NONE_GIVEN:
        return
    if parameter.default is NONE_GIVEN:
        what = f"has no default for '{parameter.name}' ({argument.text})"
        yield _at(function, "default", what, schema)
    elif not _is_equal(argument.default, parameter.default):
        shown = f"{parameter.name}={parameter.default!r}, but the schema {argument.text}"
        yield _at(function, "default", f"has {shown}", schema)


def _is_equal(a: object, b: object) -> bool:
    if a is NO_LITERAL or b is NO_LITERAL:
        return True  # names cannot be compared
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_is_equal, a, b))
    return a == b and isinstance(a, bool) == isinstance(b, bool)  # to Python True is 1


def _writes(schema: Schema, function: Registered) -> Iterator[Finding]:
    names = [p.name for p in function.parameters or ()]
    for name, line in function.writes.items():
        by_name = next((a for a in schema.arguments if a.name == name), None)
        at = names.index(name)
        argument = by_name or (schema.arguments[at] if at < len(schema.arguments) else None)
        if argument and not argument.writes and argument.type.startswith("Tensor"):
            what = (
                f"writes to '{name}', but the schema does not mark it: Tensor(a!) {argument.name}"
            )
            yield _at(function, "not-marked", what, schema, line)


def _missing(package: Package, known: dict[str, dict[str, Schema]]) -> Iterator[Finding]:
    """Of operators that have a converter: its other overloads' converters, and Meta functions."""
    converters = [f for f in package.registered if f.role == CONVERTER]
    served = {f.full for f in package.registered if f.key in _SERVE_META and f.role != CONVERTER}
    for operator in dict.fromkeys(f.operator for f in converters):
        have = {f.overload for f in converters if f.operator == operator}
        for overload, schema in known.get(operator, {}).items():
            if overload not in have:
                text = f"{schema.full} has no converter, but {operator} has one for {min(have)}"
                yield _of(schema, "no-converter", text)
            elif schema.full not in served:
                text = (
                    f"{schema.full} has a converter, but no Meta function: no graph is made of it"
                )
                yield _of(schema, "no-meta", text)


def counted(package: Package) -> list[tuple[int, str]]:
    """How many schemas, converters and Meta functions were compared."""
    roles = [f.role for f in package.registered]
    words = ((CONVERTER, "converter"), (META, "Meta function"), (KERNEL, "implementation"))
    return [(len(package.schemas), "schema"), *((roles.count(r), w) for r, w in words)]
