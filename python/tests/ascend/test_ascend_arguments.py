# SPDX-License-Identifier: Apache-2.0
"""Descriptions of arguments, on the command line and in TOML."""

import struct

import anyop
import numpy as np
import pytest
from anyop.ascend.arguments import from_bf16, to_bf16, value_of
from anyop.ascend.case import (
    Case,
    changed,
    check_sizes,
    number_of_blocks,
    ordered,
    places_of_arguments,
    read,
    sizes_of,
)
from anyop.ascend.expressions import evaluate
from anyop.ascend.native import READ, WHOLE, WRITE

RNG = np.random.default_rng(0)


def refusal(function, *arguments):
    with pytest.raises(anyop.InvalidArgument) as error:
        function(*arguments)
    return str(error.value)


def test_tensors_have_a_type_sizes_access_and_contents():
    x = value_of("f16[n, 2 * n]", "p", 8, {"n": 3}, RNG)
    assert (x.array.shape, x.array.dtype, x.access) == ((3, 6), np.float16, READ)
    assert np.ptp(x.array) > 0
    y = value_of("out f32[4]", "p", 8, {}, RNG)
    assert y.access == WRITE | WHOLE
    assert value_of("inout i64[]", "p", 8, {}, RNG).array.shape == ()
    assert value_of("i32[5] arange", "p", 8, {}, RNG).array.tolist() == [0, 1, 2, 3, 4]
    assert value_of("u8[64] below n", "p", 8, {"n": 3}, RNG).array.max() == 2
    assert not value_of("i32[5]", "p", 8, {}, RNG).array.any()
    assert value_of("none", "p", 8, {}, RNG).array is None


def test_a_list_has_tensors_behind_words_that_describe_them():
    text = "list f16[n, min(2, n)], 2 of out f32[4], inout i64[] zeros"
    memory = value_of(text, "p", 8, {"n": 3}, RNG, 12)  # kernels may read it as a struct of theirs
    assert [item.array.shape for item in memory.items] == [(3, 2), (4,), (4,), ()]
    assert [item.access for item in memory.items] == [READ, WRITE | WHOLE, WRITE | WHOLE, 3]
    assert memory.array.tolist() == [72, 2, 3, 2, 1 | 1 << 32, 4, 1 | 2 << 32, 4, 3 << 32, *[0] * 4]
    assert memory.access == READ and not memory.is_output()
    assert value_of("list 2 of out f16[1]", "p", 8, {}, RNG).is_output()
    none = value_of("list 0 of f16[8]", "p", 8, {}, RNG)
    assert none.items == () and none.array.tolist() == [8] and not none.is_output()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("list", "'' is no tensor"),
        ("list f16[8],", "'' is no tensor"),
        ("list 2 of none", "'none' is no tensor"),
        ("list f61[8]", "'f61[8]': there is no dtype f61. Did you mean 'f16'?"),
        ("list n - 4 of f16[8]", "'n - 4 of f16[8]' is -1 tensors, but a list has 0 to 1024."),
        ("list m of f16[8]", "'m' is no number: m is no size (known: n)."),
    ],
)
def test_wrong_lists_are_refused(text, said):
    assert refusal(value_of, text, "p", 8, {"n": 3}, RNG).startswith(said)


def test_files_are_read_and_have_to_fit(tmp_path):
    np.save(tmp_path / "x.npy", np.full((2, 2), 1.5))
    x = value_of(f"f16[2, 2] {tmp_path}/x.npy", "p", 8, {}, RNG)
    assert (x.array == 1.5).all() and x.array.dtype == np.float16
    said = refusal(value_of, f"f16[3] {tmp_path}/x.npy", "p", 8, {}, RNG)
    assert said == f"{tmp_path}/x.npy has the sizes [2, 2], but must have [3]."


def test_bfloat16_is_rounded_to_even():
    values = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, np.inf, -(2.0**-133)], np.float32)
    assert from_bf16(to_bf16(values)).tolist() == [1.0, 1.0, 1 + 2**-6, np.inf, -(2.0**-133)]
    assert np.isnan(from_bf16(to_bf16(np.array([np.nan], np.float32)))).all()


