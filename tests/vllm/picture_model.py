# SPDX-License-Identifier: Apache-2.0
"""Saves a tiny model with random weights that reads text and pictures: FOLDER. A token is a byte.

Run by vLLM's Python.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

SPECIAL = ("<|end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
END, VISION_START, VISION_END, IMAGE, VIDEO = range(256, 256 + len(SPECIAL))
TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {% if m.content is string %}{{ m.content }}"
    "{% else %}{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}"
    "{% else %}<|vision_start|><|image_pad|><|vision_end|>{% endif %}{% endfor %}{% endif %}\n"
    "{% endfor %}assistant: "
)


def save_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=SPECIAL[0], pad_token=SPECIAL[0],
        additional_special_tokens=list(SPECIAL[1:]), chat_template=TEMPLATE,
    ).save_pretrained(folder)  # fmt: skip


def save_model(folder: Path) -> None:
    import torch
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

    ids = {
        "bos_token_id": END, "eos_token_id": END, "pad_token_id": END,
        "vision_start_token_id": VISION_START, "vision_end_token_id": VISION_END,
        "image_token_id": IMAGE, "video_token_id": VIDEO,
    }  # fmt: skip
    text = {
        "vocab_size": 256 + len(SPECIAL), "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
        "max_position_embeddings": 1024, "tie_word_embeddings": False, **ids,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                            "mrope_section": [4, 6, 6]},
    }  # fmt: skip
    vision = {"depth": 2, "embed_dim": 64, "hidden_size": 64, "num_heads": 2, "mlp_ratio": 2}
    config = Qwen2VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=False, **ids)
    torch.manual_seed(0)
    model = Qwen2VLForConditionalGeneration(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.2) if parameter.dim() > 1 else parameter.uniform_(0.5, 1.5)
    model.save_pretrained(folder)


def save_processor(folder: Path) -> None:
    """What transformers cuts pictures by."""
    pictures = {
        "image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2VLProcessor",
        "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2, "min_pixels": 3136,
        "max_pixels": 12544, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
    }  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(pictures))


def main() -> None:
    folder = Path(sys.argv[1])
    save_model(folder)
    save_tokenizer(folder)
    save_processor(folder)


if __name__ == "__main__":
    main()
