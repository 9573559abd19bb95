# SPDX-License-Identifier: Apache-2.0
"""`anyop ascend`: the examples are right, defects are found where they stand, and whatever a file
or an argument may be, it ends in a sentence.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES, DOCUMENT = ROOT / "examples" / "ascend", ROOT / "docs" / "ascend.md"
KERNELS = sorted(path.stem for path in EXAMPLES.glob("*.cpp"))


def anyop(*arguments, status=0):
    command = [sys.executable, "-m", "anyop", "ascend", *map(str, arguments)]
    env = {**os.environ, "COLUMNS": "120"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def findings(*arguments, status=1):
    return json.loads(anyop("check", *arguments, "--json", status=status).stdout)


def written(folder, text, name="kernel.cpp"):
    path = folder / name
    path.write_text(text)
    return path


def spoilt(folder, example, *changes):
    """A copy of an example with its TOML file, and one place or some changed."""
    text = (EXAMPLES / f"{example}.cpp").read_text()
    for old, new in changes:
        assert text.count(old) >= 1, old
        text = text.replace(old, new)
    (folder / f"{example}.toml").write_text((EXAMPLES / f"{example}.toml").read_text())
    return written(folder, text, f"{example}.cpp")


def line_of(path, part):
    return next(i for i, line in enumerate(path.read_text().splitlines(), 1) if part in line)


def results(example, folder, *arguments):
    anyop("run", EXAMPLES / f"{example}.cpp", "--save", folder, *arguments)
    return {path.stem: np.load(path) for path in folder.glob("*.npy")}


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(k, marks=() if k in ("add_custom", "rms_norm") else pytest.mark.exhaustive)
        for k in KERNELS
    ],
)
def test_the_examples_have_no_finding(example):
    done = anyop("check", EXAMPLES / f"{example}.cpp", "--strict", "--fuzz", "12")
    assert done.stdout.strip() == f"{example}: 13 calls, 0 errors"


def test_the_examples_compute_what_they_say(tmp_path):
    def near(y, expected):
        error = np.abs(np.asarray(y, float) - expected)
        return np.all(error <= 2**-10 * np.abs(expected) + 1e-6)

    r = results("add_custom", tmp_path / "add", "--size", "rows=37")
    assert (r["z"] == r["x"] + r["y"]).all()
    r = results("rms_norm", tmp_path / "norm", "--size", "rows=5", "--size", "d=77")
    x = r["x"].astype(float)
    root = np.sqrt((x * x).mean(1, keepdims=True) + 1e-6)
    assert near(r["y"], x / root * r["weight"].astype(float))
    r = results("silu_and_mul", tmp_path / "silu", "--size", "rows=5", "--size", "d=77")
    gate, up = np.split(r["x"].astype(float), 2, axis=1)
    assert near(r["y"], gate / (1 + np.exp(-gate)) * up)


def test_rotary_embedding_and_the_cache_compute_what_they_say(tmp_path):
    sizes = ["--size", "tokens=6", "--size", "heads=3", "--size", "eighths=4"]
    before = tmp_path / "x.npy"
    rng = np.random.default_rng(3)
    np.save(before, rng.standard_normal((6, 3, 64)).astype(np.float16))
    x = f"x=inout f16[tokens, heads, eighths * 16] {before}"
    rows = ["positions=i64[tokens] arange", "cos_sin=f16[64, eighths * 16] uniform"]
    rows += [x, "tokens=tokens", "heads=heads", "half_size=eighths * 8", "max_position=64"]
    given = [part for row in rows for part in ("--arg", row)]
    r = results("rotary_embedding", tmp_path / "rotary", *sizes, *given)
    a, b = np.split(np.load(before).astype(float), 2, axis=2)
    cos, sin = np.split(r["cos_sin"][:6].astype(float)[:, None], 2, axis=2)
    expected = np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=2)
    assert np.abs(r["x"] - expected).max() <= 2**-9 * np.abs(expected).max()

    r = results("reshape_and_cache", tmp_path / "cache", "--size", "tokens=7")
    assert (r["key_cache"][:7] == r["key"]).all() and not r["key_cache"][7:].any()
    assert (r["value_cache"][:7] == r["value"]).all()


def test_a_race_is_told_with_both_places_and_what_orders_them(tmp_path):
    path = spoilt(
        tmp_path,
        "silu_and_mul",
        ("out_.EnQue(y);", "kept_ = y;"),
        ("LocalTensor<half> y = out_.DeQue<half>();", "LocalTensor<half> y = kept_;"),
        ("  TPipe pipe_;", "  LocalTensor<half> kept_;\n  TPipe pipe_;"),
    )
    [race] = [f for f in findings(path) if f["kind"] == "race"]
    assert race["level"] == "error"
    assert (race["line"], race["there_line"]) == (
        line_of(path, "DataCopyPad(y_[row"),
        line_of(path, "Cast(y, gate"),
    )
    assert Path(race["file"]) == Path(race["there_file"]) == path
    assert "V_MTE3" in race["insert"]
    shown = anyop("check", path, status=1).stdout
    assert f"```\n{shown}```" in DOCUMENT.read_text()


def test_what_the_vendors_compiler_repairs_is_told_with_strict(tmp_path):
    path = spoilt(tmp_path, "silu_and_mul", ("PipeBarrier<PIPE_V>();", ""))
    assert findings(path, status=0) == []
    found = findings(path, "--strict")
    assert {f["level"] for f in found} == {"strict"} and all("PIPE_V" in f["insert"] for f in found)


def test_rows_that_nobody_writes_are_told(tmp_path):
    loop = "    for (uint32_t row"
    path = spoilt(tmp_path, "silu_and_mul", (loop, f"    if (GetBlockIdx() == 1) return;\n{loop}"))
    [finding] = findings(path, "--size", "rows=3", "--size", "d=64")
    assert finding["kind"] == "output-unwritten" and "y" in finding["text"]


HEAD = '#include "kernel_operator.h"\nusing namespace AscendC;\n'
ONE = HEAD + 'extern "C" __global__ __aicore__ void one(GM_ADDR x, int32_t n) {{\n{}\n}}\n'
GIVEN = ["--arg", "x=inout f32[64]", "--arg", "n=3"]


@pytest.mark.parametrize(
    ("body", "kind", "options"),
    [
        ("  while (true) PipeBarrier<PIPE_ALL>();", "endless", ["--max-steps", "1000"]),
        ("  volatile int32_t k = n; while (k) {}", "timeout", ["--timeout", "2"]),
        ("  *(volatile __gm__ int32_t*)8 = n;", "fault", []),
        ("  *((__gm__ float*)x + 5000) = 1;", "fault", []),
        ("  ((void (*)())8)();", "fault", []),
        ("  __builtin_trap();", "crash", []),
    ],
)
def test_a_kernel_that_does_not_come_back_is_a_finding(tmp_path, body, kind, options):
    found = findings(written(tmp_path, ONE.format(body)), *GIVEN, *options)
    assert kind in [f["kind"] for f in found], found


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "  if (GetBlockIdx()) SyncAll();",
            "one: 1 block waits for ever: block 1 in SyncAll at kernel.cpp:4. 1 block has returned "
            "before it: 0. Try `anyop ascend check`, which says where.",
        ),
        (
            "  if (n) exit(0);",
            "one: the kernel calls exit(), in block 0. A device has no process to "
            "end: try return. Try `anyop ascend check`",
        ),
        ("  ASSERT(n > 3);", "one: ASSERT((n > 3)) does not hold. Try `anyop ascend check`"),
    ],
)
def test_a_kernel_that_is_ended_without_checks_has_no_results(tmp_path, body, said):
    path = written(tmp_path, ONE.format(body))
    done = anyop("run", path, *GIVEN, "--blocks", "2", status=1)
    assert said in " ".join(done.stderr.split()) and not done.stdout


# line: of the body
@pytest.mark.parametrize(
    ("body", "kind", "line", "said"),
    [
        ("  PipeBarrier<PIPE_ALL>();\n  if (n) exit(3);", "crash", 2, "the kernel calls exit()"),
        ("  if (n) {\n    std::exit(0);\n  }", "crash", 2, "in block 0. A device has no process"),
        ("  PipeBarrier<PIPE_ALL>();\n\n  if (n) abort();", "crash", 3, "calls abort() after"),
        ("  if (n) _exit(0);", "crash", 1, "the kernel calls _exit(), in block 0."),
        ("  volatile char a[1 << 20];\n  for (volatile char& c : a) c = 1;", "stack-overflow", 2,
         "the stack of block 0 overflows: a block has 512 KiB"),
        ("\n\n  *((__gm__ float*)x + 5000) = 1;", "fault", 3, "a plain pointer goes to address"),
        ("\n  volatile int32_t k = n; while (k) {}", "endless", 2, "the block loops for 3 seconds"),
    ],
)  # fmt: skip
def test_what_ends_a_kernel_has_its_own_line(tmp_path, body, kind, line, said):
    text = "#include <cstdlib>\n" + ONE.replace("{}", "{0}").format(body)
    [found] = findings(written(tmp_path, text), *GIVEN)
    assert found["kind"] == kind and said in found["text"], found
    assert found["line"] == 4 + line, found


def test_a_struct_of_another_size_is_told_with_both(tmp_path):
    text = TILED.replace("GM_ADDR tiling", "__gm__ Tiling* tiling").replace("DTYPE", "1.0f")
    for kernel, how in ((TILED.replace("DTYPE", "1.0f"), "read"), (text, "passed")):
        path = written(tmp_path, kernel, f"{how}.cpp")
        for struct, there in (("struct u32 8", 4), ("struct u32 8, f32 1, u32 0", 12)):
            options = ["--arg", "y=out f32[8]", "--arg", f"tiling={struct}"]
            if how == "passed":
                said = anyop("check", path, *options, status=1).stderr
                assert f"'{struct}' has {there} bytes, but the struct of the kernel has 8." in said
                continue
            [found] = [f for f in findings(path, *options) if f["kind"] == "tiling-size"]
            assert found["text"] == (
                f"the struct Tiling has 8 bytes, but 'tiling', which is read as one, has {there}"
            )
            assert found["line"] == line_of(path, "GET_TILING_DATA")
            registered = kernel.replace("_WITH_STRUCT(Tiling, t, tiling)", "(t, tiling)")
            registered = registered.replace("extern", "REGISTER_TILING_DEFAULT(Tiling);\nextern")
            [same] = findings(written(tmp_path, registered, "registered.cpp"), *options)
            assert same["text"] == found["text"]  # the struct has its author's name


def test_each_tensor_of_a_list_has_its_own_size(tmp_path):
    kernels = ROOT / "python" / "tests" / "ascend" / "kernels" / "lists.cpp"
    path = written(tmp_path, kernels.read_text())
    (tmp_path / "kernel.toml").write_text(
        '[add_list]\nblocks = "min(n, 3)"\nsizes = { n = "1..9", d = "1..99", k = "1..5" }\n'
        '[add_list.arguments]\ninputs = "list k of f32[n, d], f32[n, d] ones"\n'
        'y = "out f32[n, d]"\n'
    )
    told = anyop("check", path, "--kernel", "add_list", "--strict", "--fuzz", "12").stdout
    assert told == "add_list: 13 calls, 0 errors\n"
    short = ["--kernel", "add_list", "--arg", "inputs=list f32[n, d], f32[1, d]", "--size", "n=1"]
    assert findings(path, *short, status=0) == []
    found = findings(path, *short[:-1], "n=2", "--size", "d=8")
    assert [f["text"] for f in found if f["kind"] == "gm-out-of-bounds"] == [
        "kernel.cpp:28 reads bytes 32 to 64 of 'inputs[1]', which has 32"
    ]
    run = ["--kernel", "add_list", "--arg", "inputs=list f32[1, 1], f32[1, 1]"]
    told = anyop("run", path, *run, "--size", "n=1", "--size", "d=1", "--save", tmp_path).stdout
    assert "  y: f32[1, 1] = " in told and "inputs" not in told
    assert np.load(tmp_path / "inputs[1].npy").shape == (1, 1)
    given = ["--kernel", "split", "--blocks", "2", "--arg", "x=f16[2, 16]", "--arg"]
    [missing] = findings(path, *given, "outputs=list 3 of out f16[16]")
    assert "output 'outputs[2]' are never written" in missing["text"]
    [beyond] = findings(path, "--kernel", "add_list", "--arg", "inputs=f32[n, d]")
    assert beyond["kind"] == "tensor-list" and "'inputs' is no list of tensors" in beyond["text"]


def test_an_instruction_that_the_chip_lacks_is_an_error(tmp_path):
    path = EXAMPLES / "silu_and_mul.cpp"
    found = [f for f in findings(path, "--soc", "ascend310p") if f["kind"] == "not-on-soc"]
    assert found and {f["level"] for f in found} == {"error"}
    assert found[0]["text"].startswith("ascend310p has no DataCopyPad. Try --soc ")


def test_a_file_that_names_another_kernel_is_refused(tmp_path):
    path = written(tmp_path, ONE.format(""))
    (tmp_path / "kernel.toml").write_text("[noe]\nblocks = 1\n")
    said = anyop("check", path, *GIVEN, status=1).stderr
    assert (
        "kernel.toml: [noe] is no kernel of kernel.cpp. Did you mean 'one'? Its kernels: one."
    ) in " ".join(said.split())
    (tmp_path / "kernel.toml").write_text('[one.arguments]\nx = "inout f32[m]"\nn = "3"\n')
    said = " ".join(anyop("check", path, status=1).stderr.split())
    assert "kernel.toml: x of [one.arguments]: 'm' is no number: m is no size" in said


def test_what_a_kernel_prints_is_shown_and_breaks_nothing(tmp_path):
    text = ONE.format('  for (int i = 0; i < 5000; ++i) ::printf("row %d\\n", i);')
    done = anyop("check", written(tmp_path, "#include <cstdio>\n" + text), *GIVEN)
    assert done.stdout == "one: 1 call, 0 errors\n" and "row 4999\n" in done.stderr


MACRO = """#define MAKE(name, type) \\
  extern "C" __global__ __aicore__ void name##_##type(GM_ADDR x, uint32_t n) { \\
    if (n == 3) ((__gm__ type*)x)[n] = 1; \\
  }
