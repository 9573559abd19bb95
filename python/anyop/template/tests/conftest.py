# SPDX-License-Identifier: Apache-2.0
"""The tests of a fresh source tree build it first; later `anyop build` or `anyop test` does."""

from pathlib import Path

from anyop import testing

testing.build_if_missing("my_ops", Path(__file__).parents[1])
