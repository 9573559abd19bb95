# SPDX-License-Identifier: Apache-2.0
"""JAX with four devices on the CPU; without JAX nothing here is collected."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

found = importlib.util.find_spec("jax")
if not found or not found.origin:  # this folder is called so too
    collect_ignore_glob = ["*"]
else:
    assert "jax" not in sys.modules, "JAX has started, with one device: run these tests alone"
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
    os.environ["JAX_PLATFORMS"] = "cpu"
    sys.path.insert(0, str(Path(__file__).parents[1] / "hosting"))
