# SPDX-License-Identifier: Apache-2.0
"""models_program.py on a processor with AMX, or one that says so. Run by vLLM's Python."""

from __future__ import annotations

import models_program
import torch

if __name__ == "__main__":
    torch.cpu._is_amx_tile_supported = lambda: True
    torch.cpu._is_amx_fp16_supported = lambda: True
    models_program.main()
