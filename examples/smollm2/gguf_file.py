# SPDX-License-Identifier: Apache-2.0
"""Writes the model's GGUF file again with weights of another format."""

from __future__ import annotations

from pathlib import Path

import gguf

from . import gguf_header

# llama.cpp's name of the format: general.file_type.
FILE_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q8_0": 7, "bf16": 32}
EMBEDDING = "token_embd.weight"


def write(source: Path, target: Path, kind: str) -> None:
    """Matrices in `kind` ("q4_0", "bf16", ...), made of the source's; norms stay as they are, and
    so does an embedding that is in 8 bits where the others get 4."""
    reader = gguf_header.read(source)
    architecture = str(reader.fields["general.architecture"].contents())
    writer = gguf.GGUFWriter(target, architecture)
    for name, entry in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        value = FILE_TYPES[kind] if name == "general.file_type" else entry.contents()
        is_list = entry.types[0] == gguf.GGUFValueType.ARRAY
        writer.add_key_value(name, value, entry.types[0], entry.types[-1] if is_list else None)
    wanted = gguf.GGMLQuantizationType[kind.upper()]
    for tensor in reader.tensors:
        keeps = tensor.name == EMBEDDING and kind.startswith("q4")
        if len(tensor.shape) < 2 or keeps or tensor.tensor_type == wanted:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
            continue
        numbers = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, gguf.quants.quantize(numbers, wanted), raw_dtype=wanted)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
