# SPDX-License-Identifier: Apache-2.0
"""Layers of vLLM by operators of a user's own."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import in_vllm
import pytest

PROMPTS = [[3, 4, 5, 6, 7], [9, 8, 7]]
OFF = {"compilation_config": {"custom_ops": ["all", "-silu_and_mul"]}}
PACKAGE = """
import anyop
import anyop.vllm

my_silu = anyop.define("my_silu(x: T[..., 2*d]) -> (y: T[..., d]) where T in f32 | f16 | bf16")(
    lambda x: anyop.silu_and_mul(x)
)

def register():
    anyop.vllm.replace("SiluAndMul", my_silu)
"""


@cache
def found() -> Any:
    return in_vllm.run("replace_program.py")


def package(folder: Path, text: str) -> tuple[Path, ...]:
    """A package of a user's that vLLM's environment has installed."""
    in_vllm.distribution(folder, "their_ops", "[anyop.vllm]\nsilu = their_ops:register\n")
    (folder / "their_ops.py").write_text(text)
    return (folder,)


def test_functions_replace_layers_under_vllms_switches() -> None:
    assert found()["all"] == [7, 3]  # the second is the layer's limit
    assert found()["off"] == [0.7311, 3]
    assert found()["none"][0] == 0.7311
    assert found()["switch"] == "silu_and_mul"


def test_a_compiled_model_is_kept_for_the_operators_that_it_calls() -> None:
    """vLLM's key of what it compiled: a replacement makes another model of it."""
    first, again, other = found()["keys"]
    assert first == again != other


def test_a_models_own_class() -> None:
    """Of which the name alone is in no table."""
    assert found()["own_class"] == 7


def test_a_class_that_vllm_lacks() -> None:
    assert found()["unknown"].startswith(
        "InvalidArgument: anyop.vllm.replace: layer is 'SiluAndMull', but vLLM "
    )
    assert found()["unknown"].endswith(
        " has no class of that name that it lets others replace. Did you mean 'SiluAndMul'?"
    )
    assert found()["by_switch"].endswith(
        " has no class of that name that it lets others replace. 'silu_and_mul' is how custom_ops "
        "calls SiluAndMul: give the class."
    )


def test_every_layer_that_vllm_registers_has_its_name() -> None:
    """Those of modules, too, that nothing has imported."""
    assert found()["unnamed"] == []
    assert found()["unimported"].endswith(
        "'conv2d' is how custom_ops calls Conv2dLayer: give the class."
    )


def test_what_cannot_be_called() -> None:
    assert found()["no_function"] == (
        "WrongType: anyop.vllm.replace: function is str 'my_silu', but must be an operator or a "
        "function of tensors."
    )


def test_two_packages_that_replace_one_layer() -> None:
    assert found()["other_function"] == (
        "InvalidArgument: anyop.vllm.replace: SiluAndMul is to be __main__.scaled, but is replaced "
        "by __main__.mine already. Uninstall one of the two packages."
    )
    assert found()["other_plugin"] == (
        "InvalidArgument: anyop.vllm.replace: FatreluAndMul is to be __main__.mine, but another "
        "plug-in of vLLM's replaced it by __main__.Theirs. Uninstall one of them."
    )


def test_an_attribute_that_the_layer_lacks() -> None:
    assert found()["attribute"] == (
        "InvalidArgument: anyop.vllm.replace: GeluAndMul has no attribute 'limitt', but "
        "__main__.scaled is called with it."
    )


def test_an_operator_of_a_package_serves(tmp_path: Path) -> None:
    paths = package(tmp_path, PACKAGE)
    asked = {"on": {"prompts": PROMPTS}, "off": {"prompts": PROMPTS, "options": OFF}}
    found = in_vllm.engines(asked, paths=paths)
    assert line_of(found["on"])["calls"] == 16
    assert line_of(found["on"])["why"] == "by user.my_silu"
    assert line_of(found["off"])["why"] == "custom_ops has all, -silu_and_mul"
    assert found["on"]["tokens"] == found["off"]["tokens"]


@pytest.mark.exhaustive
def test_an_operator_of_a_package_serves_in_a_worker(tmp_path: Path) -> None:
    """Found by its entry point, in the process where the model is."""
    paths = package(tmp_path, PACKAGE)
    asked = {"on": {"prompts": PROMPTS}}
    found = in_vllm.engines(asked, paths=paths, VLLM_ENABLE_V1_MULTIPROCESSING="1")["on"]
    assert found["report"][0]["pid"] != found["pid"]
    assert line_of(found)["calls"] >= 16


def line_of(engine: Any) -> dict[str, Any]:
    (found,) = [one for one in engine["report"][0]["lines"] if one["name"] == "SiluAndMul"]
    return dict(found)


@pytest.mark.exhaustive
def test_a_package_that_fails_to_load_stops_the_engine(tmp_path: Path) -> None:
    """vLLM logs the failure of a plug-in of its own group, and serves without it."""
    paths = package(tmp_path, "raise OSError('no such library')")
    (served,) = in_vllm.engines({"theirs": {"prompts": PROMPTS}}, paths=paths).values()
    assert served == {
        "error": "InvalidArgument: anyop.vllm: the entry point silu = their_ops:register of "
        "their_ops raised OSError: no such library, but must run, as the engine would serve "
        "without it. Mend it, or uninstall their_ops."
    }