MAKE(put, half)
MAKE(put, float)
"""


def test_kernels_that_macros_make_are_found_with_their_parameters(tmp_path):
    path = written(tmp_path, '#include "kernel_operator.h"\n' + ONE.format("") + MACRO)
    (tmp_path / "make.h").write_text(MACRO)
    written(tmp_path, '#include "kernel_operator.h"\n#include "make.h"\n', "other.cpp")
    tables = "".join(
        f'[put_{name}.arguments]\nn = 2\nx = "inout f32[4]"\n' for name in ("half", "float")
    )
    (tmp_path / "other.toml").write_text(tables)
    told = anyop("check", tmp_path / "other.cpp").stdout
    assert told == "put_half: 1 call, 0 errors\nput_float: 1 call, 0 errors\n"
    (tmp_path / "kernel.toml").write_text(
        '[one.arguments]\nx = "inout f32[4]"\nn = 0\n' + tables.replace("n = 2", "n = 0")
    )
    assert anyop("check", path).stdout.splitlines()[-1] == "put_float: 1 call, 0 errors"
    (tmp_path / "other.toml").write_text(tables.replace("put_half", "put_hlaf"))
    said = anyop("check", tmp_path / "other.cpp", status=1).stderr
    assert "[put_hlaf] is no kernel of other.cpp. Did you mean 'put_half'?" in said


def test_a_scalar_is_no_tensor_of_one_element(tmp_path):
    text = HEAD + 'extern "C" __global__ __aicore__ void f(__gm__ float* y) { y[0] = 3; }\n'
    path = written(tmp_path, text)
    told = anyop("run", path, "--arg", "y=out f32[]", "--save", tmp_path).stdout
    assert "  y: f32[] = 3, ..." in told and np.load(tmp_path / "y.npy").shape == ()


def test_a_template_is_a_kernel_with_its_arguments(tmp_path):
    text = HEAD + "template <typename T, int k> __global__ __aicore__ void f(GM_ADDR x, T n) {}\n"
    options = ["--kernel", "f<float, 3>", "--arg", "x=f32[8]", "--arg", "n=0.5"]
    done = anyop("check", written(tmp_path, text), *options)
    assert done.stdout == "f<float, 3>: 1 call, 0 errors\n"


def test_a_finding_is_found_again_with_the_sizes_and_the_seed_that_it_tells(tmp_path):
    body = "  GlobalTensor<float> g;\n  g.SetGlobalBuffer((__gm__ float*)x, 64);\n"
    body += "  TPipe p;\n  TBuf<> b;\n  p.InitBuffer(b, 64);\n"
    path = written(tmp_path, ONE.format(body + "  if (n == 5) b.Get<float>().GetValue(0);"))
    options = ["--arg", "x=inout f32[64]", "--arg", "n=k"]
    [found] = findings(path, *options, "--size", "k=1..9", "--fuzz", "40")
    assert found["kind"] == "undefined-read" and found["seed"] > 0
    again = findings(path, *options, *found["sizes"].split(), "--seed", found["seed"])
    assert [f["kind"] for f in again] == ["undefined-read"]


def test_a_damaged_file_of_the_cache_is_compiled_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYOP_CACHE", str(tmp_path / "cache"))
    path = written(tmp_path, ONE.format(""))
    anyop("check", path, *GIVEN)
    [library] = (tmp_path / "cache").glob("ascend_*.so")
    library.write_bytes(b"junk")
    library.chmod(0o700)
    assert anyop("check", path, *GIVEN).stdout == "one: 1 call, 0 errors\n"


def test_a_compilers_error_names_the_line_of_the_file(tmp_path):
    said = anyop("check", written(tmp_path, ONE.format("  ad(x);")), *GIVEN, status=1).stderr
    assert "the compiler refuses it" in said and "kernel.cpp:4:" in said
    path = written(tmp_path, '#include "lib/hccl/hccl.h"\n' + ONE.format(""))
    said = anyop("check", path, *GIVEN, status=1).stderr
    assert "kernel.cpp:1:" in said and "lib/hccl/hccl.h is no header that anyop has" in said
    path = written(tmp_path, ONE.format("  Hccl<HCCL_SERVER_TYPE_AICPU> h;"))
    said = anyop("check", path, *GIVEN, status=1).stderr
    assert "struct Hccl' is unavailable: collectives (Hccl) are not modelled here" in said


@pytest.mark.parametrize("name", ["kernel.asc", "kernel.c", "kernel.cce", "my kernel.cpp"])
def test_files_may_have_the_names_of_kernels(tmp_path, name):
    text = "\ufeff" + ONE.format("").replace("\n", "\r\n")
    assert findings(written(tmp_path, text, name), *GIVEN, status=0) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--blocks", "0"], "'0' is 0 blocks, but a launch has 1 to 65535."),
        (["--seed", "-1"], "--seed"),
        (["--timeout", "nan"], "nan is no number of seconds."),
        (["--size", "m=3"], "nothing uses the size m."),
        (["--arg", "n=4"], "n is described twice."),
        (["--blocks", "n"], "n is no size"),
        (["--soc", "ascend910x"], "there is no SoC 'ascend910x'. Did you mean 'ascend910b'?"),
        (["-D", "A B"], "'A B' defines nothing. Try NAME or NAME=VALUE, such as DTYPE_X=half."),
        (["--tiling-key", str(2**64)], "18446744073709551616 is not in the range"),
        (["--tiling-key", "-1"], "-1 is not in the range"),
        (["--arg", "y=3"], "the kernel has no parameter y. It has x, n."),
        (["--kernel", "two"], "kernel.cpp has no kernel two."),
        (["--size", "n"], "'n' has no name"),
    ],
)
def test_wrong_options_end_in_a_sentence(tmp_path, options, said):
    path = written(tmp_path, ONE.format(""))
    done = subprocess.run(
        [sys.executable, "-m", "anyop", "ascend", "check", path, *GIVEN, *options],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (1, 2) and said in done.stderr, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


TILED = (
    HEAD
    + """
