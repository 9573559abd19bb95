# SPDX-License-Identifier: Apache-2.0
"""SmolLM2 served by vLLM over its HTTP API, on anyop's operators."""
