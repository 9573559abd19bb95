# SPDX-License-Identifier: Apache-2.0
"""Where the tests find files of the project that a package does not hold."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