struct Tiling { uint32_t n; float by; };
extern "C" __global__ __aicore__ void tiled(GM_ADDR y, GM_ADDR tiling) {
  GET_TILING_DATA_WITH_STRUCT(Tiling, t, tiling);
  GlobalTensor<float> out;
  out.SetGlobalBuffer((__gm__ float*)y, 8);
  for (uint32_t i = 0; i < t.n; ++i) out.SetValue(i, TILING_KEY_IS(7) ? t.by : DTYPE);
  DataCacheCleanAndInvalid<float, CacheLine::ENTIRE_DATA_CACHE>(out);
}
"""
)


@pytest.mark.parametrize(("key", "value"), [("7", 0.5), ("1", 3.0)])
def test_tiling_structs_keys_and_definitions_reach_the_kernel(tmp_path, key, value):
    path = written(tmp_path, TILED)
    options = ["--arg", "y=out f32[8]", "--arg", "tiling=struct u32 8, f32 0.5", "-D", "DTYPE=3.0f"]
    options += ["--tiling-key", key]
    assert findings(path, *options, status=0) == []
    anyop("run", path, *options, "--save", tmp_path / "saved")
    assert (np.load(tmp_path / "saved" / "y.npy") == value).all()


def test_what_a_kernel_prints_is_seen(tmp_path):
    said = 'AscendC::printf("of %d\\n", 3); printf("and %d\\n", 4);'
    path = written(tmp_path, ONE.format(said))
    assert "block 0: of 3\nblock 0: and 4\n" in anyop("check", path, *GIVEN).stderr


PRINTS = (
    HEAD
    + """
