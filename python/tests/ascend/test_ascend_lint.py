# SPDX-License-Identifier: Apache-2.0
"""`anyop ascend lint`: a right package has no finding, and each mistake that is planted in it is
found at its line.
"""

import json
import sys
from pathlib import Path

import pytest
from anyop.ascend import lint
from anyop.ascend.lint import schema
from built_packages import ROOT, copied, run
from test_ascend_check import anyop

CONVERTERS = "custom_pypto/converter/add_custom.py"
DEFINITIONS, KERNELS = "csrc/ops_def_registration.cpp", "csrc/add_custom.asc"
DOCUMENT = ROOT / "docs" / "ascend.md"

# A mistake in the package: the file, what is there, what is written in its place, and the findings:
# kind, a text that stands on the line of it, and what the sentence says.
MISTAKES = {
    "dropped": (
        CONVERTERS, "*, alpha: float = 1.0, meta_outputs", "*, meta_outputs",
        [("argument-dropped", "def convert_add_custom(", "no parameter 'alpha' (float alpha=1.0)")],
    ),
    "renamed": (
        CONVERTERS, "    self: Tensor, other: Tensor, *, a", "    self: Tensor, y: Tensor, *, a",
        [("argument-renamed", "def convert_add_custom(", "calls 'other' (Tensor other) 'y'")],
    ),
    "another order": (
        CONVERTERS,
        "    self: Tensor, other: Tensor, *, a", "    other: Tensor, self: Tensor, *, a",
        [
            ("argument-order", "def convert_add_custom(", "'self' in another place"),
            ("argument-order", "def convert_add_custom(", "'other' in another place"),
        ],
    ),
    "by name alone": (
        CONVERTERS,
        "    self: Tensor, other: Tensor, *, a", "    self: Tensor, *, other: Tensor, a",
        [("argument-order", "def convert_add_custom(", "takes 'other' by name alone")],
    ),
    "one more": (
        CONVERTERS, "*, alpha: float = 1.0, meta", "*, alpha: float = 1.0, beta: float, meta",
        [("argument-unknown", "def convert_add_custom(", "a parameter 'beta'")],
    ),
    "another default": (
        CONVERTERS, "*, alpha: float = 1.0, meta", "*, alpha: float = 2.0, meta",
        [("default", "def convert_add_custom(", "alpha=2.0, but the schema float alpha=1.0")],
    ),
    "no default": (
        CONVERTERS, "*, alpha: float = 1.0, meta", "*, alpha: float, meta",
        [("default", "def convert_add_custom(", "no default for 'alpha' (float alpha=1.0)")],
    ),
    "meta_outputs": (
        CONVERTERS, "1.0, meta_outputs: TensorSpec = None", "1.0, outputs: TensorSpec = None",
        [("meta-outputs", "def convert_add_custom(", "has no parameter 'meta_outputs'")],
    ),
    "overload": (
        CONVERTERS, "add_custom.default)", "add_custom.Scalar)",
        [
            ("overload", "def convert_add_custom(", "without schema: default, out"),
            ("no-converter", 'm.def("add_custom(', "no converter, but custom_pypto::"),
        ],
    ),
    "operator": (
        CONVERTERS, "custom_pypto.add_custom.default)", "custom_pypto.add_custum.default)",
        [
            ("no-schema", "def convert_add_custom(", "Did you mean 'custom_pypto::add_custom'?"),
            ("no-converter", 'm.def("add_custom(', "no converter"),
        ],
    ),
    "not returned": (
        CONVERTERS, "return torchair.ge.custom_op(", "torchair.ge.custom_op(",
        [
            ("not-returned", "def convert_add_custom(", "returns nothing, but Tensor"),
            ("not-returned", "def convert_add_custom_out(", "returns nothing, but Tensor(a!)"),
        ],
    ),
    "not marked": (
        DEFINITIONS, "Tensor(a!) out) -> Tensor(a!)", "Tensor out) -> Tensor",
        [
            ("not-marked", "add_custom_out_npu(const", "writes to 'out', but the schema does not"),
            ("not-marked", "add_custom_out_meta(const", "writes to 'out', but the schema does not"),
        ],
    ),
    "C++ Meta function": (
        KERNELS, "add_custom_meta(const at::Tensor &self, const at::Tensor &other, double alpha)",
        "add_custom_meta(const at::Tensor &self, const at::Tensor &other)",
        [("argument-count", "add_custom_meta(const", "has 2, but the schema has 3 arguments")],
    ),
    "no Meta function": (
        KERNELS, '  m.impl("add_custom", &custom_pypto::add_custom_meta);\n', "",
        [("no-meta", 'm.def("add_custom(', "has a converter, but no Meta function")],
    ),
    "schema": (
        DEFINITIONS, "float alpha=1.0) -> Tensor", "float alpha=1.0)",
        [
            ("schema", 'm.def("add_custom(', "'-> RETURNS' does not follow its arguments"),
            ("overload", "def convert_add_custom(", "without schema: out"),
            ("overload", "add_custom_npu(const", "without schema: out"),
            ("overload", "add_custom_meta(const", "without schema: out"),
            ("overload", "at::Tensor add_custom_autograd(", "without schema: out"),
        ],
    ),
}  # fmt: skip