@pytest.mark.parametrize(
    ("letter", "text", "code", "value"),
    [("i", "n - 8", "i", -5), ("I", "3", "I", 3), ("q", "2 ** 0", None, None),
     ("f", "1 / 4", "f", 0.25), ("b", "1", "?", True), ("h", "1.5", "e", 1.5)],
)  # fmt: skip
def test_numbers_are_passed_as_the_kernel_has_them(letter, text, code, value):
    if code is None:
        assert "is no number" in refusal(value_of, text, letter, 8, {}, RNG)
        return
    assert value_of(text, letter, 4, {"n": 3}, RNG) == struct.pack(f"={code}", value)


def test_structs_are_laid_out_as_a_compiler_does():
    text = "struct u8 1, u32 n, u16 7, f64 0.5"
    assert value_of(text, "t", 24, {"n": 9}, RNG) == struct.pack("@BIHd", 1, 9, 7, 0.5)
    text = "struct u32 min(n, max(1, 2)), u32 n"
    assert value_of(text, "t", 8, {"n": 9}, RNG) == struct.pack("<II", 2, 9)
    memory = value_of("struct u32 1, u8 2", "p", 8, {}, RNG)
    assert memory.array.tobytes() == struct.pack("<IB3x", 1, 2) and memory.access == READ
    assert refusal(value_of, "struct u32 1", "t", 8, {}, RNG) == (
        "'struct u32 1' has 4 bytes, but the struct of the kernel has 8."
    )


def test_a_struct_in_memory_has_the_size_of_the_kernels():
    for text, there in (("struct u32 1", 4), ("struct u32 1, u64 2", 16)):
        assert refusal(value_of, text, "p", 8, {}, RNG, 12) == (
            f"'{text}' has {there} bytes, but the struct of the kernel has 12."
        )
    assert value_of("struct u32 1, u32 2, u8 3", "p", 8, {}, RNG, 12).array.nbytes == 12
    assert value_of("u8[24]", "p", 8, {}, RNG, 12).array.nbytes == 24
    assert refusal(value_of, "u8[20]", "p", 8, {}, RNG, 12) == (
        "'u8[20]' has 20 bytes, but the struct of the kernel has 12 or several of them."
    )
    assert value_of("none", "p", 8, {}, RNG, 12).array is None


@pytest.mark.parametrize(
    ("letter", "text", "said"),
    [
        ("p", "3", "'3' is no tensor, but the kernel takes a pointer here. Try 'f16[8, 64]', "
                   "'out f32[8]', 'list f16[8], f16[4]', 'struct u32 8', 'none'."),
        ("p", "f61[8]", "'f61[8]': there is no dtype f61. Did you mean 'f16'?"),
        ("p", "f16[0 - 8]", "'f16[0 - 8]' has the sizes [-8], but none may be < 0."),
        ("p", "f16[8] wild", "'wild' is no way to fill a tensor. Try normal, uniform, zeros, ones, "
                             "arange, 'below n', or a file.npy."),
        ("p", "f16[m]", "'m' is no number: m is no size (known: n). Numbers, sizes by name, "
                        "+ - * / // %, min, max, ceil, sqrt are known."),
        ("i", "0.5", "'0.5' is 0.5, but must be a whole number."),
        ("c", "300", "'300' is 300, but the kernel takes a int8_t here."),
        ("p", "i32[8] below 0", "'below 0' is below 0, but must be below 1 or more."),
        ("p", "f32[n * 10 ** 1]", "'n * 10 ** 1' is no number: 10 ** 1 is not understood. "
                                  "Numbers, sizes by name, + - * / // %, min, max, ceil, sqrt are "
                                  "known."),
        ("p", "f32[99999999999]", "'f32[99999999999]' has the sizes [99999999999], which are too "
                                  "many."),
        ("t", "3", "'3' is a number, but must be a struct of 8 bytes. Try 'struct u32 1, ...'."),
        ("i", "struct u32 1", "'struct u32 1' is a struct, but must be a int32_t."),
        ("p", "struct u8 300", "'300' is 300, which no uint8 can hold."),
    ],
)  # fmt: skip
def test_wrong_descriptions_are_refused(letter, text, said):
    assert refusal(value_of, text, letter, 8, {"n": 3}, RNG) == said


