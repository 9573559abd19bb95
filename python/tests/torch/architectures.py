# SPDX-License-Identifier: Apache-2.0
"""Small random models of the architectures of transformers.

    python python/tests/torch/architectures.py [--every-mode | --speed] [name ...]

prints how often each of their compiled graphs calls the host: with a static cache and a padded
prompt, or in each mode. With --speed: how long Inductor and anyop take for a prompt and for one
more word, as parts of torch's time, least times of calls in turns; and how much of the time of
compilation goes into the lowering that is tried first.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import torch

WINDOW, PROMPT, WORDS = 6, 9, 96

_COMMON: dict[str, Any] = {
    "vocab_size": WORDS, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None, "initializer_range": 0.2,
}  # fmt: skip
_ENDS = {k: _COMMON[k] for k in ("vocab_size", "pad_token_id", "eos_token_id", "initializer_range")}
_ALL_HEADS = {k: v for k, v in _COMMON.items() if k != "num_key_value_heads"}
_GPT = {**_ENDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
_HEAD = {**_COMMON, "head_dim": 8}
_BOTH = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
_EXPERTS = {"num_experts_per_tok": 2, "num_local_experts": 4}
_MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_LATENT = {
    "num_key_value_heads": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2,
    "moe_intermediate_size": 16, "first_k_dense_replace": 1, "q_lora_rank": 16, "kv_lora_rank": 16,
    "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "topk_group": 1,
}  # fmt: skip
_LINEAR = {
    "layer_types": ["linear_attention", "full_attention"], "linear_num_value_heads": 4,
    "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "shared_expert_intermediate_size": 16,
}  # fmt: skip
_LAYERS = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
           "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
           "decoder_start_token_id": 2}  # fmt: skip

# By name: the model's class, that of its configuration, what is configured.
DECODERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", _COMMON),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", _COMMON),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**_COMMON, "head_dim": 16}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", {**_HEAD, **_MOE}),
    "qwen3_next": ("Qwen3NextForCausalLM", "Qwen3NextConfig", {**_HEAD, **_MOE, **_LINEAR}),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**_COMMON, "sliding_window": WINDOW}),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", {**_COMMON, **_EXPERTS}),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", _HEAD),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {**_HEAD, **_BOTH}),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", {**_HEAD, **_BOTH}),
    "phi": ("PhiForCausalLM", "PhiConfig", _COMMON),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", {**_COMMON, "sliding_window": WINDOW}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", _GPT),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", _ALL_HEADS),
    "gptj": ("GPTJForCausalLM", "GPTJConfig", {**_GPT, "rotary_dim": 4}),
    "bloom": ("BloomForCausalLM", "BloomConfig",
              {**_ENDS, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "mpt": ("MptForCausalLM", "MptConfig",
            {**_ENDS, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64}),
    "opt": ("OPTForCausalLM", "OPTConfig",
            {**_ALL_HEADS, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    "falcon": ("FalconForCausalLM", "FalconConfig", _ALL_HEADS),
    "glm4": ("Glm4ForCausalLM", "Glm4Config", _HEAD),
    "cohere": ("CohereForCausalLM", "CohereConfig", _COMMON),
    "cohere2": ("Cohere2ForCausalLM", "Cohere2Config", {**_COMMON, **_BOTH}),
    "deepseek_v3": ("DeepseekV3ForCausalLM", "DeepseekV3Config", {**_COMMON, **_LATENT}),
    "gpt_oss": ("GptOssForCausalLM", "GptOssConfig", {**_HEAD, **_EXPERTS, **_BOTH}),
    "mamba": ("MambaForCausalLM", "MambaConfig",
              {**_ENDS, "hidden_size": 32, "state_size": 4, "num_hidden_layers": 2}),
    "starcoder2": ("Starcoder2ForCausalLM", "Starcoder2Config",
                   {**_COMMON, "sliding_window": WINDOW}),
    "olmo2": ("Olmo2ForCausalLM", "Olmo2Config", _COMMON),
    "olmoe": ("OlmoeForCausalLM", "OlmoeConfig",
              {**_COMMON, "num_experts": 4, "num_experts_per_tok": 2}),
    "stablelm": ("StableLmForCausalLM", "StableLmConfig", _COMMON),
    "granite": ("GraniteForCausalLM", "GraniteConfig", _COMMON),
    "smollm3": ("SmolLM3ForCausalLM", "SmolLM3Config", _COMMON),
    "nemotron": ("NemotronForCausalLM", "NemotronConfig", _COMMON),
    "lfm2": ("Lfm2ForCausalLM", "Lfm2Config",
             {**_COMMON, "layer_types": ["conv", "full_attention"], "block_ff_dim": 48}),
}  # fmt: skip

_VISION = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
           "num_attention_heads": 4, "image_size": 16, "patch_size": 8}  # fmt: skip
_TEXT = {"vocab_size": WORDS, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "max_position_embeddings": 32, "eos_token_id": 95}  # fmt: skip

ENCODERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertForMaskedLM", "BertConfig", _ALL_HEADS),
    "roberta": ("RobertaForMaskedLM", "RobertaConfig", _ALL_HEADS),
    "modernbert": ("ModernBertForMaskedLM", "ModernBertConfig",
                   {**_ALL_HEADS, "local_attention": WINDOW, "global_attn_every_n_layers": 2}),
    "vit": ("ViTForImageClassification", "ViTConfig", _VISION),
    "clip": ("CLIPModel", "CLIPConfig",
             {"text_config": _TEXT, "vision_config": _VISION, "projection_dim": 16}),
}  # fmt: skip

ENCODER_DECODERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "t5": ("T5ForConditionalGeneration", "T5Config",
           {"vocab_size": WORDS, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2,
            "num_heads": 4, "decoder_start_token_id": 0, "eos_token_id": None}),
    "bart": ("BartForConditionalGeneration", "BartConfig",
             {**_ENDS, **_LAYERS, "forced_eos_token_id": None}),
    "whisper": ("WhisperForConditionalGeneration", "WhisperConfig",
                {**_ENDS, **_LAYERS, "num_mel_bins": 8, "max_source_positions": 10,
                 "max_target_positions": 32}),
}  # fmt: skip
EVERY = {**DECODERS, **ENCODERS, **ENCODER_DECODERS}


def model_of(name: str) -> Any:
    import transformers

    model, config, given = EVERY[name]
    torch.manual_seed(0)
    made = getattr(transformers, model)(getattr(transformers, config)(**given)).eval()
    for parameter in made.parameters():  # so that tokens differ
        if parameter.dim() > 1 and float(parameter.detach().std()) < 0.1:
            torch.nn.init.normal_(parameter, std=0.2)
    return made


def compiled(model: Any, dynamic: bool | None = None) -> Any:
    """Compiles its forward, in place."""
    model.forward = torch.compile(model.forward, backend="anyop", dynamic=dynamic)
    return model


def words(batch: int, length: int = PROMPT, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(2, WORDS - 2, (batch, length), generator=generator)


def padded(ids: torch.Tensor, n: int = 3) -> torch.Tensor:
    """A mask for which the first sequence has n words less, on the left."""
    mask = torch.ones_like(ids)
    mask[0, :n] = 0
    return mask


def generate(model: Any, cache: str | None, ids: torch.Tensor, mask: torch.Tensor) -> Any:
    given: dict[str, Any] = {"cache_implementation": cache} if cache else {}
    return model.generate(
        ids, attention_mask=mask, max_new_tokens=6, do_sample=False, disable_compile=True,
        return_dict_in_generate=True, output_logits=True, **given,
    )  # fmt: skip


def inputs_of(name: str) -> dict[str, torch.Tensor]:
    """What an encoder takes."""
    pixels = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    if name == "vit":
        return {"pixel_values": pixels}
    ids = words(2)
    ids[:, -1] = WORDS - 1
    given = {"input_ids": ids, "attention_mask": padded(ids).flip(1)}
    return {**given, "pixel_values": pixels} if name == "clip" else given


def host_calls() -> list[tuple[str, int, int, str]]:
    """(graph, nodes, calls of the host, why none of it is ours) of all that is compiled."""
    from anyop.torch._compile import backend

    alive = [p for ref in backend._programs if (p := ref()) is not None]
    return [
        (p.name, len(p.lowered.rows), str(p.lowered.graph).count("torch_host."), "")
        if p.lowered is not None
        else (p.name, 0, 0, p.why_not)
        for p in alive
    ]


# By name: the cache that words are generated with, whether all sizes vary.
MODES: dict[str, tuple[str | None, bool | None]] = {
    "static": ("static", None), "growing": (None, None),
    "static, sizes vary": ("static", True), "growing, sizes vary": (None, True),
}  # fmt: skip


def run(model: Any, name: str, mode: str = "static", is_padded: bool = True) -> None:
    """Calls an encoder; generates words with another model."""
    cache, _ = MODES[mode]
    if name in ENCODERS:
        given = inputs_of(name)
        if not is_padded and "attention_mask" in given:
            given["attention_mask"] = torch.ones_like(given["attention_mask"])
        model(**given)
    elif name == "whisper":
        sound = torch.randn(2, 8, 20, generator=torch.Generator().manual_seed(0))
        generate(model, cache, sound, None)  # type: ignore[arg-type]
    else:
        ids = words(2)
        mask = padded(ids) if is_padded else torch.ones_like(ids)
        generate(model, cache, ids, mask)


def calls_of(
    name: str, mode: str = "static", is_padded: bool = True
) -> list[tuple[str, int, int, str]]:
    """host_calls of a model that was compiled and run so."""
    from anyop.torch._compile import backend

    torch._dynamo.reset()
    backend._programs.clear()
    model = compiled(model_of(name), MODES[mode][1])
    with torch.no_grad():
        run(model, name, mode, is_padded)
    return host_calls()


def steps(name: str) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Programs and their arguments: a prompt, or all that an encoder reads, and one word more."""
    model = model_of(name)
    if name in ENCODERS:
        return {"whole": (model.forward, inputs_of(name))}
    if name in ENCODER_DECODERS:
        sound = torch.randn(2, 8, 20, generator=torch.Generator().manual_seed(0))
        given = {"input_features": sound} if name == "whisper" else {"input_ids": words(2)}
        return {"whole": (model.forward, {**given, "decoder_input_ids": words(2, 4)})}
    from transformers import StaticCache

    ids = words(2)
    made = {"prompt": (model.forward, {"input_ids": ids, "use_cache": False})}
    if name not in ("mamba", "qwen3_next", "lfm2", "mpt"):  # their states are no such cache
        # Each call appends a word: room for those of all rounds, whoever shares the cache.
        cache = StaticCache(config=model.config, max_cache_len=160)
        with torch.no_grad():
            model(input_ids=ids, past_key_values=cache, use_cache=True)
        more = {"input_ids": ids[:, -1:], "position_ids": torch.full((2, 1), PROMPT)}
        made["word"] = (model.forward, {**more, "past_key_values": cache, "use_cache": True})
    return made