def findings(*given, status):
    return json.loads(anyop("lint", *given, "--json", status=status).stdout)


def test_a_right_package_has_no_finding(tmp_path):
    package = copied("custom_pypto", tmp_path)
    assert findings(package, status=0) == []
    said = anyop("lint", package).stdout
    assert said == (
        f"{package}: 2 schemas, 2 converters, 2 Meta functions, 3 implementations, 0 errors\n"
    )


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found_at_its_line(mistake, tmp_path):
    package = copied("custom_pypto", tmp_path)
    name, old, new, expected = MISTAKES[mistake]
    text = (package / name).read_text()
    assert old in text
    (package / name).write_text(text.replace(old, new))
    found = lint.findings(lint.read([str(package)]))
    assert sorted(f.kind for f in found) == sorted(kind for kind, *_ in expected)
    for kind, line, sentence in expected:
        assert [
            f for f in found
            if f.kind == kind and sentence in f.text
            and line in Path(f.file).read_text().splitlines()[f.line - 1]
        ], (kind, line, found)  # fmt: skip


PYTHON = """
import torch
from torch.library import Library, impl

lib = Library("mine", "DEF")
lib.define("scale(Tensor x, float by, *, bool twice=False, int[2] pad=0) -> Tensor")
lib.define("fill_(Tensor(a!) x, Scalar value) -> Tensor(a!)")
torch.library.define("mine::rows", "(Tensor x, str layout='BSND') -> Tensor")
metas = Library("mine", "IMPL", "Meta")


@impl(lib, "scale", "Meta")
def scale_meta(x, by, *, twice=False, pad=(0, 0)):
    return torch.empty_like(x)


@impl(metas, "fill_")
def fill_meta(x, value):
    return x


@torch.library.register_fake("mine::rows")
def rows_meta(x, layout="BSND"):
    return x.new_empty(x.shape)


@torch.library.custom_op("mine::typed", mutates_args=())
def typed(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@typed.register_fake
def _(x):
    return torch.empty_like(x)
"""
META_MISTAKES = [
    ("x, by, *, twice", "x, *, twice", "argument-dropped", "no parameter 'by' (float by)"),
    ("*, twice=False", "*, double=False", "argument-renamed", "calls 'twice'"),
    ("pad=(0, 0)", "pad=(1, 0)", "default", "pad=(1, 0), but the schema int[2] pad=0"),
    ('layout="BSND"', "layout='TND'", "default", "layout='TND', but the schema str layout='BSND'"),
    ("def rows_meta(x, ", "def rows_meta(x, y, ", "argument-unknown", "a parameter 'y'"),
    ('"mine::rows")\ndef', '"mine::row")\ndef', "no-schema", "Did you mean 'mine::rows'?"),
    ("pad=(0, 0)):\n", "pad=(0, 0)):\n    x.zero_()\n",
     "not-marked", "writes to 'x', but the schema does not mark it: Tensor(a!) x"),
]  # fmt: skip