@pytest.mark.parametrize(
    "text", ["__import__('os')", "n.real", "[1]", "(lambda: 1)()", "n if n else 1", "1 / 0"]
)
def test_an_expression_is_numbers_and_nothing_else(text):
    assert "is no number" in refusal(evaluate, text, {"n": 1})


def test_arguments_go_by_name_by_number_or_in_order():
    case = Case(arguments=(("", "a"), ("n", "c"), ("arg1", "b")))
    assert ordered(case, ("x", "y", "n"), ["pointer", "pointer", "int32_t"]) == ["a", "b", "c"]
    assert ordered(Case(arguments=(("", "a"), ("", "b"))), None, ["pointer"] * 2) == ["a", "b"]
    said = refusal(ordered, Case(arguments=(("x", "a"),)), ("x", "y"), ["pointer", "half"])
    assert said == (
        "y is not described; the kernel takes x (pointer), y (half). Try --arg 'y=f16[8, 64]' or a "
        "file beside the source (docs/ascend.md)."
    )
    said = refusal(ordered, Case(arguments=(("z", "a"),)), ("x", "y"), ["pointer", "half"])
    assert said == "the kernel has no parameter z. It has x, y."
    said = refusal(ordered, Case(arguments=(("", "a"), ("", "b"))), ("x",), ["pointer"])
    assert said == "2 arguments are described, but the kernel takes x (pointer)."


def test_messages_name_the_file_and_the_key_that_they_are_about(tmp_path):
    file = tmp_path / "one.toml"
    file.write_text('[f]\nblocks = "m"\n[f.arguments]\nz = "3"\n')
    case = read(file).cases["f"]
    assert refusal(number_of_blocks, case, {}).startswith("one.toml: blocks of [f]: 'm' is no num")
    assert number_of_blocks(changed(case, blocks="3"), {}) == 3
    said = refusal(ordered, case, ("x", "y"), ["pointer", "half"])
    assert said == "one.toml: z of [f.arguments]: the kernel has no parameter z. It has x, y."
    file.write_text('[f.arguments]\nx = "3"\n')
    said = refusal(ordered, read(file).cases["f"], ("x", "y"), ["pointer", "half"])
    assert said.startswith("one.toml: [f.arguments]: y is not described; the kernel takes x")
    case = changed(read(file).cases["f"], arguments=(("y", "1"),))
    assert places_of_arguments(case, ("x", "y"), 2) == ["one.toml: x of [f.arguments]", ""]


def test_what_a_command_line_names_takes_the_place_of_what_a_file_says():
    case = Case("8", {"n": (1, 9)}, (("x", "a"), ("y", "b")))
    assert changed(case, arguments=(("y", "c"),)).arguments == (("x", "a"), ("y", "c"))
    assert changed(case, arguments=(("", "c"),)).arguments == (("", "c"),)
    assert changed(case, arguments=(), blocks="").blocks == "8"
    assert refusal(check_sizes, Case(), ["m"]) == "nothing uses the size m."
    check_sizes(Case("m"), ["m"])


@pytest.mark.parametrize(("n", "blocks"), [(1, 0), (65537, 65536)])
def test_a_launch_has_blocks(n, blocks):
    said = refusal(number_of_blocks, Case("n - 1"), {"n": n})
    assert said == (f"'n - 1' is {blocks} blocks with n = {n}, but a launch has 1 to 65535.")


