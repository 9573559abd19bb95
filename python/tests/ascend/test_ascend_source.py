# SPDX-License-Identifier: Apache-2.0
"""Files of kernels as text: what is found in them, and what g++ is given in their place."""

import anyop
import pytest
from anyop.ascend.build import Settings, find_kernels
from anyop.ascend.source import Source, rewritten


def source(folder, text, name="one.cpp", encoding="utf-8"):
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return Source(path)


KERNEL = (
    'extern "C" __global__ __aicore__ void {}(GM_ADDR x, __gm__ half* y, const int32_t n) {{}}\n'
)


def test_kernels_and_their_parameters_are_found(tmp_path):
    text = (
        KERNEL.format("first")
        + '// extern "C" __global__ __aicore__ void commented(GM_ADDR x) {}\n'
        + '/* extern "C" __global__ __aicore__ void too(GM_ADDR x) {} */\n'
        + "__aicore__ inline void no_kernel(GM_ADDR x) {}\n"
        + "__global__ __aicore__ void second(GM_ADDR, uint32_t n = 3,\n    float eps) {\n}\n"
    )
    found = source(tmp_path, text)
    assert found.kernels() == ["first", "second"]
    assert found.names("first") == ("x", "y", "n")
    assert found.names("second") == ("", "n", "eps")


def test_commas_in_brackets_are_between_no_parameters(tmp_path):
    text = (
        "__global__ __aicore__ void f(GM_ADDR x, std::array<int, 3> sizes = {1, 2, 3}, int n) {}\n"
    )
    assert source(tmp_path, text).names("f") == ("x", "sizes", "n")


def test_a_kernel_of_an_operator_may_include_its_header_by_another(tmp_path):
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "all.h").write_text('#include "rest.h"\n#include "all.h"\n')
    rest = tmp_path / "common" / "rest.h"
    rest.write_text('// #include "anyop/ascend.h"\n')
    text = '#include "common/all.h"\n' + KERNEL.format("f")
    assert not source(tmp_path, text).is_of_operator()
    rest.write_text('#include "anyop/ascend.h"\n')
    assert source(tmp_path, text).is_of_operator()
    text = text.replace("common/all.h", "all.h")
    assert not source(tmp_path, text).is_of_operator()
    assert source(tmp_path, text).is_of_operator([tmp_path / "common"])


CONDITIONS = """#include "kernel_operator.h"
#if defined(DTYPE_X) && DTYPE_X == 2
__global__ __aicore__ void f(GM_ADDR x, int a) {}
#else
__global__ __aicore__ void f(GM_ADDR x, GM_ADDR y, float b) {}
#endif
#ifdef NEVER
__global__ __aicore__ void g(GM_ADDR x) {}
#endif
__global__ __aicore__ void h(GM_ADDR x) {}
"""


def test_kernels_are_those_that_conditions_leave(tmp_path):
    found = source(tmp_path, CONDITIONS)
    find_kernels(found, Settings(), ())
    assert found.kernels() == ["f", "h"] and found.names("f") == ("x", "y", "b")
    found = source(tmp_path, CONDITIONS)
    find_kernels(found, Settings(defines=("DTYPE_X=2", "NEVER")), {"f"})
    assert found.kernels() == ["f", "g", "h"] and found.names("f") == ("x", "a")


def test_kernels_in_comments_and_literals_are_none(tmp_path):
    kernel = KERNEL.format("quoted")
    quoted = kernel.strip().replace('"', '\\"')
    text = (
        f'const char* a = "{quoted}";\n'
        + f'const char* b = R"({kernel})";\n'
        + f'const char* c = R"x({kernel})" )x";\n'
        + f'const auto* d = u8R"({kernel})";\n'
        + f"// \\\n{kernel}"
        + "const char e = '\"', f = '\\''; const int g = 1'000'000;\n/* \" */\n"
        + 'const char* h = "namespace n {";\n'
        + KERNEL.format("real")
    )
    assert source(tmp_path, text).kernels() == ["real"]


def test_what_looks_like_a_launch_in_a_comment_or_a_literal_stays():
    for text in (
        'const char* a = "f<<<8>>>(x)";',
        'const char* a = R"(f<<<8>>>(x))";',
        "// f<<<8>>>(x)",
        "/* f<<<8,\n l>>>(x) */",
    ):
        assert rewritten(text) == text
    text = "f<<<8, /* of >>>( */ l>>>(x);"
    assert rewritten(text).replace(" ", "") == 'anyop_ascend_start("f",&f,8,l)(x);'


