# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (sentences stay whole)
"""Typical mistakes of an operator's author: each gives one sentence and its place."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from anyop._source_check import check_sources
from anyop.cli import app
from anyop.cli.new_operator import files
from checkout import ROOT
from click.testing import CliRunner

CC, KERNEL, LISTED, AVX2 = "swish.cc", "cpu.cc", "listed.cc", "cpu_avx2.cc"
BACKWARD, REFERENCE = "swish_backward.cc", "reference.cc"

# An operator that lists its kernels itself, one of them from another file.
OWN_LIST = {
    LISTED: """#include "anyop/op.h"

namespace anyop::ops {
namespace {
void Run(const Context&, const Tensor& x, const Tensor& y) {}
constexpr Kernel kPortable{.name = "cpu_portable", .run = Bind<&Run>()};
}  // namespace

extern const Kernel listed_avx2 [[gnu::weak]];
constexpr const Kernel* kKernels[] = {&listed_avx2, &kPortable};

extern constinit const Op listed{
    .signature = "listed(x: f32[n]) -> (y: f32[n])",
    .kernels = kKernels,
};
}  // namespace anyop::ops
""",
    AVX2: """#include "anyop/op.h"

namespace anyop::ops {
namespace {
void RunLanes(const Context&, const Tensor& x, const Tensor& y) {}
}  // namespace

extern constinit const Kernel listed_avx2{.name = "cpu_avx2", .run = Bind<&RunLanes>()};
}  // namespace anyop::ops
""",
}


@pytest.fixture
def operator(tmp_path: Path) -> Path:
    """The folder of an operator that `anyop new --op swish --gradient` makes."""
    folder = tmp_path / "swish"
    folder.mkdir()
    for place, text in files("swish", "elementwise", [], gradient=True):
        (folder / place).write_text(text)
    return folder


@pytest.fixture
def listed(operator: Path) -> Path:
    """The same folder, with an operator beside it that lists its kernels itself."""
    for name, text in OWN_LIST.items():
        (operator / name).write_text(text)
    return operator


# (file, what is there, what the author wrote instead, what the caret is under, the sentence)
MISTAKES = [
    (CC, '.flops = "3 * size(y)"', '.flops = "3 * size(y)", .prepack = "y = add(x, gate"',
     '",',
     "expected ')'."),
    (CC, 'T[..., d], gate', 'T[..., d, gate',
     ': T[..., d], b',
     'expected , or ] after a dimension.'),
    (CC, 'gate: T[..., d]', 'gate T[..., d]',
     'T[..., d], bia',
     "expected : and the parameter's type."),
    (CC, 'bias: T[d]?', 'bias: T[d',
     ': float = 1.0)',
     'expected , or ] after a dimension.'),
    (CC, 'scale: float = 1.0', 'scale: flaot = 1.0',
     '= 1.0) "',
     'expected [ and the dimensions.'),
    (CC, 'scale: float = 1.0', 'x: float = 1.0',
     'x: float = 1.0',
     'two parameters have this name.'),
    (CC, '(y: T[..., d] over x)', '(y: T[..., m] over x)',
     'm] over x) whe',
     'unknown name: neither a parameter nor a variable that some dimension of an input binds.'),
    (KERNEL, '  switch (x.type()) {', '  float* scratch = ctx.Workspace<float>();\n  switch (x.type()) {',
     'Workspace<floa',
     'kernel swish takes workspace, but its .workspace does not say how many bytes. Try .workspace = "4 * threads * d".'),
    (CC, 'over x', 'over bias',
     'y: T[..., d] o',
     'over names a parameter with the dimensions and the dtype of the result.'),
    (CC, 'gate: T[..., d]', 'gate: float32[..., d]',
     'float32[..., d',
     "neither a dtype nor a dtype variable, which begins with a capital letter (T) and is no dtype's name. Did you mean 'f32'?"),
    (CC, 'over x', 'over z',
     'z) where T in ',
     'over names a tensor parameter.'),
    (CC, 'where T in f32 | f16 | bf16', 'where T in f32 | f16 | b16',
     'b16",',
     "expected a dtype: f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i16, i8, u8, bool, u16, u32, u64, c64, c128, f8e8m0, f8e4m3fnuz, f8e5m2fnuz, f4e2m1x2. Did you mean 'f16'?"),
    (CC, 'where T in f32 | f16 | bf16', 'where T in f32 | f16, d >',
     '",',
     "expected an expression: a name, a number, a 'word' or (."),
    (CC, 'where T in f32 | f16 | bf16', 'when T in f32 | f16',
     'when T in f32 ',
     'expected , between conditions, or the next form at the start of a line.'),
    (CC, '-> (y: T[..., d] over x)', '-> y: T[..., d] over x',
     'y: T[..., d] o',
     'expected ( before the results.'),
    (CC, 'scale: float = 1.0', 'scale: float = True',
     'True) "',
     'expected a number.'),
    (CC, 'gate: T[..., d]', 'out: T[..., d]',
     'out: T[..., d]',
     'hosts use the names out, policy, like and self: choose another.'),
    (CC, 'scale: float = 1.0', "mode: 'a' | 'b = 'a'",
     'a\') "',
     'expected , or ) after a parameter.'),
    (CC, '.signature =\n', '.signatur =\n',
     'Op swish{',
     'operator swish has no .signature.'),
    (CC, '"3 * size(y)"', '"3 * size(z)"',
     'size(z)",',
     'unknown name: neither a parameter nor a variable that some dimension of an input binds.'),
    (CC, '"3 * size(y)"', '"3 * "',
     '",',
     "expected an expression: a name, a number, a 'word' or (."),
    (CC, '"swish_backward"', '"swish_backwrd"',
     'swish_backwrd"',
     "its gradient is 'swish_backwrd', but there is no operator of this name. Did you mean 'swish_backward'?"),
    (CC, 'extern constinit const Op swish{', 'constexpr Op swish{',
     'Op swish{',
     'Op swish is in no table, because the build looks for a line that begins with `extern constinit const Op swish{`. Write that.'),
    (LISTED, '{&listed_avx2, &kPortable}', '{&kPortable}',
     'Kernel listed_',
     "kernel listed_avx2 is in no list, so that no call ever takes it. Write `ANYOP_KERNEL(operator){` for it, or add it to the operator's own list."),
    (LISTED, '&kPortable}', '&kPortabel, &kPortable}',
     'kPortabel, &kP',
     "the list names kPortabel, which is no kernel that this file defines or declares. Did you mean 'kPortable'?"),
    (KERNEL, '{.run', '{.when = "T = f32", .run',
     'T = f32", .run',
     'a condition must be true or false.'),
    (KERNEL, '{.run', '{.when = "m % 8 == 0", .run',
     'm % 8 == 0", .',
     'unknown name: neither a parameter nor a variable that some dimension of an input binds.'),
    (KERNEL, '{.run', '{.workspace = "4 * dd", .run',
     'dd", .run = Bi',
     'unknown name: neither a parameter nor a variable that some dimension of an input binds.'),
    (AVX2, 'extern constinit const Kernel', 'constexpr Kernel',
     'Kernel listed_',
     'kernel listed_avx2 is declared in another file, which cannot see this one: it is not extern. Write `extern constinit const Kernel listed_avx2{`.'),
    (BACKWARD, '         float scale, const Tensor* dx', '         std::string scale, const Tensor* dx',
     'std::string sc',
     "kernel swish_backward takes `std::string scale` for parameter 'scale', but it must be `float`, because the signature says a float."),
    (BACKWARD, 'void Run(const Context& ctx, const Tensor& dy, const Tensor& x', 'void Run(const Context& ctx, const Tensor& dy, Tensor& x',
     'Tensor& x, con',
     "kernel swish_backward takes `Tensor& x` for parameter 'x', but it must be `const Tensor&`, because the signature says a tensor."),
    (BACKWARD, 'const Tensor* dbias) {\n  switch', 'const Tensor& dbias) {\n  switch',
     'const Tensor& ',
     "kernel swish_backward takes `const Tensor& dbias` for result 'dbias', but it must be `const Tensor*`, because the signature says a tensor that may be absent."),
    (BACKWARD, 'const Tensor* dgate, const Tensor* dbias) {\n  switch', 'const Tensor* dgate) {\n  switch',
     ') {',
     'kernel swish_backward takes 7 parameters after the context, but the signature has 8: dy, x, gate, bias, scale, dx, dgate, dbias.'),
    (BACKWARD, 'void Run(const Context& ctx, ', 'void Run(',
     'const Tensor& ',
     'kernel swish_backward: the first parameter must be `const Context&`.'),
    (KERNEL, 'void Run(const Context& ctx, const Tensor& x, const Tensor& gate, const Tensor* bias', 'void Run(const Context& ctx, const Tensor& x, const Tensor& gate, const Tensor& bias',
     'const Tensor& ',
     "kernel swish takes `const Tensor& bias` for parameter 'bias', but it must be `const Tensor*`, because the signature says a tensor that may be absent."),
    (REFERENCE, '.op = "swish",', '.op = "swich",',
     'swich",',
     "the reference is of 'swich', but there is no operator of this name. Did you mean 'swish'?"),
    (REFERENCE, 'double scale,', 'std::int64_t scale,',
     'std::int64_t s',
     "reference swish_reference takes `std::int64_t scale` for parameter 'scale', but it must be `float`, because the signature says a float."),
    (REFERENCE, 'extern constinit const Reference swish_reference', 'constexpr Reference swish_reference',
     'Reference swis',
     'Reference swish_reference is in no table, because the build looks for a line that begins with `extern constinit const Reference swish_reference{`. Write that.'),
    (BACKWARD, '"scale: float)', '"scale: double)',
     ') -> (dx: T[..',
     'expected [ and the dimensions.'),
]  # fmt: skip


@pytest.mark.parametrize("file, right, wrong, at, sentence", MISTAKES)
def test_a_mistake_gives_its_sentence(
    listed: Path, file: str, right: str, wrong: str, at: str, sentence: str
) -> None:
    path = listed / file
    text = path.read_text()
    assert right in text
    path.write_text(text.replace(right, wrong, 1))
    (finding,) = check_sources([listed.parent])
    assert finding.sentence.replace(str(listed), "swish") == sentence
    assert Path(finding.file).parent == listed
    assert finding.source[finding.column - 1 :].startswith(at)
    lines = str(finding).splitlines()
    assert lines[0].startswith(f"{finding.file}:{finding.line}:{finding.column}: ")
    assert lines[2].index("^") - 2 == finding.column - 1


def test_there_are_thirty_mistakes() -> None:
    assert len(MISTAKES) >= 30


def test_a_file_of_no_instruction_set_is_named(listed: Path) -> None:
    for wrong, sentence in (
        ("cpu_avx3.cc", "no instruction set is called 'avx3', so that this file is never built; the "
         "names are cpu_avx2.cc, cpu_avx512.cc, cpu_avx512_bf16.cc, cpu_avx512_vnni.cc, "
         "cpu_amx_bf16.cc, cpu_neon.cc. Did you mean 'cpu_avx2.cc'?"),
        ("avx2.cc", "this file is built for every processor, though it is called after an "
         "instruction set. Call it cpu_avx2.cc."),
    ):  # fmt: skip
        (listed / AVX2).rename(listed / wrong)
        assert [f.sentence for f in check_sources([listed])] == [sentence]
        (listed / wrong).rename(listed / AVX2)


def test_a_kernel_without_its_file_is_named(listed: Path) -> None:
    (listed / AVX2).unlink()
    (finding,) = check_sources([listed])
    assert finding.sentence == (
        "kernel listed_avx2 is declared, but no file defines it. Try a file with `extern constinit "
        "const Kernel listed_avx2{`."
    )


def test_two_operators_of_one_name_are_both_named(operator: Path) -> None:
    other = operator.with_name("other")
    other.mkdir()
    (other / BACKWARD).write_text((operator / BACKWARD).read_text())
    (finding,) = check_sources([operator.parent])
    assert finding.sentence == (
        "the signature's name 'swish_backward' is taken by operator swish_backward in "
        f"{other / BACKWARD}. Rename one of them."
    )


def test_each_name_of_an_operator_that_was_not_changed_is_named(operator: Path) -> None:
    """To rename one, folder and file, variable, signature, kernels and reference are named alike."""
    cc = operator / CC
    right = cc.read_text()

    def sentences() -> list[str]:
        return [f.sentence for f in check_sources([operator.parent])]

    assert sentences() == []
    cc.write_text(right.replace('"swish(', '"swash('))
    assert sentences() == [
        "the signature calls the operator 'swash', but its variable is `Op swish`. Rename one of "
        "them."
    ]
    cc.write_text(right.replace("const Op swish{", "const Op swash{"))
    assert sentences() == [
        "this kernel is of operator swish, but there is none of this name. Did you mean 'swash'?",
        "the reference is of 'swish', but there is no operator of this name. Did you mean 'swash'?",
        "operator swash is in swish.cc, but must be in a file of its name. Try swash.cc.",
        "the signature calls the operator 'swish', but its variable is `Op swash`. Rename one of "
        "them.",
    ]
    cc.write_text(right)
    cc.rename(operator / "swash.cc")
    assert sentences() == [
        "operator swish is in swash.cc, but must be in a file of its name. Try swish.cc."
    ]
    (operator / "swash.cc").rename(cc)
    operator.rename(operator.with_name("swash"))
    assert [f.sentence for f in check_sources([operator.with_name("swash").parent])] == [
        "operator swish is alone in the folder swash, but must be in one of its name. Rename the "
        "folder to swish."
    ]


def test_a_composition_that_goes_round_in_a_circle_is_named(tmp_path: Path) -> None:
    for name, other in (("ping", "pong"), ("pong", "ping")):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.cc").write_text(
            f"extern constinit const Op {name}{{\n"
            f'    .signature = "{name}(x: f32[n]) -> (y: f32[n])",\n'
            f'    .means = "y = {other}(x)",\n}};\n'
        )
    assert [f.sentence for f in check_sources([tmp_path])] == [
        f".means of {name} comes back to {name}, by {other}, but must end with operators that have "
        "kernels. Write one of them without the other."
        for name, other in (("ping", "pong"), ("pong", "ping"))
    ]


SIGNATURE = "The signature is gated(x: T[..., d], gate: T[..., d], scale: float = 1.0) -> (y: T[..., d] over x)."
RUN = "void Run(const anyop::Context& ctx, const anyop::Tensor& x, const anyop::Tensor& gate, float scale,\n         const anyop::Tensor& y)"
ASCEND_MISTAKES = [
    ("another type",
     ("float scale,\n         const", "const anyop::Tensor& scale,\n         const"), "const anyop::Tensor& scale,",
     f"kernel gated takes `const anyop::Tensor& scale` for parameter 'scale', but it must be `float`, because the signature says a float. {SIGNATURE}"),
    ("a number for a tensor",
     ("const anyop::Tensor& gate,", "float gate,"), "float gate,",
     f"kernel gated takes `float gate` for parameter 'gate', but it must be `const Tensor&`, because the signature says a tensor. {SIGNATURE}"),
    ("one missing",
     ("const anyop::Tensor& gate, float scale,", "float scale,"), "float scale,",
     f"kernel gated takes `float scale` for parameter 'gate', but it must be `const Tensor&`, because the signature says a tensor. {SIGNATURE}"),
    ("the result missing",
     ("float scale,\n         const anyop::Tensor& y)", "float scale)"), ") {",
     f"kernel gated takes 3 parameters after the context, but the signature has 4: x, gate, scale, y. {SIGNATURE}"),
    ("one more",
     ("const anyop::Tensor& y)", "const anyop::Tensor& y, const anyop::Tensor& z)"), "const anyop::Tensor& z",
     f"kernel gated takes 5 parameters after the context, but the signature has 4: x, gate, scale, y. {SIGNATURE}"),
    ("no such tensor",
     ("const anyop::Tensor& gate,", "const anyop::Tensor& weight,"), "weight,",
     f"kernel gated takes a tensor 'weight', but the signature has none of this name; here it has 'gate'. {SIGNATURE}"),
    ("in another order",
     ("const anyop::Tensor& x, const anyop::Tensor& gate,", "const anyop::Tensor& gate, const anyop::Tensor& x,"), "gate,",
     f"kernel gated takes 'gate' where the signature has 'x'. Parameters come in the order of the signature. {SIGNATURE}"),
    ("no operator",
     ("ANYOP_ASCEND_KERNEL(gated)", "ANYOP_ASCEND_KERNEL(gatet)"), "gatet)",
     "this kernel is of operator gatet, but there is none of this name. Did you mean 'gated'?"),
    ("no launch",
     (".run = anyop::ascend::Bind<&Run>(),", ""), "gated)",
     f"kernel gated has no .run, so that nothing launches it. Try .run = anyop::ascend::Bind<&Run>(). {SIGNATURE}"),
    ("gaps of another function",
     ("AreContiguous<&Run>", "AreContiguous<&Other>"), "Other>",
     "kernel gated asks for the gaps of the tensors of `Other`, but runs `Run`. Try AreContiguous<&Run>."),
    ("a launch of the vendor's",
     ("anyop::ascend::Launch(ctx, {.blocks = blocks}, kernel, x,", "kernel<<<blocks, nullptr, ctx.stream>>>(x,"), "<<<",
     "kernels of operators are launched by anyop::ascend::Launch(ctx, {.blocks = n}, kernel, arguments...), which both the virtual NPU and chips have. Write that in place of <<<...>>>."),
    ("another include first",
     ('#include "anyop/ascend.h"', '#include "anyop/op.h"\n#include "anyop/ascend.h"'), "anyop/op.h",
     "anyop/op.h is included before anyop/ascend.h, which names this file's kernels. Include anyop/ascend.h first."),
    ("a condition",
     (".run = anyop", '.when = "T == f17", .run = anyop'), "f17",
     "unknown name: neither a parameter nor a variable that some dimension of an input binds."),
]  # fmt: skip


@pytest.mark.parametrize("mistake, change, at, sentence", ASCEND_MISTAKES)
def test_a_mistake_in_a_kernel_in_ascendc_gives_its_sentence(
    mistake: str, change: tuple[str, str], at: str, sentence: str, tmp_path: Path
) -> None:
    folder = tmp_path / "gated"
    folder.mkdir()
    for place, text in files("gated", "ascend", [], gradient=False):
        (folder / place).write_text(text)
    assert check_sources([tmp_path]) == []
    path = folder / "ascend.cpp"
    text = path.read_text()
    assert change[0] in text and RUN in text
    path.write_text(text.replace(*change, 1))
    (finding,) = check_sources([tmp_path])
    assert finding.sentence == sentence
    assert Path(finding.file) == path
    assert finding.source[finding.column - 1 :].startswith(at)


def test_a_tensor_of_a_kernel_in_ascendc_may_have_a_word_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "mine.cc").write_text(
        '#include "anyop/op.h"\nextern constinit const Op mine{\n'
        '    .signature = "mine(slot_mapping: i32[n], by: int) -> (y: i32[n])",\n};\n'
    )
    text = """void Run(const Context&, const Tensor& slots, std::int64_t factor, const Tensor&) {}