extern "C" __global__ __aicore__ void prints(GM_ADDR x, int32_t n) {
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 256);
  LocalTensor<half> t = buffer.Get<half>();
  Duplicate(t, half(0.5f), 4);
  SetFlag<HardEvent::V_S>(0);
  WaitFlag<HardEvent::V_S>(0);
  GlobalTensor<int32_t> g;
  g.SetGlobalBuffer((__gm__ int32_t*)x, 64);
  PRINTF("half %.2f, ", t.GetValue(0));
  printf("n %d\\n", n);
  DumpTensor(t, 7, 5);
  DumpTensor(g, 8, 3);
}
"""
)


@pytest.mark.parametrize("command", ["check", "run"])
def test_what_kernels_print_has_the_number_of_the_block(tmp_path, command):
    path = written(tmp_path, PRINTS)
    given = ["--arg", "x=i32[64] arange", "--arg", "n=3", "--blocks", "2"]
    said = anyop(command, path, *given).stderr
    fifth = "?" if command == "check" else "0"  # of which only the checked build knows
    for block in (0, 1):
        assert (
            f"block {block}: half 0.50, n 3\n"
            f"block {block}: DumpTensor 7, kernel.cpp:16: 5 of half at UB[0]\n"
            f"block {block}: [0.5, 0.5, 0.5, 0.5, {fifth}]\n"
            f"block {block}: DumpTensor 8, kernel.cpp:17: 3 of int32_t at GM\n"
            f"block {block}: [0, 1, 2]\n"
        ) in said
    assert "block" not in anyop(command, path, *given, "-D", "ASCENDC_DUMP=0").stderr


# An error in a header of ours is the author's, on the line that leads there.
def test_what_the_compiler_refuses_has_lines_of_the_file_and_names_of_the_author(tmp_path):
    path = written(
        tmp_path,
        '#include "kernel_operator.h"\n'
        'extern "C" __global__ __aicore__ void k(GM_ADDR x, GM_ADDR y) {\n'
        "  LocalTensor<half> a;\n"
        "  LocalTensor<float> b;\n"
        "  Add(a, b, a, 16);\n"
        "  Adds(a, a, nullptr, 16);\n"
        "  MrgSort4Info info({32, 32, 32, 32}, false, 15, 1);\n"
        "}\n"
        'extern "C" void launch(uint8_t* x) { k<<<1, nullptr, nullptr>>>(x); }\n',
    )
    found = findings(path, status=1)
    assert [f["line"] for f in found] == [5, 6, 7, 9]
    assert {f["kind"] for f in found} == {"compile"}
    assert found[0]["text"].startswith(
        "no matching function for call to 'Add(LocalTensor<half>&, LocalTensor<float>&, "
        "LocalTensor<half>&, int)'; there is Add(const LocalTensor<T>&, const LocalTensor<T>&, "
        "const LocalTensor<T>&, const int32_t&) and Add("
    )
    assert "a launch passes every argument of the kernel (launch.h:" in found[3]["text"]
    assert found[2]["text"].endswith(
        "; there is MrgSort4Info(const uint16_t*, bool, uint16_t, uint8_t) and MrgSort4Info()"
    )
    said = anyop("check", path, status=1).stderr
    assert "kernel.cpp:5: no matching function" in said


def test_a_kernel_of_the_cube_is_told_that_alone(tmp_path):
    body = "  LocalTensor<half> a;\n  Mmad(a, a, a, {16, 16, 16});"
    [found] = findings(written(tmp_path, ONE.format(body)), *GIVEN)
    assert found["line"] == 5 and "the cube units (Mmad, Matmul, LoadData" in found["text"]


def test_a_compiler_that_makes_nothing_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "/bin/true")
    monkeypatch.setenv("ANYOP_CACHE", str(tmp_path / "cache"))
    said = anyop("check", EXAMPLES / "add_custom.cpp", status=1).stderr
    assert (
        said.strip()
        .replace("\n", " ")
        .endswith("/bin/true made no file, so it is no C++ compiler. Try another CXX.")
    )