def test_what_a_file_says_of_operators_is_no_include_in_a_comment(tmp_path):
    assert not source(tmp_path, '// #include "anyop/ascend.h"\n').is_of_operator()
    assert source(tmp_path, '#include "anyop/ascend.h"\n').is_of_operator()


def test_templates_are_exported_by_what_they_are_asked_with(tmp_path):
    text = "template <typename T> __global__ __aicore__ void f(GM_ADDR x) {}\n"
    found = source(tmp_path, text)
    with pytest.raises(anyop.InvalidArgument) as error:
        found.kernels()
    assert str(error.value) == (
        "one.cpp shows no kernel. Its kernels are templates. Try --kernel 'f<half>'."
    )
    assert found.kernels(("f<half>",)) == ["f<half>"]
    assert found.names("f<half>") == ("x",)


def test_a_kernel_that_is_not_there_is_refused_with_those_that_are(tmp_path):
    found = source(tmp_path, KERNEL.format("add_custom"))
    with pytest.raises(anyop.InvalidArgument) as error:
        found.kernels(("add_costum",))
    assert str(error.value) == (
        "one.cpp has no kernel add_costum. Did you mean 'add_custom'? Its kernels: add_custom."
    )


def test_kernels_of_macros_are_believed(tmp_path):
    found = source(tmp_path, "#define MAKE(t) __global__ void f_##t(GM_ADDR x) {}\nMAKE(half)\n")
    assert found.kernels(("f_half",)) == ["f_half"]
    assert found.names("f_half") is None


def test_kernels_have_the_names_of_their_namespaces(tmp_path):
    text = (
        "namespace a {\nnamespace b {\n" + KERNEL.format("f") + "}\n" + KERNEL.format("g") + "}\n"
    )
    assert source(tmp_path, text + KERNEL.format("h")).kernels() == ["a::b::f", "a::g", "h"]


def test_bodies_of_macros_and_what_is_left_out_are_no_kernels(tmp_path):
    macro = "#define MAKE(NAME) \\\n  __global__ void NAME(GM_ADDR x) {}\nMAKE(made)\n"
    left_out = "#if 0\n" + KERNEL.format("off") + "#endif\n"
    found = source(tmp_path, macro + left_out + KERNEL.format("f"))
    assert found.kernels() == ["f"]
    assert found.kernels(("made",)) == ["made"]


def test_templates_are_named_where_a_kernel_is_not_there(tmp_path):
    text = "template <class T>\n" + KERNEL.format("clamped") + KERNEL.format("other")
    with pytest.raises(anyop.InvalidArgument) as error:
        source(tmp_path, text.replace('extern "C" ', "")).kernels(("clampd<half>",))
    assert str(error.value) == (
        "one.cpp has no kernel clampd<half>. Did you mean 'clamped'? Its kernels: other, "
        "clamped<...>."
    )


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_byte_order_marks_are_taken(tmp_path, ends, mark):
    found = source(tmp_path, mark + KERNEL.format("f").replace("\n", ends) + ends)
    assert found.kernels() == ["f"]
    assert "\r" not in found.text and "\ufeff" not in found.text


def test_comments_may_be_in_the_other_encoding(tmp_path):
    found = source(tmp_path, "// 加法\n" + KERNEL.format("f"), encoding="gb18030")
    assert "加法" in found.text


def test_what_is_no_text_is_refused(tmp_path):
    (tmp_path / "binary.o").write_bytes(b"\x7fELF\0\0")
    with pytest.raises(anyop.InvalidArgument) as error:
        Source(tmp_path / "binary.o")
    assert str(error.value) == "binary.o is no text, because it has bytes of 0."


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("f<<<8, nullptr, s>>>(x, n);", 'anyop_ascend_start("f", &f, 8, nullptr, s)(x, n);'),
        ("f<half><<<n, l, s>>>(x)", 'anyop_ascend_start("f<half>", &f<half>, n, l, s)(x)'),
        ("k_##T<<<n>>>(x)", 'anyop_ascend_start("k_##T", &k_##T, n)(x)'),
        ("// by k <<<>>>\nf<<<8>>>(x)", '// by k <<<>>>\nanyop_ascend_start("f", &f, 8)(x)'),
        ("f<<<g(a, b), l, s>>>  (x)", 'anyop_ascend_start("f", &f, g(a, b), l, s)(x)'),
        ("a << 3; b >> 2;", "a << 3; b >> 2;"),
    ],
)
def test_launches_become_calls(text, call):
    assert rewritten(text) == call


def test_lines_stay_where_they_are():
    text = "f<<<\n  8,\n  l,\n  s>>>\n(x);\nnext"
    assert rewritten(text).splitlines()[5] == "next"
    assert rewritten(text).count("\n") == text.count("\n")
