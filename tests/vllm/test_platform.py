# SPDX-License-Identifier: Apache-2.0
"""The platform plug-in in vLLM itself: who is chosen, and what is said where nobody can be."""

from __future__ import annotations

import os
from pathlib import Path

import in_vllm
import pytest

NAME = "from vllm.platforms import current_platform as p; print('CHOSEN', type(p).__name__)"
OTHER = "def platform(): return 'vllm.platforms.cpu.CpuPlatform'\n"


def chosen(code: str = NAME, **more: object) -> tuple[str, str]:
    done = in_vllm.command("-c", code, **more)  # type: ignore[arg-type]
    names = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("CHOSEN ")]
    return names[0] if names else "", done.stdout + done.stderr


def test_platform_is_found_and_all_that_it_uses() -> None:
    """The extension is defined before vLLM asks what it has."""
    code = (
        "import vllm._custom_ops as c\n"
        "from vllm.platforms import current_platform as p\n"
        "from anyop.vllm import _versions as v\n"
        "print('CHOSEN', f'{type(p).__name__},{c._supports_onednn},{v.misfits(v.current())}')\n"
    )
    assert chosen(code)[0] == "AnyopCpuPlatform,True,[]"


@pytest.mark.exhaustive
def test_off_is_off() -> None:
    assert chosen(ANYOP_VLLM="off")[0] == "UnspecifiedPlatform"


def test_unknown_mode_is_refused() -> None:
    """By an error where vLLM asks for the platform, and not by running on another."""
    name, said = chosen(ANYOP_VLLM="yes")
    assert name == ""
    why = (
        "anyop.vllm: the environment variable ANYOP_VLLM is 'yes', but must be auto | off | "
        "override."
    )
    assert f"\n{why}\n" in f"\n{said}"
    assert f"RuntimeError: {why}" in said


def test_any_wrong_variable_of_ours_is_the_reason() -> None:
    name, said = chosen(ANYOP_THREADS="many")
    assert name == ""
    assert "RuntimeError: anyop.vllm: the environment variable ANYOP_THREADS is 'many'" in said


@pytest.mark.exhaustive
def test_two_platforms(tmp_path: Path) -> None:
    (tmp_path / "other_platform.py").write_text(OTHER)
    points = "[vllm.platform_plugins]\nother = other_platform:platform\n"
    in_vllm.distribution(tmp_path, "other", points)
    name, said = chosen(paths=(tmp_path,))
    assert name == ""
    assert "Only one platform plugin can be activated" in said, "vLLM's own error"
    assert (
        "anyop.vllm: other would be vLLM's platform, too, but vLLM takes one. Set "
        "VLLM_PLUGINS=anyop for this one, or ANYOP_VLLM=off for other."
    ) in said
    assert chosen(paths=(tmp_path,), VLLM_PLUGINS="anyop")[0] == "AnyopCpuPlatform"
    assert chosen(paths=(tmp_path,), ANYOP_VLLM="off")[0] == "CpuPlatform"


def test_failure_of_the_plugin_is_told_and_stops_the_engine() -> None:
    code = (
        "from anyop.vllm import _versions\n"
        "import anyop\n"
        "def fails(*_): raise anyop.NotAvailable('anyop.vllm: made up.')\n"
        "_versions.check_torch = fails\n" + NAME.replace("; ", "\n")
    )
    name, said = chosen(code)
    assert name == ""
    assert said.count("\nanyop.vllm: made up.\n") + said.startswith("anyop.vllm: made up.") == 1
    assert "NotAvailable: anyop.vllm: made up." in said


@pytest.mark.exhaustive
def test_platform_that_something_else_chose_is_told() -> None:
    code = "import vllm.plugins as p; p.load_general_plugins(); print('CHOSEN', 'done')"
    name, said = chosen(code, VLLM_PLUGINS="")
    assert name == "done"
    code = "from anyop.vllm import _plugin; _plugin.general(); print('CHOSEN', 'done')"
    name, said = chosen(code, VLLM_PLUGINS="no_such")
    assert (
        "anyop.vllm: vLLM runs on UnspecifiedPlatform, but its empty build has no kernels for it. "
        "VLLM_PLUGINS=no_such leaves anyop out. Add anyop to it."
    ) in said


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", ["fp8_e5m2"])
def test_cache_dtype_without_a_kernel_is_refused_at_load(dtype: str) -> None:
    asked = {"one": {"prompts": [[1, 2]], "options": {"kv_cache_dtype": dtype}}}
    found = in_vllm.engines(asked)["one"]
    assert (
        f"anyop.vllm: the cache's dtype is {dtype}, but attention takes auto, float16, bfloat16, "
        "fp8, fp8_e4m3. Try --kv-cache-dtype auto."
    ) in found["error"]


def test_cache_dtypes_of_vllm_without_a_kernel_are_refused() -> None:
    """Each that vLLM's options offer, by the check of the configuration."""
    code = (
        "import anyop, typing\n"
        "from vllm.config.cache import CacheDType\n"
        "from anyop.vllm import _platform\n"
        "def taken(name):\n"
        "    try: return _platform._check_cache_dtype(name) is None\n"
        "    except anyop.NotAvailable: return False\n"
        "names = typing.get_args(CacheDType)\n"
        "print('CHOSEN', ','.join(n for n in names if taken(n)) + '/' + ','.join(names))\n"
    )
    taken, _, names = chosen(code)[0].partition("/")
    assert taken.split(",") == [
        name for name in names.split(",") if name in {"auto", "float16", "bfloat16", "fp8"}
        or name == "fp8_e4m3"
    ]  # fmt: skip
    assert {"fp8_e5m2", "auto"} < set(names.split(","))


@pytest.mark.exhaustive
def test_killed_workers_are_vllms_error(tmp_path: Path) -> None:
    """Between requests and in one; an engine without its worker makes no tokens."""
    asked = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    found = in_vllm.run("killed_program.py", str(tmp_path / "model"), **asked)
    between, during = found["engines"]
    assert between["made"] == 0
    for engine in (between, during):
        assert engine["pid"] != found["pid"]
        assert engine["error"].startswith("EngineDeadError: EngineCore encountered an issue.")


@pytest.mark.exhaustive
def test_a_worker_uses_the_cores_that_vllm_binds_it_to() -> None:
    """To one of which its first thread is bound."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("one processor")
    asked = {"one": {"prompts": [[1, 2]]}}
    for bound in (cores[:1], cores[:2]):
        settings = {"VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, bound))}
        found = in_vllm.engines(asked, VLLM_ENABLE_V1_MULTIPROCESSING="1", **settings)["one"]
        (worker,) = found["report"]
        assert worker["threads"] == len(bound)


@pytest.mark.exhaustive
def test_a_prompt_longer_than_the_model_is_vllms_error() -> None:
    with pytest.raises(AssertionError, match="maximum context length is 256 tokens"):
        in_vllm.engines({"one": {"prompts": [[3] * 300]}})


@pytest.mark.exhaustive
def test_a_model_whose_longest_prompt_exceeds_the_cache_is_vllms_error() -> None:
    """When it is loaded. A cache of 128 tokens, 1 KiB each."""
    asked = {"one": {"prompts": [[1, 2]], "options": {"kv_cache_memory_bytes": 1 << 17}}}
    error = in_vllm.engines(asked)["one"]["error"]
    if in_vllm.version() == "0.32.0":
        assert "No available memory for the cache blocks" in error
    else:
        assert "max seq len (256)" in error and "KV cache is needed" in error