def test_schemas_and_meta_functions_of_python(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(PYTHON)
    assert findings(path, status=0) == []
    for old, new, kind, sentence in META_MISTAKES:
        assert old in PYTHON
        path.write_text(PYTHON.replace(old, new))
        [found] = lint.findings(lint.read([str(path)]))
        assert found.kind == kind and sentence in found.text, found
        assert found.level == "error" and Path(found.file) == path


def test_a_finding_is_shown_with_both_lines(tmp_path):
    package = copied("custom_pypto", tmp_path)
    path = package / CONVERTERS
    path.write_text(
        path.read_text().replace("alpha: float = 1.0, meta", "alpha: float = 2.0, meta")
    )
    done = run(
        ["env", "COLUMNS=84", sys.executable, "-m", "anyop", "ascend", "lint", "custom_pypto"],
        None,
        tmp_path,
        1,
    )
    assert f"```\n{done}```" in DOCUMENT.read_text()


def test_what_cannot_be_read_is_told(tmp_path):
    def said(*given):
        return anyop("lint", *given, status=1).stderr

    assert "nothing_like_it is no file, no folder and no package" in said("nothing_like_it")
    (tmp_path / "empty").mkdir()
    assert "There is no file to compare" in said(tmp_path / "empty")


def test_a_file_that_does_not_parse_is_a_finding_and_others_are_compared(tmp_path):
    package = copied("custom_pypto", tmp_path)
    path = package / CONVERTERS
    path.write_text(path.read_text().replace("alpha: float = 1.0, meta", "alpha: float, meta"))
    broken = package / "custom_pypto" / "broken.py"
    broken.write_text("x = 1\ndef (")
    (package / "gone.py").symlink_to(package / "nowhere.py")
    found = findings(package, status=1)
    assert sorted(f["kind"] for f in found) == ["default", "unread", "unread"]
    told = {Path(f["file"]).name: f["text"] for f in found if f["kind"] == "unread"}
    assert told["gone.py"] == f"{package}/gone.py cannot be read: No such file or directory"
    assert told["broken.py"].startswith("it is no Python, so that nothing of it was compared: ")
    shown = anyop("lint", package, status=1).stdout
    assert "error: unread: broken.py:2: it is no Python" in shown and "    2 | def (" in shown
    broken.unlink()
    (package / "gone.py").unlink()
    assert [f["kind"] for f in findings(package, status=1)] == ["default"]
    # The end of a text has no line to be shown.
    broken.write_text("f(\n")
    assert "it is no Python" in anyop("lint", broken, status=1).stdout
    broken.write_bytes(b"x = 1\0")
    assert "it is no Python" in anyop("lint", broken, status=1).stdout


SCHEMA = """
import functools
import torch
import torchair
lib = torch.library.Library("mine", "DEF")
lib.define("twice(Tensor x, *, float by=2.0) -> Tensor")
"""
CONVERTER = """
def convert(x, *, by=3.0, meta_outputs=None):
    return x
"""
REGISTERED = {
    "by name": "@{}(torch.ops.mine.twice.default)" + CONVERTER,
    "of a module": "import torchair as ta\n@ta.{}(torch.ops.mine.twice.default)" + CONVERTER,
    "import as": "from torchair import {} as reg\n@reg(torch.ops.mine.twice.default)" + CONVERTER,
    "assigned": "reg = torchair.{}\nmore = reg\n@more(torch.ops.mine.twice.default)" + CONVERTER,
    "getattr": 'reg = getattr(torchair, "{}")\n@reg(torch.ops.mine.twice.default)' + CONVERTER,
    "partial": "reg = functools.partial(torchair.{}, torch.ops.mine.twice.default)\n@reg()"
    + CONVERTER,
    "a function that passes on": "def reg(kind, op):\n    return torchair.{}(op)\n"
    '@reg("a", torch.ops.mine.twice.default)' + CONVERTER,
    "a decorator of its own": "def reg(op):\n    def wrap(f):\n        @functools.wraps(f)\n"
    "        def inner(*a, **k):\n            return f(*a, **k)\n"
    "        return torchair.{}(op)(inner)\n    return wrap\n"
    "@reg(torch.ops.mine.twice.default)" + CONVERTER,
    "called": CONVERTER + "torchair.{}(torch.ops.mine.twice.default)(convert)",
    "a converter under another name": CONVERTER
    + "other = convert\ntorchair.{}(torch.ops.mine.twice.default)(other)",
    "a converter of partial": CONVERTER.replace("def convert(", "def convert(kind, ")
    + "torchair.{}(torch.ops.mine.twice.default)(functools.partial(convert, 'a'))",
    "a cached converter": CONVERTER
    + "torchair.{}(torch.ops.mine.twice.default)(functools.lru_cache(convert))",
    "operators under another name": "from torch import ops\nmine = ops.mine\n"
    "@torchair.{}(mine.twice.default)" + CONVERTER,
}


@pytest.mark.parametrize("form", REGISTERED)
def test_converters_are_seen_however_they_are_registered(form, tmp_path):
    path = tmp_path / "mine.py"
    text = SCHEMA + REGISTERED[form].format("register_fx_node_ge_converter")
    text += "\n@torch.library.register_fake('mine::twice')\ndef _(x, *, by=2.0):\n    return x\n"
    path.write_text(text)
    package = lint.read([str(path)])
    assert (1, "converter") in lint.counted(package)
    [found] = lint.findings(package)
    assert found.kind == "default" and "by=3.0" in found.text
    path.write_text(text.replace("by=3.0", "by=2.0"))
    assert lint.findings(lint.read([str(path)])) == []


def test_a_registering_function_of_another_file_is_known(tmp_path):
    name = "register_fx_node_ge_converter"
    (tmp_path / "compat.py").write_text(
        f"import torchair\ndef reg(op):\n    return torchair.{name}(op)\n"
    )
    (tmp_path / "mine.py").write_text(
        SCHEMA + "from .compat import reg\n@reg(torch.ops.mine.twice.default)" + CONVERTER
    )
    kinds = [f.kind for f in lint.findings(lint.read([str(tmp_path)]))]
    assert sorted(kinds) == ["default", "no-meta"]


# Of `mine::f(Tensor x, Tensor[] xs) -> RETURNS`: the body of its Meta function, what is told.
RESULTS = [
    ("(Tensor, Tensor)", "return torch.empty_like(x), x", ""),
    ("(Tensor, Tensor)", "return [x, x]", ""),
    ("(Tensor, Tensor)", "return f(x)", ""),
    ("(Tensor, Tensor)", "return xs", ""),
    ("(Tensor, Tensor)", "return x, *xs", ""),
    ("(Tensor, Tensor)", "return torch.empty_like(x)", "returns one tensor, but the schema has 2"),
    ("(Tensor, Tensor)", "return x", "returns 'x' alone, but the schema has 2 results"),
    ("(Tensor, Tensor)", "y = x.new_empty(3)\n    return y", "returns one tensor"),
    ("(Tensor, Tensor)", "y = (x, x, x)\n    return y", "returns a tuple of 3"),
    ("(Tensor, Tensor)", "if xs:\n        return x, x\n    return x, x, x", "returns a tuple of 3"),
    ("(Tensor, Tensor)", "return (x, x) if xs else (x, x, x)", "returns a tuple of 3"),
    ("(Tensor, Tensor)", "pass", "returns nothing, but the schema has 2"),
    ("Tensor", "return torch.empty_like(x)", ""),
    ("Tensor", "raise NotImplementedError", ""),
    ("Tensor", "def g():\n        return 1, 2\n    return x", ""),
    ("Tensor", "return x, x", "returns a tuple of 2, but the schema has 1 result (Tensor)"),
    ("Tensor", "return (x,)", "returns a tuple of 1, but the schema has 1 result (Tensor)"),
    ("Tensor", "return None", "returns nothing, but the schema has 1 result (Tensor)"),
    ("Tensor?", "return None", ""),
    ("Tensor[]", "return [x, x]", ""),
    ("Tensor[]", "return torch.empty_like(x)", "returns one tensor"),
    ("()", "return", ""),
    ("()", "return x", "returns 'x' alone, but the schema has no results (())"),
]


@pytest.mark.parametrize(("returns", "body", "told"), RESULTS)
def test_the_number_of_results_of_meta_functions(returns, body, told, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        'import torch\nlib = torch.library.Library("mine", "DEF")\n'
        f'lib.define("f(Tensor x, Tensor[] xs) -> {returns}")\n'
        f'@torch.library.register_fake("mine::f")\ndef _(x, xs):\n    {body}\n'
    )
    found = lint.findings(lint.read([str(path)]))
    assert [f.kind for f in found] == ["result-count"] * bool(told), found
    if told:
        assert told in found[0].text
        assert found[0].text.startswith("the Meta function of mine::f ")


@pytest.mark.parametrize(
    ("type_of_cpp", "told"),
    [
        ("std::tuple<at::Tensor, at::Tensor>", ""),
        ("static inline ::std::tuple<at::Tensor, std::vector<at::Tensor>>", ""),
        ("auto", ""),
        ("at::Tensor", "returns one tensor, but the schema has 2 results"),
        ("std::tuple<at::Tensor, at::Tensor, at::Tensor>", "returns a tuple of 3"),
        ("std::vector<at::Tensor>", "returns a list"),
        ("void", "returns nothing"),
    ],
)
def test_the_number_of_results_of_meta_functions_of_cpp(type_of_cpp, told, tmp_path):
    path = tmp_path / "mine.cpp"
    path.write_text(
        f"#include <torch/library.h>\n{type_of_cpp} f_meta(const at::Tensor& x) {{ throw 1; }}\n"
        'TORCH_LIBRARY(mine, m) { m.def("f(Tensor x) -> (Tensor, Tensor)"); }\n'
        'TORCH_LIBRARY_IMPL(mine, Meta, m) { m.impl("f", &f_meta); }\n'
    )
    found = lint.findings(lint.read([str(path)]))
    assert [f.kind for f in found] == ["result-count"] * bool(told), found
    assert not told or (told in found[0].text and found[0].line == 2)


def test_schemas_are_read_as_torch_reads_them():
    torch = pytest.importorskip("torch")
    place, different = schema.Place("", 0), []
    for known in torch._C._jit_get_all_schemas():
        text = str(known)
        # One of static_runtime's names an argument twice, and torch forgets which Dict is written.
        if "..." in text or "Dict(" in text or known.name.startswith("static_runtime"):
            continue
        own = schema.parse(text, "", place)
        assert own is not None
        theirs = [(a.name, a.kwarg_only, bool(a.alias_info and a.alias_info.is_write),
                   a.has_default_value()) for a in known.arguments]  # fmt: skip
        mine = [(a.name, a.keyword_only, a.writes, a.default is not schema.NONE_GIVEN)
                for a in own.arguments]  # fmt: skip
        if mine != theirs or (own.operator, own.overload) != (
            known.name, known.overload_name or "default",
        ):  # fmt: skip
            different.append((text, mine, theirs))
    assert not different, different[:3]
