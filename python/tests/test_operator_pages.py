# SPDX-License-Identifier: Apache-2.0
"""Pages of operators: nothing of a signature or its comment is lost, and the examples run."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyop
import pytest
from anyop.bench import pictures
from anyop.cli import docs_beside, docs_calls, docs_example, docs_page, docs_signature
from checkout import ROOT

SPECS = {s["name"]: s for s in anyop.specs() if s["library"] == "anyop"}
IN_JAX = ("anyop.rms_norm", "anyop.top_k", "anyop.swap_blocks", "anyop.kv_rmsnorm_rope_cache",
          "anyop.copy_blocks", "anyop.cast", "anyop.conv2d")  # fmt: skip


@pytest.fixture(scope="module")
def examples() -> dict[str, docs_example.Example]:
    made = {name: docs_example.example(spec) for name, spec in SPECS.items()}
    assert [name for name, example in made.items() if example is None] == []
    return {name: example for name, example in made.items() if example is not None}


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {name: docs_page.page(spec) for name, spec in SPECS.items()}


def packed(text: str) -> str:
    """What a reader of the page sees of it, without spaces."""
    return re.sub(r"[\s\\`]", "", html.unescape(text))


def test_a_page_has_all_of_the_signature_and_every_word_of_the_comment(
    pages: dict[str, str],
) -> None:
    assert len(pages) > 100
    for name, spec in SPECS.items():
        shown = packed(pages[name])
        assert packed(spec["signature"]) in shown, name
        words = [w.rstrip(",") for line in spec["doc"].splitlines()[1:] for w in line.split()]
        lost = [w for w in words if packed(w) not in shown]
        assert not set(lost) - {"Numerics", "Source"}, name


def test_a_page_has_a_row_for_each_parameter_and_result(pages: dict[str, str]) -> None:
    for name, spec in SPECS.items():
        for value in [*spec["params"], *spec["results"]]:
            assert f"\n| `{value['name']}` | " in pages[name], (name, value["name"])


def test_a_row_has_type_shape_meaning_and_default(pages: dict[str, str]) -> None:
    page = pages["anyop.rms_norm"]
    assert "| `weight` | `T` | `[d]` | one gain per channel; without it the last factor is 1 | " \
        "absent |\n" in page  # fmt: skip
    assert "| `y` | `T` | `[..., d]` | may take the memory of `x` |\n" in page
    assert "\n`T` is f32, f16 or bf16.\n" in page
    rows = pages["anyop.batch_matmul"]
    assert "| `x` | `T` | `[b, m, k]` or `[b, k, m]` | X, \\[m, k\\], for form" in rows
    assert "; entries are less than `v` |" in pages["anyop.embedding"]


def test_a_gradient_and_its_operator_lead_to_each_other() -> None:
    beside = docs_page.Beside(pages=frozenset(SPECS))
    there = docs_page.gradient(SPECS["anyop.rms_norm"], beside)
    assert there == (
        "[anyop.rms\\_norm\\_backward](anyop.rms_norm_backward.md) computes it: by `x`, `weight`."
    )
    back = docs_page.Beside(gradient_of="anyop.rms_norm", pages=frozenset(SPECS))
    assert docs_page.gradient(SPECS["anyop.rms_norm_backward"], back) == (
        "It is the gradient of [anyop.rms\\_norm](anyop.rms_norm.md)."
    )


def test_a_long_signature_has_a_line_for_each_parameter() -> None:
    text = SPECS["anyop.rms_norm"]["signature"]
    laid_out = docs_signature.laid_out(text).splitlines()
    assert laid_out[:2] == ["rms_norm(", "    x: T[..., d],"]
    assert max(len(line) for line in laid_out) < docs_signature.ONE_LINE
    assert docs_signature.laid_out("f(x: f32[n]) -> (y: f32[n])") == "f(x: f32[n]) -> (y: f32[n])"


def test_a_shape_may_have_brackets_of_its_own() -> None:
    assert docs_signature.type_and_shape("T[n, (h - 1)/s[0] + 1] over x") == (
        "T", "[n, (h - 1)/s[0] + 1]",
    )  # fmt: skip
    assert docs_signature.type_and_shape("int[2] = [1, 1]") == ("int[2]", "")
    assert docs_signature.type_and_shape("'a' | 'b' = 'a'") == ("'a' | 'b'", "")


@pytest.mark.parametrize("host", ["NumPy", "PyTorch"])
def test_the_examples_run(host: str, examples: dict[str, docs_example.Example]) -> None:
    if host == "PyTorch":
        pytest.importorskip("torch")
    for example in examples.values():
        names: dict[str, Any] = {}
        exec(docs_calls.program(example, host), names)
        assert all(r in names for r in example.results)


def test_the_examples_run_in_jax(examples: dict[str, docs_example.Example]) -> None:
    """Some of them: each is compiled. tests/mindspore runs those of MindSpore."""
    jax = pytest.importorskip("jax")
    for name in IN_JAX:
        names: dict[str, Any] = {}
        exec(docs_calls.program(examples[name], "JAX"), names)
        for result in [*examples[name].results, *examples[name].written]:
            found = names[result]
            assert all(isinstance(x, jax.Array) for x in (found if isinstance(found, list) else
                                                         [found])), name  # fmt: skip


def test_the_examples_run_from_cpp(
    examples: dict[str, docs_example.Example], tmp_path: Path
) -> None:
    """As one program: a function for each."""
    include = '#include "anyop/runtime.h"\n\n'
    texts = [docs_calls.program(e, "C++") for e in examples.values()]
    assert all(t.startswith(f"{include}int main() {{\n") for t in texts)
    parts = [t.removeprefix(include).replace("int main()", f"void f{i}()")
             for i, t in enumerate(texts)]  # fmt: skip
    calls = "".join(f"f{i}();" for i in range(len(texts)))
    (tmp_path / "main.cc").write_text(f"{include}{''.join(parts)}int main() {{{calls}}}\n")
    config = [sys.executable, "-m", "anyop", "config", "--cflags", "--libs"]
    flags = subprocess.run(config, capture_output=True, text=True, check=True).stdout.split()
    subprocess.run(["c++", "-O0", "main.cc", *flags, "-o", "main"], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "main"], check=True)


def test_an_operator_of_which_no_small_call_is_accepted_has_no_example(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = SPECS["anyop.rms_norm"]
    assert docs_example.example(spec) is not None
    monkeypatch.setattr(docs_example, "MOST_ELEMENTS", 0)
    assert docs_example.example(spec) is None
    assert docs_page.examples(spec) == []


def test_an_example_needs_no_dtypes_that_are_not_there() -> None:
    """Those of ml_dtypes, which only arguments and results in bf16 and 8-bit floats need."""
    program = """