ANYOP_ASCEND_KERNEL(mine){.run = anyop::ascend::Bind<&Run>()};
"""
    (tmp_path / "ascend.asc").write_text(text)
    assert check_sources([tmp_path / "mine.cc", tmp_path / "ascend.asc"]) == []
    (tmp_path / "ascend.asc").write_text(text.replace("slots", "places"))
    (finding,) = check_sources([tmp_path / "mine.cc", tmp_path / "ascend.asc"])
    assert "takes a tensor 'places'" in finding.sentence


@pytest.mark.parametrize("folder", ["ops", "examples/my_ops/ops", "python/anyop/template/ops"])
def test_what_is_right_is_not_complained_of(folder: str) -> None:
    assert check_sources([ROOT / folder]) == []


def test_the_build_says_what_it_would_leave_out(operator: Path) -> None:
    """Without anyop, by Python's standard library alone."""
    (operator / KERNEL).rename(operator / "cpu_avx3.cc")
    program = [sys.executable, "-S", "-E", str(ROOT / "tools" / "list_ops.py"), "--name", "their"]
    command = [*program, "--folder", str(operator), "--output", str(operator / "table.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no instruction set is called 'avx3'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_prints_places_and_has_json(operator: Path) -> None:
    assert CliRunner().invoke(app, ["check", str(operator)]).output == "Nothing is wrong.\n"
    path = operator / CC
    path.write_text(path.read_text().replace("T[..., d]", "T[..., d", 1))
    shown = CliRunner().invoke(app, ["check", str(operator)])
    assert shown.exit_code == 1
    assert f"{path}:18:" in shown.output
    (row,) = json.loads(CliRunner().invoke(app, ["check", "--json", str(path)]).output)
    assert row["line"] == 18
    assert row["sentence"] == "expected , or ] after a dimension."