class _Clock:
    """Seconds in a method, of all calls that are not within another."""

    def __init__(self, owner: Any, name: str) -> None:
        self.seconds, self.is_in, method = 0.0, False, getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            outer, self.is_in, start = self.is_in, True, time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                self.is_in = outer
                self.seconds += 0.0 if outer else time.perf_counter() - start

        setattr(owner, name, timed)


def speed(names: Any, rounds: int = 30) -> None:
    import anyop
    from anyop.torch._compile.program import Program

    made = _Clock(Program, "make")
    print(f"{'model':12} {'step':7} {'torch, ms':>10} {'inductor':>9} {'anyop':>9}")
    for name in names:
        for step, (program, given) in steps(name).items():
            torch._dynamo.reset()
            rows = anyop.torch.compare(program, **given, rounds=rounds)
            times = {row["way"]: row["least_ms"] for row in rows}
            ratios = [times[way] / times["torch"] for way in ("inductor", "anyop")]
            note = "" if ratios[1] <= 1 else "slower than torch"
            note = note or ("Inductor is faster" if ratios[0] < ratios[1] else "")
            shown = " ".join(f"{ratio:9.2f}" for ratio in ratios)
            print(f"{name:12} {step:7} {times['torch']:10.3f} {shown} {note}", flush=True)
    print(f"lowering: {made.seconds:.1f} s")


def main(words: list[str]) -> None:
    names = [w for w in words if not w.startswith("-")] or EVERY
    if "--speed" in words:
        speed(names)
        return
    is_every = "--every-mode" in words
    print(f"{'model':12} {'mode':27} {'graph':14} {'nodes':>6} {'host calls':>11}")
    for name in names:
        for mode in MODES if is_every else ["static"]:
            for is_padded in (True, False) if is_every else (True,):
                shown = mode + (", padded" if is_padded else "")
                for graph, nodes, calls, why in calls_of(name, mode, is_padded):
                    line = f"{name:12} {shown:27} {graph:14} {nodes:6} {calls:11} {why}"
                    print(line.rstrip(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