import sys
sys.modules["ml_dtypes"] = None
import anyop
from anyop.cli import docs_example
specs = {s["name"]: s for s in anyop.specs()}
assert docs_example.example(specs["anyop.softmax"]) is not None
assert docs_example.example(specs["anyop.quantize_fp8"]) is None
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_times_are_short_of_digits_and_not_of_zeros() -> None:
    assert [pictures.in_us(us) for us in (0.5154, 12.345, 53734.7)] == ["0.515", "12.3", "53,735"]


def test_tolerances_are_those_of_the_tests() -> None:
    found = docs_beside.tolerances_of(ROOT / "ops")
    assert found["add"] == "exact, the bits of the reference in double, rounded once."
    assert found["rms_norm"] == "0.51 ulp + (6 + 2 √(d)) 2^-24 of the value."
    assert found["softmax"].startswith("0.51 ulp + (8 + 1 √(d))")
    assert found["layer_norm"] == "a model of its own, in `layer_norm/test.cc`."
    assert len(found) > 80


def test_times_are_those_of_a_run(tmp_path: Path) -> None:
    timing = {"best_us": 2.0, "median_us": 2.5, "from_cpp_us": None, "matches": True}
    row = {
        "operator": "softmax", "sizes": "f32[2, 3]", "cache": "warm", "kernel": "cpu_avx2",
        "timings": {"anyop": timing, "torch": {**timing, "best_us": 5.0}}, "bound_us": 1.0,
        "bound_by": "L1", "flops": 1.0, "moved": 1.0, "threads": 1, "note": "",
    }  # fmt: skip
    machine = {"cpu": "A processor", "threads": 1, "date": "2026-01-02T00:00:00"}
    saved = {"format": 1, "machine": machine, "rows": [row], "ceilings": {}}
    (tmp_path / "run.json").write_text(json.dumps(saved))
    said, table = docs_beside.times_of(tmp_path / "run.json")["softmax"]
    assert said.startswith("A processor, 1 thread, 2026-01-02: `anyop bench ops softmax --thre")
    assert table == "| sizes | us | x torch |\n|---|---|---|\n| f32[2, 3] | 2 | 2.5 |"
    _, picture, again = docs_beside.times_of(tmp_path / "run.json", "../pictures")["softmax"]
    assert 'src="../pictures/of-softmax.svg"' in picture and again == table


def test_a_long_call_goes_on_below() -> None:
    names = [f"argument_{i}" for i in range(12)]
    lines = docs_calls.broken("y = f(", names, ")")
    assert len(lines) > 2 and all(len(line) <= docs_calls.MOST for line in lines)
    assert "".join(lines).replace("    ", "").replace(", ", ",").replace(" ", "") == (
        f"y=f({','.join(names)})"
    )
    assert docs_calls.broken("y = f(", names[:2], ")") == ["y = f(argument_0, argument_1)"]


def test_code_of_a_user_is_not_run_for_a_page(tmp_path: Path) -> None:
    calls: list[Any] = []

    @anyop.define("paged(x: f32[n]) -> (y: f32[n])", library="pages_of_users")
    def paged(x: Any) -> Any:
        calls.append(x)
        raise AssertionError

    spec = next(s for s in anyop.specs() if s["name"] == "pages_of_users.paged")
    assert docs_example.example(spec) is None
    assert "paged(" in docs_page.page(spec)
    assert calls == []
