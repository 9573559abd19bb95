# SPDX-License-Identifier: Apache-2.0
"""The platform of a vLLM that anyop refuses: vLLM asks for `platform` and gets the reason."""

from __future__ import annotations

from typing import NoReturn

import anyop
from anyop.vllm import _plugin


def platform() -> NoReturn:
    raise anyop.NotAvailable(_plugin.why_refused)
