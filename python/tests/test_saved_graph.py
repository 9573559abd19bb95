# SPDX-License-Identifier: Apache-2.0
"""Graphs saved from Python and loaded again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyop
import numpy as np
import pytest
from anyop.cli.run import program
from checkout import ROOT


def step_graph(cache: Any, weight: Any, name: str = "step") -> anyop.Graph:
    def step(x: Any, eps: Any) -> Any:
        y = anyop.rms_norm(x, weight, eps)
        anyop.softmax(y[-1:], out=cache)
        return anyop.add(y, x), y

    return anyop.graph(
        step, "f32[n, 8]", "float", state={"cache": cache}, frozen={"w": weight}, name=name
    )


@pytest.fixture
def arrays() -> tuple[Any, Any]:
    random = np.random.default_rng(3)
    return random.random((1, 8), np.float32), random.random(8, np.float32)


def test_a_loaded_graph_does_what_the_saved_one_did(tmp_path: Path, arrays: Any) -> None:
    graph = step_graph(*arrays)
    x = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    graph.save(tmp_path / "step.anyop")
    loaded = anyop.load_graph(tmp_path / "step.anyop")
    assert loaded.name == "step"
    assert str(loaded) == str(graph)
    assert (loaded.inputs, loaded.outputs) == (graph.inputs, graph.outputs)
    np.testing.assert_array_equal(loaded.state["cache"], arrays[0])
    for _ in range(2):
        for mine, theirs in zip(loaded(x, 1e-5), graph(x, 1e-5), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(loaded.state["cache"], graph.state["cache"])
    # The file is as it was.
    again = anyop.load_graph(tmp_path / "step.anyop")
    assert (again.state["cache"] != graph.state["cache"]).any()
    assert not again.state["w"].flags.writeable
    again.state["cache"][:] = 2


def test_graphs_of_a_folder_share_what_they_shared(tmp_path: Path, arrays: Any) -> None:
    one, two = step_graph(*arrays, name="a"), step_graph(*arrays, name="b")
    facts = {"end": [1, 2], "name": "é"}
    told: list[tuple[int, int]] = []
    anyop.save_graphs(
        tmp_path / "both", {"one": one, "two": two}, metadata=facts,
        files={"licence.txt": "free"}, progress=lambda done, every: told.append((done, every)),
    )  # fmt: skip
    assert told[-1][0] == told[-1][1] > 0
    assert (tmp_path / "both" / "licence.txt").read_text() == "free"
    graphs, metadata = anyop.load_graphs(tmp_path / "both")
    assert metadata == facts
    assert list(graphs) == ["one", "two"]
    graphs["one"](np.ones((1, 8), np.float32), 1e-5)
    np.testing.assert_array_equal(graphs["one"].state["cache"], graphs["two"].state["cache"])
    assert anyop.load_graph(tmp_path / "both", "two").name == "two"
    with pytest.raises(anyop.NotAvailable, match="there is more than one graph, but one, two"):
        anyop.load_graph(tmp_path / "both")
    header = (tmp_path / "both" / "weights.safetensors").read_bytes()
    names = json.loads(header[8 : 8 + int.from_bytes(header[:8], "little")])
    assert sorted(names) == ["__metadata__", "cache", "w"]


def test_a_new_process_loads_it(tmp_path: Path, arrays: Any) -> None:
    graph = step_graph(*arrays)
    graph.save(tmp_path / "step.anyop")
    x = np.arange(16, dtype=np.float32).reshape(2, 8)
    code = (
        "import anyop, sys, numpy as np\n"
        "g = anyop.load_graph(sys.argv[1])\n"
        "x = np.arange(16, dtype=np.float32).reshape(2, 8)\n"
        "print(g(x, 1e-5)[0].tobytes().hex())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "step.anyop"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == graph(x, 1e-5)[0].tobytes().hex()


def test_torch_tensors_are_saved_and_given(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    weight = torch.rand(8, dtype=torch.float32).to(torch.bfloat16)
    graph = anyop.graph(lambda x: (anyop.rms_norm(x, weight),), "bf16[n, 8]", name="norm")
    graph.save(tmp_path / "norm.anyop")
    loaded = anyop.load_graph(tmp_path / "norm.anyop")
    x = torch.rand(2, 8).to(torch.bfloat16)
    got = loaded(x)
    assert isinstance(got, tuple) and len(got) == 1
    assert torch.equal(got[0], graph(x)[0])
    assert torch.equal(got[0], anyop.rms_norm(x, weight))


def test_what_calls_python_is_not_saved(tmp_path: Path) -> None:
    def twice(x: Any) -> Any:
        return x * 2

    double = anyop.define("saved_test_twice(x: f32[n]) -> (y: f32[n])", twice)
    graph = anyop.graph(lambda x: double(x), "f32[n]", name="g")
    with pytest.raises(anyop.InvalidArgument) as caught:
        graph.save(tmp_path / "g.anyop")
    assert re.fullmatch(
        r"g cannot be saved: v1 = \S*saved_test_twice\(x\), at test_saved_graph\.py:\d+, calls "
        r"Python, which a saved graph does without\. Try operators only\.",
        str(caught.value),
    )
    assert not (tmp_path / "g.anyop").exists()


def digest(data: bytes) -> str:
    """What src/platform/hash_bytes.h says, word for word."""
    hashes = [1, 2, 3, 4]

    def mix(hash: int, word: int) -> int:
        hash = ((hash ^ word) * 0x9E3779B97F4A7C15) % 2**64
        return hash ^ hash >> 29

    filled = data + bytes(-len(data) % 32)
    for at in range(0, len(filled), 8):
        lane = at // 8 % 4
        hashes[lane] = mix(hashes[lane], int.from_bytes(filled[at : at + 8], "little"))
    result = len(data)
    for lane in hashes:
        result = mix(result, lane)
    return f"{result:016x}"


def test_digests_are_what_the_format_says(tmp_path: Path, arrays: Any) -> None:
    folder = tmp_path / "step"
    step_graph(*arrays).save(folder, files={"licence.txt": "free"})
    text = (folder / "manifest.json").read_bytes()
    manifest = json.loads(text)
    head = b'{\n "digest": "'
    assert text.startswith(head + manifest["digest"].encode() + b'",')
    assert manifest["digest"] == digest(text[len(head) + 16 + 2 :])
    weights = (folder / "weights.safetensors").read_bytes()
    begin = 8 + int.from_bytes(weights[:8], "little")
    assert manifest["files"] == {
        "licence.txt": digest(b"free"),
        "step.anyop": digest((folder / "step.anyop").read_bytes()),
        "weights.safetensors": digest(weights[:begin]),
    }
    assert manifest["tensors"] == {
        "cache": digest(arrays[0].tobytes()),
        "w": digest(arrays[1].tobytes()),
    }


def test_a_flipped_bit_is_found_unless_nobody_looks(tmp_path: Path, arrays: Any) -> None:
    step_graph(*arrays).save(tmp_path / "step")
    path = tmp_path / "step" / "weights.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    for load in (anyop.load_graph, anyop.load_graphs):
        with pytest.raises(anyop.InvalidArgument, match="the tensor (w|cache) of .* has changed"):
            load(tmp_path / "step")
        load(tmp_path / "step", verify=False)


def test_a_folder_with_other_files_is_refused(tmp_path: Path, arrays: Any) -> None:
    graph = step_graph(*arrays)
    graph.save(tmp_path / "a")
    (tmp_path / "a" / "notes.txt").write_text("mine")
    (tmp_path / "link").symlink_to("a")
    for name, why in (("a", "holds 'notes.txt', which is not of"), ("link", "is a symbolic link")):
        with pytest.raises(anyop.InvalidArgument, match=why):
            graph.save(tmp_path / name)
    assert (tmp_path / "a" / "notes.txt").read_text() == "mine"
    assert (tmp_path / "link").is_symlink()


def test_paths_may_be_any_bytes_and_names_are_text(tmp_path: Path, arrays: Any) -> None:
    graph = step_graph(*arrays)
    path = os.fsencode(tmp_path) + b"/\xff\xfe"
    for place in (path, os.fsdecode(path), Path(os.fsdecode(path))):
        graph.save(place)
        assert anyop.load_graph(place).name == "step"
    with pytest.raises(anyop.NotAvailable, match="is no saved graph"):
        anyop.load_graph(path + b"2")

    def error(call: Any, *args: Any, **keywords: Any) -> str:
        with pytest.raises(anyop.Error) as caught:
            call(*args, **keywords)
        return str(caught.value)

    bad, target = "\ud800", tmp_path / "b"
    assert error(graph.save, f"{tmp_path}/{bad}").startswith("save: the path '")
    assert error(anyop.load_graph, f"{tmp_path}/{bad}").startswith("load: the path '")
    assert error(graph.save, "a\0b") == "save: the path 'a\\x00b' holds a character 0."
    assert "is text that UTF-8 cannot hold" in error(anyop.save_graphs, target, {bad: graph})
    assert "is text that UTF-8 cannot hold" in error(anyop.load_graph, path, bad)
    assert "is text that UTF-8 cannot hold" in error(graph.save, target, files={"x": bad})
    assert "with a character 0" in error(anyop.save_graphs, target, {"a\0": graph})
    assert "must be called by text" in error(anyop.save_graphs, target, {3: graph})
    assert "the metadata are no JSON" in error(graph.save, target, metadata=float("nan"))
    assert "the metadata is damaged" in error(graph.save, target, metadata=bad)
    assert not target.exists()


def test_the_metadata_of_a_decoder_hold_whole_numbers(tmp_path: Path) -> None:
    graph = anyop.graph(lambda ids: anyop.argmax(anyop.cast(ids, "f32")), "i64[t]", name="step")
    decoder = {
        "prefill": "step", "decode": "step", "token": next(iter(graph.outputs)),
        "inputs": {"ids": "tokens"}, "chunk": 4, "max_tokens": 8, "end_ids": [99],
    }  # fmt: skip

    def error(**changes: Any) -> str:
        graph.save(tmp_path / "step", metadata={"decoder": {**decoder, **changes}})
        command = [program(), tmp_path / "step", "--ids", "1,2", "--tokens", "2"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stderr

    assert "2 tokens" in error()
    for key, value in (("chunk", 2.5), ("max_tokens", 2**64 - 1), ("end_ids", [0.5])):
        assert f'"{key}" must be a whole number.' in error(**{key: value})


def test_nothing_but_a_saved_graph_is_replaced(tmp_path: Path, arrays: Any) -> None:
    graph = step_graph(*arrays)
    graph.save(tmp_path / "a")
    graph.save(tmp_path / "a")
    (tmp_path / "mine").mkdir()
    (tmp_path / "file").write_text("x")
    for name in ("mine", "file"):
        with pytest.raises(anyop.InvalidArgument, match="is there already and is no saved graph"):
            graph.save(tmp_path / name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "file", "mine"]


def test_an_interrupted_save_leaves_nothing(tmp_path: Path, arrays: Any) -> None:
    def stop(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        step_graph(*arrays).save(tmp_path / "a", progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_wrong_arguments_are_named(tmp_path: Path, arrays: Any) -> None:
    graph = step_graph(*arrays)
    with pytest.raises(TypeError, match="save takes a path"):
        graph.save()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="save: a is 3, but must be a graph"):
        anyop.save_graphs(tmp_path / "a", {"a": 3})  # type: ignore[dict-item]
    with pytest.raises(TypeError):
        graph.save(tmp_path / "a", metadata=object())
    with pytest.raises(anyop.NotAvailable, match="is no saved graph: there is no"):
        anyop.load_graph(tmp_path / "nothing")
    with pytest.raises(anyop.InvalidArgument, match="a graph is called 'a/b'"):
        anyop.save_graphs(tmp_path / "a", {"a/b": graph})


def test_the_example_in_cpp_builds_saves_and_loads(tmp_path: Path) -> None:
    program = ROOT / "build/release/tests/graph"
    if not program.exists():
        pytest.skip("the C++ tests are not built")
    done = subprocess.run(
        [program, tmp_path / "step.anyop"], capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        "input x: f32[n, 64]\n"
        "input eps: float\n"
        "frozen w: f32[64]\n"
        "v3: f32[n, 64] = anyop.rms_norm(x, w, eps)\n"
        "v4: f32[n, 64] = anyop.add(v3, x)\n"
        "output v4 as sum\n"
        "v5: f32[1, 64] = slice(v3, 0, n - 1, n)\n"
        "output v5 as last\n"
        "3.5000\n"
        "step 3.5000\n"
    )
    loaded = anyop.load_graph(tmp_path / "step.anyop")
    total, last = loaded(np.full((2, 64), 3, np.float32), 1e-5)
    assert (last == np.float32(0.5)).all() or np.allclose(last, 0.5)
    assert total.shape == (2, 64)