def test_sizes_are_numbers_or_ranges():
    assert sizes_of({"n": "3", "d": "1..8", "k": 4}) == {"n": (3, 3), "d": (1, 8), "k": (4, 4)}
    for wrong in ("8..1", "-1", "x", "1.5"):
        assert refusal(sizes_of, {"n": wrong}) == (
            f"the size n is '{wrong}', but must be a number or a range such as 1..300."
        )


def test_drawn_sizes_reach_both_ends():
    case = Case(sizes={"n": (1, 300)})
    drawn = {case.drawn(np.random.default_rng([7, i]))["n"] for i in range(200)}
    assert {1, 300} <= drawn and all(1 <= n <= 300 for n in drawn) and len(drawn) > 60


def test_a_file_of_cases_is_read_and_its_mistakes_are_named(tmp_path):
    file = tmp_path / "one.toml"
    (tmp_path / "inc").mkdir()
    file.write_text(
        '[compile]\nfolders = ["inc"]\ndefines = ["A=1"]\n'
        '[f]\nblocks = 8\nsizes = { n = "1..9" }\ntiling_key = 2\n[f.arguments]\nx = "f16[n]"\n'
    )
    found = read(file)
    assert found.settings.folders == (tmp_path / "inc",) and found.settings.defines == ("A=1",)
    assert found.cases == {"f": Case("8", {"n": (1, 9)}, (("x", "f16[n]"),), "", 2)}
    file.write_text("[f]\nblokcs = 8\n")
    assert (
        refusal(read, file)
        == "one.toml: [f] has blokcs, which is not known. Did you mean 'blocks'?"
    )
    file.write_text("f = 3\n")
    assert refusal(read, file) == (
        "one.toml: f is no table. Try [f] with blocks, sizes, arguments."
    )
    for text, said in {
        "compile = 1\n": "one.toml: compile is no table. Try [compile] with includes, "
        "folders, defines.",
        '[compile]\nincludes = "a.h"\n': "one.toml: includes of [compile] is no list of texts.",
        "[compile]\ndefines = [1]\n": "one.toml: defines of [compile] is no list of texts.",
        "[f]\nsizes = 3\n": "one.toml: f.sizes is no table.",
        "[f]\narguments = [1]\n": "one.toml: f.arguments is no table.",
        "[f]\ntiling_key = -1\n": "one.toml: tiling_key of [f] is -1, but must fit in 64 bits.",
        '[compile]\ndefines = ["A B"]\n': "'A B' defines nothing. Try NAME or NAME=VALUE, such as "
        "DTYPE_X=half.",
        '[f]\ntiling_key = "a"\n': "one.toml: tiling_key of [f] is 'a', but must be a whole "
        "number.",
        "[f]\nblocks = [1]\n": "one.toml: blocks of [f] is [1], but must be a text or a number. "
        'Try "min(n, 8)".',
        "[f]\nsoc = 3\n": "one.toml: soc of [f] is 3, but must be a text.",
        '[f]\nsizes = { n = "8..1" }\n': "one.toml: [f.sizes]: the size n is '8..1', but must be "
        "a number or a range such as 1..300.",
        "[f.arguments]\nx = [1]\n": "one.toml: x of [f.arguments] is [1], but must be a text or a "
        'number. Try "f16[8, 64]".',
        '[f]\ntiling = { op = "F" }\n': "one.toml: [f.tiling] names no file.",
        '[f]\ntiling = { fiel = "F" }\n': "one.toml: [f.tiling] has fiel, which is not known. Did "
        "you mean 'file'?",
        '[f]\ntiling = { file = "no.cpp" }\n': f"one.toml: file of [f.tiling] is "
        f"{tmp_path}/no.cpp, which does not exist.",
        '[compile]\nfolders = ["none"]\n': f"one.toml: folders of [compile] names "
        f"{tmp_path}/none, which does not exist.",
    }.items():
        file.write_text(text)
        assert refusal(read, file) == said
    file.write_text("\ufeff[f]\r\nblocks = 3\r\n")
    assert read(file).cases["f"].blocks == "3"
    file.write_text("[f\n")
    assert refusal(read, file).startswith("one.toml is no TOML: ")
