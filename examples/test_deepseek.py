# SPDX-License-Identifier: Apache-2.0
"""DeepSeek-V3.2's shape trains through our gradients, and decodes with what its indexer selects."""

from __future__ import annotations

import pytest

anyop = pytest.importorskip("anyop")
torch = pytest.importorskip("torch")

from examples.deepseek.decode import TYPES, Decoder, greedy  # noqa: E402
from examples.deepseek.model import Config, Model  # noqa: E402
from examples.deepseek.train import angles, logits, sequence, train  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")
TOKENS = 20
ALL, FEW = 64, 6  # keys that a token attends to


@pytest.fixture(scope="module")
def trained(one_thread: None) -> tuple[Model, list[float]]:
    torch.manual_seed(0)
    model = Model(Config())
    losses = train(model, 200)
    return model.requires_grad_(False), losses


def test_training_lowers_the_loss(trained: tuple[Model, list[float]]) -> None:
    _, losses = trained
    assert sum(losses[-20:]) < 0.8 * sum(losses[:20])


def test_every_parameter_but_the_indexers_has_a_gradient() -> None:
    torch.manual_seed(1)
    model = Model(Config())
    logits(model, sequence(model.c, 3, 24), angles(model.c, 24)).square().sum().backward()
    for name, parameter in model.named_parameters():
        is_used = parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
        assert is_used != (".index_" in name), name


def test_decoding_gives_the_tokens_of_whole_sequences(trained: tuple[Model, list[float]]) -> None:
    model, _ = trained
    prompt = sequence(model.c, 5, 8).tolist()
    ids = list(prompt)
    for _ in range(TOKENS):
        ids.append(int(logits(model, torch.tensor(ids), angles(model.c, ALL))[-1].argmax()))
    assert greedy(Decoder(model, None).step, prompt, TOKENS) == ids[len(prompt) :]


def test_with_all_keys_sparse_attention_is_dense(trained: tuple[Model, list[float]]) -> None:
    model, _ = trained
    prompt = sequence(model.c, 9, 30).tolist()
    dense = greedy(Decoder(model, None).step, prompt, TOKENS)
    assert greedy(Decoder(model, ALL).step, prompt, TOKENS) == dense
    assert greedy(Decoder(model, FEW).step, prompt, TOKENS) != dense


@pytest.mark.parametrize("top", [None, FEW])
def test_captured_and_compiled_steps_give_the_tokens_of_eager_ones(
    trained: tuple[Model, list[float]], top: int | None
) -> None:
    model, _ = trained
    prompt = sequence(model.c, 5, 8).tolist()
    eager = greedy(Decoder(model, top).step, prompt, TOKENS)
    graph = anyop.graph(Decoder(model, top).step, *TYPES)
    assert ("anyop.sparse_mla_decode_step(" in str(graph)) == (top is not None)
    assert greedy(graph, prompt, TOKENS) == eager
    compiled = torch.compile(Decoder(model, top).step, backend="anyop", fullgraph=True)
    assert greedy(compiled, prompt, TOKENS) == eager
